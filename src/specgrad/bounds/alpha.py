"""Forms of relus that are chosen for one bound at a time, by gradient ascent.

A line through 0 of any slope from 0 to 1 lies below a relu; relus that share their inputs have
forms together (`joint`). The bound is the least value of an affine form on the box. How it moves
with each choice is known from where the form is least: one sweep backwards and one forwards give
all of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..ops import Relu
from .affine import Floats
from .analysis import Analysis, Form, Slopes
from .joint import Joint

RATES = {"single": 0.25, "joint": 0.05, "cuts": 0.2}
DECAY, MOMENTS = 0.97, (0.9, 0.999)
PATIENCE = 8  # steps


class Ascent:
    """Adam's steps for arrays of one kind."""

    def __init__(self) -> None:
        self.moments: dict[Any, tuple[Floats, Floats]] = {}

    def move(self, key: Any, slope: Floats, step: int, scale: Any = 1.0) -> Floats:
        first, second = self.moments.setdefault(key, (np.zeros_like(slope), np.zeros_like(slope)))
        first += (1 - MOMENTS[0]) * (slope - first)
        second += (1 - MOMENTS[1]) * (slope**2 - second)
        size = np.sqrt(second / (1 - MOMENTS[1] ** step)) + 1e-30
        moved: Floats = RATES[key[0]] * DECAY**step * scale * first / (1 - MOMENTS[0] ** step) / size
        return moved


class Found(NamedTuple):
    """The best forms, and for every row whether the slopes (else the relaxations' own) make it."""

    form: Form
    slopes: Slopes
    chosen: Any


def optimise(analysis: Analysis, start: int, rows: Any, steps: int = 40, enough: Any = np.inf) -> Form:
    """The best forms below rows·value that are found; stops where all bounds are above `enough`."""
    return ascend(analysis, start, rows, steps, enough).form


def ascend(
    analysis: Analysis, start: int, rows: Any, steps: int, enough: Any, grid: int = 0, joint: bool = True
) -> Found:
    """`optimise`, with the slopes that make the best forms; single ones are multiples of 1/grid, if
    there is a grid. `joint`: whether relus may have forms together."""
    dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    best = analysis.lower(start, dense)
    slopes = _first(analysis, start, dense, joint)
    kept = Slopes(dict(slopes.single), dict(slopes.joint), slopes.cuts)
    chosen = np.zeros(len(dense), np.bool_)
    ascent, before = Ascent(), best.lower
    for step in range(1, steps + 1):
        if not (slopes.single or slopes.cuts.size) or (best.lower > enough).all():
            break
        if step % PATIENCE == 0:  # what gains a tenth of what is missing will not gain the rest
            if np.isfinite(enough).all() and (best.lower - before <= 0.1 * (enough - best.lower)).all():
                break
            before = best.lower
        tried = slopes
        if grid:
            single = {p: np.round(a * grid) / grid for p, a in slopes.single.items()}
            tried = slopes._replace(single=single)
        seen: dict[int, Any] = {}
        form = analysis.lower(start, dense, tried, seen)
        better = form.lower > best.lower
        best, chosen = _better(best, form), chosen | better
        kept = _keep(kept, tried, better)
        single, together, cuts = _gradient(analysis, start, tried, seen)
        for place, slope in single.items():
            moved = slopes.single[place] + ascent.move(("single", place), slope, step)
            slopes.single[place] = np.clip(moved, 0.0, 1.0)
        for place, slope in together.items():
            group, a = slopes.joint[place]
            scale = np.abs(a).max(axis=(1, 2), keepdims=True)
            slopes.joint[place] = group, a + ascent.move(("joint", place), slope, step, scale)
        if cuts.size:
            moved = slopes.cuts + ascent.move(("cuts", 0), cuts, step, _sizes(analysis, start, seen))
            slopes = slopes._replace(cuts=np.maximum(moved, 0.0))
    return Found(best, kept, chosen)


def _keep(kept: Slopes, tried: Slopes, better: Any) -> Slopes:
    """Row by row the slopes that are better."""
    if not better.any():
        return kept
    single = {p: np.where(better[:, None], a, kept.single[p]) for p, a in tried.single.items()}
    joint = {p: (group, np.where(better[:, None, None], a, kept.joint[p][1])) for p, (group, a) in tried.joint.items()}
    return Slopes(single, joint, np.where(better[:, None], tried.cuts, kept.cuts))


def _sizes(analysis: Analysis, start: int, seen: dict[int, Any]) -> Floats:
    """The size of the rows at the value of every split."""
    sizes = [np.abs(_dense(seen[p])).max(axis=1) if p in seen else None for p, *_ in analysis.splits]
    rows = len(_dense(seen[start]))
    return np.stack([np.ones(rows) if size is None else size for size in sizes], axis=1)


def _better(one: Form, other: Form) -> Form:
    """Row by row the form with the greater bound."""
    better = other.lower > one.lower
    if not better.any():
        return one
    rows = {}
    for place in {*one.rows, *other.rows}:
        parts: list[Any] = [np.zeros((1, 1)) if f.rows.get(place) is None else f.rows[place] for f in (other, one)]
        parts = [part.toarray() if sparse.issparse(part) else part for part in parts]
        rows[place] = np.where(better[:, None], *parts)
    return Form(rows, np.where(better, other.constant, one.constant), np.where(better, other.lower, one.lower))


def _first(analysis: Analysis, start: int, rows: Floats, joint: bool) -> Slopes:
    """The slopes that the relaxations have, for every relu that is not decided."""
    made = Slopes({}, {}, np.zeros((len(rows), len(analysis.splits))))
    seen: dict[int, Any] = {}
    analysis.lower(start, rows, None, seen)
    for node in analysis.graph.nodes[: start + 1]:
        if type(node.op) is not Relu or not analysis.varying[node.index] or node.index not in seen:
            continue
        box = analysis.boxes[node.operands[0]]
        if not ((box.lower < 0) & (box.upper > 0)).any():
            continue
        relaxation = analysis.relaxations[node.index]
        made.single[node.index] = np.repeat(relaxation.below.rows[0].diagonal()[None], len(rows), axis=0)
        if joint and Joint.offered(analysis, node):
            group = analysis.joint(node)
            negative = np.minimum(_dense(seen[node.index]), 0)
            made.joint[node.index] = group, group.first(negative, relaxation.above.rows[0].diagonal())
    return made


def _dense(A: Any) -> Floats:
    return np.asarray(A.toarray() if sparse.issparse(A) else A)


def _gradient(analysis: Analysis, start: int, slopes: Slopes, seen: dict[int, Any]) -> tuple[Any, Any, Floats]:
    """How the bound of each row moves with each slope, single and joint, and with each split."""
    values: dict[int, Floats] = {}
    single: dict[int, Floats] = {}
    joint: dict[int, Floats] = {}
    for node in analysis.graph.nodes[: start + 1]:
        if node.index not in seen:
            continue
        A, box = _dense(seen[node.index]), analysis.boxes[node.index]
        if node.op is None or not analysis.varying[node.index]:
            values[node.index] = np.where(A > 0, box.lower.reshape(-1), box.upper.reshape(-1))
            continue
        relaxation = analysis.relaxations[node.index]
        operands = [values.get(p) for p in node.operands]
        forms = [relaxation.below] if relaxation.is_linear else [relaxation.below, relaxation.above]
        made = [_at(form, operands, A.shape) for form in forms]
        if node.index in slopes.single:
            before, inner = operands[0], analysis.boxes[node.operands[0]]
            assert before is not None
            made = [slopes.single[node.index] * before, made[-1]]
            single[node.index] = np.maximum(A, 0) * before * ((inner.lower < 0) & (inner.upper > 0)).reshape(-1)
            if node.index in slopes.joint:
                group, a = slopes.joint[node.index]
                joint[node.index], made[1] = group.gradient(np.minimum(A, 0), a, values[group.source])
        values[node.index] = made[0] if len(made) == 1 else np.where(A > 0, made[0], made[1])
    cuts = np.zeros_like(slopes.cuts)
    for k, (place, cell, other, at, side) in enumerate(analysis.splits):
        if place in values:
            more = values[place][:, other] if other >= 0 else at
            cuts[:, k] = side * (more - values[place][:, cell])
    return single, joint, cuts


def _at(form: Any, operands: list[Floats | None], shape: tuple[int, ...]) -> Floats:
    """A form at values (rows, cells) of its operands; one that no row reached is left out."""
    total: Floats = np.broadcast_to(form.constant, shape)
    for slot, matrix in form.rows.items():
        values = operands[slot]
        if values is not None:
            total = total + (matrix @ values.T).T
    return total
