"""The GPU engine against the specification: on a CUDA device, or without one in Triton's
interpreter.

    python tests/gpu_cases.py --part claims --every 8        the shared conformance cases, value to
                                                             second derivative
    python tests/gpu_cases.py --part windows                 windows that need several calls, odd
                                                             geometry, every layout
    python tests/gpu_cases.py --part large                   a device only: beyond 2^31 elements,
                                                             repeated runs, poisoned memory
    compute-sanitizer python tests/gpu_cases.py --part sample

Each part prints what differs and exits with 1. TRITON_INTERPRET=1 must be set before, where there
is no device.
"""

import argparse
import itertools
import math
import sys
import warnings

import numpy as np
import torch
from quick_interpreter import quicken

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance import bounds
from specgrad.conformance.runner import Effort, Session
from specgrad.conformance.subjects.gpu_engine import GpuEngine
from specgrad.engines import REDUCTIONS, gpu
from specgrad.ops.pool import Average, Maximum

quicken()
DEVICE = "cpu" if gpu.INTERPRETED else "cuda"
KINDS = list(REDUCTIONS)
CLAIMS = ("value", "jvp", "vjp", "second", "padding", "ties", "nan", "infinity")
CONDUCT = ("shape", "dtype", "adjoint", "witness", "unmodified", "deterministic", "fixed")
AWKWARD = np.array([-np.inf, np.nan, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])


def claims(names, every, layouts):
    """The claims of `specgrad check` over the curated cases, with every n-th of the cases about
    plain windows."""
    wrong = 0
    for kind, layout in itertools.product(KINDS, layouts):
        if names and kind.__name__ not in names:
            continue
        session = Session(Effort(0, 0, 0.0, slow_every=every), 0, CLAIMS if every > 1 else (*CLAIMS, *CONDUCT))
        cells = session.one(GpuEngine(DEVICE, layout), kind, 0)
        for cell in cells:
            for difference in (*cell.differences, *cell.refusals):
                wrong += 1
                print(
                    f"{kind.__name__} {cell.claim} {layout}: {difference.title}: {difference.case} {difference.outcome}"
                )
        print(kind.__name__, layout, sum(cell.cases for cell in cells), "cases")
    return wrong


def window_cases():
    """(operator, shape) pairs that use every kernel and every chain of calls, including large
    kernels and several depths."""
    pool = {"max": sg.MaxPool, "avg": sg.AvgPool}
    words = [
        ((5, 5), (1, 2, 5, 20), {"stride": 1, "padding": 2}),
        ((7, 6), (2, 9, 9), {"stride": (1, 2), "padding": 3}),
        ((6, 4, 3), (1, 7, 5, 4), {"stride": 1, "padding": (2, 1, 1)}),
        ((5, 2, 2), (2, 7, 4, 3), {"stride": (2, 1, 1), "padding": ((2, 1), (0, 1), (1, 0))}),
        ((3, 3, 3), (1, 3, 4, 4), {"stride": 1, "padding": 1}),
        ((9, 5), (1, 33, 8), {"stride": 1, "padding": ((4, 3), (1, 3))}),
        ((2, 3), (1, 3, 6, 7), {"stride": (3, 4), "dilation": (2, 1), "padding": 1, "ceil_mode": True}),
        ((3, 2), (2, 5, 5), {"stride": 2, "padding": ((4, 3), (0, 2))}),
        ((11,), (2, 19), {"stride": 1, "padding": 5}),
        ((34, 2), (1, 36, 3), {"stride": 1}),
        ((2, 1, 2, 2), (1, 3, 2, 3, 4), {"stride": 1}),
        ((3, 3), (2, 9, 24), {"stride": 1, "padding": 1}),
        ((3, 3), (2, 9, 16), {"stride": 2, "padding": 1}),
        ((2, 2), (1, 2, 18, 16), {}),
        ((5, 4), (5, 7, 6), {"stride": 1, "padding": ((2, 3), (2, 1))}),
        ((2, 17), (2, 3, 24), {"stride": 1, "padding": (1, 8)}),
        ((8, 8), (1, 9, 8), {"stride": 1, "padding": 4}),
        ((8, 8, 8), (1, 9, 8, 9), {"stride": 1, "padding": 3}),
        ((4,), (2, 32), {}),
        ((70,), (1, 72), {"stride": 1}),
        ((3, 3, 2), (1, 9, 4, 8), {"stride": 1, "padding": (1, 1, 0)}),
        ((2, 2, 2), (2, 4, 4, 6), {}),
        ((4, 13), (3, 7, 13), {"stride": 1, "padding": (2, 6)}),
        ((3, 2), (3, 15, 16), {"stride": 1, "padding": (1, 0)}),
        ((7, 7), (1, 7, 20), {"stride": 1, "padding": 3}),
        ((8, 8), (2, 6, 9), {"stride": 1, "padding": ((10, 3), (4, 3))}),
        ((17, 9), (1, 33, 16), {"stride": 1, "padding": (8, 4)}),
        ((8, 7), (2, 9, 17), {"stride": 1, "padding": ((2, 7), (0, 6))}),
        ((5, 5), (1, 32, 8), {"stride": 1, "padding": 2}),
        ((2, 3, 3), (2, 3, 4, 17), {"stride": 1, "padding": ((1, 0), (0, 2), (2, 1))}),
        ((4, 3), (2, 2, 8, 12), {"stride": 1, "padding": ((1, 2), (2, 0))}),
        ((5, 5), (3, 8, 20), {"stride": 1, "padding": 2}),
        ((3, 7, 7), (1, 3, 3, 20), {"stride": 1, "padding": (1, 3, 3)}),
        ((12, 9), (1, 37, 12), {"stride": 1, "padding": ((11, 2), (8, 3))}),
        ((15, 7), (2, 121, 7), {"stride": 1, "padding": (7, 3)}),
    ]
    for (kernel, shape, options), kind in itertools.product(words, pool):
        yield pool[kind](kernel, **options), shape
    yield sg.AvgPool((3, 2), stride=1, padding=1, count_include_pad=False), (2, 4, 5)
    yield sg.AvgPool((2, 3, 3), stride=1, padding=(1, 1, 1), count_include_pad=False), (1, 3, 4, 4)
    yield sg.MaxPool((3, 3), stride=2, padding=1, ties="all"), (2, 5, 6)
    yield sg.MaxPool((2, 2), stride=1, ties="split"), (2, 4, 5)
    yield sg.AvgPool((5, 5), stride=1, padding=2), (3, 7, 8)
    for kind in (sg.AdaptiveMaxPool, sg.AdaptiveAvgPool):
        yield kind((2, 3)), (1, 2, 13, 17)
        yield kind((7, 2)), (3, 4, 5)
        yield kind((5, 3)), (2, 23, 8)
    for kind in (sg.GlobalMaxPool, sg.GlobalAvgPool):
        yield kind(2), (2, 9, 31)
        yield kind(2), (3, 2, 4)
        yield kind(1, axes=(1,)), (2, 5, 9)
        yield kind(2, axes=(1, 2)), (1, 6, 7, 9)
    yield sg.SmoothMaxPool((3, 3), stride=2, padding=1, beta=-2.0), (1, 2, 5, 6)
    yield sg.SmoothMaxPool((2, 2, 2), stride=1, padding=1, beta=0.5, pad="skip"), (1, 3, 3, 4)
    yield sg.SmoothMaxPool((5, 5), stride=1, padding=2, beta=1.0), (1, 6, 7)


def differences(op, shape, dtype, layout, x, rng):
    """Yield the differences from the specification over the same numbers: bits of maxima, indices
    of winners, both derivatives.

    Tangents and cotangents are small integers, and so are operands, except awkward numbers for a
    maximum. So sums are exact in any order (except for shares). Averages must be within their
    derived bounds, smooth maxima within 100 ulps here, and within their bounds in the claims.
    """
    maximum = isinstance(op, Maximum)
    dx = rng.integers(-3, 4, shape).astype(dtype)
    gy = rng.integers(-3, 4, op.output_shape(shape)).astype(dtype)
    with sg.engine("reference"), np.errstate(all="ignore"):
        expected = dict(zip(("value", "JVP"), op.jvp((x,), (dx,)), strict=True))
        expected["forward"] = expected["value"]
        (expected["VJP"],) = op.vjp((x,), gy)
        if maximum:
            expected["indices"] = dispatch.with_indices(op, (x,))[1]
    subject = GpuEngine(DEVICE, layout)
    t = subject.tensor(x)
    y, kept = gpu.keep(op, (t,))
    found = {
        "value": y,
        "forward": gpu.forward(op, (t,)),
        "JVP": gpu.push(op, (t,), kept, (subject.tensor(dx),)),
        "VJP": gpu.pull(op, (t,), kept, subject.tensor(gy))[0],
    }
    if maximum:
        found["indices"] = gpu.indices(op, (t,))[1]
    if tuple((tuple(k.shape), k.dtype) for k in kept) != gpu.kept_like(op, t):
        yield f"{op!r} on {shape}: what is kept is not what kept_like says"
    slack = np.finfo(dtype).eps * (100 if isinstance(op, sg.SmoothMaxPool) else 4)
    judged = {}
    if isinstance(op, Average):
        judged = {
            "value": bounds.value(op, (x,)),
            "JVP": bounds.jvp(op, (x,), (dx,)),
            "VJP": bounds.vjp(op, (x,), gy)[0],
        }
    exact = maximum and op.ties != "split"
    for part, tensor in found.items():
        got, right = tensor.cpu().numpy(), expected[part]
        with np.errstate(all="ignore"):
            holds = (got == right) | (np.isnan(got) & np.isnan(right))
            holds |= (np.abs(got - right) <= slack * (1 + np.abs(right))) & (not exact)
        if maximum and part in ("value", "forward"):
            holds &= (np.signbit(got) == np.signbit(right)) | np.isnan(right)
        if part in judged:
            holds = np.array(judged[part].holds(got))
        if got.shape != right.shape or not holds.all():
            words = f"{got.tolist()} is not {right.tolist()}"
            yield f"{part} of {op!r} on {shape} {layout} {np.dtype(dtype)}: {words}"


def numbers(rng, op, shape, dtype, awkward):
    """Operands with few distinct numbers in small windows and many in large windows, whose winners
    would otherwise be their first cells."""
    most = 999 if isinstance(op, Maximum) and math.prod(getattr(op, "kernel_size", ())) > 32 else 4
    chosen = (
        rng.choice(AWKWARD, size=shape) if awkward and isinstance(op, Maximum) else rng.integers(-most, most + 1, shape)
    )
    return np.asarray(chosen, dtype)


def windows(every, first=0, one=False):
    """Check every n-th window from `first` on, in some dtype (`one`: maxima, too, in one alone),
    and on a device in all layouts."""
    wrong, rng = 0, np.random.default_rng(0)
    layouts, dtypes = ("contiguous", "channels_last", "gaps"), (np.float32, np.float64)
    for turn, (op, shape) in enumerate(window_cases()):
        if turn % every != first:
            continue
        # the claims check the bounds of averages and smooth maxima of half floats
        tried = (dtypes[turn % 2], *((np.float16,) if isinstance(op, Maximum) else ()))
        for dtype in tried[turn // every // 2 % len(tried) :][:1] if one else tried:
            x = numbers(rng, op, shape, dtype, turn % 3 == 0)
            for layout in layouts if DEVICE == "cuda" else layouts[turn // every % 3 :][:1]:
                for words in differences(op, shape, dtype, layout, x, rng):
                    wrong += 1
                    print(words)
    return wrong


def halves(x, op):
    """Whether a tensor of more than 2^31 elements has the same value and VJP as its two halves."""
    y, kept = gpu.keep(op, (x,))
    (gx,) = gpu.pull(op, (x,), kept, y)
    same = True
    middle = x.shape[0] // 2
    for part in (slice(0, middle), slice(middle, None)):
        own, own_kept = gpu.keep(op, (x[part],))
        (own_gx,) = gpu.pull(op, (x[part],), own_kept, own)
        same &= torch.equal(own, y[part]) and torch.equal(own_gx, gx[part])
    return same


def large():
    """Checks that need a device."""
    assert DEVICE == "cuda", "large tensors need a device"
    wrong = []

    def show(name, holds):
        print(name, "holds" if holds else "FAILS", flush=True)
        if not holds:
            wrong.append(name)

    big = torch.randn(18, 128, 1024, 1024, device="cuda", dtype=torch.bfloat16)
    assert big.numel() > 2**31
    for op in (
        sg.MaxPool((3, 3), stride=2, padding=1),
        sg.AvgPool((2, 2)),
        sg.GlobalMaxPool(2),
        sg.MaxPool((2, 2), dilation=2),
    ):
        show(f"more than 2^31 elements: {op!r}", halves(big, op))
    del big
    long = torch.randn(3, 2**30, device="cuda", dtype=torch.float16)
    y, kept = gpu.keep(sg.MaxPool((4,)), (long,))
    show("long rows", torch.equal(y, long.view(3, -1, 4).amax(2)))
    (gx,) = gpu.pull(sg.MaxPool((4,)), (long,), kept, y)
    show("their cotangents", torch.equal(gx.view(3, -1, 4).sum(2), y))
    del long, y, kept, gx
    torch.cuda.empty_cache()
    for op, shape in window_cases():
        x = torch.randn((4, *shape), device="cuda")
        first = None
        for _ in range(3):
            # the next tensors are allocated in freed memory full of NaN
            for n in (x.numel(), math.prod(op.output_shape(x.shape))):
                poison = [torch.full((n,), math.nan, device="cuda") for _ in range(3)]
                del poison
            torch.cuda.set_sync_debug_mode("default" if first is None else "error")
            try:
                y, kept = gpu.keep(op, (x,))
                gx = gpu.pull(op, (x,), kept, torch.ones_like(y))[0]
                dy = gpu.push(op, (x,), kept, (torch.ones_like(x),))
                found = (gpu.forward(op, (x,)), y, gx, dy)
            except RuntimeError as error:
                show(f"no synchronisation in a call ({error}): {op!r}", False)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            if any(not torch.isfinite(t).all() for t in found):
                show(f"poisoned memory is overwritten: {op!r}", False)
            if first is not None and not all(torch.equal(a, b) for a, b in zip(first, found, strict=True)):
                show(f"repeated runs agree: {op!r}", False)
            first = found
    show("poisoned memory, repeated runs, no synchronisation in a second call", not wrong)
    x = torch.randn(8, 64, 56, 56, device="cuda")
    op = sg.MaxPool((3, 3), stride=2, padding=1)
    y, kept = gpu.keep(op, (x,))
    gx = gpu.pull(op, (x,), kept, y)[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured, codes = gpu.keep(op, (x,))
        back = gpu.pull(op, (x,), codes, captured)[0]
    captured.fill_(math.nan)
    back.fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    show("a captured graph", torch.equal(captured, y) and torch.equal(back, gx))
    moved = torch.empty(x.numel() + 1, device="cuda")[1:].view_as(x).copy_(x)
    calls = [gpu.forward(op, (t,)) for t in (moved, x, moved)]
    show("an operand that does not begin at a multiple of 16 bytes", all(torch.equal(t, y) for t in calls))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = gpu.forward(op, (x,))
    torch.cuda.current_stream().wait_stream(stream)
    show("another stream", torch.equal(other, y))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randn(4, 8, 30, 30, device="cuda", dtype=dtype)
        pooled, places = torch.nn.functional.max_pool2d(x.double(), 3, 2, 1, return_indices=True)
        y, found = gpu.indices(op, (x,))
        show(f"PyTorch's winners in {dtype}", torch.equal(y.double(), pooled) and torch.equal(places, found))
    return len(wrong)


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("claims", "windows", "large", "sample"), required=True)
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="of the windows, so that processes can share them")
    parser.add_argument("--one", action="store_true", help="dtype of a window")
    parser.add_argument("--layouts", nargs="*", default=["contiguous"])
    options = parser.parse_args()
    if options.part == "claims":
        wrong = claims(options.kinds, options.every, options.layouts)
    elif options.part == "windows":
        wrong = windows(options.every, options.first, options.one)
    elif options.part == "sample":
        wrong = windows(4)
    else:
        wrong = large()
    print("differences:", wrong)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
