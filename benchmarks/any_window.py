"""Pooling of NumPy arrays against torch on random windows: operators, ranks, sizes, strides,
paddings and layouts.

    python benchmarks/any_window.py [--seconds 240] [--seed 1] [--threads 2] [--worst 20] [--dtypes
        float16 bfloat16]
        [--layouts cropped stepped transposed] [--cells 300 30000]

`specgrad bench` has the shapes of known networks; this benchmark has random ones. For each operator
the forward, for maxima the forward that keeps winners (torch: indices), and the VJP are timed in
turn. A figure is the least time of torch over the least time of specgrad (above 1: specgrad is
faster). Arrays have 30,000 to 5,000,000 elements, or the given range, in float32 (three of four) or
float64, or in the given dtypes. One in seven is channels_last, or all have the given layouts. Torch
uses the same memory.
"""

import argparse
import random
import statistics
import time

import ml_dtypes
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from rich.progress import Progress

import specgrad as sg
from specgrad import dispatch

SIDES = {1: (50, 200, 1000, 4000, 16000), 2: (7, 9, 14, 20, 28, 33, 56, 75, 112, 160, 224), 3: (8, 12, 16, 25, 32, 48)}
KERNELS = (1, 2, 2, 3, 3, 3, 4, 5, 6, 7, 9, 11, 15)


def pooling(least, most):
    """An operator, its torch function (with indices on request), and an operand's shape with
    `least` to `most` cells."""
    rank = random.choice((1, 2, 2, 2, 2, 3))
    side, channels = random.choice(SIDES[rank]), random.choice((1, 3, 8, 16, 64))
    sizes = tuple(max(2, int(side * random.choice((1, 1, 1, 0.7, 1.3)))) for _ in range(rank))
    planes = max(int(np.exp(random.uniform(np.log(least), np.log(most))) / np.prod(sizes)), 1)
    channels = min(channels, planes)
    shape = (planes // channels, channels, *sizes)
    kind = random.choice(("max", "max", "avg", "adaptive max", "adaptive avg"))
    by_torch = getattr(F, f"{kind.replace(' ', '_')}_pool{rank}d")
    if "adaptive" in kind:
        lengths = tuple(random.randint(1, min(n, random.choice((2, 5, 10, 40)))) for n in sizes)
        op = (sg.AdaptiveMaxPool if "max" in kind else sg.AdaptiveAvgPool)(lengths)
        arguments = (lengths,)
    else:
        kernel = tuple(min(n, random.choice(KERNELS)) for n in sizes)
        kernel = (min(kernel),) * rank if random.random() < 0.7 else kernel
        stride = tuple(random.choice((1, 1, 2, 2, 3, k)) for k in kernel)
        stride = stride[:1] * rank if random.random() < 0.7 else stride
        padding = tuple(random.choice((0, k // 2)) for k in kernel)
        ceil_mode = random.random() < 0.2
        words = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        if kind == "max":
            dilation = random.choice((1, 1, 1, 1, 2))
            op = sg.MaxPool(kernel, dilation=dilation, **words)
            arguments = (kernel, stride, padding, dilation, ceil_mode)
        else:
            counts = random.random() < 0.7
            op = sg.AvgPool(kernel, count_include_pad=counts, **words)
            arguments = (kernel, stride, padding, ceil_mode, counts)
    kept = {"return_indices": True} if "max" in kind else {}
    return op, shape, lambda x, keeps=False: by_torch(x, *arguments, **(kept if keeps else {}))


def least(call, budget=0.04):
    """The least of some times, in microseconds."""
    call()
    times, end = [], time.perf_counter() + budget
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def cropped(x):
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 1)])[..., 1:-1]


def stepped(x):
    return np.repeat(x, 2, axis=-1)[..., ::2]


def transposed(x):
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


LAYOUTS = {one.__name__: one for one in (np.ascontiguousarray, channels_last, cropped, stepped, transposed)}


def as_tensor(x):
    """The same memory as a tensor; torch does not know NumPy's bfloat16."""
    return (
        torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        if x.dtype == ml_dtypes.bfloat16
        else torch.from_numpy(x)
    )


def cells(op, by_torch, x):
    """(rule, our time, torch's time) of one operator."""
    engine, theirs = dispatch.load("cpu"), as_tensor(x)
    y, kept = engine.keep(op, (x,))
    given = np.array(y, order="K")
    cotangent = as_tensor(given)
    with torch.no_grad():
        yield "forward", least(lambda: op(x)), least(lambda: by_torch(theirs))
        if "Max" in type(op).__name__:
            yield "winners", least(lambda: engine.keep(op, (x,))), least(lambda: by_torch(theirs, True))
    leaf = theirs.detach().clone(memory_format=torch.preserve_format).requires_grad_(True)
    result = by_torch(leaf)
    pulled = least(lambda: torch.autograd.grad(result, leaf, cotangent, retain_graph=True))
    yield "vjp", least(lambda: engine.pull(op, (x,), kept, given)), pulled


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worst", type=int, default=20, help="how many of the slowest to print")
    parser.add_argument(
        "--dtypes", nargs="+", type=np.dtype, default=[np.dtype(name) for name in ("f4", "f4", "f4", "f8")]
    )
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=[*["ascontiguousarray"] * 6, "channels_last"])
    parser.add_argument("--cells", nargs=2, type=int, default=(30_000, 5_000_000), metavar=("LEAST", "MOST"))
    given = parser.parse_args()
    random.seed(given.seed)
    torch.set_num_threads(given.threads)
    sg.set_num_threads(given.threads)
    numbers, found, operators = np.random.default_rng(given.seed), [], 0
    start = time.perf_counter()
    with Progress() as progress:
        task = progress.add_task("operators", total=given.seconds)
        while (spent := time.perf_counter() - start) < given.seconds:
            progress.update(task, completed=spent)
            try:
                op, shape, by_torch = pooling(*given.cells)
                op.output_shape(shape)
            except sg.SpecgradError:  # a kernel that does not fit
                continue
            layout = random.choice(given.layouts)
            x = LAYOUTS[layout](numbers.standard_normal(shape).astype(random.choice(given.dtypes)))
            words = f"{op} on {x.dtype} {shape}{'' if x.flags.c_contiguous else ' ' + layout}"
            try:
                found += [(theirs / ours, rule, ours, theirs, words) for rule, ours, theirs in cells(op, by_torch, x)]
            except NotImplementedError:  # torch does not pool half floats of rank 3
                continue
            operators += 1
    found.sort()
    ratios = [ratio for ratio, *_ in found]
    for ratio, rule, ours, theirs, words in found[: given.worst]:
        print(f"{ratio:5.2f} {rule:8} {ours:8.0f} µs, torch {theirs:8.0f} µs  {words}")
    print(f"{operators} operators, {len(found)} cells: level or ahead in {np.mean(np.array(ratios) >= 1):.1%}")
    print(f"times faster: median {statistics.median(ratios):.1f}, lowest twentieth {ratios[len(ratios) // 20]:.2f}")


if __name__ == "__main__":
    main()
