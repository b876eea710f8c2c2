"""A case: an operator, operands of small integers that fit it, and a direction for each
derivative."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..operator import Operator

Arrays = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True, eq=False)
class Case:
    """An operator, operands of small integers that fit it, and directions: tangents and a
    cotangent."""

    op: Operator
    operands: Arrays
    tangents: Arrays
    cotangent: np.ndarray[Any, Any]

    def over(self, scalar: Callable[[int], Any] | np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """Operands, tangents and cotangent as scalars. Operands of labels stay integers, with the
        tangent None."""
        whole = [slot.integer for slot in self.op.slots[: len(self.operands)]]
        return (
            tuple(x if w else as_scalars(x, scalar) for x, w in zip(self.operands, whole, strict=True)),
            tuple(None if w else as_scalars(t, scalar) for t, w in zip(self.tangents, whole, strict=True)),
            as_scalars(self.cotangent, scalar),
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"np.array({a.tolist()}).reshape({a.shape})" for a in self.operands)
        return f"{self.op!r} on ({arrays},)"


def cotangents(op: Operator, operands: Arrays) -> np.ndarray[Any, Any]:
    """A positive cotangent of the output, with distinct cells if the output has at most 13."""
    shape = op.output_shape(*(x.shape for x in operands))
    return np.asarray(1 + np.arange(math.prod(shape)).reshape(shape) % 13, operands[0].dtype)


def as_scalars(array: np.ndarray[Any, Any], scalar: Callable[[int], Any] | np.dtype[Any]) -> Any:
    """An integer array with each element converted, by a dtype or by a function of one integer."""
    if isinstance(scalar, np.dtype):
        return array.astype(scalar)
    made = np.empty(array.size, object)
    made[:] = [scalar(element) for element in array.reshape(-1).tolist()]
    return made.reshape(array.shape)


def bfloat16() -> dict[str, Any]:
    """NumPy's name for bfloat16 and its type, if ml_dtypes is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return {}
    return {"bfloat16": ml_dtypes.bfloat16}


WHOLE = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4])
"""The values of operand cells: few, so that ties are likely; the simplest first."""


@functools.cache
def some_bytes(count: int) -> st.SearchStrategy[bytes]:
    """`count` bytes as one choice of Hypothesis: one choice per cell would take longer than most
    tests."""
    return st.binary(min_size=count, max_size=count)


def integers(draw: st.DrawFn, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array of this shape with cells from `WHOLE`."""
    chosen = np.frombuffer(draw(some_bytes(math.prod(shape))), np.uint8)
    return WHOLE[chosen % len(WHOLE)].reshape(shape)


Domain = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def anything(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x


def nonzero(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.where(x == 0, 5, x))


def positive(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.abs(x) + 1)


@st.composite
def case_of(
    draw: st.DrawFn, op: Operator, shapes: Sequence[tuple[int, ...]], domains: Sequence[Domain] = (anything,)
) -> Case:
    """Operands, tangents and a cotangent for an operator. `domains` has a domain per operand; the
    last domain serves all further operands."""
    known = (*domains, *[domains[-1]] * len(shapes))
    operands = tuple(domain(integers(draw, shape)) for shape, domain in zip(shapes, known, strict=False))
    tangents = tuple(integers(draw, shape) for shape in shapes)
    return Case(op, operands, tangents, integers(draw, op.output_shape(*shapes)))
