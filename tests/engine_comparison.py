"""Comparison of an engine with the specification within derived bounds, for tests of the CPU
engine."""

from __future__ import annotations

import numpy as np

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance import bounds
from specgrad.ops.pool import Maximum


def unit(dtype):
    """The unit roundoff of the computation, and of the final rounding."""
    name = np.dtype(dtype).name
    computed = 2.0**-53 if name == "float64" else 2.0**-24
    return computed, {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(name, 0.0)


def bits(array):
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.itemsize}")


def on(engine, call):
    with sg.engine(engine), np.errstate(all="ignore"):
        return call()


def agree(got, expected, bound):
    """Assert equality where the specification is not finite, and elsewhere a distance that two
    results within `bound` can have."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    a, b = got.astype(np.float64), expected.astype(np.float64)
    final = unit(got.dtype)[1]
    with np.errstate(invalid="ignore"):
        rounding = final * (np.abs(a) + np.abs(b) + float(bounds.finfo(got.dtype).tiny)) if final else 0
        near = np.where(np.isfinite(b), np.abs(a - b) <= 2 * bound + rounding, (a == b) | (np.isnan(a) & np.isnan(b)))
    assert near.all(), (a[~near][:5], b[~near][:5])


def allowed(op, x, dx, gy):
    """The bounds of value, JVP and VJP by `conformance.bounds`, evaluated in float64."""
    u, least = unit(x.dtype)[0], 2.0**-1022 if x.dtype == np.float64 else 2.0**-126
    wide, moved, arriving = (a.astype(np.float64) for a in (x, np.abs(dx), np.abs(gy)))
    count, (counted,) = bounds.terms(op, [x.shape])
    with sg.engine("reference"), np.errstate(all="ignore"):
        pushed, pulled = op.jvp((wide,), (moved,))[1], op.vjp((wide,), arriving)[0]
        size = None if isinstance(op, Maximum | sg.SmoothMaxPool) else np.abs(op(np.abs(wide)))
    above = 1 + 2.0**-20  # for the rounding of these magnitudes themselves

    def sums(count, magnitude):
        return above * (count + 1) * u / (1 - (count + 1) * u) * np.abs(magnitude) + (count + 1) * least

    count = count.reshape(pushed.shape)
    if not isinstance(op, sg.SmoothMaxPool):
        value = 0 if size is None else sums(count, size)
        return value, sums(count, pushed), sums(counted, pulled)
    n, beta = int(count.max(initial=1)), abs(float(op.beta))
    cells = np.append(wide[np.isfinite(wide)], 0)  # an infinite cell has weight 0 or 1, else its window is not finite
    error = u * (2 * beta * np.ptp(cells) + n + 8)
    value = (error + 2 * u * n.bit_length()) / beta + 4 * u * np.abs(cells).max() + (n + 1) * least
    rest = (n + 1) * least * (1 + beta)
    weights = above * (2 * error + u * (n + 2))
    return value, *(weights * m + rest * (1 + a.max(initial=0)) for m, a in ((pushed, moved), (pulled, arriving)))


def compare(op, x, dx, gy):
    """Compare value, indices, JVP and VJP of both engines."""
    exact = np.dtype(x.dtype).kind in "iu"
    value_bound, *moved_bounds = (0, 0, 0) if exact else allowed(op, x, dx, gy)
    y, got = (on(engine, lambda: op(x)) for engine in ("reference", "cpu"))
    if isinstance(op, Maximum):
        _, places = on("reference", lambda: dispatch.with_indices(op, (x,)))
        value, found = on("cpu", lambda: dispatch.with_indices(op, (x,)))
        np.testing.assert_array_equal(places, found)
        np.testing.assert_array_equal(bits(value), bits(y))
        np.testing.assert_array_equal(bits(got), bits(y))
    agree(got, y, value_bound)
    calls = (lambda: op.jvp((x,), (dx,))[1], lambda: op.vjp((x,), gy)[0])
    for call, bound in zip(calls, moved_bounds, strict=True):
        agree(on("cpu", call), on("reference", call), bound)


def drawn(shape, dtype, kind):
    """Numbers with ties, some of them special as `kind` says."""
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
