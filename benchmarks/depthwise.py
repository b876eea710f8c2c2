"""Depthwise convolutions of torch.nn and those in small groups, forward and backward, before and
after `accelerate`, on the CPU.

    python benchmarks/depthwise.py [--threads 2] [--turns 15]

Calls of both sides alternate; a figure is the least time before over the least time after (above 1:
faster). Layers with fewer multiplications than `specgrad.torch.convolution.LEAST` are torch's on
both sides.
"""

import argparse
import copy
import time

import torch
from torch import nn

from specgrad.torch import accelerate

IMAGES = ((1, 96, 40), (8, 96, 40), (8, 240, 14), (8, 480, 7), (4, 64, 80), (2, 16, 112))
GROUPS = ((128, 32, 1, 28), (128, 32, 8, 28), (256, 64, 8, 14))


def layers():
    """(name, module, input)."""
    for k in (3, 5, 7):
        for stride in (1, 2):
            for images, channels, side in IMAGES:
                layer = nn.Conv2d(channels, channels, k, stride, k // 2, groups=channels)
                name = f"depthwise {k}×{k} s{stride}, {channels} at {side}, {images} images"
                yield name, layer, torch.randn(images, channels, side, side)
    for channels, groups, images, side in GROUPS:
        layer = nn.Conv2d(channels, channels, 3, 1, 1, groups=groups)
        yield (
            f"3×3 in {groups} groups, {channels} at {side}, {images} images",
            layer,
            torch.randn(images, channels, side, side),
        )


def compared(layer, x, turns):
    """The milliseconds of a forward and a backward, before and after."""
    fast, x = nn.Sequential(copy.deepcopy(layer)), x.requires_grad_()
    accelerate(fast, verbose=False)
    gy, least = torch.randn_like(layer(x)), [float("inf")] * 2
    for _ in range(turns):
        for i, module in enumerate((layer, fast)):
            begun = time.perf_counter()
            torch.autograd.grad(module(x), (x, *module.parameters()), gy)
            least[i] = min(least[i], (time.perf_counter() - begun) * 1e3)
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads; milliseconds before and after, × faster")
    for name, layer, x in layers():
        before, after = compared(layer, x, options.turns)
        print(f"{name:48}{before:9.2f}{after:9.2f}{before / after:7.2f}", flush=True)


if __name__ == "__main__":
    main()
