"""Windows one axis after the other, through memory, for kernels that are too large for one call.

Codes of a maximum compose: a code of the last axes counts their taps, and each further axis
multiplies by that number. All windows won by the same cell of an earlier pass have the same winner
in that cell, so the VJP needs only the codes. Intermediate results have the dtype of the
computation, so that half floats are rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...geometry import Sliding
from .. import reduction
from . import cotangents, launch, tiles
from .plan import Plan, taps_of
from .program import Program
from .tiles import code_type, computed, one_depth
from .tuned import TUNE

TOGETHER = 2
"""The most taps along depth that are reduced in the same call as rows and columns."""


def dense(made: Plan, outer: int, rows: Sliding, columns: Sliding, inner: int) -> Plan:
    """A plan of rows and columns of a dense array. Columns without reduction are merged with the
    inner batch."""
    if columns.kernel == columns.stride == 1 and columns.length == columns.size:
        columns, inner = still(columns.size * inner), 1
    steps = (rows.size * columns.size * inner, 0, 1, columns.size * inner, inner, 1)
    return replace(
        made, copies=False, outer=outer, groups=1, inner=inner, steps=steps, depth=(), rows=rows, columns=columns,
        given=(outer, rows.size, columns.size, inner), lengths=(outer, rows.length, columns.length, inner),
        made={"whole": made.made.get("whole", made.whole)},
    )  # fmt: skip


def still(length: int) -> Sliding:
    """An axis without reduction."""
    return Sliding(length, 1)


def depth_first(made: Plan, kind: str) -> tuple[Plan, Plan] | None:
    """Plans that reduce rows and columns, and then depth; None if one call does both, or if the
    axes do not allow two."""
    if "depth first" not in made.made:
        axis, found = one_depth(made), None
        simple = made.groups == 1 and made.whole and (reduction(made.op) == "max" or tiles.divisor(made)[0] == "all")
        if axis is not None and axis.kernel > TOGETHER and simple:
            outer, _, depth, row, column, inner = made.steps
            plane = made.rows.length * made.columns.length
            flat = replace(
                made, outer=made.outer * axis.size, groups=axis.size, steps=(outer, depth, 1, row, column, inner),
                depth=(), lengths=(made.outer * axis.size, plane, made.inner), made={"divisor": ("all", 1)},
            )  # fmt: skip
            deep = dense(made, made.outer, axis, still(plane), made.inner)
            deep.made["divisor"] = tiles.divisor(made)
            found = flat, deep
        made.made["depth first"] = found
    plans: tuple[Plan, Plan] | None = made.made["depth first"]
    return None if tiles.streams_depth(made, kind) else plans


def columns_first(made: Plan, kind: str) -> tuple[Plan, Plan] | None:
    """Plans that reduce columns, and then rows; None if one call does both, or if the axes do not
    allow two."""
    if "columns first" not in made.made:
        rows, columns, found = made.rows, made.columns, None
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        simple = made.whole and (reduction(made.op) == "max" or tiles.divisor(made)[0] == "all")
        if not made.depth and min(rows.kernel, columns.kernel) > 1 and simple:
            if made.inner > 1 and lies_dense(made):
                across = dense(made, made.outer * rows.size, columns, still(made.inner), 1)
                across.made["divisor"] = "all", 1
            else:
                across = replace(
                    made, rows=still(rows.size), lengths=(made.outer, rows.size * columns.length, made.inner),
                    made={"divisor": ("all", 1)},
                )  # fmt: skip
            down = dense(made, made.outer, rows, still(columns.length), made.inner)
            down.made["divisor"] = tiles.divisor(made)
            found = across, down
        made.made["columns first"] = found
    plans: tuple[Plan, Plan] | None = made.made["columns first"]
    inner = kind == "winners" and made.inner > 1 and lies_dense(made)
    return plans if made.columns.kernel > TUNE["one call inner" if inner else "one call"] else None  # type: ignore[union-attr]


def lies_dense(made: Plan) -> bool:
    """Whether an operand has the layout of results."""
    outer, _, _, row, column, inner = made.steps
    across = made.columns.size * made.inner
    found = (row, column, inner) == (across, made.inner, 1) and outer in (0, made.rows.size * across)
    return found and made.groups == 1


def fold(program: Program, made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Launch a maximum, its winners or a sum of sliding windows."""
    plans = depth_first(made, kind) if made.depth else columns_first(made, kind)
    if plans is None:
        launch.fold(program, made, kind, x, y, kept)
        return
    one, other = plans
    between = program.between(one.lengths, computed(x.dtype) if kind == "sum" else x.dtype)
    if kind != "winners":
        fold(program, one, kind, x, between, ())
        launch.fold(program, other, kind, between, y, ())
        return
    taps = taps_of(one.rows) * taps_of(one.columns)
    low = program.between(one.lengths, code_type(taps))
    fold(program, one, kind, x, between, (low,))
    launch.fold(program, other, kind, between, y, kept, low, taps)


def readers_of(axis: Any) -> int:
    """The number of windows of a sliding axis that read a cell."""
    return -(-int(axis.kernel) // int(axis.stride))


def depth_last(made: Plan) -> tuple[Plan, Plan] | None:
    """Plans that spread along depth, and then along rows and columns; None if one call does
    both."""
    if "depth last" not in made.made:
        axis, found = one_depth(made), None
        if axis is not None and readers_of(axis) > 1:
            deep = dense(made, made.outer, axis, still(made.rows.length * made.columns.length), made.inner)
            deep.made["divisor"] = tiles.divisor(made)
            rows, columns = made.rows, made.columns
            assert isinstance(rows, Sliding)
            assert isinstance(columns, Sliding)
            flat = dense(made, made.outer * axis.size, rows, columns, made.inner)
            flat.made["divisor"] = "all", 1
            hand_on(deep, flat)
            found = deep, flat
        made.made["depth last"] = found
    plans: tuple[Plan, Plan] | None = made.made["depth last"]
    return plans


def mirrored(axis: Any) -> Sliding | None:
    """The axis whose windows are the readers of this axis's cells; None if there is none."""
    before, after = axis.kernel - 1 - axis.before, axis.kernel - 1 - axis.after
    if axis.stride > 1 or min(before, after) < 0:
        return None
    found = Sliding(axis.length, axis.kernel, 1, before, after)
    return found if found.length == axis.size else None


def turned(made: Plan) -> Plan | None:
    """A plan whose sums are the cotangents of this plan, for stride 1; None if there is none."""
    if "turned" not in made.made:
        rows, columns, found = mirrored(made.rows), mirrored(made.columns), None
        if rows is not None and columns is not None and not made.depth and tiles.divisor(made)[0] == "all":
            found = dense(made, made.outer, rows, columns, made.inner)
            found.made["divisor"] = tiles.divisor(made)
        elif rows is not None and columns is not None and tiles.streams_depth(made, "sum"):
            depth, plane = mirrored(made.depth[0]), rows.size * columns.size * made.inner
            if depth is not None and tiles.divisor(made)[0] == "all":
                steps = (depth.size * plane, 0, plane, columns.size * made.inner, made.inner, 1)
                found = replace(
                    made, copies=False, groups=1, steps=steps, depth=(depth,), rows=rows, columns=columns,
                    given=made.lengths, lengths=made.given, made={"divisor": tiles.divisor(made)},
                )  # fmt: skip
        made.made["turned"] = found
    plan: Plan | None = made.made["turned"]
    return plan


def spread_sum(program: Program, made: Plan, gy: Any, gx: Any) -> None:
    """Launch the cotangents of an average with one divisor."""
    around = turned(made)
    if around is not None:
        fold(program, around, "sum", gy, gx, ())
        return
    plans = depth_last(made) if made.depth else None
    if plans is None:
        cotangents.spread(program, made, "sum", gy, gx)
        return
    deep, flat = plans
    between = program.between(deep.given, computed(gy.dtype))
    spread_sum(program, deep, gy, between)
    spread_sum(program, flat, between, gx)


def spread_maximum(program: Program, made: Plan, gy: Any, gx: Any, codes: Any) -> None:
    """Launch the cotangents of the first winners of sliding windows."""
    rows, columns = made.rows, made.columns
    assert isinstance(rows, Sliding)
    assert isinstance(columns, Sliding)
    flat_readers = readers_of(rows) * readers_of(columns)
    plans = depth_last(made) if made.depth else None
    if plans is not None and flat_readers * readers_of(made.depth[0]) > TUNE["matches deep"]:
        deep, flat = plans
        gy, codes = along(program, deep, gy, codes, rows.kernel * columns.kernel)
        spread_maximum(program, flat, gy, gx, codes)
        return
    many = flat_readers > TUNE["matches flat"] and not made.depth
    held = tiles.whole_planes(made, "first", gy.element_size())
    if many and held is None and tiles.crossing(made, gx.element_size()) is None:
        if "axes" not in made.made:
            made.made["axes"] = (
                dense(made, made.outer, rows, still(columns.length), made.inner),
                dense(made, made.outer, still(rows.size), columns, 1)
                if made.inner == 1
                else dense(made, made.outer * rows.size, columns, still(made.inner), 1),
            )
            hand_on(*made.made["axes"])
        down, across = made.made["axes"]
        gy, codes = along(program, down, gy, codes, columns.kernel)
        cotangents.spread(program, across, "first", gy, gx, codes)
        return
    cotangents.spread(program, made, "first", gy, gx, codes)


def hand_on(one: Plan, other: Plan) -> None:
    """Mark the cells of one plan as the windows of the other: cells without a winner are neither
    written nor read."""
    one.made["sparse"], other.made["whole"] = True, False


def along(program: Program, made: Plan, gy: Any, codes: Any, low_taps: int) -> tuple[Any, Any]:
    """Spread along the rows of a plan; returns cotangents, and the codes of the other axes."""
    shape = (made.outer, made.rows.size, made.columns.size, made.inner)
    between = program.between(shape, computed(gy.dtype))
    low = program.between(shape, code_type(low_taps))
    cotangents.spread(program, made, "first", gy, between, codes, low, low_taps)
    return between, low
