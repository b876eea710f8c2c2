"""Maxima with ties "all" and "split" of windows that share no cell, as those of whole planes: tangents and cotangents go to every cell that equals its maximum.

Peak extra memory: the value, and under "split" an array of its size; some rows per thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...geometry import Adaptive, Integers
from ...memory import room
from ...remembering import remembered
from .cells import Array, Kind, see
from .chain import leave, place_for, widened
from .passes import plane_ranges
from .plan import Plan
from .reads import TRIVIAL, forward_reads
from .together import Call

WIDEST = 1 << 16  # cells of a row that is laid out


class Matches(NamedTuple):
    """An operand and its maxima, as kernels take them."""

    plan: Plan
    kind: Kind
    x: Array
    y: Array
    sharers: Array | None
    """How many cells share each maximum, at least 1, under ties="split"."""


class Rows(NamedTuple):
    """What the kernels of `matches` are told, their tasks, and their scratch."""

    told: tuple[Any, ...]
    tasks: Integers
    size: int


@remembered(256)
def rows_of(made: Plan) -> Rows | None:
    """The numbers and tables of these windows; None where they share cells, or rows are too short for vectors or too long to be laid out."""
    inner, reads = made.seen.inner, made.three_reads
    whole = inner == 1 and all(r.length == 1 and r.count[0] == r.size for r in reads)
    if whole:  # a row
        reads = (TRIVIAL, TRIVIAL, forward_reads(Adaptive(made.plane, 1)))
    heads, rows, columns = reads[-3:]
    n = columns.size * inner
    alike = len(reads) <= 3 and all(r.step == 1 or r.most == 1 for r in reads)
    if made.unread is None or not alike or n < made.lanes or (n > WIDEST and not whole):
        return None
    pairs = inner == 1 and columns.taps == columns.stride == 2 and columns.offset == 0 and 2 * columns.length <= n
    ints = np.array([inner, *(r.size for r in (heads, rows, columns)), heads.length, rows.length, pairs, whole])
    lines = made.seen.planes * heads.length * rows.length
    tasks = plane_ranges(lines, made.seen.planes * heads.size * rows.size * n // max(lines, 1))
    tables = [(r.first, r.count.clip(0)) for r in (heads, rows, columns)]
    return Rows((ints, *tables), tasks, 0 if whole else 2 * n + columns.length * inner)


def match(op: Any, x: Array, y: Array) -> Matches | None:
    """What derivatives need of an operand and its value; None where another way is to be taken."""
    made, found, *_ = see(op, x)
    if rows_of(made) is None:
        return None
    maxima = np.array(widened(made, found, y, of_output=True))
    kept = Matches(made, found, widened(made, found, x, of_output=False), maxima, None)
    if op.ties == "all":
        return kept
    sharers = push_matches(kept, None)
    return kept._replace(sharers=np.maximum(sharers, 1, out=sharers))


def push_matches(kept: Matches, moved: Array | None) -> Array:
    """Σ of tangents over tied cells, in shares if they are split, or their number."""
    pushed = room((kept.y.size,), kept.kind.computed)
    run("push_matches", kept, moved, pushed)
    return pushed


def pull_matches(kept: Matches, arriving: Array, out: Array | None) -> Array:
    """The cotangent of its window, at every cell that ties (in `out`, if it lies as the plan does)."""
    made, found = kept.plan, kept.kind
    apart = None if out is None or np.may_share_memory(out, kept.x) else out
    pulled, array = place_for(made, found, apart, of_output=False)
    assert made.unread is not None
    for where in made.unread:
        pulled.reshape(made.seen.planes, *(axis.size for axis in made.axes), made.seen.inner)[where] = 0
    run("pull_matches", kept, arriving, pulled)
    return leave(made, found, pulled, of_output=False) if array is None else array


def run(name: str, kept: Matches, moved: Array | None, result: Array) -> None:
    made, found, x, y, sharers = kept
    call_of(name, made, found, sharers is not None, moved is None)(x, y, sharers, moved, result)


def call_of(name: str, made: Plan, found: Kind, shares: bool, counts: bool) -> Call:
    """The kernel, once it is known: compiled apart for whether there are sharers, and something that is moved."""
    key = name, shares, counts
    known: Call | None = made.calls.get(key)
    if known is None:
        rows = rows_of(made)
        assert rows is not None
        told = (np.array([0, 1], found.computed), *rows.told)
        known = made.calls[key] = Call(f"matches.{name}", told, rows.tasks, ("lines", rows.size, found.computed))
    return known
