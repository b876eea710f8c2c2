"""Cells of `gpu.py` in which torch.compile is nearly as fast, measured again in turns: python
benchmarks/gpu_pairs.py gpu.json

Our call and the compiled peer's alternate on the device, many times. A cell's figure is the peer's
time over ours: the median of all turns and the quartiles, which show the noise. The measurement is
then repeated with other data in the cache before each call, since a call may find data of the
previous call in the cache.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import torch
from gpu import RULES, cases, operand, peer

from specgrad.engines import gpu

NEAR = 1.03
TURNS = 63


def in_turns(calls, between=lambda: None):
    """Quartiles of the second call's time over the first's, with all calls queued before the first
    starts."""
    for _ in range(5):
        for call in calls:
            call()
    torch.cuda.synchronize()
    marks = [[[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in calls] for _ in range(TURNS)]
    torch.cuda._sleep(100_000_000)
    for row in marks:
        for call, (start, stop) in zip(calls, row, strict=True):
            between()
            start.record()
            call()
            stop.record()
    torch.cuda.synchronize()
    times = [[start.elapsed_time(stop) for start, stop in row] for row in marks]
    return statistics.quantiles([theirs / ours for ours, theirs in times], n=4)


def rules(workload, x):
    """Our call and the compiled peer's call of each rule."""
    op, function = workload.op, torch.compile(peer(workload.op))
    y, kept = gpu.keep(op, (x,))
    gy = torch.randn_like(y)
    leaf = x.detach().requires_grad_(True)
    z = function(leaf)

    def inference():
        with torch.no_grad():
            function(x)

    return {
        "forward": (lambda: gpu.forward(op, (x,)), inference),
        "keep": (lambda: gpu.keep(op, (x,)), lambda: function(leaf)),
        "backward": (
            lambda: gpu.pull(op, (x,), kept, gy),
            lambda: torch.autograd.grad(z, leaf, gy, retain_graph=True),
        ),
    }


def main():
    near = {
        (c["name"], c["dtype"], c["layout"], c["rule"])
        for c in json.loads(Path(sys.argv[1]).read_text())["cells"]
        if c["compile"] and c["compile"] < NEAR * c["ratio"]
    }
    other = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")  # several times the size of the cache
    for workload, dtype, layout in cases():
        chosen = [rule for rule in RULES if (workload.name, str(dtype)[6:], layout, rule) in near]
        if not chosen:
            continue
        torch._dynamo.reset()
        calls = rules(workload, operand(workload, dtype, layout))
        for rule in chosen:
            found = in_turns(calls[rule]), in_turns(calls[rule], other.zero_)
            words = [f"{middle:8.3f} ({low:.3f} to {high:.3f})" for low, middle, high in found]
            print(f"{workload.name:28}{str(dtype)[6:]:10}{layout:15}{rule:10}{'   '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
