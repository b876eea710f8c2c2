"""specgrad.jax against lax.reduce_window and lax.conv_general_dilated, under jit.

    python benchmarks/jax_front_end.py [--batch 8] [--rounds 7] [--only max] [--calls]

Timed are the value and the gradient of the sum of squares; the column says if JAX has none. Rounds
of both sides are interleaved, so that other load on the machine affects both alike; a figure is the
least time of each. `--calls` instead compares three ways from XLA to a kernel: the foreign function
interface that specgrad.jax uses, jax.pure_callback, and a call of the kernel without JAX.
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import specgrad as sg
import specgrad.jax as sgj


def reduced(x, start, combine, kernel, stride, padding, dilation):
    around = ((0, 0), (0, 0), *((p, p) for p in padding))
    return lax.reduce_window(
        x, start, combine, (1, 1, *kernel), (1, 1, *stride), around, window_dilation=(1, 1, *dilation)
    )


def windows(n):
    """(name, shape, kernel, stride, padding, dilation)."""
    images = (n, 64, 56, 56)
    yield "k2 s2", images, (2, 2), (2, 2), (0, 0), (1, 1)
    yield "k3 s2 p1", images, (3, 3), (2, 2), (1, 1), (1, 1)
    yield "k3 s1 p1", images, (3, 3), (1, 1), (1, 1), (1, 1)
    yield "k3 s1 p2 d2", images, (3, 3), (1, 1), (2, 2), (2, 2)
    yield "k13 s1 p6", (n, 128, 13, 13), (13, 13), (1, 1), (6, 6), (1, 1)
    yield "3-D k2 s2", (max(n // 4, 1), 16, 32, 32, 32), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)


def cases(n):
    """(name, operands, ours, JAX's)."""
    random = np.random.default_rng(0)
    for words, shape, kernel, stride, padding, dilation in windows(n):
        x = jnp.asarray(random.normal(size=shape).astype(np.float32))
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        geometry = (kernel, stride, padding, dilation)
        cells = float(np.prod(kernel))
        yield (
            f"max {words}", (x,), lambda x, k=kernel, o=options: sgj.max_pool(x, k, **o),
            lambda x, g=geometry: reduced(x, -jnp.inf, lax.max, *g),
        )  # fmt: skip
        yield (
            f"avg {words}", (x,), lambda x, k=kernel, o=options: sgj.avg_pool(x, k, **o),
            lambda x, g=geometry, c=cells: reduced(x, 0.0, lax.add, *g) / c,
        )  # fmt: skip
        yield (
            f"smooth {words}", (x,), lambda x, k=kernel, o=options: sgj.smooth_max_pool(x, k, beta=1.0, **o),
            lambda x, g=geometry: jnp.log(reduced(jnp.exp(x), 0.0, lax.add, *g)),
        )  # fmt: skip
    x = jnp.asarray(random.normal(size=(n, 32, 28, 28)).astype(np.float32))
    w = jnp.asarray(random.normal(size=(64, 32, 3, 3)).astype(np.float32))
    yield (
        "conv 3x3", (x, w), lambda x, w: sgj.conv(x, w, padding=1),
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1))),
    )  # fmt: skip


def least(rounds, runs):
    """The least time of each run, in ms; runs that JAX refuses are left out."""
    times = {}
    for name, (run, operands) in runs.items():
        try:
            jax.block_until_ready(run(*operands))
        except (NotImplementedError, ValueError):
            continue
        times[name] = []
    for _ in range(rounds):
        for name in times:
            run, operands = runs[name]
            begin = time.perf_counter()
            jax.block_until_ready(run(*operands))
            times[name].append(time.perf_counter() - begin)
    return {name: 1e3 * min(each) for name, each in times.items()}


def squared(f, operands):
    return jax.grad(lambda *xs: (f(*xs) ** 2).sum(), tuple(range(len(operands))))


def beside(options):
    print(f"{'ms':18} {'value':>9} {'lax':>9} {'ratio':>6} {'gradient':>9} {'lax':>9} {'ratio':>6}")
    for name, operands, ours, theirs in cases(options.batch):
        if options.only not in name:
            continue
        runs = {
            "value": (jax.jit(ours), operands), "lax": (jax.jit(theirs), operands),
            "gradient": (jax.jit(squared(ours, operands)), operands),
            "lax gradient": (jax.jit(squared(theirs, operands)), operands),
        }  # fmt: skip
        found = least(options.rounds, runs)
        value, lax_value, slope = found["value"], found["lax"], found["gradient"]
        line = f"{name:18} {value:9.2f} {lax_value:9.2f} {lax_value / value:6.1f} {slope:9.2f}"
        other = found.get("lax gradient")
        print(line, "     none" if other is None else f"{other:9.2f} {other / slope:6.1f}", flush=True)


def calls(options):
    op = sg.MaxPool((3, 3), stride=2, padding=1)
    print(f"{'us':22} {'foreign function':>16} {'pure_callback':>14} {'without JAX':>12}")
    for shape in ((8, 16, 8, 8), (8, 64, 56, 56), (32, 64, 112, 112)):
        x = jnp.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))
        result = jax.ShapeDtypeStruct(op.output_shape(shape), x.dtype)
        array = np.asarray(x)
        runs = {
            "ffi": (jax.jit(op), (x,)),
            "callback": (jax.jit(lambda x, r=result: jax.pure_callback(lambda a: op(np.asarray(a)), r, x)), (x,)),
            "alone": (op, (array,)),
        }
        found = least(options.rounds, runs)
        by = " ".join(f"{1e3 * found[way]:{width}.0f}" for way, width in (("ffi", 16), ("callback", 14), ("alone", 12)))
        print(f"{'x'.join(map(str, shape)):22} {by}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, specgrad {sg.__version__}, {os.cpu_count()} cores, float32, batch {options.batch}")
    (calls if options.calls else beside)(options)


if __name__ == "__main__":
    main()
