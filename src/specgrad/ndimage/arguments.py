"""What a caller may write for each argument of an image filter, and its normal form.

A refusal is also the kind of exception that SciPy raises for the same mistake, so that code which
catches SciPy's errors catches these.
"""

from __future__ import annotations

import numbers
import operator
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..dispatch import cells_overlap
from ..errors import ArgumentError, ScalarError, refusal
from ..scalars import refuse_masked

Array = npt.NDArray[Any]

MODES = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "nearest": "nearest",
    "mirror": "mirror",
    "wrap": "wrap",
    "constant": "constant",
    "grid-wrap": "wrap",
    "grid-constant": "constant",
}


class FilterError(ArgumentError, RuntimeError):
    """An argument that SciPy refuses with a RuntimeError."""


class FilterTypeError(ScalarError, TypeError):
    """An array that SciPy refuses with a TypeError."""


class FilterAxisError(ArgumentError, np.exceptions.AxisError):
    """An axis that the array does not have."""


class Line(NamedTuple):
    """A window along one axis: its reach before and after its cell, and the boundary mode."""

    axis: int
    before: int
    after: int
    mode: str

    @property
    def size(self) -> int:
        return self.before + self.after + 1


def image(name: str, given: Any, *, complex_too: bool = False, argument: str = "input") -> Array:
    """An array of a dtype that SciPy filters, in this machine's order of bytes."""
    x = array_of(name, argument, given)
    if x.dtype.kind == "c" and not complex_too:
        raise refusal(FilterTypeError, name, argument, x, "complex type not supported", "filter x.real and x.imag")
    if x.dtype.kind not in "biufc" or x.dtype.name in ("float16", "longdouble", "float128", "clongdouble"):
        rule, remedy = f"data type not supported: {x.dtype}", "cast first, e.g. x.astype(np.float32)"
        raise refusal(FilterError if x.dtype.kind in "fc" else FilterTypeError, name, argument, x, rule, remedy)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def array_of(name: str, argument: str, given: Any) -> Array:
    """What NumPy makes of an array or of nested sequences, all of one length."""
    refuse_masked(name, argument, given)
    try:
        return np.asarray(given)
    except ValueError:
        raise refusal(ArgumentError, name, argument, given, "has rows of several lengths", "give an array") from None


def real_number(name: str, argument: str, value: Any) -> float:
    """A real number, infinities and NaN included."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real | np.bool_):
        rule, remedy = f"must be a real number, got {type(value).__name__}", "write a number"
        raise refusal(FilterTypeError, name, argument, value, rule, remedy)
    return float(value)


def filtered_axes(name: str, axes: Any, rank: int) -> tuple[int, ...]:
    """`axes` counted from 0; None means all axes."""
    if axes is None:
        return tuple(range(rank))
    entries = list(axes) if np.iterable(axes) else [axes]
    places = tuple(axis_of(name, "axes", entry, rank) for entry in entries)
    if len(set(places)) != len(places):
        raise refusal(ArgumentError, name, "axes", axes, "axes must be unique", "name each axis once")
    return places


def axis_of(name: str, argument: str, value: Any, rank: int) -> int:
    """An axis of an array of this rank, counted from 0."""
    try:
        axis = operator.index(value)
    except TypeError:
        rule = f"{type(value).__name__} cannot be interpreted as an integer"
        raise refusal(FilterTypeError, name, argument, value, rule, "write a whole number") from None
    if not -rank <= axis < rank:
        rule = f"specified axis: {axis} is out of range for {rank} axes"
        remedy = f"write an axis from {-rank} to {rank - 1}" if rank else "give an array that has axes"
        raise refusal(FilterAxisError, name, argument, value, rule, remedy)
    return axis % rank


def one_each(name: str, argument: str, value: Any, count: int) -> list[Any]:
    """One entry per filtered axis, from a single value or a sequence."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    entries = list(value)
    if len(entries) != count:
        rule = f"sequence argument must have length equal to input rank, or to the number of axes: {count}"
        raise refusal(FilterError, name, argument, value, rule, "give one value, or one per axis")
    return entries


def mode_of(name: str, value: Any) -> str:
    """The rule for cells beyond the edge, by one of its names."""
    if not isinstance(value, str) or value not in MODES:
        remedy = "choose from " + ", ".join(MODES)
        raise refusal(FilterError, name, "mode", value, "boundary mode not supported", remedy)
    return MODES[value]


def lines(name: str, places: Sequence[int], sizes: Any, modes: Any, origins: Any, separable: bool = True) -> list[Line]:
    """The windows along several axes. Where axes are filtered one by one, one of size 0 or 1 is
    left as it is, whatever its origin, as in SciPy."""
    each = [one_each(name, word, v, len(places)) for word, v in (("size", sizes), ("mode", modes), ("origin", origins))]
    found = []
    for axis, size, mode, origin in zip(places, *each, strict=True):
        is_left = separable and isinstance(size, int | np.integer) and not isinstance(size, bool) and size in (0, 1)
        found.append(line(name, axis, 1 if is_left else size, mode, 0 if is_left else origin))
    return found


def line(name: str, axis: int, size: Any, mode: Any, origin: Any, argument: str = "size") -> Line:
    """The window of a size and an origin; an origin > 0 moves the window to smaller indices."""
    length = arguments.integer(name, argument, size, None)
    if length < 1:
        raise refusal(FilterError, name, argument, size, "incorrect filter size", "write a size of at least 1", axis)
    shift = arguments.integer(name, "origin", origin, None)
    before = length // 2 + shift
    if not 0 <= before < length:
        rule = "invalid origin: the window must contain the cell itself"
        remedy = f"write an origin from {-(length // 2)} to {(length - 1) // 2}"
        raise refusal(ArgumentError, name, "origin", origin, rule, remedy, axis)
    return Line(axis, before, length - 1 - before, mode_of(name, mode))


def mirrored_origin(name: str, origin: Any, size: Any) -> int:
    """The origin of the window that is turned round at its centre."""
    shift = arguments.integer(name, "origin", origin, None)
    return -shift - (arguments.integer(name, "size", size, None) % 2 == 0)


def in_array_order(places: tuple[int, ...], origins: list[Any], rank: int) -> tuple[tuple[int, ...], list[Any]]:
    """The axes that the axes of a footprint, or of weights, stand for, and their origins.

    As in SciPy these are the filtered axes in rising order, whatever the order of `axes`. Origins
    follow `axes`, unless all axes are filtered.
    """
    if len(places) == rank:
        return tuple(range(rank)), origins
    return tuple(sorted(places)), [origin for _, origin in sorted(zip(places, origins, strict=True))]


def output_dtype(name: str, output: Any, x: Array) -> np.dtype[Any]:
    """The dtype of the result; `output` is None, a dtype, its name, or the array to write into."""
    complex_result = x.dtype.kind == "c"
    if output is None:
        return x.dtype
    if isinstance(output, type | np.dtype | str):
        try:
            dtype = np.dtype(output)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in "biufc":
            raise refusal(FilterError, name, "output", output, "output must have numeric dtype", "name a number type")
        if complex_result and dtype.kind != "c" and not isinstance(output, str):
            warnings.warn("promoting specified output dtype to complex", UserWarning, stacklevel=4)
            dtype = np.promote_types(dtype, np.complex64)
    else:
        refuse_masked(name, "output", output)
        if not isinstance(output, np.ndarray):
            rule = f"must be a dtype or an array of NumPy, got {type(output).__name__}"
            raise refusal(FilterError, name, "output", output, rule, "give np.empty(input.shape)")
        if output.shape != x.shape:
            raise refusal(FilterError, name, "output", output, "output shape not correct", f"make it {x.shape}")
        if not output.flags.writeable:
            raise refusal(ArgumentError, name, "output", output, "is read-only", "give an array that can be written")
        if cells_overlap(output):
            rule, remedy = "has cells that share memory", "give np.empty(input.shape)"
            raise refusal(ArgumentError, name, "output", output, rule, remedy)
        dtype = output.dtype
    if complex_result and dtype.kind != "c":
        raise refusal(FilterError, name, "output", output, "output must have complex dtype", "name a complex type")
    if (dtype.kind == "c" and not complex_result) or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise refusal(FilterError, name, "output", output, "data type not supported", "name float32 or float64")
    return dtype


def delivered(result: Array, output: Any) -> Array:
    """The result, written into `output` where that is an array."""
    if not isinstance(output, np.ndarray):
        return result
    if output is not result:
        output[...] = result
    return output


def unfiltered(x: Array, dtype: np.dtype[Any]) -> Array:
    """A copy of an array that no window changes, cast as NumPy casts, which is SciPy's way too."""
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(dtype)


def converted(y: Array, dtype: np.dtype[Any]) -> Array:
    """The cells as C casts them: towards zero, and modulo the range of an unsigned type."""
    if y.dtype == dtype:
        return y
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype == np.bool_:
            return converted(y, np.dtype(np.uint8)).view(np.bool_)
        if y.dtype.kind != "f" or dtype.kind != "u":
            return y.astype(dtype)
        whole = y.astype(np.int64).astype(dtype)
        return whole if dtype.itemsize < 8 else np.where(y < 2.0**63, whole, y.astype(dtype))
