"""An engine beside the specification: what tests of the CPU engine compare, and how closely."""

from __future__ import annotations

import numpy as np

import specgrad as sg
from specgrad import dispatch
from specgrad.ops.pool import Maximum


def unit(dtype):
    """The unit roundoff of the type in which cells are computed, and of the one rounding at the end."""
    name = np.dtype(dtype).name
    computed = 2.0**-53 if name == "float64" else 2.0**-24
    return computed, {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(name, 0.0)


def bits(array):
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.itemsize}")


def on(engine, call):
    with sg.engine(engine), np.errstate(all="ignore"):
        return call()


def agree(got, expected, slack):
    """Equal where the specification is not finite, and else within `slack` times its own size of it (or of 1)."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    a, b = got.astype(np.float64), expected.astype(np.float64)
    near = np.isclose(a, b, rtol=slack, atol=slack, equal_nan=True)
    assert near.all(), (a[~near][:5], b[~near][:5])


def compare(op, x, dx, gy):
    """Value, indices, JVP and VJP of both engines."""
    slack = 0 if np.dtype(x.dtype).kind in "iu" else 200 * unit(x.dtype)[0] + 4 * unit(x.dtype)[1]
    y, got = (on(engine, lambda: op(x)) for engine in ("reference", "cpu"))
    if isinstance(op, Maximum):
        _, places = on("reference", lambda: dispatch.with_indices(op, (x,)))
        value, found = on("cpu", lambda: dispatch.with_indices(op, (x,)))
        np.testing.assert_array_equal(places, found)
        np.testing.assert_array_equal(bits(value), bits(y))
        np.testing.assert_array_equal(bits(got), bits(y))
    agree(got, y, slack)
    for call in (lambda: op.jvp((x,), (dx,))[1], lambda: op.vjp((x,), gy)[0]):
        agree(on("cpu", call), on("reference", call), slack)


def drawn(shape, dtype, kind):
    """Numbers that tie, some of which are what the kind says."""
    random = np.random.default_rng(len(kind))
    x = random.integers(-4, 5, (3, *shape)).astype(dtype)
    some = random.random(x.shape) < 0.3
    if kind == "lowest":
        x[some | (np.arange(3) == 1).reshape(3, *[1] * len(shape))] = (
            -np.inf if x.dtype.kind == "f" else np.iinfo(dtype).min
        )
    elif kind == "NaN" and x.dtype.kind == "f":
        x[some & (random.random(x.shape) < 0.02)] = np.nan
    elif kind == "-0.0":
        x = -np.abs(x)
        x[some & (x == 0)] = 0
    return x
