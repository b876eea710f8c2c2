"""Windows whose cells have weights: smooth maxima, and maxima with shared ties.

The derivatives sum cotangents or tangents times the weights of cells. A weight is a product along
the axes of a window, w = Π exp(β (v - v')) or Π [v = v'], where v' is the maximum of the v along an
axis. So large windows are computed axis by axis, using the maxima of each axis, and small windows
at once. Arrays are channels-first with explicit padding, so that every window is inside the
array.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from ...caches import cached_property
from ...geometry import Shape, Sliding
from ...memory import Array, empty, room
from . import limits
from .axes import even
from .codegen.combine import greatest, lowest
from .codegen.values import Cell
from .emitters.phases import Gather
from .gathers import phases_step, weights_step
from .network import cellwise
from .operands import Layout, handed_over
from .passes import Fold
from .pools import Pool, pool_of, without_taps
from .schedule import chain
from .steps import Step

AT_ONCE = 16  # taps of a window whose weights are found at once, at most
TAPS, APART = 64, 16  # taps along an axis, and cells from a window to the next, that the kernels take


class Stage(NamedTuple):
    """One step from cells to windows: its axes as rows and columns of planes, and the kernels that
    go either way."""

    windows: Shape
    """The shape of its windows."""
    fold: Any
    """The kernels that find the greatest, or least, cell of each window; None of the last stage."""
    exact: Any
    forward: Step
    back: Step


@dataclass(frozen=True, eq=False)
class Weighted:
    """One operator on arrays of one shape and dtype, channels first."""

    pool: Pool
    """Whose layout has the batch axes first, then the window's."""
    axes: tuple[Sliding, ...]
    """Over the array with its padding."""
    pads: tuple[tuple[int, int, int, int], ...]
    """Along each axis: padding that exists before, cells, padding that exists behind, and cells
    behind that do not exist."""

    @property
    def op(self) -> Any:
        return self.pool.op

    @cached_property
    def planes(self) -> int:
        return self.pool.layout.planes

    @cached_property
    def cell(self) -> Cell:
        return self.pool.in_single.cell

    @cached_property
    def computed(self) -> np.dtype[Any]:
        """The type that kernels compute in."""
        return self.pool.in_single.dtype

    @cached_property
    def sizes(self) -> Shape:
        """Of the axes, with their padding."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def lengths(self) -> Shape:
        """How many windows the axes have."""
        return tuple(axis.length for axis in self.axes)

    @cached_property
    def real(self) -> tuple[Any, ...]:
        """Where the operand's cells lie among those with padding."""
        return ..., *(slice(before, before + n) for before, n, _, _ in self.pads)

    @cached_property
    def exists(self) -> tuple[Any, ...]:
        """Where these and padding that exists lie."""
        return ..., *(slice(0, before + n + behind) for before, n, behind, _ in self.pads)

    @cached_property
    def is_smooth(self) -> bool:
        return hasattr(self.op, "beta")

    @cached_property
    def beta(self) -> Array:
        return np.array([float(self.op.beta) if self.is_smooth else 1.0], self.computed)

    @cached_property
    def is_least(self) -> bool:
        """Whether a window's least cell has most weight."""
        return bool(self.op.beta < 0 if self.is_smooth else self.op.lowest)

    @cached_property
    def absent(self) -> Any:
        """The cell that takes no part."""
        return (greatest if self.is_least else lowest)(self.cell)

    @cached_property
    def padding(self) -> Any:
        """The cells of padding that exists."""
        return 0 if self.is_smooth and self.op.pad == "zero" else self.absent

    @cached_property
    def is_padded(self) -> bool:
        return any(before or behind or beyond for before, _, behind, beyond in self.pads)

    def cells_of(self, array: Array, padding: Any, absent: Any) -> Array:
        """An array of the operand's shape as (planes, *axes), with its padding."""
        layout = self.pool.layout
        if not self.is_padded:
            cells = layout.cells(array, layout.shape, self.computed)
        else:
            cells = room((*layout.shape[: layout.outer], *self.sizes), self.computed)
            given = array.reshape([layout.shape[p] for p in layout.back]).transpose(layout.order)

            def pad(cells: Array, given: Array) -> None:
                cells.fill(absent)
                if padding is not absent:
                    cells[self.exists] = padding
                cells[self.real] = given

            if cells.size <= limits.PIECE:
                pad(cells, given)
            else:
                planes, shape = cells.reshape((self.planes, *self.sizes)), layout.shape[layout.outer :]
                real, most = given.reshape((self.planes, *shape)), limits.PIECE * self.planes // cells.size
                threads.spread(lambda first, last: pad(planes[first:last], real[first:last]), self.planes, most)
        return cells.reshape((self.planes, *self.sizes))

    def windows_of(self, array: Array) -> Array:
        """An array of the result's shape as (planes, *windows)."""
        windows = self.pool.layout.cells(array, self.pool.lengths, self.computed)
        return windows.reshape((self.planes, *self.lengths))

    def target(self, shape: Shape, out: Array | None, *read: Array) -> Array:
        """Where a result of this shape, in the order of the layout, is computed: in `out` if its
        cells lie so, and nothing that is read lies in it."""
        fits = out is not None and out.dtype == self.computed and out.size == math.prod(shape) and out.flags.carray
        if out is None or not fits or not self.pool.is_in_order or any(np.may_share_memory(out, x) for x in read):
            return room(shape, self.computed)
        return out.reshape(shape)

    def cropped(self, cells: Array, out: Array | None) -> Array:
        """What `cells_of` undoes, without the padding."""
        full = cells.reshape((*self.pool.layout.shape[: self.pool.layout.outer], *self.sizes))
        return self._delivered(full[self.real] if self.is_padded else full, self.pool.given, out)

    def delivered(self, windows: Array, out: Array | None) -> Array:
        """What `windows_of` undoes."""
        return self._delivered(windows.reshape(self.pool.lengths), self.pool.shape, out)

    def _delivered(self, found: Array, shape: Shape, out: Array | None) -> Array:
        """An array of that shape, in `out` if one is given."""
        found = found.transpose(self.pool.layout.back).reshape(shape)
        if out is not None and found.ctypes.data == out.ctypes.data:  # `target` gave it
            return out
        if out is None:
            if found.dtype == self.pool.dtype and (found.base is None or found.nbytes == found.base.nbytes):
                return found  # all of its memory
            out = empty(shape, self.pool.dtype)
        return handed_over(found, out)

    @cached_property
    def stages(self) -> list[Stage]:
        """From cells to windows: at once, or axis by axis, the last first."""
        term = "softmax" if self.is_smooth else "equal"
        beta = self.beta if self.is_smooth else None
        rank = len(self.axes)
        made: list[Stage] = []
        at_once = rank <= 2 and math.prod(axis.kernel for axis in self.axes) <= AT_ONCE
        sizes = [axis.size for axis in self.axes]
        for place in [None] if at_once else [*range(rank - 1, -1, -1)]:
            if place is None:
                own, planes, lengths = list(self.axes), self.planes, [axis.length for axis in self.axes]
            else:
                axis, inner = self.axes[place], math.prod(sizes[place + 1 :])
                own, planes = [axis, Sliding(inner, 1)] if inner > 1 else [axis], self.planes * math.prod(sizes[:place])
                lengths = [*sizes[:place], axis.length, *sizes[place + 1 :]]
            is_last = place is None or place == 0
            fold = exact = None
            if not is_last:
                what = "min" if self.is_least else "max"
                fold, exact = (self._extremes(what, is_exact, own, planes) for is_exact in (False, True))
            forward = weights_step(own, planes, self.cell, term, beta)
            marks = self.is_smooth and bool(made)
            gather = Gather(term, self.cell, self.cell, self.cell, self.is_smooth and self.is_least, marks)
            back = phases_step(own, planes, gather, ("no", {"beta": self.beta} if self.is_smooth else {}))
            made.append(Stage((self.planes, *lengths), fold, exact, forward, back))
            sizes = lengths
        return made

    def _extremes(self, what: str, exact: bool, own: list[Sliding], planes: int) -> Any:
        inner = own[1].size if len(own) == 2 else 1
        return chain(Fold(what, exact, (own[0],), planes, inner, self.cell))

    @cached_property
    def alone(self) -> Any:
        """The kernels of the smooth maximum."""
        return self.smooth("alone")

    @cached_property
    def kept(self) -> Any:
        """The kernels of the smooth maximum and what its derivatives keep."""
        return self.smooth("kept")

    def smooth(self, ends: str) -> Any:
        """The kernels of log-sum-exp, which end so: see `Fold`."""
        what = "lse-" if self.is_least else "lse+"
        return chain(Fold(what, False, self.axes, self.planes, 1, self.cell, ends), beta=self.beta)

    @cached_property
    def blanks(self) -> list[tuple[Any, ...]]:
        """Where in (planes, *windows) no tap takes part."""
        zero = self.is_smooth and self.op.pad == "zero"
        ranges = [axis.ranges() for axis in self.pool.axes]
        return without_taps([one.existing if zero else one.count for one in ranges], 1)


@functools.lru_cache(maxsize=256)
def weighted_of(op: Any, given: Shape, dtype: np.dtype[Any]) -> Weighted | None:
    """An operator whose windows slide on arrays of this shape; None where an axis has bins, or too
    many taps."""
    positions = op.positions(given)
    order = (*(p for p in range(len(given)) if p not in positions), *positions)
    shape = tuple(given[p] for p in order)
    pool = pool_of(op, Layout(order, len(order) - len(positions), shape, positions), dtype, given)
    zero, inside, pads = getattr(op, "pad", "skip") == "zero", [], []
    for axis in map(even, pool.axes):
        if not isinstance(axis, Sliding) or axis.kernel > TAPS or axis.stride > APART or axis.extent > limits.REACH:
            return None
        after = axis.after if zero else 0
        exists, reach = axis.before + axis.size + after, (axis.length - 1) * axis.stride + axis.extent
        total = max(exists, reach)
        # a length of its own: no window more than the operator has
        inside.append(Sliding(total, axis.kernel, axis.stride, 0, reach - total, axis.dilation))
        pads.append((axis.before, axis.size, after, total - exists))
    return Weighted(pool, tuple(inside), tuple(pads))


class Kept(NamedTuple):
    """What the derivatives keep: the cells of each stage, from the operand's to the windows', and
    what the last are divided by."""

    how: Weighted
    cells: list[Array]
    total: Array | None


def smooth_value(how: Weighted, x: Array, out: Array | None = None) -> Array:
    """The smooth maximum."""
    cells = how.cells_of(x, how.padding, how.absent)
    y = how.target((how.planes, *how.lengths), out, cells)
    how.alone(cells, y)
    for where in how.blanks:
        y[where] = 0
    return how.delivered(y, out)


def keep_smooth(how: Weighted, x: Array, out: Array | None = None) -> tuple[Array, Kept]:
    """The smooth maximum, and what its derivatives keep."""
    cells = how.cells_of(x, how.padding, how.absent)
    windows = how.planes, *how.lengths
    y, (extreme, total) = how.target(windows, out, cells), (room(windows, how.computed) for _ in range(2))
    how.kept(cells, y, extreme=extreme, total=total)
    for where in how.blanks:
        y[where], total[where], extreme[where] = 0, 1, 0
    between = _between(how, cells)
    for extremes in between[1:]:
        np.copyto(extremes, 0, where=extremes == -how.absent)  # as exponents are then not shifted
    return how.delivered(y, out), Kept(how, [*between, extreme], total)


def keep_ties(how: Weighted, x: Array, value: Array) -> Kept:
    """What the derivatives of a maximum keep whose ties share."""
    cells = how.cells_of(x, how.absent, how.absent)
    own = room(value.shape, value.dtype)  # what is kept is nobody else's
    np.copyto(own, value)
    kept = Kept(how, [*_between(how, cells), how.windows_of(own)], None)
    if how.op.ties == "all":
        return kept
    ones = np.broadcast_to(how.computed.type(1), how.pool.given)
    count = _forward(kept, how.cells_of(ones, 0, 0))
    return kept._replace(total=np.maximum(count, 1, out=count))


def _between(how: Weighted, cells: Array) -> list[Array]:
    """The cells of the operand, and the extremes of each stage but the last."""
    found = [cells]
    for stage in how.stages[:-1]:
        extremes = room(stage.windows, how.computed)
        if stage.fold(found[-1], extremes):
            stage.exact(found[-1], extremes)
        found.append(extremes)
    return found


def _forward(kept: Kept, cells: Array) -> Array:
    """What cells bring to windows, times weights."""
    how = kept.how
    for place, stage in enumerate(how.stages):
        brought = room(stage.windows, how.computed)
        before, after = kept.cells[place], kept.cells[place + 1]
        stage.forward.call(before, cells, after, brought)
        cells = brought
    return cells


def push(kept: Kept, dx: Array, out: Array | None = None) -> Array:
    """dy: the tangents of all cells times their weights."""
    how = kept.how
    dy = _forward(kept, how.cells_of(dx, 0, 0))
    if kept.total is not None:
        cellwise("share", dy.size, how.computed).call(dy, kept.total, dy)
    for where in how.blanks:
        dy[where] = 0
    return how.delivered(dy, out)


def pull(kept: Kept, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of its windows times its weight in each."""
    how = kept.how
    g = how.windows_of(gy)
    if kept.total is not None or how.blanks:
        shares = room(g.shape, how.computed)
        if kept.total is None:
            np.copyto(shares, g)
        else:
            cellwise("share", g.size, how.computed).call(g, kept.total, shares)
        for where in how.blanks:
            shares[where] = 0
        g = shares
    values, undefined = kept.cells, None
    is_staged = how.is_smooth and len(how.stages) > 1
    if is_staged and kept.total is not None and (endless := np.isinf(kept.total)).any():
        values = [*values[:-1], np.where(endless, -how.absent, values[-1])]  # in which taps have no weight
        undefined = _undefined(how, values[0], endless, g)
    for place in range(len(how.stages) - 1, -1, -1):
        before, after = values[place], values[place + 1]
        is_last = place == 0 and not how.is_padded
        cells = how.target(before.shape, out if is_last else None, g, after, before)
        how.stages[place].back.call(g, after, before, cells)
        g = cells
    if undefined is not None:
        g[undefined] = np.nan
    return how.cropped(g, out)


def _undefined(how: Weighted, cells: Array, endless: Any, shares: Array) -> Any:
    """The cells whose cotangent is NaN since windows have an infinite cell: those whose exponential
    is infinite, of weight ∞/∞; and all cells, where what arrives at the window is not finite."""
    with np.errstate(all="ignore"):
        overflow = np.isinf(np.exp(how.beta * cells))
    return (overflow & _covered(how, endless)) | _covered(how, endless & ~np.isfinite(shares))


def _covered(how: Weighted, windows: Any) -> Any:
    """The cells that some of these windows have."""
    for place, axis in enumerate(how.axes, 1):
        cells = np.zeros((*windows.shape[:place], axis.size, *windows.shape[place + 1 :]), bool)
        for tap in range(axis.kernel):
            first = tap * axis.dilation
            reached = slice(first, first + (axis.length - 1) * axis.stride + 1, axis.stride)
            cells[(slice(None),) * place + (reached,)] |= windows
        windows = cells
    return windows
