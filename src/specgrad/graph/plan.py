"""Which memory each value of a compiled graph has: buffers shared by values that are never needed
at the same time.

A value lives from the step that computes it to the last step that reads it. One pass over the steps
gives each value the smallest free buffer that holds it, or lets it take the place of an operand
that dies there, where the operator says that this is legal. Inputs, constants and outputs are not
in the plan: they belong to the caller or to the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Shape = tuple[int, ...]


class Use(NamedTuple):
    """What the plan must know of a step: the values it writes and reads, and the operands it may
    write over."""

    writes: tuple[int, ...]
    reads: tuple[int, ...]
    over: tuple[int, ...] = ()
    alias: int | None = None
    """The value of which the one written is another view, so that nothing is computed."""


@dataclass
class Plan:
    """Buffers by their number of cells, and the buffer of each planned value; `str` of a plan is a
    report."""

    itemsize: int
    buffers: list[int] = field(default_factory=list)
    buffer_of: dict[int, int] = field(default_factory=dict)
    in_place: int = 0
    values: int = 0
    cells: int = 0

    @property
    def peak_bytes(self) -> int:
        """The memory of all buffers together."""
        return self.itemsize * sum(self.buffers)

    @property
    def total_bytes(self) -> int:
        """What the planned values would take if each had memory of its own."""
        return self.itemsize * self.cells

    def __str__(self) -> str:
        return (
            f"{self.values} values in {len(self.buffers)} buffers, {self.in_place} written in place: "
            f"{self.peak_bytes} bytes instead of {self.total_bytes}"
        )


def planned(uses: Sequence[Use], shapes: Sequence[Shape], outside: Iterable[int], itemsize: int) -> Plan:
    """The plan for these steps; values in `outside` have memory already."""
    plan, elsewhere = Plan(itemsize), set(outside)
    root: dict[int, int] = {}
    for use in uses:  # a view lives in the memory of what it is a view of
        if use.alias is not None:
            root[use.writes[0]] = root.get(use.alias, use.alias)
    last: dict[int, int] = {}
    for step, use in enumerate(uses):
        for value in (*use.reads, *use.writes):
            last[root.get(value, value)] = step
    free: list[int] = []
    for step, use in enumerate(uses):
        dying = {root.get(v, v) for v in use.reads if last[root.get(v, v)] == step}
        for value in use.writes:
            if value in elsewhere:
                continue
            size = math.prod(shapes[value])
            plan.values += 1
            plan.cells += size
            if value in root:
                if root[value] not in elsewhere:
                    plan.buffer_of[value] = plan.buffer_of[root[value]]
                plan.in_place += 1
                continue
            taken = next((v for v in use.over if v in dying and v in plan.buffer_of and v not in root), None)
            if taken is not None:
                dying.discard(taken)
                plan.buffer_of[value] = plan.buffer_of[taken]
                plan.in_place += 1
                continue
            plan.buffer_of[value] = _taken(plan, free, size)
        for value in dying | {v for v in use.writes if last[root.get(v, v)] == step and v not in root}:
            if value in plan.buffer_of:
                free.append(plan.buffer_of[value])
    return plan


def _taken(plan: Plan, free: list[int], size: int) -> int:
    """A buffer of at least this size: the smallest free one that holds it, the largest free one
    made larger, or a new one."""
    if not free:
        plan.buffers.append(size)
        return len(plan.buffers) - 1
    fitting = [b for b in free if plan.buffers[b] >= size]
    chosen = min(fitting, key=lambda b: plan.buffers[b]) if fitting else max(free, key=lambda b: plan.buffers[b])
    plan.buffers[chosen] = max(plan.buffers[chosen], size)
    free.remove(chosen)
    return chosen
