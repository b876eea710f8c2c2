"""Affine forms of an operator's output in its operands: sparse rows and a constant, read from the
operator's own row.

All numbers are float64. Every sum has a bound of its rounding error: γ(n) = n u / (1 - n u) times
the sum of absolute values, for n roundings in any order. Lower bounds are rounded down, upper
bounds up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..operator import Operator, Window
from ..scalars import find_family

Floats = npt.NDArray[np.float64]
UNIT = 2.0**-53
SMALL = 2**17  # cells of a matrix; smaller ones are faster dense
TINY = 2.0**-1000  # exceeds the underflow of any sum that fits in memory
LEAST = 2.0**-1074  # exceeds the underflow of one product; that of a weight counts once per unit of its cell
ROOM = 1 + 2.0**-30  # exceeds 1 + the relative error of a sum of up to 2**22 absolute values


def gamma(count: Any, unit: float = UNIT) -> Any:
    """An upper bound of the relative error of `count` roundings."""
    return count * unit / (1 - count * unit) * ROOM


def below(x: Floats, slack: Any = 0.0) -> Floats:
    """x - slack, rounded down."""
    moved: Floats = np.nextafter(x - slack, -np.inf)
    return moved


def above(x: Floats, slack: Any = 0.0) -> Floats:
    """x + slack, rounded up."""
    moved: Floats = np.nextafter(x + slack, np.inf)
    return moved


class Box(NamedTuple):
    """All arrays between `lower` and `upper`, cell by cell."""

    lower: Floats
    upper: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lower.shape

    @property
    def magnitude(self) -> Floats:
        """The largest absolute value of each cell."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    @property
    def is_point(self) -> bool:
        return bool(np.array_equal(self.lower, self.upper))

    def widened(self, slack: Any) -> Box:
        """The box with `slack` on either side, rounded outward; unchanged where the slack is 0."""
        if not np.any(slack):
            return self
        keep = np.broadcast_to(np.equal(slack, 0), self.shape)
        return Box(
            np.where(keep, self.lower, below(self.lower, slack)), np.where(keep, self.upper, above(self.upper, slack))
        )

    def reshaped(self, shape: tuple[int, ...]) -> Box:
        """The box with its cells in another shape."""
        return Box(self.lower.reshape(shape), self.upper.reshape(shape))

    def within(self, other: Box) -> Box:
        """The intersection of both boxes."""
        return Box(np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper))

    @property
    def known(self) -> Box:
        """The box without bounds of cells whose computation overflowed."""
        kept = np.isfinite(self.lower) & np.isfinite(self.upper)
        return Box(np.where(kept, self.lower, -np.inf), np.where(kept, self.upper, np.inf))


def unbounded(shape: tuple[int, ...]) -> Box:
    """All arrays of a shape."""
    return Box(np.full(shape, -np.inf), np.full(shape, np.inf))


@dataclass(frozen=True, eq=False)
class Affine:
    """rows·x + constant, with one sparse matrix (outputs, cells) for each operand in it."""

    rows: dict[int, Any]
    constant: Floats

    @cached_property
    def terms(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The number of terms of each row, with the constant, and whether a weight is neither 1 nor
        -1."""
        terms = np.zeros(self.constant.size, np.int64)
        scaled = np.zeros(self.constant.size, np.bool_)
        for matrix in self.rows.values():
            counts = np.diff(matrix.indptr)
            terms += counts
            foreign = np.abs(matrix.data) != 1
            if foreign.any():
                scaled[np.repeat(np.arange(counts.size), counts)[foreign]] = True
        terms += self.constant != 0
        return terms, scaled

    @cached_property
    def roundings(self) -> npt.NDArray[np.int64]:
        """The number of roundings of each row's sum, in any order: 0 if the row copies one cell."""
        terms, scaled = self.terms
        steps = np.maximum(terms - 1, 0) + scaled
        return np.where(steps > 0, steps + 1, 0)

    @cached_property
    def parts(self) -> dict[int, tuple[Any, Any]]:
        """The positive and the negative weights of each operand."""
        return {slot: (matrix.maximum(0), matrix.minimum(0)) for slot, matrix in self.rows.items()}

    @cached_property
    def light(self) -> dict[int, Any]:
        """The matrix of each operand in the form with the cheapest product: the diagonal of a
        diagonal matrix, an array if small and not mostly 0."""
        return {slot: _light(matrix) for slot, matrix in self.rows.items()}

    @cached_property
    def readers(self) -> int:
        """The largest number of roundings of a column's sum."""
        most = 0
        for matrix in self.rows.values():
            counts = np.bincount(matrix.indices, minlength=1).max(initial=0)
            exact = counts <= 1 and bool(np.all(np.abs(matrix.data) == 1))
            most = max(most, 0 if exact else int(counts) + 2)
        return most

    @cached_property
    def widest(self) -> dict[int, float]:
        """For each operand, an upper bound of the sum of a row's absolute weights, each counted as
        at least 1."""
        found = {}
        for slot, matrix in self.rows.items():
            wide = sparse.csr_array((np.maximum(np.abs(matrix.data), 1), matrix.indices, matrix.indptr), matrix.shape)
            found[slot] = float(np.asarray(wide.sum(axis=1)).max(initial=0.0)) * ROOM
        return found

    @cached_property
    def sizes(self) -> dict[int, Any]:
        """The absolute weights of each operand, in the form of `light`."""
        return {slot: abs(matrix) for slot, matrix in self.light.items()}

    def spread(self, magnitudes: Sequence[Floats]) -> Floats:
        """An upper bound of Σ|terms| of each row without the constant, for operands of these
        magnitudes."""
        total = np.zeros(self.constant.size)
        for slot, matrix in self.sizes.items():
            magnitude = magnitudes[slot].reshape(-1)
            total += matrix * magnitude if matrix.ndim == 1 else matrix @ magnitude
        return total * ROOM

    def image(self, boxes: Sequence[Box]) -> Box:
        """The image of these boxes under the form, rounded outward."""
        lower, upper = self.constant.copy(), self.constant.copy()
        for slot, (positive, negative) in self.parts.items():
            low, high = boxes[slot].lower.reshape(-1), boxes[slot].upper.reshape(-1)
            lower += positive @ low + negative @ high
            upper += positive @ high + negative @ low
        size = self.spread([box.magnitude for box in boxes]) + np.abs(self.constant)
        slack = np.where(self.roundings > 0, gamma(self.roundings) * size + TINY, 0.0)
        return Box(lower, upper).widened(slack)

    def shifted(self, by: Floats) -> Affine:
        """The form with `by` added to its constant; rounding is left to the caller."""
        return Affine(self.rows, self.constant + by)


def _light(matrix: Any) -> Any:
    n = matrix.shape[0]
    square = matrix.shape == (n, n) and matrix.nnz == n and matrix.format == "csr"
    if square and np.array_equal(matrix.indices, np.arange(n)) and np.array_equal(matrix.indptr, np.arange(n + 1)):
        return matrix.data
    cells = math.prod(matrix.shape)
    return matrix.toarray() if cells <= SMALL and matrix.nnz > 0.05 * cells else matrix


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Two affine forms that enclose an operator: below(x) ≤ y ≤ above(x) for all operands in their
    boxes."""

    below: Affine
    above: Affine

    @property
    def is_linear(self) -> bool:
        return self.below is self.above


class Relaxed(NamedTuple):
    """An operator on boxes: the forms that enclose it, its image, and the rounding error of a float
    result.

    A result in floats of unit u differs from the exact one by at most u·roundings, per output;
    roundings is 0 for copied values. All numbers on the way to it are at most `peak`, or at most an
    operand or the image: if floats reach that far, the result does not overflow.
    """

    relaxation: Relaxation
    image: Box
    roundings: Any = 0.0
    peak: Any = 0.0


def diagonal(slopes: Floats) -> Any:
    """A diagonal matrix: the rows of a pointwise operator with these slopes."""
    n = slopes.size
    return sparse.csr_array((slopes.reshape(-1), np.arange(n), np.arange(n + 1)), shape=(n, n))


def matrix(entries: Iterable[tuple[Any, Any, Any]], outputs: int, cells: int) -> Any:
    """A sparse matrix of (output, cell, slope) entries; zero slopes are left out."""
    columns = [tuple(np.broadcast_arrays(*entry)) for entry in entries]
    if not columns:
        return sparse.csr_array((outputs, cells))
    out, place, slope = (np.concatenate([entry[i].reshape(-1) for entry in columns]) for i in range(3))
    held = slope != 0
    return sparse.csr_array((slope[held], (out[held], place[held])), shape=(outputs, cells))


def own_rows(op: Operator, operands: Sequence[Any], slots: Iterable[int]) -> dict[int, Any]:
    """The operator's own row at these operands, one matrix per slot in `slots`: its Jacobian,
    rounded to nearest."""
    shapes = [tuple(np.shape(x)) for x in operands]
    numbers = [(slot.name, x) for slot, x in zip(op.slots, operands, strict=False) if not slot.integer]
    S = find_family(op.name, [name for name, _ in numbers], [x for _, x in numbers])
    geometry = op.geometry(*shapes)
    cells = [
        np.asarray(x).reshape(-1) if slot.integer else S.enter(op.name, slot.name, x)
        for slot, x in zip(op.slots, operands, strict=False)
    ]
    window = Window(S, geometry.block(0, geometry.outputs), cells)
    outputs = np.arange(geometry.outputs)
    entries: dict[int, list[Any]] = {slot: [] for slot in slots}
    with S.computing():
        kept = op.value(S, window)[1] if op.keeps else None
        for entry in op.row(S, window, kept):
            if entry.slot in entries:
                slope = entry.apply(S, np.ones(geometry.outputs))
                entries[entry.slot].append((outputs, entry.place, slope))
    return {slot: matrix(found, geometry.outputs, math.prod(shapes[slot])) for slot, found in entries.items()}
