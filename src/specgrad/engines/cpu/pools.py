"""Maxima and averages of NumPy arrays: the chains of kernels of an operator on one layout, and
their execution.

A maximum keeps one code per window, the number of the winning tap. The fast kernels are correct if
there is no NaN, and no cell that equals the number standing for padding. Otherwise they set a flag,
and exact kernels run after them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...caches import cached, cached_property
from ...geometry import Axis, Shape, Sliding, strides
from ...memory import Array, room
from ...ops.pool import SumPool
from . import limits
from .axes import adjoint_axes, even, flattened, in_phases, nominal, tiles_planes
from .codegen.combine import code_cell, no_winner
from .codegen.values import CELLS, Cell
from .emitters.phases import Gather
from .gathers import channels_step, fills_vectors, flat_step, phases_step, winners_step
from .operands import Layout, cell_of, handed_over, is_sorted, layout_of, native, result_in
from .passes import Fold
from .schedule import chain
from .steps import Chain, Divisors, Step


@dataclass(frozen=True, eq=False)
class Pool:
    """One operator on arrays of one shape, layout and dtype."""

    op: Any
    layout: Layout
    cell: Cell
    dtype: np.dtype[Any]
    axes: tuple[Axis, ...]
    shape: Shape
    """Of the result, as the operator gives it."""
    given: Shape
    """Of the operand."""

    def cells(self) -> int:
        """How many cells its axes have, each of which may have a place in a table."""
        return sum(axis.size + axis.length for axis in self.axes)

    @cached_property
    def lengths(self) -> Shape:
        """The shape of the result, in the order of the layout."""
        return self.layout.of_output(self.axes)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether arrays that lie in row-major order are taken as they are."""
        return is_sorted(self.layout.order)

    def laid(self, array: Array, lengths: Shape) -> Array:
        """The cells of an array that has these lengths in the order of the layout."""
        if self.is_in_order and array.flags.carray and array.dtype == self.dtype:
            return array
        return self.layout.cells(array, lengths, self.dtype)

    @cached_property
    def is_half(self) -> bool:
        """Whether cells are half floats."""
        return self.cell.name in ("float16", "bfloat16")

    @cached_property
    def of_bits(self) -> Pool:
        """The same of half floats that are moved and not computed with."""
        return replace(self, cell=CELLS["uint16"], dtype=np.dtype(np.uint16))

    @cached_property
    def in_single(self) -> Pool:
        """The same of half floats that are sums yet, and so float32."""
        return replace(self, cell=CELLS["float32"], dtype=np.dtype(np.float32)) if self.is_half else self

    @cached_property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return 0 in self.lengths or 0 in self.layout.shape

    @cached_property
    def is_apart(self) -> bool:
        """Whether no two windows share a cell."""
        return all((axis.readers(np.arange(axis.size)).count <= 1).all() for axis in self.axes)

    @cached_property
    def codes(self) -> Cell:
        """The cells in which codes lie."""
        return code_cell(self.taps)

    @cached_property
    def code_dtype(self) -> np.dtype[Any]:
        """The dtype of arrays of codes."""
        return np.dtype(self.codes.name)

    @cached_property
    def taps(self) -> int:
        """How many codes there are."""
        return math.prod(nominal(even(axis)) for axis in self.axes)

    @cached_property
    def none(self) -> int:
        """The code of a window without a cell."""
        return no_winner(self.codes)

    @cached_property
    def blanks(self) -> list[tuple[Any, ...]]:
        """Where in the result windows have no real cell."""
        return without_taps([axis.ranges().count for axis in self.axes], self.layout.outer)

    def blank(self, array: Array, number: int) -> None:
        """Write a number where windows have no real cell."""
        for where in self.blanks:
            array[where] = number

    @cached_property
    def _kernels(self) -> dict[Any, Any]:
        return {}

    def fold(self, what: str, exact: bool = False) -> Chain:
        """The kernels of "max" and "argmax" (of a minimum: "min" and "argmin"), of the "sum" and
        its "adjoint", and of the "average" and its adjoint "spread", which where divisors differ
        spreads "shares"."""
        found: Chain | None = self._kernels.get((what, exact))
        if found is None:
            axes, inner, divisors = self.axes, self.layout.inner, None
            if what in ("average", "shares") or (what == "spread" and self.divisors.columns is None):
                divisors = self.divisors
            if what == "shares":  # each of them a window of one cell
                rows, *columns = self.lengths[self.layout.outer :]
                one, two = Sliding(rows, 1), Sliding(math.prod(columns), 1)
                axes = (one, two) if rows * two.size > limits.PLACES else (Sliding(rows * two.size, 1),)
                inner = 1
            if what in ("spread", "adjoint"):
                axes = adjoint_axes(axes)
            name = what if what in ("max", "argmax") else "sum"
            if getattr(self.op, "lowest", False):
                name = name.replace("max", "min")
            found = chain(Fold(name, exact, axes, self.layout.planes, inner, self.cell), divisors)
            self._kernels[what, exact] = found
        return found

    @cached_property
    def divisors(self) -> Divisors:
        """What sums are divided by."""
        op, dtype = self.op, np.dtype("float32" if self.cell.size == 2 else self.cell.name)
        override = getattr(op, "divisor_override", 1 if type(op) is SumPool else None)
        real = getattr(op, "count_include_pad", True) is False
        counts = [np.maximum(r.count if real else r.existing, 1) for r in (axis.ranges() for axis in self.axes)]
        if override is not None:
            counts = [np.ones_like(count) for count in counts]
        times = 1 if override is None else override
        if all((count == count[:1]).all() for count in counts):
            return Divisors(np.array([math.prod(int(c[0]) for c in counts) * times], dtype), None)
        columns = functools.reduce(np.multiply.outer, counts[1:], np.ones(1, np.int64)).reshape(-1)
        return Divisors((counts[0] * times).astype(dtype), np.repeat(columns, self.layout.inner).astype(dtype))

    def winners(self, what: str) -> Step:
        """The kernel that scatters cotangents to winners, gathers their tangents, or writes their
        indices."""
        found: Step | None = self._kernels.get(what)
        if found is None:
            sizes = tuple(axis.size for axis in self.axes)
            order = list(range(len(sizes)))
            if what == "index" and self.op.positions(self.given):  # in the operator's order of axes
                order = [self.op.positions(self.given).index(p) for p in self.layout.spatial]
            own = [sizes[order.index(place)] for place in range(len(sizes))]
            by = [strides(tuple(own))[place] for place in order]
            planes, inner = self.layout.planes, self.layout.inner
            found = winners_step(what, self.axes, by, (planes, inner), (self.cell, self.codes), bool(self.blanks))
            self._kernels[what] = found
        return found

    @cached_property
    def gathers(self) -> Step | None:
        """The kernel by which each cell gathers the cotangents that it won, where windows are
        small; else they are scattered."""
        axes: Any
        axes, inner = flattened(tuple(map(even, self.axes)), self.layout.inner, self.cell.size)
        if not all(isinstance(axis, Sliding) for axis in axes):
            return None
        what, planes = Gather("code", self.cell, self.cell, self.codes), self.layout.planes
        is_near, full, step = self.taps <= limits.GATHERED and all(map(in_phases, axes)), 0.0, None
        if is_near and inner == 1 and (len(axes) <= 2 or tiles_planes(axes)):
            full = fills_vectors(axes[-1], self.taps, what)
        if full < limits.FULL:
            step = flat_step(axes, planes, inner, self.cell, self.codes)
        if step is None and full:
            step = phases_step(axes, planes, what)
        elif (
            step is None and is_near and inner * self.cell.size >= limits.LANES and len(axes) == 2 and not self.is_half
        ):
            step = channels_step(axes, planes, inner, what)
        return step


def without_taps(counts: list[Array], outer: int) -> list[tuple[Any, ...]]:
    """Where windows have no taps, by how many they have along each axis; `outer` axes stand
    before."""
    found = [np.flatnonzero(count <= 0) for count in counts]
    return [(slice(None),) * place + (blank,) for place, blank in enumerate(found, outer) if blank.size]


@cached(256, Pool.cells)
def pool_of(op: Any, layout: Layout, dtype: np.dtype[Any], given: Shape) -> Pool:
    """An operator on arrays that are taken so."""
    positions, cell = op.positions(given), cell_of(dtype)
    assert cell is not None
    axes = dict(zip(positions, op.spatial(tuple(given[p] for p in positions)), strict=True))
    found = tuple(axes[p] for p in layout.spatial)
    if not found:  # rank 0 is rank 1 over one cell
        found = (Sliding(1, 1),)
        layout = Layout((*layout.order, len(given)), layout.outer, (*layout.shape[: layout.outer], 1), (len(given),))
    return Pool(op, layout, cell, dtype, found, op.output_shape(given), given)


@cached(256)
def contiguous_pool(op: Any, shape: Shape, dtype: np.dtype[Any], any_order: bool) -> Pool:
    """An operator on arrays that lie in row-major order."""
    return foreseen(op, shape, strides(shape), dtype, any_order)


def foreseen(op: Any, shape: Shape, steps: Shape | None, dtype: np.dtype[Any], any_order: bool = False) -> Pool:
    """An operator on arrays of this shape and these strides; row-major ones if there are none."""
    if steps is None:
        return contiguous_pool(op, shape, dtype, any_order)
    return pool_of(op, layout_of(shape, steps, op.positions(shape), any_order), dtype, shape)


def seen(op: Any, x: Array, any_order: bool = False) -> tuple[Pool, Array]:
    """An operator on an array, and the array's cells as kernels take them."""
    pool = foreseen(op, x.shape, None if x.flags.c_contiguous else x.strides, native(x.dtype), any_order)
    return pool, pool.laid(x, pool.layout.shape)


class Kept(NamedTuple):
    """What a maximum keeps: the pool that found winners, and their codes in the order of its
    layout."""

    pool: Pool
    codes: Array


def taps(op: Any, shape: Shape) -> int:
    """How many codes the winners of an operator have."""
    return math.prod(nominal(even(axis)) for axis in op.spatial(tuple(shape[p] for p in op.positions(shape))))


def codes_as_array(kept: Kept) -> Array:
    """The codes as one array of the result's shape."""
    return kept.codes.transpose(kept.pool.layout.back).reshape(kept.pool.shape)


def codes_of_array(pool: Pool, codes: Array) -> Kept:
    """What `codes_as_array` undoes."""
    return Kept(pool, pool.layout.cells(codes, pool.lengths, pool.code_dtype))


def maximum(op: Any, x: Array, out: Array | None = None) -> Array:
    """The maximum, or the minimum, alone."""
    pool, cells = seen(op, x)
    memory, y = result(pool, out)
    if not pool.is_empty:
        flags = pool.fold("max")(cells, memory)
        if flags & 1 or (flags and not memory.all()):  # a -0.0 matters where it could be the result
            if pool.is_half:
                _exactly(pool, cells, memory, room(pool.lengths, pool.code_dtype))
            else:
                pool.fold("max", True)(cells, memory)
        if pool.blanks:
            pool.blank(memory, 0)
    return handed_over(y, out)


def _exactly(pool: Pool, cells: Array, memory: Array, codes: Array) -> None:
    """The maximum and its codes, of any numbers. Half floats keep their bits, which a NaN that is
    converted does not."""
    pool.fold("argmax", True)(cells, memory, codes=codes)
    if pool.is_half:
        pool.blank(codes, pool.none)
        pool.of_bits.winners("gather").call(cells, codes, memory)


def keep_maximum(op: Any, x: Array, out: Array | None = None) -> tuple[Array, Kept]:
    """The maximum, and the codes of winners."""
    pool, cells = seen(op, x)
    memory, y = result(pool, out)
    codes = room(pool.lengths, pool.code_dtype)
    if not pool.is_empty:
        if pool.fold("argmax")(cells, memory, codes=codes):
            _exactly(pool, cells, memory, codes)
        if pool.blanks:
            pool.blank(memory, 0)
            pool.blank(codes, pool.none)
    return handed_over(y, out), Kept(pool, codes)


def result(pool: Pool, out: Array | None) -> tuple[Array, Array]:
    """Memory for a result, and the array that it makes up."""
    return result_in(pool.layout, pool.lengths, pool.shape, pool.dtype, out)


def cotangent(pool: Pool, out: Array | None) -> tuple[Array, Array]:
    """Memory for a cotangent of the operand, and the array that it makes up."""
    return result_in(pool.layout, pool.layout.shape, pool.given, pool.dtype, out)


def indices(kept: Kept) -> Array:
    """The index of each winner in its plane."""
    pool = kept.pool
    memory, found = result_in(pool.layout, pool.lengths, pool.shape, np.dtype(np.int64), None)
    if not pool.is_empty:
        pool.winners("index").call(kept.codes, kept.codes, memory)
    return found


def push(kept: Kept, dx: Array, out: Array | None = None) -> Array:
    """dy: the tangent of each winner."""
    pool = kept.pool
    memory, dy = result(pool, out)
    if not pool.is_empty:
        pool.winners("gather").call(pool.laid(dx, pool.layout.shape), kept.codes, memory)
    return handed_over(dy, out)


def pull(kept: Kept, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    pool = kept.pool
    memory, gx = cotangent(pool, out)
    if pool.is_empty:
        memory[...] = 0
    else:
        step = pool.gathers or pool.winners("scatter")
        step.call(pool.laid(gy, pool.lengths), kept.codes, memory)
    return handed_over(gx, out)


def average(op: Any, x: Array, out: Array | None = None) -> Array:
    """The average."""
    pool, cells = seen(op, x, any_order=True)
    memory, y = result(pool, out)
    if not pool.is_empty:
        pool.fold("average")(cells, memory)
    return handed_over(y, out)


def push_average(pool: Pool, dx: Array, out: Array | None = None) -> Array:
    """dy: the average of the tangents."""
    return average(pool.op, dx, out)


def pull_average(pool: Pool, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the shares of the windows that read it."""
    memory, gx = cotangent(pool, out)
    if pool.is_empty:
        memory[...] = 0
    else:
        arriving = pool.laid(gy, pool.lengths)
        if pool.divisors.columns is None:
            pool.fold("spread")(arriving, memory)
        else:
            single = pool.in_single
            arriving, shares = arriving.astype(single.dtype, copy=False), room(arriving.shape, single.dtype)
            single.fold("shares")(arriving, shares)
            sums = room(memory.shape, shares.dtype) if pool.is_half else memory
            single.fold("spread")(shares, sums)
            if pool.is_half:  # rounded once, at the end
                np.copyto(memory, sums, casting="unsafe")
    return handed_over(gx, out)
