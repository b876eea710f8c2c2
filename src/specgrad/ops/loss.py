"""Losses: one number for a whole batch. The operands are read as a whole, sample by sample, and
summed in row-major order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import Geometry, Shape, each
from ..operator import Entry, Operator, Slot, Window, checked_shapes, operator
from ..scalars.base import Cells, Family


@operator
class Loss(Operator):
    """One output cell that reads all cells of all operands."""

    def output_shape(self, *shapes: Shape) -> Shape:
        if math.prod(shapes[0]) == 0:
            rule = "the mean of no cell is not a number"
            raise refusal(
                ShapeError, self.name, self.slots[0].name, shape_words(shapes[0]), rule, "drop the empty batch"
            )
        return ()

    def geometry(self, *shapes: Shape) -> Geometry:
        self.output_shape(*shapes)
        return Geometry((each(1, *(0 for _ in shapes)),), (0,))

    @staticmethod
    def mean(S: Family, cells: Cells) -> Cells:
        """The sum of the cells from the first to the last, over their number."""
        total, count = S.zeros(1), cells.shape[0]
        for n in range(count):
            total = total + S.take(cells, np.array([n]))
        return S.divide(total, S.constant(count))


@operator
class CrossEntropy(Loss):
    """Mean over the batch of log Σ_c exp(logits_c) - logits_label, for logits (*batch, classes) and
    integer labels (*batch,).

    The slope in a logit is (softmax - 1) / batch for the label's logit, and softmax / batch for the
    others. The computation does not overflow: exponents are shifted by the maximum. Domain: scalars
    with exp and log. Labels are integers from 0 to classes - 1 for every scalar type, and have no
    derivative.

    >>> import numpy as np
    >>> CrossEntropy()(np.zeros((2, 4)), np.array([3, 0])).round(6)
    np.float64(1.386294)
    """

    name: ClassVar = "cross_entropy"
    slots: ClassVar = (Slot("logits"), Slot("integer_labels", differentiable=False, integer=True))
    needs: ClassVar = ("real", "division", "exp")

    def output_shape(self, *shapes: Shape) -> Shape:
        logits, labels = checked_shapes(self, shapes)
        if not logits:
            rule = "has no axis of classes"
            raise refusal(ShapeError, self.name, "logits", shape_words(logits), rule, "give logits (*batch, classes)")
        if labels != logits[:-1]:
            rule = f"must have shape {logits[:-1]}: one label per row of logits"
            raise refusal(ShapeError, self.name, "integer_labels", shape_words(labels), rule, "give labels (*batch,)")
        return super().output_shape(*shapes)

    def check(self, operands: Sequence[Any]) -> None:
        classes = operands[0].shape[-1]
        labels = np.asarray(operands[1])
        wrong = labels[(labels < 0) | (labels >= classes)]
        if wrong.size:
            rule = f"is not one of {classes} classes"
            remedy = f"write labels from 0 to {classes - 1}"
            raise refusal(ArgumentError, self.name, "integer_labels", int(wrong.flat[0]), rule, remedy)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        logits, labels = window.operands
        columns = self._columns(S, logits, labels)
        pivot = columns[0]
        for cells in columns[1:]:
            pivot = S.where(S.either(S.gt(cells, pivot), S.is_nan(cells)), cells, pivot)
        pivot, total, own = S.pivot(pivot), S.zeros(labels.size), S.zeros(labels.size)
        for c, cells in enumerate(columns):
            total = total + S.exp(cells - pivot)
            own = S.where(labels == c, cells, own)
        return self.mean(S, S.log(total) - (own - pivot)), (pivot, total)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        logits, labels = window.operands
        pivot, total = kept
        columns = self._columns(S, logits, labels)
        count = S.constant(labels.size)
        slopes = []
        for c, cells in enumerate(columns):
            weight = S.divide(S.exp(cells - pivot), total)
            slopes.append(weight - S.where(labels == c, S.constant(1), S.constant(0)))
        for n in range(labels.size):
            for c, slope in enumerate(slopes):
                times = S.take(slope, np.array([n]))
                yield Entry(0, np.array([n * len(columns) + c]), window.everywhere, times, count)

    @staticmethod
    def _columns(S: Family, logits: Cells, labels: Any) -> list[Cells]:
        """The logits of each class, for all samples."""
        classes = logits.shape[0] // labels.size
        return [S.take(logits, np.arange(labels.size) * classes + c) for c in range(classes)]


@operator
class MseLoss(Loss):
    """Mean over all cells of (prediction - target)²; both operands have slopes, ±2 (prediction -
    target) / count.

    Domain: scalars that divide. The shapes must be equal; there is no broadcasting.

    >>> import numpy as np
    >>> MseLoss()(np.array([1.0, 3.0]), np.array([0.0, 0.0]))
    array(5.)
    """

    name: ClassVar = "mse_loss"
    slots: ClassVar = (Slot("prediction"), Slot("target"))
    needs: ClassVar = ("division",)
    keeps: ClassVar = False

    def output_shape(self, *shapes: Shape) -> Shape:
        prediction, target = checked_shapes(self, shapes)
        if prediction != target:
            rule = f"must have shape {prediction}, as the prediction"
            raise refusal(ShapeError, self.name, "target", shape_words(target), rule, "reshape or broadcast it first")
        return super().output_shape(*shapes)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        gap = window.operands[0] - window.operands[1]
        return self.mean(S, gap * gap), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        gap = window.operands[0] - window.operands[1]
        count = S.constant(gap.shape[0])
        for sign, slot in ((2, 0), (-2, 1)):
            twice = gap * S.constant(sign)
            for n in range(gap.shape[0]):
                yield Entry(slot, np.array([n]), window.everywhere, S.take(twice, np.array([n])), count)
