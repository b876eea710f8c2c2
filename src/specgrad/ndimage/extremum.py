"""Maximum and minimum filters: boxes, footprints of any form, and structures.

A box is one sliding window of the engine over all axes. Any other footprint is a union of runs
along its last axis: a sliding window per length of a run, and the maximum of these, shifted.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..functional import max_pool, min_pool
from . import arguments
from .arguments import Array, FilterError, FilterTypeError, Line, converted, delivered, line, unfiltered
from .edges import extended, needs_no_edge, outside, saturated

SLAB = 1 << 18
"""Cells of the parts in which footprints are evaluated, so that a part stays in cache."""


def maximum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """Maximum over a box (`size`) or a footprint, as `scipy.ndimage.maximum_filter`."""
    return extremum("maximum_filter", input, size, footprint, None, output, mode, cval, origin, axes)


def minimum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Array:
    """Minimum over a box (`size`) or a footprint, as `scipy.ndimage.minimum_filter`."""
    return extremum("minimum_filter", input, size, footprint, None, output, mode, cval, origin, axes, lowest=True)


def maximum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Array:
    """Maximum of `size` cells along an axis, as `scipy.ndimage.maximum_filter1d`."""
    return _along("maximum_filter1d", input, size, axis, output, mode, cval, origin, lowest=False)


def minimum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Array:
    """Minimum of `size` cells along an axis, as `scipy.ndimage.minimum_filter1d`."""
    return _along("minimum_filter1d", input, size, axis, output, mode, cval, origin, lowest=True)


def _along(
    name: str, input: Any, size: Any, axis: Any, output: Any, mode: Any, cval: Any, origin: Any, lowest: bool
) -> Array:
    x = arguments.image(name, input)
    window = line(name, arguments.axis_of(name, "axis", axis, x.ndim), size, mode, origin)
    dtype = arguments.output_dtype(name, output, x)
    return delivered(box(x, [window], arguments.real_number(name, "cval", cval), dtype, lowest), output)


def extremum(
    name: str,
    input: Any,
    size: Any,
    footprint: Any,
    structure: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    *,
    lowest: bool = False,
    mirrored: bool = False,
) -> Array:
    """The filter of all names: `lowest` is a minimum, `mirrored` turns the window round."""
    if size is not None and footprint is not None:
        warnings.warn("ignoring size because footprint is set", UserWarning, stacklevel=3)
    x = arguments.image(name, input)
    dtype = arguments.output_dtype(name, output, x)
    places = arguments.filtered_axes(name, axes, x.ndim)
    weights = None if structure is None else _structure(name, structure, len(places))
    marks = None if footprint is None else _footprint(name, footprint, len(places))
    if marks is None and weights is not None:
        marks = np.ones(weights.shape, np.bool_)
    if weights is not None and marks is not None and weights.shape != marks.shape:
        rule = f"structure array has incorrect shape: the footprint has {marks.shape}"
        raise refusal(FilterError, name, "structure", structure, rule, "give both one shape")
    if marks is None and size is None:
        raise refusal(FilterError, name, "footprint", None, "no footprint provided", "give size or footprint")
    sizes = arguments.one_each(name, "size", size, len(places)) if marks is None else list(marks.shape)
    origins = arguments.one_each(name, "origin", origin, len(places))
    if mirrored:
        origins = [arguments.mirrored_origin(name, o, s) for o, s in zip(origins, sizes, strict=True)]
        marks, weights = (None if a is None else np.flip(a) for a in (marks, weights))
    is_box = weights is None and (marks is None or bool(marks.all()))
    if not is_box and not isinstance(mode, str):
        rule = "a sequence of modes is not supported for non-separable footprints"
        raise refusal(FilterError, name, "mode", mode, rule, "write one mode")
    if not is_box:
        places, origins = arguments.in_array_order(places, origins, x.ndim)
    windows = arguments.lines(name, places, sizes, mode, origins, is_box)
    fill = arguments.real_number(name, "cval", cval)
    if is_box:
        return delivered(box(x, windows, fill, dtype, lowest), output)
    assert marks is not None
    return delivered(converted(_by_footprint(x, windows, marks, weights, fill, lowest), dtype), output)


def _footprint(name: str, footprint: Any, rank: int) -> Array:
    given = arguments.array_of(name, "footprint", footprint)
    if given.dtype.kind not in "biufcO":
        raise refusal(FilterTypeError, name, "footprint", given, "must hold bools", "mark cells by True")
    marks = given.astype(np.bool_)
    if marks.ndim != rank or 0 in marks.shape:
        rule = f"footprint.ndim ({marks.ndim}) must match len(axes) ({rank})"
        rule += ": each sequence argument must have length equal to input rank"
        raise refusal(FilterError, name, "footprint", marks, rule, "give it one length per filtered axis")
    if not marks.any():
        raise refusal(ArgumentError, name, "footprint", marks, "all-zero footprint is not supported", "mark a cell")
    return marks


def _structure(name: str, structure: Any, rank: int) -> Array:
    weights = arguments.array_of(name, "structure", structure)
    if weights.dtype.kind not in "biuf":
        raise refusal(FilterTypeError, name, "structure", weights, "must hold real numbers", "cast first")
    if weights.ndim != rank or 0 in weights.shape:
        rule = f"structure array has incorrect shape: {rank} axes are filtered"
        raise refusal(FilterError, name, "structure", weights, rule, "give it one length per filtered axis")
    return weights.astype(np.float64)


def box(x: Array, lines: Sequence[Line], cval: float, dtype: np.dtype[Any], lowest: bool) -> Array:
    """The extremum over a product of lines, in the output's dtype.

    SciPy filters axis by axis: it compares in float64 and casts each step to the output's dtype.
    That is one window over all axes where the cast changes neither cells nor `cval`.
    """
    lines = [each for each in lines if each.size > 1]
    if not lines or not x.size:
        return unfiltered(x, dtype)
    holds = _holds(x.dtype, cval, x.dtype == dtype) or all(each.mode != "constant" for each in lines)
    if x.dtype != dtype or not holds:
        first = _window(x if holds else x.astype(np.float64), lines[:1], cval, lowest)
        return box(converted(first, dtype), lines[1:], cval, dtype, lowest)
    return _window(x, lines, cval, lowest)


def _holds(dtype: np.dtype[Any], number: float, whole_part: bool) -> bool:
    """Whether an integer dtype has a number, or (`whole_part`) the number without its fraction."""
    if dtype.kind == "f" or dtype == np.bool_:
        return dtype.kind == "f" or number in (0, 1)
    about = np.iinfo(dtype)
    return bool(about.min - 1 < number < about.max + 1) and (whole_part or number == int(number))


def _window(x: Array, lines: Sequence[Line], cval: float, lowest: bool) -> Array:
    """One sliding window over all lines; cells beyond an edge are made only where they matter."""
    if x.dtype == np.bool_:
        return _window(x.view(np.uint8), lines, cval, lowest).view(np.bool_)
    lines = [saturated(each, x.shape[each.axis]) for each in lines]
    copied = [each for each in lines if each.mode != "constant" and not needs_no_edge(each)]
    wide = extended(x, copied, None)
    kernel = [each.size for each in lines]
    padding = [(0, 0) if each in copied else (each.before, each.after) for each in lines]
    y = pooled(wide, kernel, lowest, stride=1, padding=tuple(padding), axes=tuple(each.axis for each in lines))
    fold = np.minimum if lowest else np.maximum
    for strip in outside(y, [each for each in lines if each.mode == "constant"]):
        fold(strip, y.dtype.type(cval if y.dtype.kind == "f" else int(cval)), out=strip)
    return y


def pooled(x: Array, kernel: Sequence[int], lowest: bool, **window: Any) -> Array:
    """The engine's maximum over windows, or its minimum; cells in the padding take no part."""
    return np.asarray((min_pool if lowest else max_pool)(x, tuple(kernel), **window))


def _by_footprint(
    x: Array, lines: Sequence[Line], marks: Array, weights: Array | None, cval: float, lowest: bool
) -> Array:
    """The extremum over the marked cells, slab by slab along the first axis."""
    if not x.size:
        return x.copy()
    shape, x = x.shape, np.atleast_1d(x)
    cells = x.view(np.uint8) if x.dtype == np.bool_ else x
    wide = extended(cells, lines, converted(np.array(cval), cells.dtype))
    reach = {each.axis: each.size - 1 for each in lines}.get(0, 0)
    rows = max(SLAB // max(math.prod(x.shape[1:]), 1), reach, 1)
    axes = [each.axis for each in lines]
    y = np.empty(x.shape, np.float64 if weights is not None else cells.dtype)
    for start in range(0, len(x), rows):
        slab = slice(start, min(start + rows, len(x)))
        part = wide[slab.start : slab.stop + reach]
        if weights is None:
            _fold_runs(part, axes, marks, lowest, y[slab])
        else:
            y[slab] = _fold_sums(part, axes, marks, weights, lowest, y[slab].shape)
    return (y.view(np.bool_) if x.dtype == np.bool_ and weights is None else y).reshape(shape)


def _fold_runs(part: Array, axes: Sequence[int], marks: Array, lowest: bool, y: Array) -> None:
    """Write the extremum over the footprint's runs: those of one length share a sliding window."""
    fold = np.minimum if lowest else np.maximum
    begun = False
    for length, runs in itertools.groupby(sorted(_runs(marks)), key=lambda run: run[0]):
        lines = part if length == 1 else pooled(part, [length], lowest, stride=1, axes=tuple(axes[-1:]))
        for _, place in runs:
            shifted = lines[_shift(place, axes, y.shape)]
            if begun:
                fold(y, shifted, out=y)
            else:
                y[...], begun = shifted, True


def _runs(marks: Array) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Length and place of each run of marked cells along the last axis."""
    edges = np.diff(np.pad(marks.astype(np.int8), [(0, 0)] * (marks.ndim - 1) + [(1, 1)]))
    for start, stop in zip(np.argwhere(edges == 1), np.argwhere(edges == -1), strict=True):
        yield int(stop[-1] - start[-1]), tuple(map(int, start))


def _shift(place: Sequence[int], axes: Sequence[int], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """What the cells of a result of this shape read at a place of the window."""
    start = dict(zip(axes, place, strict=True))
    return tuple(slice(start.get(axis, 0), start.get(axis, 0) + length) for axis, length in enumerate(shape))


def _fold_sums(
    part: Array, axes: Sequence[int], marks: Array, weights: Array, lowest: bool, shape: tuple[int, ...]
) -> Array:
    """Extremum of cell + weight, or of cell - weight for a minimum.

    As in SciPy the first sum is one of float64. In all others the weight is cast to the input's
    dtype, in which they are added.
    """
    best: Array | None = None
    signed = -weights if lowest else weights
    fitting = converted(signed, part.dtype)
    for place in map(tuple, np.argwhere(marks)):
        cells = part[_shift(place, axes, shape)]
        if best is None:
            best = cells.astype(np.float64) + signed[place]
        else:
            cells = cells + fitting[place]
            wins = cells < best if lowest else cells > best
            np.copyto(best, cells, where=wins | (cells != cells))  # NaN wins, here as everywhere
    assert best is not None
    return best
