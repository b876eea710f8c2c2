"""Other definitions of the same operators: documented conventions and known bugs, by which a
difference can be named.

A *reading* is an operator with one rule changed, computed over float64. If a subject's wrong result
equals the reading's result, the report says "looks like" that reading. A subject may declare
readings as its documented conventions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import dispatch
from ..drawing.window import widened
from ..geometry import Adaptive
from ..ops import AvgPool, Conv, ConvTranspose, SmoothMaxPool
from ..ops.conv import Bilinear
from ..ops.pool import AdaptiveWindow, Average, Maximum, Pool
from . import bounds
from .cases import Case
from .expected import is_half

Array = np.ndarray[Any, Any]


class Taps(NamedTuple):
    """All taps of all output cells, as tables (taps, outputs): the cells' values, their flat
    indices, and the masks of real and of existing taps."""

    x: Array
    place: Array
    real: Array
    exists: Array


class Results(NamedTuple):
    """The results of a reading, under the names of an outcome's parts."""

    value: Array
    jvp: Array
    vjp: tuple[Array, ...]
    """The cotangents of the first operands; a reading may leave out the last ones."""


NOTHING = Results(np.zeros(0), np.zeros(0), ())


@dataclass(frozen=True)
class Reading:
    """An operator's definition with one rule changed: for which operators, and how it is
    computed."""

    name: str
    words: str
    applies: Callable[[Any], bool]
    run: Callable[[Case], Results]
    partly: bool = False
    """Whether the reading also names a result in which every cell is either the reading's or the
    specification's."""


def taps_of(case: Case, geometry: Any = None) -> Taps:
    op: Any = case.op
    found = op.geometry(*(x.shape for x in case.operands)) if geometry is None else geometry
    steps = list(found.block(0, found.outputs).steps())
    place, real, exists = (
        np.stack(t) for t in ([s.place[0] for s in steps], [s.real for s in steps], [s.exists for s in steps])
    )
    return Taps(widened(case.operands[0]).reshape(-1)[place], place, real, exists)


def from_slopes(case: Case, taps: Taps, value: Array, slope: Array) -> Results:
    """JVP and VJP from a table of slopes; a slope of 0 is absent."""
    dx, g = widened(case.tangents[0]).reshape(-1), widened(case.cotangent).reshape(-1)
    moved = np.where(slope != 0, dx[taps.place] * slope, 0).sum(0)
    pulled = np.zeros(case.operands[0].size)
    np.add.at(pulled, taps.place, np.where(slope != 0, g * slope, 0))
    shape = case.cotangent.shape
    return Results(value.reshape(shape), moved.reshape(shape), (pulled.reshape(case.operands[0].shape),))


def maximum(
    ties: str | None = None,
    empty: float = 0.0,
    nan: str = "last",
    pad: str = "skip",
    lowest: float = -np.inf,
    above: float | None = None,
) -> Callable[[Case], Results]:
    """A maximum with other rules: ties first, last, all or split; NaN last, first or dropped;
    padding skipped or 0.

    If `above` is given, only cells greater than `above` have a slope.
    """

    def run(case: Case) -> Results:
        op: Any = case.op
        taps = taps_of(case)
        part = taps.exists if pad == "zero" else taps.real
        x = np.where(taps.real, taps.x, 0.0)
        is_nan = np.isnan(x) & part
        floor = np.where(part & ~is_nan, x, lowest)
        best = floor.max(0, initial=lowest)
        tied = part & ~is_nan & (x == best) & (True if above is None else x > above)
        if nan != "drop":
            any_nan = is_nan.any(0)
            best, tied = np.where(any_nan, np.nan, best), np.where(any_nan, is_nan, tied)
        best = np.where(part.any(0), best, empty)
        rule = op.ties if ties is None else ties
        slope = _shares(tied, rule, np.asarray(is_nan.any(0) & (nan == "last") & (rule == "first")))
        return from_slopes(case, taps, best, np.where(taps.real, slope, 0))

    return run


def _shares(tied: Array, rule: str, last: Array) -> Array:
    if rule == "all":
        return np.asarray(tied * 1.0)
    if rule == "split":
        return np.asarray(tied / np.maximum(tied.sum(0), 1))
    first = tied & (tied.cumsum(0) == 1)
    final = tied & (tied[::-1].cumsum(0)[::-1] == 1)
    chosen: Array = np.where(last | (rule == "last"), final, first) * 1.0
    return chosen


def average(divide: Callable[[Any, Taps], Array], slopes: str = "real") -> Callable[[Case], Results]:
    """An average with another divisor, or with slopes at the taps of another mask of `Taps`."""

    def run(case: Case) -> Results:
        taps = taps_of(case)
        divisor = np.maximum(np.abs(divide(case.op, taps)), 1) * np.sign(divide(case.op, taps) + 0.5)
        value = np.where(taps.real, taps.x, 0).sum(0) / divisor
        return from_slopes(case, taps, value, getattr(taps, slopes) / divisor)

    return run


def _counts(op: Any, taps: Taps, flipped: bool = False) -> Array:
    return np.asarray((taps.exists if op.count_include_pad != flipped else taps.real).sum(0))


def disjoint(case: Case) -> Results:
    """Adaptive pooling whose bins do not overlap: each bin ends at floor((o+1)*n/m)."""
    op: Any = case.op
    taps, sizes = taps_of(case), tuple(case.operands[0].shape[p] for p in op.positions(case.operands[0].shape))
    if any(axis.length > axis.size for axis in op.spatial(sizes) if isinstance(axis, Adaptive)):
        return NOTHING
    kept = taps.real.copy()
    coordinates = np.unravel_index(taps.place, case.operands[0].shape)
    outputs = np.unravel_index(np.arange(taps.place.shape[1]), case.cotangent.shape)
    for p, axis, n in zip(op.positions(case.operands[0].shape), op.spatial(sizes), sizes, strict=True):
        stop = (outputs[p] + 1) * n // max(axis.length, 1)
        kept &= coordinates[p] < stop
    bins = taps._replace(real=kept, exists=kept)
    if isinstance(op, Average):
        count = np.maximum(kept.sum(0), 1)
        return from_slopes(case, bins, np.where(kept, taps.x, 0).sum(0) / count, kept / count)
    floor = np.where(kept, taps.x, -np.inf)
    best = floor.max(0)
    return from_slopes(case, bins, best, _shares(kept & (floor == best), op.ties, np.zeros(best.shape, bool)))


def flipped(case: Case) -> Results:
    """Convolution with the kernel flipped."""
    op: Any = case.op
    x, weight, *bias = map(widened, case.operands)
    dx, moved, *bias_moved = map(widened, case.tangents)
    turn = (slice(None), slice(None), *(slice(None, None, -1) for _ in op.kernel_size))
    value, pushed = op.jvp((x, weight[turn], *bias), (dx, moved[turn], *bias_moved))
    return Results(value, pushed, op.vjp((x, weight[turn], *bias), widened(case.cotangent))[:1])


def multiplied(case: Case) -> Results:
    """Convolution that multiplies padding by the weights, or transposed convolution that does so
    with cropped cells: 0 times an infinite weight is NaN."""
    op: Any = case.op
    if isinstance(op, ConvTranspose):
        return cropped(case)
    x, weight, *bias = map(widened, case.operands)
    dx, moved, *bias_moved = map(widened, case.tangents)
    sizes = x.shape[x.ndim - len(op.kernel_size) :]
    spatial = [(axis.before, axis.after) for axis, _ in op.sliding(sizes)]
    around = [(0, 0)] * (x.ndim - len(spatial)) + spatial
    plain = Conv(op.kernel_size, stride=op.stride, dilation=op.dilation, groups=op.groups)
    padded = (np.pad(x, around), weight, *bias)
    value, pushed = plain.jvp(padded, (np.pad(dx, around), moved, *bias_moved))
    pulled, *others = plain.vjp(padded, widened(case.cotangent))
    inside = tuple(slice(a, pulled.shape[i] - b) for i, (a, b) in enumerate(around))
    return Results(value, pushed, (pulled[inside], *others))


def cropped(case: Case) -> Results:
    """Transposed convolution computed as a convolution of its input with zeros between and around
    the cells.

    The VJP is computed without the crop: cropped cotangents are zeros, which are multiplied by the
    weights.
    """
    op: Any = case.op
    operands, tangents = tuple(map(widened, case.operands)), tuple(map(widened, case.tangents))
    whole = dataclasses.replace(op, padding=0, output_padding=0)
    arriving, rank = widened(case.cotangent), len(op.kernel_size)
    lengths = whole.output_shape(*(x.shape for x in operands))
    around = [(0, 0)] * (arriving.ndim - rank) + [(before, 0) for before, _ in op.padding]
    arriving = np.pad(arriving, around)[tuple(slice(n) for n in lengths)]
    arriving = np.pad(arriving, [(0, n - m) for n, m in zip(lengths, arriving.shape, strict=True)])
    plain = Conv(op.kernel_size, dilation=op.dilation, groups=op.groups)
    value, pushed = plain.jvp(_spread(op, operands), _spread(op, tangents))
    return Results(value, pushed, whole.vjp(operands, arriving))


def _spread(op: Any, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """The operands of the convolution that equals a transposed one: the input dilated by the stride
    and padded, the kernel flipped."""
    x, weight, *bias = operands
    rank, groups = len(op.kernel_size), op.groups
    batch, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    spread: Any = np.zeros((*batch, *((n - 1) * s + 1 for n, s in zip(sizes, op.stride, strict=True))))
    spread[(..., *(slice(None, None, s) for s in op.stride))] = x
    around = [
        (d * (k - 1) - a, d * (k - 1) - b + extra)
        for k, d, (a, b), extra in zip(op.kernel_size, op.dilation, op.padding, op.output_padding, strict=True)
    ]
    spread = np.pad(spread, [(0, 0)] * len(batch) + [(max(a, 0), max(b, 0)) for a, b in around])
    lengths = spread.shape[len(batch) :]
    spread = spread[(..., *(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(around, lengths, strict=True)))]
    turned: Any = np.flip(weight, tuple(range(2, 2 + rank)))
    turned = turned.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).swapaxes(1, 2)
    return (spread, turned.reshape(-1, *turned.shape[2:]), *bias)


def flushed(case: Case) -> Results:
    """The specification, with subnormal operands replaced by 0."""
    op: Any = case.op
    operands = tuple(_flush(widened(x), x.dtype) for x in case.operands)
    value, pushed = op.jvp(operands, tuple(map(widened, case.tangents)))
    value = _flush(value, case.operands[0].dtype)
    return Results(value, pushed, op.vjp(operands, widened(case.cotangent)))


def _flush(x: Array, dtype: np.dtype[Any]) -> Array:
    """The array with numbers that are subnormal in a dtype replaced by 0."""
    least = float(np.finfo(np.float32 if dtype.itemsize == 4 else np.float64).tiny)
    return np.where(np.abs(x) < least, 0, x)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda op: isinstance(op, kinds)


LOWEST = float(np.finfo(np.float32).min)

FLUSHED = Reading("subnormals flushed", "subnormal numbers count as 0", lambda op: True, flushed)

READINGS = [
    Reading(
        "empty window is -inf",
        "a window without a real cell is -inf: padding is -inf, not absent",
        _is(Maximum),
        maximum(empty=-np.inf),
    ),
    Reading(
        "-inf never wins",
        "a window of -inf alone has no maximal cell: the search starts at -inf and takes greater cells only",
        _is(Maximum),
        maximum(above=-np.inf),
    ),
    Reading(
        "empty window is lowest",
        "a window without a real cell is the lowest float: padding is a number",
        _is(Maximum),
        maximum(empty=LOWEST, lowest=LOWEST),
    ),
    Reading("first ties", "the first maximal cell takes the slope", _is(Maximum), maximum(ties="first")),
    Reading("split ties", "tied cells share the slope", _is(Maximum), maximum(ties="split")),
    Reading("all ties", "every tied cell takes the whole slope", _is(Maximum), maximum(ties="all")),
    Reading("last ties", "the last maximal cell takes the slope", _is(Maximum), maximum(ties="last")),
    Reading(
        "NaN dropped", "NaN is ignored where the window has a number", _is(Maximum), maximum(nan="drop", empty=-np.inf)
    ),
    Reading(
        "NaN dropped, lowest",
        "NaN is ignored, and a window of NaN alone gives the lowest float",
        _is(Maximum),
        maximum(nan="drop", empty=LOWEST, lowest=LOWEST),
    ),
    Reading("first NaN", "the first NaN takes the slope", _is(Maximum), maximum(nan="first")),
    Reading("zero padding", "padding counts as the value 0", _is(Maximum), maximum(pad="zero")),
    Reading(
        "count_include_pad flipped",
        "padding is counted where it should not be, or the reverse",
        _is(AvgPool),
        average(partial(_counts, flipped=True)),
    ),
    Reading(
        "taps beyond the padding counted",
        "with ceil_mode the divisor is the whole kernel",
        _is(AvgPool),
        average(lambda op, taps: np.full(taps.real.shape[1], taps.real.shape[0])),
    ),
    Reading("divisor_override ignored", "the divisor is the count", _is(AvgPool), average(_counts)),
    Reading("disjoint bins", "adaptive bins do not overlap", _is(AdaptiveWindow), disjoint),
    Reading(
        "padding is multiplied",
        "padding is the number 0 and is multiplied by the weights: 0 times infinity is NaN",
        _is(Conv, ConvTranspose),
        multiplied,
        partly=True,
    ),
    FLUSHED,
    Reading("flipped kernel", "the kernel is flipped: convolution, not cross-correlation", _is(Conv), flipped),
]
"""The first reading that fits names a difference, so documented conventions precede bugs."""

SIGN = Reading(
    "sign of zero", "tied zeros give +0.0 (IEEE 754 maximum), not the bits of the first", _is(Maximum), maximum()
)
STEPWISE = Reading(
    "rounded at every step",
    "half-float sums are rounded after every addition: within the bound of the half type, not of one final rounding",
    _is(Average, Bilinear),
    lambda case: NOTHING,
)


NAMES = tuple(reading.name for reading in (*READINGS, SIGN, STEPWISE))
"""The names that a subject may list as its conventions."""


def stepwise(case: Case, part: str, result: Array) -> bool:
    """Whether a result is within the bound of sums rounded to the operands' half type after each
    step."""
    op: Any = case.op
    dtype = case.operands[0].dtype
    groups = [tuple(map(widened, arrays)) for arrays in (case.operands, case.tangents, (case.cotangent, result))]
    if not (STEPWISE.applies(op) and is_half(dtype) and all(np.isfinite(a).all() for g in groups for a in g)):
        return False
    (operands, tangents, (arriving, found)), slots = groups, [slot.name for slot in op.slots]
    kind, _, slot = part.rpartition(" ")
    try:
        if part == "value":
            return bounds.value(op, operands, dtype).holds(found)
        if part == "JVP":
            return bounds.jvp(op, operands, tangents, dtype).holds(found)
        if kind == "VJP of":
            return bounds.vjp(op, operands, arriving, dtype)[slots.index(slot)].holds(found)
        if kind == "second derivative in" and isinstance(op, Bilinear):
            return bounds.vjp(op, tangents, arriving, dtype)[slots.index(slot)].holds(found)
    except ArithmeticError:  # more terms than the half type can count
        pass
    return False


def recognise(case: Case, part: str, got: Any, expected: Any) -> Reading | None:
    """The reading that gives a subject's wrong result, or None."""
    if isinstance(case.op, SmoothMaxPool) or not isinstance(case.op, Pool | Bilinear):
        return None
    if not part.startswith(("value", "JVP", "VJP of", "second derivative in")):
        return None
    try:
        result = widened(np.asarray(got))
    except (TypeError, ValueError):
        return None
    dtype, right = case.operands[0].dtype, np.asarray(expected)
    if right.shape != result.shape:
        return None
    if np.array_equal(right, result, equal_nan=True):
        return SIGN if part == "value" and isinstance(case.op, Maximum) else None
    for reading in READINGS:
        if reading.applies(case.op):
            try:
                with np.errstate(all="ignore"), dispatch.engine("reference"):
                    wanted = _part(reading.run(case), part, case)
            except (ValueError, IndexError):  # the reading does not apply to this case
                continue
            if wanted.shape != result.shape or _close(right, wanted, dtype).all():
                continue
            # a maximum of cells that all count as 0 may be any of these cells
            seen = _flush(result, dtype) if reading is FLUSHED else result
            fits, right_too = _close(seen, wanted, dtype), _close(result, right, dtype)
            if (fits | (right_too & reading.partly)).all() and not right_too.all():
                return reading
    return STEPWISE if stepwise(case, part, result) else None


def _part(results: Results, part: str, case: Case) -> Array:
    """The part of a reading's results with an outcome's name for it; raises IndexError if there is
    none."""
    if part in ("value", "JVP"):
        return results.value if part == "value" else results.jvp
    kind, _, slot = part.rpartition(" ")
    if kind != "VJP of":
        raise IndexError(part)
    return results.vjp[[s.name for s in case.op.slots].index(slot)]


def _close(got: Array, wanted: Array, dtype: np.dtype[Any]) -> Array:
    """Which cells are equal up to some roundings of the largest cell."""
    finite = wanted[np.isfinite(wanted)]
    slack = 32 * float(2.0 ** (-10 if dtype.itemsize == 2 else -23 if dtype.itemsize == 4 else -52))
    allowed = slack * float(np.abs(finite).max(initial=0)) if dtype.kind != "i" else 0.0
    with np.errstate(all="ignore"):
        return np.asarray((got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (np.abs(got - wanted) <= allowed))
