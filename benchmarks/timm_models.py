"""Whole models of timm, before and after `accelerate`: which architectures gain, and the share of
pooling in their time. Changed modules are pools and depthwise convolutions.

    python benchmarks/timm_models.py [--models resnet18 …] [--batch 2] [--device cpu] [--seconds 3]
        [--threads 1] [--json FILE]

Weights are random. Steps before and after alternate; a figure is the least time before over the
least time after (above 1: faster). With one thread on a CPU, times are processor times, since other
processes affect these less. The share of pooling is the share of torch's pooling kernels in a
profile of torch's own model. The last columns are the errors of outputs and of image gradients
against the same model in float64, as multiples of torch's own errors.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import timm
import torch

import specgrad as sg
from specgrad.torch import accelerate

MODELS = [
    "resnet18",
    "resnet50",
    "resnet50d",
    "resnext50_32x4d",
    "wide_resnet50_2",
    "seresnet50",
    "res2net50_26w_4s",
    "resnest14d",
    "ecaresnet50d",
    "gluon_resnet50_v1c",
    "vgg11",
    "vgg16_bn",
    "densenet121",
    "inception_v3",
    "inception_v4",
    "inception_resnet_v2",
    "xception41",
    "vovnet57a",
    "ese_vovnet19b_dw",
    "hrnet_w18_small_v2",
    "dla34",
    "dla60",
    "dpn68",
    "hrnet_w18_small",
    "vovnet39a",
    "selecsls42b",
    "cspresnet50",
    "cspdarknet53",
    "darknet53",
    "repvgg_a2",
    "regnetx_008",
    "regnety_008",
    "efficientnet_b0",
    "mobilenetv2_100",
    "mobilenetv3_large_100",
    "mnasnet_100",
    "ghostnet_100",
    "fbnetc_100",
    "tf_efficientnetv2_b0",
    "rexnet_100",
    "hardcorenas_a",
    "convnext_atto",
    "poolformer_s12",
    "poolformerv2_s12",
    "mixnet_s",
    "lcnet_100",
    "skresnet18",
    "skresnet34",
    "legacy_seresnet18",
    "crossvit_tiny_240",
]


def inference(model, x):
    with torch.no_grad():
        model(x)


def training(model, x):
    model.zero_grad(set_to_none=True)
    model(x).square().mean().backward()


def in_turns(step, models, x, seconds):
    """The least time before over the least time after."""
    least, begun = [float("inf")] * 2, time.perf_counter()
    clock = time.perf_counter if x.is_cuda or torch.get_num_threads() > 1 else time.process_time
    while time.perf_counter() - begun < seconds or least[1] == float("inf"):
        for i, model in enumerate(models):
            start = clock()
            step(model, x)
            if x.is_cuda:
                torch.cuda.synchronize()
            least[i] = min(least[i], clock() - start)
    return least[0] / least[1]


def share(model, x):
    """The share of torch's pooling in the time of an inference."""
    with torch.profiler.profile() as profile:
        inference(model, x)
    events = [(e.key, e.self_cpu_time_total) for e in profile.key_averages()]
    return sum(t for name, t in events if "pool" in name) / sum(t for _, t in events)


def error(model, wide, x):
    """The largest errors of the output and of the gradient, against float64."""
    found = []
    for net, image in ((model, x), (wide, x.double())):
        leaf = image.clone().requires_grad_()
        y = net(leaf)
        found.append((y.detach().double(), torch.autograd.grad(y.square().mean(), leaf)[0].double()))
    return [float((a - b).abs().max()) for a, b in zip(*found, strict=True)]


def measured(name, options):
    torch.manual_seed(0)
    before = timm.create_model(name, pretrained=False).to(options.device).eval()
    after = copy.deepcopy(before)
    done = accelerate(after, verbose=False)
    size = before.pretrained_cfg.get("input_size", (3, 224, 224))
    x = torch.randn(options.batch, *size, device=options.device)
    torchs, ours = (error(model, copy.deepcopy(before).double(), x) for model in (before, after))
    return {
        "model": name,
        "changed modules": len(done.changed),
        "share of pooling": share(before, x),
        "inference": in_turns(inference, (before, after), x, options.seconds),
        "training step": in_turns(training, (before.train(), after.train()), x, options.seconds),
        "error of outputs": ours[0] / torchs[0] if torchs[0] else 1.0,
        "error of gradients": ours[1] / torchs[1] if torchs[1] else 1.0,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each of a model's two steps")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sg.set_num_threads(options.threads)
    rows = []
    for name in options.models:
        try:
            rows.append(measured(name, options))
        except Exception as problem:  # a model that this version of timm lacks; the run continues
            print(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:90]}", flush=True)
            continue
        if len(rows) == 1:
            print(" | ".join(rows[0]))
        print(" | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in rows[-1].values()), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
