"""Prepared calls of pooling, as `specgrad.torch` makes them on CUDA tensors, against the
specification.

    python tests/gpu_front.py                     on a CUDA device: torch's names, sg's own,
                                                  derivatives, graphs, streams, profiles
    TRITON_INTERPRET=1 python tests/gpu_front.py  without one: prepared calls alone, on CPU tensors
                                                  in Triton's interpreter

`--every N` takes every N-th operator. Prints what differs and exits with 1.
"""

import argparse
import contextlib
import itertools
import math
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from quick_interpreter import quicken

import specgrad as sg
from specgrad import dispatch
from specgrad.engines import gpu
from specgrad.torch import functional, prepared, routing

quicken()
DEVICE = "cpu" if gpu.INTERPRETED else "cuda"
SHAPE, TURNS = ((1, 2, 18, 5), 1) if gpu.INTERPRETED else ((2, 3, 18, 9), 3)  # through Triton, watched, straight
OPERATORS = [
    (sg.MaxPool((3, 3), stride=2, padding=1), "max_pool2d", (3, 2, 1)),
    (sg.MaxPool((2, 2), dilation=2), "max_pool2d", (2, None, 0, 2)),
    (sg.AvgPool((2, 3), stride=(1, 2), padding=1, count_include_pad=False), "avg_pool2d",
     ((2, 3), (1, 2), 1, False, False)),
    (sg.AvgPool((5, 5), stride=1, padding=2), "avg_pool2d", (5, 1, 2)),
    (sg.AdaptiveMaxPool((2, 3)), "adaptive_max_pool2d", ((2, 3),)),
    (sg.AdaptiveAvgPool((1, 1)), "adaptive_avg_pool2d", (1,)),
    (sg.SmoothMaxPool((2, 2), beta=2.0), "", ()),
    (sg.GlobalMaxPool(2), "", ()),
    (sg.MaxPool((2, 2), stride=1, ties="split"), "", ()),
    (sg.MaxPool((17, 2), stride=1), "max_pool2d", ((17, 2), 1)),
]  # fmt: skip


def layouts(array):
    x = torch.from_numpy(array).to(DEVICE)
    wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype, device=DEVICE)
    yield "contiguous", x
    yield "channels_last", x.contiguous(memory_format=torch.channels_last)
    if gpu.INTERPRETED:
        return
    yield "a view", wide[..., ::2].copy_(x)
    yield "not aligned", torch.zeros(x.numel() + 1, dtype=x.dtype, device=DEVICE)[1:].view(x.shape).copy_(x)


def expected(op, x, gy):
    with sg.engine("reference"), np.errstate(all="ignore"):
        found = [op(x), op.vjp((x,), gy)[0]]
        return [*found, *([dispatch.with_indices(op, (x,))[1]] if getattr(op, "ties", "") == "first" else [])]


def calls(op, name, arguments):
    """Ways to call an operator: (label, function, whether it returns indices)."""
    if gpu.INTERPRETED:
        indexed = getattr(op, "ties", "") == "first"
        yield "prepared", lambda t: prepared.Prepared(op, t, 0)(t, indexed), indexed
        return
    yield "operator", op, False
    if name:
        yield name, lambda t: getattr(functional, name)(t, *arguments), False
        if "max" in name:
            yield f"{name} with indices", lambda t: getattr(functional, name)(t, *arguments, return_indices=True), True


def same(got, right, exact):
    got = got.detach().cpu().numpy()
    slack = 0 if exact else 1e-12
    return got.shape == right.shape and np.allclose(got, right, rtol=slack, atol=slack, equal_nan=True)


def derivatives(every):
    rng, wrong = np.random.default_rng(0), []
    for op, name, arguments in OPERATORS[::every]:
        shape = SHAPE
        array = rng.integers(-9, 10, shape).astype(np.float64)
        gy = rng.integers(-3, 4, op.output_shape(shape)).astype(np.float64)
        right, exact = expected(op, array, gy), isinstance(op, sg.MaxPool | sg.AdaptiveMaxPool) and op.ties == "first"
        for (layout, x), (label, call, indexed) in itertools.product(layouts(array), calls(op, name, arguments)):
            for turn in range(TURNS):
                leaf = x.detach().requires_grad_()
                y, *places = call(leaf) if indexed else (call(leaf),)
                cotangent = torch.from_numpy(gy).to(DEVICE)
                if turn == 1:
                    cotangent = cotangent.transpose(-1, -2).contiguous().transpose(-1, -2)
                (gx,) = torch.autograd.grad(y, leaf, cotangent)
                with torch.no_grad():
                    alone = call(x)
                alone, *places_alone = alone if indexed else (alone,)
                checks = {"keep": (y, right[0]), "forward": (alone, right[0]), "VJP": (gx, right[1])}
                for i, place in enumerate([*places, *places_alone]):
                    checks[f"indices {i}"] = place, right[2]
                wrong += [
                    f"{part} of {op!r} by {label}, {layout}, turn {turn}"
                    for part, (got, want) in checks.items()
                    if not same(got, want, exact)
                ]
    return wrong


def mended():
    """Differences on small channels_last images with many windows of -inf, where we correct the
    indices of torch's kernels; not with hooks on saved tensors."""
    rng, wrong, small = np.random.default_rng(1), [], routing.SMALL
    routing.SMALL = 1 << 17
    for arguments in ((2, 2, 0, 1, False), (3, 2, 1, 1, False), ((2, 3), (1, 2), (1, 0), 1, True), (5, 1, 2, 1, False)):
        kernel, stride, padding, _, ceil_mode = arguments
        windows = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        op = sg.MaxPool(windows, stride=stride, padding=padding, ceil_mode=ceil_mode)
        array = rng.integers(-2, 3, (2, 5, 9, 7)).astype(np.float32)
        array[rng.random(array.shape) < 0.8] = -np.inf
        gy = rng.integers(-3, 4, op.output_shape(array.shape)).astype(np.float32)
        right = expected(op, array, gy)
        x = torch.from_numpy(array).to(DEVICE).contiguous(memory_format=torch.channels_last)
        if gpu.INTERPRETED:
            y, places = F.max_pool2d(x, *arguments, return_indices=True)
            places[y == -math.inf] = 0
            routing.mending().Mended(*arguments).mend(x.shape, y, places)
            wrong += [] if same(places, right[2], True) else [f"mended places of {op!r}"]
            continue
        for turn, hooked in itertools.product(range(TURNS), (False, True)):
            leaf = x.detach().requires_grad_()
            with torch.autograd.graph.save_on_cpu() if hooked else contextlib.nullcontext():
                y = functional.max_pool2d(leaf, *arguments)
                (gx,) = torch.autograd.grad(y, leaf, torch.from_numpy(gy).to(DEVICE))
            if not same(y, right[0], True) or not same(gx, right[1], True):
                wrong.append(f"{op!r} mended, turn {turn}, hooked {hooked}")
            if turn and ("WithIndices" in type(y.grad_fn).__name__) == hooked:  # decided during the first call
                wrong.append(f"{op!r} is not answered by whom it should be, hooked {hooked}")
    routing.SMALL = small
    return wrong


def needless():
    """Differences in `is_needless`: results of relus need no correction, since no cell is -inf or
    its gradient is 0. Tensors written without autograd, or that may hold -inf, need correction."""
    torch.manual_seed(0)
    leaf = torch.randn(1, 4, 6, 6, device=DEVICE).contiguous(memory_format=torch.channels_last).requires_grad_()
    relu, pool, is_needless = torch.relu, functional.max_pool2d, routing.mending().Mended.is_needless
    written = torch.cat([relu(leaf), relu(leaf)], 1)
    with torch.no_grad():
        written[:] = -math.inf
    pooled = F.max_pool2d(relu(leaf), 2)
    cases = [
        (relu(leaf), True),
        ((leaf * 2).relu_(), True),
        (torch.cat([relu(leaf), relu(-leaf)], 1), True),
        (pooled, True),
        (F.max_pool2d(pooled, 2), False),
        (torch.cat([relu(leaf), leaf], 1), False),
        (F.max_pool2d(leaf, 2), False),
        (F.leaky_relu(leaf), False),
        (relu(leaf).masked_fill(leaf > 0, -math.inf), False),
        (relu(leaf).masked_fill_(leaf > 0, -math.inf), False),
        (leaf, False),
        (written, False),
    ]
    wrong = [f"case {i} of what needs no mending" for i, (x, right) in enumerate(cases) if is_needless(x) != right]
    torch.use_deterministic_algorithms(True)  # torch's backward has no deterministic algorithm
    wrong += ["torch answers who wants deterministic algorithms"] if is_needless(relu(leaf)) else []
    torch.use_deterministic_algorithms(False)
    for _ in range(TURNS):
        x = relu(leaf)
        x.data[:, :, :4] = -math.inf
        (gx,) = torch.autograd.grad(pool(x, 2).sum(), leaf)
        wrong += ["a cotangent passes through -inf in place of a relu"] if gx[:, :, :4].any() else []
    return wrong


def second_order():
    """Differences in reverse over reverse, forward over reverse and vmap; for maxima and averages,
    those of a square."""
    wrong = []
    for op, _, _ in OPERATORS:
        x = torch.randn(2, 3, 18, 9, device=DEVICE, dtype=torch.float64, requires_grad=True)

        def loss(t, op=op):
            return op(t).square().sum()

        v = torch.randn_like(x)
        (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
        (reverse,) = torch.autograd.grad((g * v).sum(), x)
        forward = torch.func.jvp(torch.func.grad(loss), (x.detach(),), (v,))[1]
        step = 1e-6
        around = [torch.func.grad(loss)(x.detach() + s * step * v) for s in (1, -1)]
        if not torch.allclose(reverse, forward, rtol=1e-9, atol=1e-9):
            wrong.append(f"second derivatives of {op!r}")
        if not torch.allclose(reverse, (around[0] - around[1]) / (2 * step), rtol=1e-3, atol=1e-3):
            wrong.append(f"second derivatives of {op!r} against differences")
        mapped = torch.vmap(torch.func.grad(loss))(x.detach())
        if not torch.allclose(mapped, torch.func.grad(loss)(x.detach()), rtol=1e-9, atol=1e-9):
            wrong.append(f"vmap of {op!r}")
    return wrong


def contexts():
    """Differences in captured graphs, streams, threads, profiles and inference mode."""
    wrong = []

    def check(what, holds):
        if not holds:
            wrong.append(what)

    routing.SMALL, runs, run = 1 << 17, [], prepared.Prepared.run
    prepared.Prepared.run = lambda self, *given: (runs.append(self), run(self, *given))[1]
    x = torch.randn(2, 8, 33, 35, device=DEVICE)
    leaf = x.clone().requires_grad_()
    calls = (
        ("max_pool2d", (5, 2, 1)),
        ("avg_pool2d", (3, 2, 1)),
        ("adaptive_avg_pool2d", (4,)),
        ("avg_pool2d", (4, 4, 0)),
    )
    for name, arguments in calls:

        def step(name=name, arguments=arguments):
            leaf.grad = None
            y = getattr(functional, name)(leaf, *arguments)
            y.square().sum().backward()
            return y

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        check(f"small {name} is torch's", not runs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = step()
        gx = leaf.grad
        check(f"captured {name} is ours", len(runs) == 2)
        runs.clear()
        leaf.data.copy_(torch.randn_like(x))
        graph.replay()
        wide = leaf.detach().double().requires_grad_()
        right = getattr(F, name)(wide, *arguments)
        (back,) = torch.autograd.grad(right.square().sum(), wide)
        check(f"captured {name}", torch.allclose(y.double(), right, rtol=1e-5, atol=1e-5))
        check(f"captured {name} backwards", torch.allclose(gx.double(), back, rtol=1e-4, atol=1e-4))
        with torch.no_grad():
            eager = getattr(functional, name)(leaf, *arguments)
        check(f"{name} after a capture", torch.allclose(eager.double(), right, rtol=1e-5, atol=1e-5))
        runs.clear()
    prepared.Prepared.run = run
    routing.SMALL = 0
    leaf = x.clone().requires_grad_()
    functional.max_pool2d(leaf, 2).sum().backward()
    torch.cuda.synchronize()
    with torch.profiler.profile() as profile:
        y = functional.max_pool2d(leaf, 2)
        y.sum().backward()
    names = {event.key for event in profile.key_averages()}
    check(
        f"profile shows operators: {sorted(n for n in names if 'ool' in n)}",
        {"specgrad::max_pool_keep", "specgrad::max_pool_pull"} <= names,
    )
    check("grad_fn has the operator's name", "MaxPool" in type(y.grad_fn).__name__)
    with torch.inference_mode():
        check("inference mode", torch.equal(functional.max_pool2d(x, 2), F.max_pool2d(x, 2)))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = functional.max_pool2d(x, 2)
    torch.cuda.current_stream().wait_stream(stream)
    check("another stream", torch.equal(other, F.max_pool2d(x, 2)))
    torch.cuda.set_sync_debug_mode("error")
    try:
        functional.max_pool2d(leaf, 2).sum().backward()
    except RuntimeError as error:
        check(f"no synchronisation: {error}", False)
    torch.cuda.set_sync_debug_mode("default")
    half = torch.randn(2, 3, 8, 8, device=DEVICE)
    with torch.autocast("cuda"):
        check("autocast", torch.equal(functional.max_pool2d(half, 2), F.max_pool2d(half, 2)))
    check(
        "-inf where no cell is",
        math.isinf(functional.max_pool1d(torch.ones(1, 1, 1, device=DEVICE), 2, 1, 1, 2).item()),
    )
    neg = torch.complex(x, x).conj().imag  # a lazily negated view
    check("negated views", torch.equal(functional.max_pool2d(neg, 2), F.max_pool2d(neg.resolve_neg(), 2)))
    return wrong


def main():
    warnings.simplefilter("ignore")
    routing.SMALL = 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    wrong = derivatives(parser.parse_args().every) + mended() + needless()
    if not gpu.INTERPRETED:
        wrong += second_order() + contexts()
    for words in wrong:
        print(words)
    print("differences:", len(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
