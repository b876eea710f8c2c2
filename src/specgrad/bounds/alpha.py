"""Gradient ascent over the forms of relus and maxima, for one bound at a time.

Any line through 0 with a slope from 0 to 1 is below a relu. A maximum has means of its cells below
and planes above (`maximum.Pool`). The bound is the least value of an affine form on the box. Its
gradient in these choices follows from the minimiser of the form, by one sweep backwards and one
forwards. Where a relu's sign or a maximum's winner is known, the network is affine; the sweeps run
on the small network of the other, open cells (`open_cells`). The ascent is not rounded outward.
`Analysis.lower` computes a sound bound of its result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..ops import Relu
from .affine import Floats
from .analysis import Analysis, Form, Slopes
from .maximum import Choice
from .open_cells import Block, Open, is_small
from .relax import POOLS

RATES = {"joint": (0.05, 0.97), "mean": (0.25, 0.97), "floor": (0.25, 0.97), "cuts": (0.2, 0.97)}
"""The length of the first step, and the factor of each further step."""
SHORTER = 0.5  # the same factor for slopes of relus, whose first step goes to the end given by the gradient's sign
LATE = 4  # steps that count as done if slopes are given
MOMENTS = 0.5, 0.999
PATIENCE = 3  # steps
GAINS = 1e-3, 1e-2  # the share of the gain so far that PATIENCE steps must add; without and with a value `enough`
HALVED = 2, 3e-3  # PATIENCE and GAINS if only slopes of relus are chosen, whose steps are halved each time
GRID = 256  # a weight of a mean below maxima is a multiple of 1/GRID
TRIED = 16  # splits


class Ascent:
    """Adam's steps for arrays of one kind; step lengths are those after `late` earlier steps."""

    def __init__(self, late: int) -> None:
        self.late = late
        self.moments: dict[Any, tuple[Floats, Floats]] = {}

    def move(self, key: Any, slope: Floats, step: int, scale: Any = 1.0) -> Floats:
        first, second = self.moments.setdefault(key, (np.zeros_like(slope), np.zeros_like(slope)))
        first += (1 - MOMENTS[0]) * (slope - first)
        second += (1 - MOMENTS[1]) * (slope**2 - second)
        size = np.sqrt(second / (1 - MOMENTS[1] ** step)) + 1e-30
        rate, decay = RATES[key[0]]
        moved: Floats = rate * decay ** (step - 1 + self.late) * scale * first / (1 - MOMENTS[0] ** step) / size
        return moved


class Found(NamedTuple):
    """Forms, the slopes that give them, and the open cells with their choices."""

    form: Form
    slopes: Slopes
    open: Open | None = None
    choices: Any = ()

    def split(self, row: int, enough: float) -> tuple[int, int, int, float] | None:
        """The best split of an open cell: the cell, and for a maximum its rival.

        Candidates are the relu and maximum cells with the largest cost at the bound's minimiser.
        The best one raises the bound most.
        """
        if self.open is None:
            return None
        bound, b = self.open.bound(self.choices, self.slopes.cuts)
        options = []
        for place, (block, stand) in enumerate(
            zip(self.open.blocks, self.open.stands(self.choices, b)[0], strict=True)
        ):
            cost = np.abs(stand.A * (stand.value - block.value(stand)))[row]
            if block.pool is not None:
                cost = np.where(block.pool.real.sum(axis=0) > 1, cost, 0.0)
            options += [(cost[k], place, k, stand.A[row, k] > 0) for k in np.argsort(-cost)[:TRIED] if cost[k] > 0]
        options = sorted(options, reverse=True)[:TRIED]
        if not options:
            return None
        known, pairs = self._both(row, options)
        choices = [_row(choice, np.full(2 * len(options), row)) for choice in self.choices]
        for n, (_, place, k, _) in enumerate(options):
            if pairs[n] is not None:  # move the weight of the losing cell to the winner
                mean = choices[place].mean
                for side, (gone, kept) in enumerate((pairs[n], pairs[n][::-1])):
                    mean[2 * n + side, kept, k] += mean[2 * n + side, gone, k]
                    mean[2 * n + side, gone, k] = 0
        cuts = np.repeat(self.slopes.cuts[[row]], 2 * len(options), axis=0)
        found, _ = self.open.bound(choices, cuts, np.full(2 * len(options), row), known)
        gain = np.minimum(found, enough).reshape(-1, 2) - bound[row]
        best = int((gain.min(axis=1) + 0.1 * gain.max(axis=1)).argmax())
        _, place, k, _ = options[best]
        block, pair = self.open.blocks[place], pairs[best]
        if pair is None:
            return block.node.operands[0], int(block.cells[k]), -1, 0.0
        cell, other = (int(block.place[tap, k]) for tap in pair)
        return block.node.operands[0], cell, other, 0.0

    def _both(self, row: int, options: Any) -> tuple[list[Any], list[Any]]:
        """The known choices in both parts of every split, by operator; and the two taps of a
        maximum."""
        assert self.open is not None
        known: list[Any] = []
        for block in self.open.blocks:
            shape = 2 * len(options), *(block.pool.real.shape if block.pool else block.cells.shape)
            known.append(np.zeros(shape, np.bool_) if block.pool else np.full(shape, np.nan))
        pairs: list[Any] = []
        for n, (_, place, k, positive) in enumerate(options):
            block = self.open.blocks[place]
            pairs.append(None)
            if block.pool is None:
                known[place][2 * n : 2 * n + 2, k] = 0.0, 1.0
                continue
            order = np.where(block.pool.real[:, k], block.pool.high[:, k], -np.inf)
            if positive:
                order = np.where(block.pool.real[:, k], self.choices[place].mean[row, :, k] + 1e-6 * order, -np.inf)
            pairs[n] = tuple(np.argsort(-order)[:2])
            for side, tap in enumerate(pairs[n]):
                known[place][2 * n + side, tap, k] = True
        return known, pairs


def _row(choice: Any, rows: Any) -> Any:
    """The choices of some rows."""
    if isinstance(choice, Choice):
        return Choice(choice.mean[rows], choice.floor[rows])
    return None if choice is None else choice[rows]


def optimise(analysis: Analysis, start: int, rows: Any, steps: int = 40, enough: Any = np.inf) -> Form:
    """The best forms found below rows·value; stops if all bounds are above `enough`."""
    return ascend(analysis, start, rows, steps, enough).form


def ascend(
    analysis: Analysis, start: int, rows: Any, steps: int, enough: Any, grid: int = 0, begin: Slopes | None = None
) -> Found:
    """`optimise`, with the slopes of the best forms, which are multiples of 1/grid if grid is not
    0. `begin`: initial slopes."""
    dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    slopes = Slopes({}, {}, np.zeros((len(dense), len(analysis.splits))))
    if not steps or analysis.is_unbounded or not is_small(analysis, start, len(dense)):
        return Found(analysis.lower(start, dense), slopes)
    slopes = _first(analysis, slopes, start, begin)
    if not (slopes.single or slopes.pools or slopes.cuts.size):
        return Found(analysis.lower(start, dense), slopes)
    left = Open(analysis, start, dense)
    choices, cuts = _climb(left, slopes, steps, enough, grid, 0 if begin is None else LATE)
    slopes = _spread(slopes, left.blocks, choices, cuts)
    return Found(analysis.lower(start, dense, slopes), slopes, left, choices)


def _climb(open_: Open, slopes: Slopes, steps: int, enough: Any, grid: int, late: int) -> tuple[list[Any], Floats]:
    """The best choices found, on their grid, and the best cuts."""
    ascent, decides, rest = Ascent(late), bool(np.isfinite(enough).all()), slopes.pools or slopes.cuts.size
    patience, gain = (PATIENCE, GAINS[decides]) if rest or decides else HALVED
    choices, cuts = [_restricted(slopes, block) for block in open_.blocks], slopes.cuts
    kept = [_on_grid(block, choice, grid) for block, choice in zip(open_.blocks, choices, strict=True)], cuts
    best = first = before = np.full(len(open_.rows), -np.inf)
    for step in range(1, steps + 1):
        open_.analysis.in_time()
        tried = [_on_grid(block, choice, grid) for block, choice in zip(open_.blocks, choices, strict=True)]
        bound, b = open_.bound(tried, cuts)
        better = bound > best
        if better.any():
            best = np.maximum(bound, best)
            kept = [either(better, *pair) for pair in zip(tried, kept[0], strict=True)], either(better, cuts, kept[1])
        if step == 1:
            first = before = best
        if (best > enough + 1e-6 * np.abs(best)).all():
            break
        if step % patience == 0:
            if step > patience and (best - before <= gain * (best - first)).all():
                break
            before = best
        stands, cut = open_.stands(tried, b)
        for place, (block, stand) in enumerate(zip(open_.blocks, stands, strict=True)):
            choices[place] = _moved(ascent, place, block, choices[place], stand.move, step)
        if cuts.size:
            size = np.abs(b[:, open_.inputs :]).max(axis=1, initial=1e-9)[:, None]
            cuts = np.maximum(cuts + ascent.move(("cuts", 0), cut, step, size), 0.0)
    return kept


def _moved(ascent: Ascent, place: int, block: Block, choice: Any, move: Any, step: int) -> Any:
    """The choices after one more step."""
    if block.pool is not None:
        mean = block.pool.projected(choice.mean + ascent.move(("mean", place), move.mean, step), 0)
        return Choice(mean, np.clip(choice.floor + ascent.move(("floor", place), move.floor, step), 0.0, 1.0))
    if move is None:
        return choice
    return np.clip(choice + SHORTER ** (step - 1 + ascent.late) * np.sign(move), 0.0, 1.0)


def _on_grid(block: Block, choice: Any, grid: int) -> Any:
    """The choices with means that sum to exactly 1, and slopes rounded to multiples of 1/grid if
    grid is not 0."""
    if block.pool is not None:
        return choice._replace(mean=block.pool.projected(choice.mean, GRID))
    return choice if choice is None or not grid else np.round(choice * grid) / grid


def either(better: Any, one: Any, other: Any) -> Any:
    """For each row, the choice that is better."""
    if one is None:
        return None
    if isinstance(one, Choice):
        return Choice(*(either(better, *pair) for pair in zip(one, other, strict=True)))
    return np.where(better.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _restricted(slopes: Slopes, block: Block) -> Any:
    """The slopes of one operator's open cells."""
    place, cells = block.node.index, block.cells
    if place in slopes.pools:
        mean, floor = slopes.pools[place][1]
        return Choice(np.take_along_axis(mean[:, :, cells], block.taps[None], 1), floor[:, cells])
    return slopes.single[place][:, cells] if place in slopes.single else None


def _spread(slopes: Slopes, blocks: list[Block], choices: list[Any], cuts: Floats) -> Slopes:
    """The slopes of all cells, with the choices for open cells."""
    made = Slopes(dict(slopes.single), dict(slopes.pools), cuts)
    for block, choice in zip(blocks, choices, strict=True):
        place, cells = block.node.index, block.cells
        if block.pool is not None:
            pool, (mean, floor) = made.pools[place]
            mean, floor = mean.copy(), floor.copy()
            mean[:, :, cells], floor[:, cells] = 0.0, choice.floor
            mean[:, block.taps, cells] = choice.mean
            made.pools[place] = pool, Choice(mean, floor)
        elif choice is not None:
            single = made.single[place].copy()
            single[:, cells] = choice
            made.single[place] = single
    return made


def _first(analysis: Analysis, made: Slopes, start: int, begin: Slopes | None) -> Slopes:
    """The initial slopes of every undecided relu and maximum: `begin`, or those of the
    relaxations."""
    rows = len(made.cuts)
    for node in analysis.graph.nodes[: start + 1]:
        if type(node.op) not in (Relu, *POOLS) or not analysis.varying[node.index]:
            continue
        relaxation = analysis.relaxations[node.index]
        if relaxation.is_linear or not relaxation.above.constant.any():
            continue
        if type(node.op) is Relu:
            single = np.repeat(relaxation.below.rows[0].diagonal()[None], rows, axis=0)
            if begin is not None and node.index in begin.single:
                single = np.where(relaxation.above.constant > 0, begin.single[node.index], single)
            made.single[node.index] = single
        else:
            pool = analysis.pool(node)
            choice = pool.first(relaxation.below.rows[0], rows)
            if begin is not None and node.index in begin.pools:
                mean, floor = begin.pools[node.index][1]
                is_open = relaxation.above.constant != 0
                choice = Choice(np.where(is_open, pool.projected(mean, GRID), choice.mean), floor)
            made.pools[node.index] = pool, choice
    if begin is not None:
        made.cuts[:, : begin.cuts.shape[1]] = begin.cuts
    return made
