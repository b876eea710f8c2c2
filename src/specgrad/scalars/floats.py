"""NumPy's own numbers: executable IEEE semantics in the stated order, wrapping integers, complex
pairs.

float16 and bfloat16 are computed in float32 and rounded once at the end, everywhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ScalarError, refusal
from .base import Cells, Family, Mask, Number, alike, is_tensor, quotient, unlike

_ORDER = ("complex numbers have no order", "pool the real and imaginary parts apart")
_CONVOLVED = (
    "of windows of complex numbers only convolution is defined",
    "average the real and imaginary parts apart, or convolve with a weight of 1/n",
)
LACKS = {
    "f": {},
    "g": {"erf": ("long doubles have no erf", "cast first, e.g. x.astype(np.float64), or use mpmath.mpf elements")},
    "i": {"division": ("integers do not divide", "cast first, e.g. x.astype(np.float64)")},
    "c": {"real": _ORDER, "reals": _CONVOLVED},
}


def admitted(dtype: np.dtype[Any], name: str, argument: str, array: Any) -> npt.NDArray[Any]:
    """An array among numbers of this dtype: converted to it where that loses nothing, else
    refused."""
    if type(array) is np.ndarray and array.dtype == dtype:
        return array
    if is_tensor(array):
        raise refusal(ScalarError, name, argument, array, *unlike("Tensor", dtype.name))
    given = np.asarray(array)
    if given.dtype.kind in "Ob" or not np.can_cast(given.dtype, dtype, "safe"):
        raise refusal(ScalarError, name, argument, array, *unlike(given.dtype.name, dtype.name))
    return given.astype(dtype, copy=False)


class Numbers(Family):
    """Arrays of one NumPy number type."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.rounds = dtype.itemsize == 2 and dtype.kind in "fV"
        self.computed = np.dtype(np.float32) if self.rounds else dtype
        self.lacks = LACKS[
            "i" if dtype.kind in "iu" else "c" if dtype.kind == "c" else "g" if dtype.char == "g" else "f"
        ]

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        return admitted(self.dtype, name, argument, array).astype(self.computed).reshape(-1)

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        return cells.astype(self.dtype).reshape(shape)

    def holds(self, number: Number) -> bool:
        try:
            with np.errstate(all="ignore"):
                held = self.constant(number)
        except (OverflowError, ValueError):  # the latter for integers too long to be read
            return False
        return bool(np.isfinite(held) and held != 0)

    def constant(self, number: Any) -> Cells:
        if isinstance(number, np.ndarray):
            return number.astype(self.computed)
        if self.computed.char in "gG" and not isinstance(number, float):  # the long ones, which hold more than a float
            number = quotient(Fraction(number), np.longdouble)
        elif self.computed.kind == "f":
            number = float(number)
        return np.asarray(number, dtype=self.computed)

    def is_nan(self, a: Cells) -> Mask:
        return np.isnan(a) if self.dtype.kind not in "iu" else np.zeros(np.shape(a), np.bool_)


class ObjectFloats(Numbers):
    """Object arrays of Python's or NumPy's floats: computed as an array of that float, returned as
    objects."""

    def __init__(self, kind: type) -> None:
        super().__init__(np.dtype(kind))
        self.kind = kind

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        return super().enter(name, argument, alike(self.kind, name, argument, array).astype(self.dtype))

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        objects = np.empty(cells.shape, object)
        objects[:] = [self.kind(cell) for cell in cells]
        return objects.reshape(shape)


def normal(kind: type) -> type | None:
    """NumPy's float types, when they stand as elements of an object array."""
    if issubclass(kind, float):  # np.float64 is Python's float
        return float
    return kind if issubclass(kind, np.floating) or kind.__name__ == "bfloat16" else None


def family(kind: Any) -> Family:
    return Numbers(kind) if isinstance(kind, np.dtype) else ObjectFloats(kind)
