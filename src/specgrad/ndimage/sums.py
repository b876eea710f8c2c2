"""Uniform filters, correlation and convolution: sliding sums.

SciPy adds in float64 and casts the result. Here float32 arrays with a float32 result are added in
float32, without running sums. Integers of 8 and 16 bits are added as integers, and all others in
float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..conv_functions import conv
from ..errors import ArgumentError, refusal
from ..functional import avg_pool, sum_pool
from . import arguments
from .arguments import Array, FilterError, FilterTypeError, Line, converted, delivered, line, unfiltered
from .edges import extended
from .integer_means import integer_mean

EXACT = 1 << 24
"""Whole numbers below this, and quotients of two of them, are told apart by float32."""
SMALL = 0.3
"""Up to this part of an image its edges are averaged on their own."""
LARGE = 16
"""Times its size that an image may have with its edges; beyond it axes are averaged one by one."""
NEGLIGIBLE = float(np.finfo(np.float64).eps)
"""Weights up to this size take no part in `correlate` and `convolve`, as in SciPy."""


def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: complex = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """Mean of a box of `size` cells around each cell, as `scipy.ndimage.uniform_filter`.

    Integer results are cut towards zero after each axis, as SciPy's are.
    """
    name = "uniform_filter"
    x = arguments.image(name, input, complex_too=True)
    places = arguments.filtered_axes(name, axes, x.ndim)
    return _averaged(name, x, arguments.lines(name, places, size, mode, origin), cval, output)


def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: complex = 0.0,
    origin: int = 0,
) -> Array:
    """Mean of `size` cells along an axis, as `scipy.ndimage.uniform_filter1d`."""
    name = "uniform_filter1d"
    x = arguments.image(name, input, complex_too=True)
    window = line(name, arguments.axis_of(name, "axis", axis, x.ndim), size, mode, origin)
    return _averaged(name, x, [window], cval, output)


def _averaged(name: str, x: Array, lines: Sequence[Line], cval: Any, output: Any) -> Array:
    dtype = arguments.output_dtype(name, output, x)
    lines = [each for each in lines if each.size > 1]
    if x.dtype.kind == "c":
        real, imaginary = (
            _mean(part, lines, arguments.real_number(name, "cval", fill), _real(dtype))
            for part, fill in ((x.real, np.real(cval)), (x.imag, np.imag(cval)))
        )
        return delivered(_joined(real, imaginary, dtype), output)
    return delivered(_mean(x, lines, arguments.real_number(name, "cval", cval), dtype), output)


def _mean(x: Array, lines: Sequence[Line], cval: float, dtype: np.dtype[Any]) -> Array:
    """The mean over all lines: one window where no dtype intervenes, else axis by axis."""
    if not lines or not x.size:
        return unfiltered(x, dtype)
    if x.dtype == dtype and dtype.kind == "f":
        return _float_mean(x, lines, cval)
    if x.dtype == dtype and (found := integer_mean(x, lines, cval)) is not None:
        return found
    first, *rest = lines
    narrow = x.dtype.kind in "bu" and x.dtype.itemsize < 4 and dtype.kind in "bui"
    largest = np.iinfo(x.dtype).max if x.dtype.kind == "u" else 1
    exact = narrow and cval.is_integer() and max(largest, abs(cval)) * first.size < EXACT
    work = np.float32 if exact else np.float64
    total = sum_pool(extended(x.astype(work), [first], cval), (first.size,), stride=1, axes=(first.axis,))
    np.divide(total, work(first.size), out=total)
    in_range = exact and dtype == x.dtype and dtype.kind == "u" and 0 <= cval <= largest  # a mean of such cells
    return _mean(total.astype(dtype) if in_range else converted(total, dtype), rest, cval, dtype)


def _float_mean(x: Array, lines: Sequence[Line], cval: float) -> Array:
    """One window over all lines. Where the edges are small they are averaged on their own, so that
    the image is not copied with its edges."""
    kernel, axes = tuple(each.size for each in lines), tuple(each.axis for each in lines)
    around = tuple((each.before, each.after) for each in lines)
    is_zero = cval == 0 and all(each.mode == "constant" and each.size <= 4 * x.shape[each.axis] for each in lines)
    if not is_zero and (sum(each.size / x.shape[each.axis] for each in lines) > SMALL or _wraps(lines)):
        if len(lines) > 1 and math.prod(1 + each.size / x.shape[each.axis] for each in lines) > LARGE:
            return _float_mean(_float_mean(x, lines[:1], cval), lines[1:], cval)
        return np.asarray(avg_pool(extended(x, lines, cval), kernel, stride=1, axes=axes))
    y = np.asarray(avg_pool(x, kernel, stride=1, padding=around, axes=axes))
    for each in () if is_zero else lines:
        others, before = [other for other in lines if other is not each], (slice(None),) * each.axis
        for start, stop, first, last in ((0, each.size, each.before, 0), (-each.size, None, 0, each.after)):
            near = extended(x[(*before, slice(start, stop))], [Line(each.axis, first, last, each.mode), *others], cval)
            strip = slice(first + 1) if first else slice(-last - 1, None)
            if first or last:
                y[(*before, strip)] = avg_pool(near, kernel, stride=1, axes=axes)
    return y


def _wraps(lines: Sequence[Line]) -> bool:
    return any(each.mode == "wrap" for each in lines)


def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: complex = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """Σ weight · cell, as `scipy.ndimage.correlate`; complex weights are conjugated."""
    return _weighted("correlate", input, weights, output, mode, cval, origin, axes, convolution=False)


def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: complex = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """Σ weight · cell with the weights turned round, as `scipy.ndimage.convolve`."""
    return _weighted("convolve", input, weights, output, mode, cval, origin, axes, convolution=True)


def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: complex = 0.0,
    origin: int = 0,
) -> Array:
    """Σ weight · cell along an axis, as `scipy.ndimage.correlate1d`."""
    return _weighted("correlate1d", input, weights, output, mode, cval, origin, axis, convolution=False)


def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: complex = 0.0,
    origin: int = 0,
) -> Array:
    """Σ weight · cell along an axis, the weights turned round, as `scipy.ndimage.convolve1d`."""
    return _weighted("convolve1d", input, weights, output, mode, cval, origin, axis, convolution=True)


def _weighted(
    name: str,
    input: Any,
    weights: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    convolution: bool,
) -> Array:
    x, w = arguments.image(name, input, complex_too=True), _weights(name, weights)
    skips = not name.endswith("1d")  # SciPy skips negligible weights, but not along a single axis
    if not skips:
        axes = arguments.axis_of(name, "axis", axes, x.ndim)
    places = arguments.filtered_axes(name, axes, x.ndim)
    if w.ndim != len(places) or 0 in w.shape:
        if w.ndim == 1 and len(places) == 1:
            raise refusal(FilterError, name, "weights", w, "no filter weights given", "give one weight at least")
        rule = f"weights.ndim ({w.ndim}) must match len(axes) ({len(places)}), and no length may be 0"
        raise refusal(FilterError, name, "weights", w, rule, "give weights one length per filtered axis")
    places, origins = arguments.in_array_order(places, arguments.one_each(name, "origin", origin, len(places)), x.ndim)
    if convolution:
        origins = [arguments.mirrored_origin(name, o, s) for o, s in zip(origins, w.shape, strict=True)]
        w = np.flip(w)
    elif w.dtype.kind == "c":
        w = w.conj()
    if not isinstance(mode, str):
        raise refusal(FilterError, name, "mode", mode, "a sequence of modes is not supported", "write one mode")
    lines = [line(name, p, s, mode, o, "weights") for p, s, o in zip(places, w.shape, origins, strict=True)]
    if "c" not in x.dtype.kind + w.dtype.kind:
        dtype = arguments.output_dtype(name, output, x)
        fill = arguments.real_number(name, "cval", cval)
        return delivered(_correlated(x, w, lines, fill, dtype, skips), output)
    return _complex(name, x, w, lines, cval, output, skips)


def _weights(name: str, weights: Any) -> Array:
    w = arguments.array_of(name, "weights", weights)
    if w.dtype.kind not in "biufc":
        raise refusal(FilterTypeError, name, "weights", w, "must hold numbers", "cast first")
    return w.astype(np.complex128 if w.dtype.kind == "c" else np.float64)


def _complex(name: str, x: Array, w: Array, lines: Sequence[Line], cval: Any, output: Any, skips: bool) -> Array:
    """The product of complex numbers by those of their parts."""
    if np.iscomplexobj(cval) and x.dtype.kind != "c":
        rule = "cannot provide a complex-valued cval when the input is real"
        raise refusal(ArgumentError, name, "cval", cval, rule, "write a real number")
    stand_in = np.empty(x.shape, np.promote_types(x.dtype, np.complex64))
    dtype = arguments.output_dtype(name, output, stand_in)
    fills = (arguments.real_number(name, "cval", np.real(cval)), arguments.real_number(name, "cval", np.imag(cval)))
    parts = [(x.real, fills[0]), (x.imag, fills[1])] if x.dtype.kind == "c" else [(x, fills[0])]
    part = _real(dtype)
    factors = [w.real, w.imag] if w.dtype.kind == "c" else [w]
    made = [[_correlated(p, v, lines, fill, part, skips) for v in factors] for p, fill in parts]
    if len(made) == 1:
        real, imaginary = made[0]
    elif len(made[0]) == 1:
        real, imaginary = made[0][0], made[1][0]
    else:
        real, imaginary = made[0][0] - made[1][1], made[0][1] + made[1][0]
    return delivered(_joined(real, imaginary, dtype), output)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}")


def _joined(real: Array, imaginary: Array, dtype: np.dtype[Any]) -> Array:
    y = np.empty(real.shape, dtype)
    y.real, y.imag = real, imaginary
    return y


def _correlated(x: Array, w: Array, lines: Sequence[Line], cval: float, dtype: np.dtype[Any], skips: bool) -> Array:
    """A convolution of one channel over the extended array, the filtered axes behind the others.
    `skips`: negligible weights take no part."""
    if skips:
        w = np.where(np.abs(w) > NEGLIGIBLE, w, 0.0)
    if not x.size:
        return np.empty(x.shape, dtype)
    if not lines:
        return converted(x * w, dtype)
    work = np.float32 if x.dtype == dtype == np.float32 else np.float64
    wide = extended(x.astype(work, copy=False), lines, cval)
    axes = [each.axis for each in lines]
    last = list(range(x.ndim - len(axes), x.ndim))
    if skips and (w == 0).any() and not np.isfinite(wide).all():  # no part under infinite cells either
        return converted(_tap_by_tap(wide, w, axes, x.shape), dtype)
    planes = np.expand_dims(np.moveaxis(wide, axes, last), -len(axes) - 1)
    y = np.asarray(conv(planes, w.astype(work)[None, None])).squeeze(-len(axes) - 1)
    return converted(np.moveaxis(y, last, axes), dtype)


def _tap_by_tap(wide: Array, w: Array, axes: Sequence[int], shape: tuple[int, ...]) -> Array:
    """The sum over weights that are not 0."""
    total = np.zeros(shape, wide.dtype)
    for place in map(tuple, np.argwhere(w)):
        start = dict(zip(axes, place, strict=True))
        cells = wide[tuple(slice(start.get(a, 0), start.get(a, 0) + n) for a, n in enumerate(shape))]
        total += cells * wide.dtype.type(w[place])
    return total
