"""The specification's answer to a case: the exact result of every cell, and the bound of a correct
float result.

Finite cases are computed over Fractions, smooth maxima over Decimals of 50 digits, so that the
answer has no rounding error. For a case with NaN or infinities the answer is the specification over
float64: the same cells of the subject's result must be non-finite, and float64's own bound is added
to the bound of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .. import dispatch
from ..caches import cached_property
from ..drawing.window import widened
from ..ops import ConvTranspose, SmoothMaxPool
from ..ops.pool import Extremum
from ..scalars.dual import Dual
from . import bounds
from .bounds import Judged, finfo
from .cases import Case

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """The expected result: `near` in float64 for printing, `exact` and `bound` as Fractions, and
    `rough`, the mask of non-finite cells."""

    near: Array
    exact: Array
    bound: Array
    rough: Array
    signed: bool = False
    """Whether a zero must have the right sign."""
    judged: dict[Any, Any] = field(default_factory=dict)
    """Results that were compared with this answer, and their outcomes."""

    @property
    def equality(self) -> bool:
        """Whether every bound is 0."""
        return not np.any(self.bound)


def exactly(near: Array, signed: bool = False) -> Answer:
    """An answer with bound 0; with `signed`, the sign of a zero counts too."""
    return replace(_float64(near, np.full(near.shape, Fraction(0), object)), signed=signed)


def _float64(near: Array, bound: Array) -> Answer:
    rough = ~np.isfinite(near)
    return Answer(near, bounds.fractions(np.where(rough, 0, near)), bound, rough)


def _judged(judged: Judged, dtype: np.dtype[Any]) -> Answer:
    exact = np.asarray(judged.exact, object)
    return _finite(exact, _rounded(exact, np.asarray(judged.bound, object), dtype))


def _finite(exact: Array, bound: Array) -> Answer:
    near = np.array([float(f) for f in exact.flat], float).reshape(exact.shape)
    return Answer(near, exact, bound, np.zeros(exact.shape, bool))


def is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


def computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which results of this dtype are computed: float32 for half floats."""
    return np.dtype(np.float32) if is_half(dtype) else dtype if dtype.kind == "f" else np.dtype(np.float64)


def _rounded(exact: Array, bound: Array, dtype: np.dtype[Any]) -> Array:
    """The bound, plus one final rounding for half types; 0 for integers."""
    if dtype.kind in "iu":
        return np.full(exact.shape, Fraction(0), object)
    if not is_half(dtype) or not exact.size:
        return bound
    unit, least = Fraction(2) ** -(finfo(dtype).nmant + 1), Fraction(float(finfo(dtype).smallest_subnormal)) / 2
    return np.asarray((np.abs(exact) + bound) * unit + bound + least, object)


class Answers:
    """All answers to one case, each computed at first use."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = case.operands[0].dtype
        groups = (*case.operands, *case.tangents, case.cotangent)
        self.special = not all(np.isfinite(widened(a)).all() for a in groups)
        self.whole = self.dtype.kind in "iu"
        self.adjoints: dict[Any, Any] = {}
        """Pairs of derivatives whose inner products were compared, and the outcomes."""

    @cached_property
    def value(self) -> Answer:
        op, operands = self.case.op, self._operands
        if self.whole:
            return exactly(np.asarray(_reference(op, tuple(x.astype(np.int64) for x in operands)), float))
        if isinstance(op, Extremum) or self.special:
            near = _reference(op, operands)
            return exactly(near, signed=True) if isinstance(op, Extremum) else self._loose(near, "value")
        if isinstance(op, SmoothMaxPool):
            return _judged(self._smooth[0], self.dtype)
        return _judged(bounds.value(op, self._wide), self.dtype)

    @cached_property
    def jvp(self) -> Answer:
        op = self.case.op
        if self.special:
            with dispatch.engine("reference"):
                near = op.jvp(self._operands, self._tangents)[1]
            return exactly(near) if self._moves else self._loose(near, "jvp")
        if isinstance(op, SmoothMaxPool):
            return _judged(self._smooth[1], self.dtype)
        judged = bounds.jvp(op, self._wide, self._wide_tangents)
        if self._moves:
            judged = Judged(judged.exact, np.full(np.shape(judged.exact), Fraction(0), object))
        return _judged(judged, self.dtype)

    @cached_property
    def vjp(self) -> list[Answer]:
        op = self.case.op
        if self.special:
            with dispatch.engine("reference"):
                pulled = op.vjp(self._operands, widened(self.case.cotangent))
            return [self._loose(near, "vjp", s) for s, near in enumerate(pulled)]
        if isinstance(op, SmoothMaxPool):
            return [_judged(self._smooth[2], self.dtype)]
        return [_judged(j, self.dtype) for j in bounds.vjp(op, self._wide, self._wide_cotangent)]

    @cached_property
    def witness(self) -> Answer:
        """The JVP from Dual numbers in `value` alone, with the bound of the JVP; needs finite
        operands."""
        op = self.case.op
        make = bounds.decimals if isinstance(op, SmoothMaxPool) else bounds.fractions
        duals = [
            Dual(make(widened(x)), make(widened(t)))
            for x, t in zip(self.case.operands, self.case.tangents, strict=True)
        ]
        with dispatch.engine("reference"):
            exact = bounds.fractions(op(*duals).tangent)
        return _finite(exact, self.jvp.bound)

    @cached_property
    def second(self) -> list[Answer]:
        """The derivatives of the operands' cotangents along the tangents, with a constant
        cotangent."""
        return [
            _judged(j, self.dtype)
            for j in bounds.second(self.case.op, self._wide, self._wide_tangents, self._wide_cotangent)
        ]

    @cached_property
    def aspect(self) -> str:
        """The claim for which the case counts: "NaN", "infinity", "ties", "padding", or "" for none
        of these."""
        arrays = [widened(a) for a in (*self.case.operands, *self.case.tangents, self.case.cotangent)]
        if any(np.isnan(a).any() for a in arrays):
            return "NaN"
        if any(np.isinf(a).any() for a in arrays):
            return "infinity"
        if isinstance(self.case.op, Extremum) and self._ties():
            return "ties"
        return "padding" if self._pads() else ""

    def _ties(self) -> bool:
        (x,) = self._operands
        op: Any = self.case.op
        every: Any = replace(op, ties="all")
        with dispatch.engine("reference"):
            _, sharers = every.jvp((x,), (np.ones(x.shape),))
        return bool((sharers > 1).any())

    def _pads(self) -> bool:
        op: Any = self.case.op
        if op.name == ConvTranspose.name:
            return any(any(pair) for pair in op.padding)
        geometry = op.geometry(*(x.shape for x in self.case.operands))
        sliding = hasattr(op, "kernel_size")
        return any(((step.exists | sliding) & ~step.real).any() for step in geometry.block(0, geometry.outputs).steps())

    @property
    def _moves(self) -> bool:
        """Whether the JVP copies cells without arithmetic: a maximum with one winner."""
        return isinstance(self.case.op, Extremum) and self.case.op.ties == "first"

    @cached_property
    def _operands(self) -> tuple[Array, ...]:
        return tuple(widened(x) for x in self.case.operands)

    @cached_property
    def _tangents(self) -> tuple[Array, ...]:
        return tuple(widened(x) for x in self.case.tangents)

    @cached_property
    def _wide(self) -> tuple[Array, ...]:
        return tuple(_wide(x, self.dtype) for x in self.case.operands)

    @cached_property
    def _wide_tangents(self) -> tuple[Array, ...]:
        return tuple(_wide(x, self.dtype) for x in self.case.tangents)

    @cached_property
    def _wide_cotangent(self) -> Array:
        return _wide(self.case.cotangent, self.dtype)

    @cached_property
    def _smooth(self) -> tuple[Judged, Judged, Judged]:
        op: Any = self.case.op
        return bounds.smooth(op, self._wide[0], self._wide_tangents[0], self._wide_cotangent)

    def _loose(self, near: Array, what: str, slot: int = 0) -> Answer:
        """float64's result as the answer, with the sum of its own bound and the subject's, over
        operands whose non-finite cells are replaced by 1."""
        op: Any = self.case.op
        operands = tuple(map(_tamed, self.case.operands))
        if isinstance(op, Extremum):  # all cells tied: an upper bound of the terms, whichever cells win
            op, operands = replace(op, ties="all"), tuple(np.zeros_like(x) for x in operands)
        answer: Any = getattr(
            Answers(Case(op, operands, tuple(map(_tamed, self.case.tangents)), _tamed(self.case.cotangent))), what
        )
        bound = (answer[slot] if what == "vjp" else answer).bound
        return _float64(near, np.asarray(bound * 2, object))


def _tamed(array: Array) -> Array:
    wide = widened(array)
    return np.where(np.isfinite(wide), wide, 1).astype(array.dtype)


def _wide(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array in the dtype in which it is computed."""
    return np.asarray(array).astype(computed(dtype))


def _reference(op: Any, operands: tuple[Array, ...]) -> Array:
    with dispatch.engine("reference"):
        return np.asarray(op(*operands))
