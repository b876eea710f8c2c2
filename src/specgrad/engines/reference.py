"""The specification as an engine: value and row of every operator over any scalar, in the stated
order of summation.

One accumulator from 0 per output cell, row-major over taps; VJPs accumulate from 0 over outputs in
row-major order. Over float32 scalars this is an executable float32 semantics, bit for bit. Output
cells are done in blocks, which changes no order, so that a value takes bounded extra memory
whatever the kernel; a derivative holds what the rows keep, for max one mask per tap.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..dispatch import write
from ..errors import ScalarError, refusal, shape_words
from ..geometry import Geometry
from ..operator import Operator, Window
from ..scalars import as_indices, as_operand, find_family
from ..scalars.base import Family, Unanswerable
from ..scalars.dual import deepened, depth
from ..scalars.foreign import is_dask
from ..sizes import refuse_result

TAKES = "every operator, over NumPy arrays of every number type, objects of every scalar, and Duals of these"

BLOCK = 1 << 20  # taps that are in memory at once


class Evaluation:
    """An operator together with the operands it is evaluated on: their scalars, their cells and
    their geometry."""

    def __init__(self, op: Operator, operands: Sequence[Any]) -> None:
        self.op = op
        self.names = [slot.name for slot in op.slots[: len(operands)]]
        integer = [slot.integer for slot in op.slots[: len(operands)]]
        arrays = [
            as_indices(op.name, name, operand) if whole else as_operand(op.name, name, operand)
            for name, operand, whole in zip(self.names, operands, integer, strict=True)
        ]
        self.shapes = [tuple(array.shape) for array in arrays]
        self.shape = op.output_shape(*self.shapes)
        refuse_result(
            op.name, self.shape, max((x.dtype.itemsize for x in arrays if isinstance(x, np.ndarray)), default=8)
        )
        numbers = [(name, array) for name, array, whole in zip(self.names, arrays, integer, strict=True) if not whole]
        self.scalars: Family = find_family(op.name, [n for n, _ in numbers], [array for _, array in numbers])
        self.scalars.require(op.name, self.names[0], arrays[0], op.needs)
        self.geometry: Geometry = op.geometry(*self.shapes)
        op.check(arrays)
        self.cells = [
            array.astype(np.intp).reshape(-1) if whole else self.scalars.enter(op.name, name, array)
            for name, array, whole in zip(self.names, arrays, integer, strict=True)
        ]

    def along(self, directions: Sequence[Any]) -> Family:
        """The scalars in which operands and these tangents or cotangents can be computed
        together."""
        return deepened(self.scalars, max(map(depth, directions)))

    @contextlib.contextmanager
    def computing(self, scalars: Family) -> Iterator[None]:
        """The scalars' own context; what such scalars do not answer is refused."""
        with scalars.computing():
            try:
                yield
            except Unanswerable as error:
                shape = shape_words(self.shapes[-1])
                raise refusal(ScalarError, self.op.name, self.names[-1], shape, error.rule, error.remedy) from None

    def windows(self, scalars: Family) -> Iterator[Window]:
        """All output cells, block after block."""
        outputs, step = self.geometry.outputs, max(1, BLOCK // max(1, self.geometry.taps))
        for start in range(0, outputs, step):
            block = self.geometry.block(start, min(start + step, outputs))
            yield Window(scalars, block, self.cells)


def refuses(op: Operator, operands: tuple[Any, ...]) -> str | None:
    is_lazy = any(is_dask(type(operand)) for operand in operands)
    return "it would compute a whole dask array; compute the array first" if is_lazy else None


def keep(op: Operator, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    evaluation = Evaluation(op, operands)
    S = evaluation.scalars
    with evaluation.computing(S):
        blocks = [op.value(S, window) for window in evaluation.windows(S)]
        value = S.leave(S.join([cells for cells, _ in blocks]), evaluation.shape)
    return write(op.name, value, out), (evaluation, [kept for _, kept in blocks])


def recall(op: Operator, operands: tuple[Any, ...]) -> Any:
    """What the derivatives need, without the value where the row keeps nothing of it."""
    if op.keeps:
        return keep(op, operands)[1]
    evaluation = Evaluation(op, operands)
    return evaluation, [None for _ in evaluation.windows(evaluation.scalars)]


def forward(op: Operator, operands: tuple[Any, ...], out: Any = None) -> Any:
    evaluation = Evaluation(op, operands)
    S = evaluation.scalars
    with evaluation.computing(S):
        value = S.leave(S.join([op.value(S, window)[0] for window in evaluation.windows(S)]), evaluation.shape)
    return write(op.name, value, out)


def push(op: Operator, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    evaluation, blocks = kept
    given = [
        t if t is None else as_operand(op.name, f"tangent of {n}", t)
        for n, t in zip(evaluation.names, tangents, strict=True)
    ]
    S = evaluation.along(given)
    moved = [
        t if t is None else S.enter(op.name, f"tangent of {n}", t) for n, t in zip(evaluation.names, given, strict=True)
    ]
    total = []
    with evaluation.computing(S):
        for window, kept_block in zip(evaluation.windows(S), blocks, strict=True):
            tangent = S.zeros(window.size)
            for entry in op.row(S, window, kept_block):
                if moved[entry.slot] is not None and op.slots[entry.slot].differentiable:
                    tangent = tangent + entry.apply(S, S.take(moved[entry.slot], entry.place))
            total.append(tangent)
        value = S.leave(S.join(total), evaluation.shape)
    return write(op.name, value, out)


def pull(
    op: Operator,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
) -> tuple[Any, ...]:
    evaluation, blocks = kept
    wanted = wanted or (True,) * len(operands)
    given = as_operand(op.name, "cotangent", cotangent)
    S = evaluation.along([given])
    cells = S.enter(op.name, "cotangent", given)
    reached = [s for s in range(len(operands)) if op.slots[s].differentiable and wanted[s]]
    pulled = {s: S.zeros(math.prod(evaluation.shapes[s])) for s in reached}
    start = 0
    with evaluation.computing(S):
        for window, kept_block in zip(evaluation.windows(S), blocks, strict=True):
            arriving = S.take(cells, np.arange(start, start + window.size))
            start += window.size
            entries = [entry for entry in op.row(S, window, kept_block) if entry.slot in pulled]
            for slot, target in pulled.items():
                own = [entry for entry in entries if entry.slot == slot]
                if own:
                    places = np.stack([entry.place for entry in own], axis=-1).reshape(-1)
                    pulled[slot] = S.add_at(target, places, S.interleave([entry.apply(S, arriving) for entry in own]))
        return tuple(S.leave(pulled[s], shape) if s in pulled else None for s, shape in enumerate(evaluation.shapes))


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    """The value, and the flat index of the first winner in its spatial plane (-1 where no cell is
    real)."""
    value, (evaluation, blocks) = keep(op, operands)
    if not evaluation.scalars.decides:
        rule, remedy = "the winner is not decided over such scalars", "leave return_indices out"
        raise refusal(ScalarError, op.name, evaluation.names[0], operands[0], rule, remedy)
    winners = [op.winners(w, k) for w, k in zip(evaluation.windows(evaluation.scalars), blocks, strict=True)]
    flat = np.concatenate([np.zeros(0, np.int64), *winners])
    (shape,), positions = evaluation.shapes, op.positions(*evaluation.shapes)
    # along one axis only: of long arrays whose last axis has one cell, NumPy's coordinates are
    # wrong (numpy/numpy#31980)
    places = np.unravel_index(np.maximum(flat, 0), shape) if shape else ()
    plane = np.zeros_like(flat)
    for p in positions:
        plane = plane * shape[p] + places[p]
    return write(op.name, value, out), np.where(flat < 0, -1, plane).reshape(evaluation.shape)
