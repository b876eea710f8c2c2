"""The steps of a compiled graph: one call of an engine each, with what is kept shared between a
value and its derivatives.

A forward step whose operator keeps something for its row hands it to the pullbacks of the same
operator on the same operands, and the pullbacks of one cotangent into several operands are one
step, as they are one call of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dispatch
from ..derive import Derived, ShapeOnly, VJPOf, placeholder
from ..operator import Operator
from .ir import GraphBase, Node
from .plan import Use

Shape = tuple[int, ...]
Values = list[Any]
Memories = dict[int, Any]


class Step:
    """A value computed by its operator."""

    def __init__(self, node: Node, graph: GraphBase, is_output: bool) -> None:
        self.op: Operator = node.op
        self.writes = [node.index]
        self.reads = list(node.operands)
        self.shapes = [graph.nodes[index].shape for index in node.operands]
        self.shape = node.shape
        self.alias = self.op.alias and not is_output
        self.kept_for: list[DerivedStep] = []
        self.engine: Any = None

    @property
    def run_by(self) -> tuple[Operator, list[Shape]]:
        """The operator that an engine must take, and the shapes of its operands."""
        return self.op, self.shapes

    def use(self) -> Use:
        """What the plan must know."""
        if self.alias:
            return Use(tuple(self.writes), tuple(self.reads), alias=self.reads[0])
        legal = self.op.pointwise and not self.kept_for
        over = (index for index, shape in zip(self.reads, self.shapes, strict=True) if shape == self.shape)
        return Use(tuple(self.writes), tuple(self.reads), tuple(over) if legal else ())

    def run(self, values: Values, memories: Memories) -> None:
        (index,) = self.writes
        operands = tuple(values[p] for p in self.reads)
        if self.alias:
            if values[index] is None:  # a view of memory that the plan does not own
                values[index] = operands[0].reshape(self.shape)
        elif self.kept_for:
            kept = dispatch.keep_into(self.engine, self.op, operands, values[index])
            memories[index] = dispatch.Memory(self.engine, kept)
        elif self.engine is None:
            values[index][...] = self.op.evaluate(operands)  # type: ignore[attr-defined]
        else:
            self.engine.forward(self.op, operands, values[index])

    def __str__(self) -> str:
        kept = f", keeps for {len(self.kept_for)}" if self.kept_for else ""
        return f"{self.op!r}{kept}" if not self.alias else f"{self.op!r}, a view"


class DerivedStep(Step):
    """First derivatives of one operator on the same operands: a tangent, or the cotangents of one
    or more operands."""

    def __init__(self, node: Node, graph: GraphBase, is_output: bool) -> None:
        super().__init__(node, graph, is_output)
        self.derivative: Derived = node.op
        own, self.seed, directions = self.derivative.parts(node.operands)
        self.own: list[int | None] = [None if isinstance(x, ShapeOnly) else x for x in own]
        self.base_shapes = list(self.derivative.base_shapes([graph.nodes[index].shape for index in node.operands]))
        self.direction = directions[0] if directions else ()
        self.slots = [node.op.slot] if isinstance(node.op, VJPOf) else []
        self.source: int | None = None
        self.is_last = False
        self.stands: list[Any] = []  # over objects the scalar is only known when it runs

    @property
    def run_by(self) -> tuple[Operator, list[Shape]]:
        return self.derivative.base, self.base_shapes

    def agrees(self, operands: Sequence[int | None]) -> bool:
        """Whether these operands of the base operator are ours, where both are given."""
        return len(operands) == len(self.own) and all(
            a is None or b is None or a == b for a, b in zip(self.own, operands, strict=True)
        )

    def adopt(self, operands: Sequence[int | None], *also: int) -> None:
        """Read these operands too."""
        self.own = [a if a is not None else b for a, b in zip(self.own, operands, strict=True)]
        self.reads = list(dict.fromkeys([*self.reads, *(p for p in operands if p is not None), *also]))

    def use(self) -> Use:
        if len(self.writes) == 1 and self.source is None:
            return super().use()
        return Use(tuple(self.writes), tuple(self.reads))

    def stand_ins(self, example: Any) -> list[Any]:
        """Operands whose numbers do not matter."""
        return [
            placeholder(shape, example) if p is None else None
            for p, shape in zip(self.own, self.base_shapes, strict=True)
        ]

    def run(self, values: Values, memories: Memories) -> None:
        base = self.derivative.base
        stands = self.stands or self.stand_ins(values[self.reads[-1]])
        operands = tuple(s if p is None else values[p] for p, s in zip(self.own, stands, strict=True))
        if self.source is None:
            memory = dispatch.recall(base, operands, self.engine)
        else:
            memory = memories.pop(self.source) if self.is_last else memories[self.source]
        if not self.slots:
            tangents = tuple(None if p is None else values[p] for p in self.direction)
            dispatch.push_into(memory, base, operands, tangents, values[self.writes[0]])
            return
        written = dict(zip(self.slots, self.writes, strict=True))
        out = tuple(values[written[s]] if s in written else None for s in range(len(operands)))
        dispatch.pull_into(memory, base, operands, values[self.seed[0]], out)

    def __str__(self) -> str:
        parts = [self.derivative.base.slots[slot].name for slot in self.slots]
        what = f"pull of {', '.join(parts)}" if parts else "push"
        return f"{what} through {self.derivative.base!r}" + (", from what was kept" if self.source is not None else "")


def scheduled(graph: GraphBase) -> list[Step]:
    """The steps of a graph in order, derivatives that are one call of an engine being one step."""
    steps: list[Step] = []
    forwards: dict[Any, list[Step]] = {}
    pulls: dict[Any, list[tuple[int, DerivedStep]]] = {}
    outputs = set(graph.outputs)
    for node in graph.nodes:
        if node.op is None:
            continue
        if not isinstance(node.op, Derived) or not node.op.is_first:
            step = Step(node, graph, node.index in outputs)
            steps.append(step)
            forwards.setdefault((node.op, tuple(step.shapes)), []).append(step)
            continue
        made = DerivedStep(node, graph, node.index in outputs)
        base = node.op.base
        if made.slots:
            group = pulls.setdefault((base, tuple(made.base_shapes), made.seed), [])
            earlier = [(at, other) for at, other in group if other.agrees(made.own) and max(made.reads) < at]
            if earlier:
                other = earlier[0][1]
                other.adopt(made.own)
                other.writes.append(node.index)
                other.slots += made.slots
                continue
            group.append((node.index, made))
        for source in forwards.get((base, tuple(made.base_shapes)), []) if base.keeps else []:
            if made.agrees(source.reads):
                made.adopt(source.reads, *source.writes)
                made.source = source.writes[0]
                source.kept_for.append(made)
                break
        steps.append(made)
    for step in steps:
        for reader in step.kept_for[-1:]:
            reader.is_last = True
    return steps
