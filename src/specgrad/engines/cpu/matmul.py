"""Plans of `emitters.matmul`: register tiles, and the blocks of products of matrices.

Blocks depend on the number of threads. The bits of a result do not: terms are always added in the
same order.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from ...memory import Array, room
from .bilinear import SMALL
from .codegen import CodegenError
from .codegen.values import CELLS
from .emitters.matmul import Dots, Matmul, emit, emit_dots
from .gemm import ROWS, vectors
from .steps import Step, step

FEW = 1 << 13  # multiplications of a product that NumPy computes, at most: no BLAS shares out so few
PANEL = 1 << 10  # bytes of a row of a panel, at most: a first-level cache holds those of a tile
NEAR = 1 << 19  # bytes of the columns of a panel or, where these are not copied, of results of a block, at most:
# a second-level cache holds them
DIRECT = 32  # terms of a panel that is not copied, at most: so many rows are read side by side
DOTS, MOST = 4, 8  # rows that are multiplied without copies in any case, and columns at a time, at most
LOADED, COPIED = 2, 8  # multiplications of vectors that loading a term of a tile takes, and copying a vector
ADDED = 4  # and adding up the lanes of one
ROUNDS = 4  # blocks of a thread, at most, where there is but one product
PARTS, LONG = 128, 1 << 9  # parts of a product of few tiles, at most, and terms of a part, at least


class Sizes(NamedTuple):
    """The sizes of a stack of products."""

    stack: tuple[int, ...]
    rows: int
    columns: int
    terms: int
    parts: int = 1
    """Of each product: sums over parts of its terms, which are added up in the end."""

    @property
    def number(self) -> int:
        """How many products there are."""
        return math.prod(self.stack) * self.parts

    @property
    def most(self) -> int:
        """Terms of the longest part."""
        return -(-self.terms // self.parts)


class Planned(NamedTuple):
    """The kernel of a stack of products whose matrices lie in one way."""

    step: Step
    parts: int
    columns: int
    padded: int
    """Numbers that the kernel reads of a bias: those of its columns, and of what is left of their
    last tile."""
    blank: Array
    """Biases of 0, and then the bias of all parts but the first."""

    def __call__(self, x: Array, y: Array, bias: Array | None, out: Array) -> None:
        added, is_whole = self.blank, self.parts == 1 and self.columns == self.padded
        if bias is not None and is_whole and bias.flags.c_contiguous and bias.flags.aligned:
            added = bias
        elif bias is not None:
            added = np.zeros_like(added)
            added[:-1, : self.columns] = bias.reshape(-1, self.columns)
        sums = out if self.parts == 1 else room((self.parts, *out.shape), out.dtype)
        self.step.call(x, y, added, sums)
        if self.parts > 1:
            np.add.reduce(sums, axis=0, out=out)


def product(x: Array, y: Array, out: Array, bias: Array | None = None) -> None:
    """out = x·y + bias, for matrices or stacks of matrices, float32 or float64. The bias has a
    number for each column, of all matrices alike or of each."""
    rows, columns = out.shape[-2:]
    if is_few(x, out) or not out.size:
        delivered(np.matmul(x, y), bias, out)
        return
    if is_narrow(x, out):
        target = room((*out.shape[:-2], columns, rows), out.dtype)
        product(y.swapaxes(-1, -2), x.swapaxes(-1, -2), target)
        delivered(target.swapaxes(-1, -2), bias, out)
        return
    is_apart = not any(np.may_share_memory(out, one) for one in (x, y))
    if out.strides[-1] != out.itemsize or not out.flags.aligned or not is_apart:
        target = room(out.shape, out.dtype)
        product(x, y, target, bias)
        out[...] = target
        return
    x, y, biases = ordered(x), ordered(y), 1 if bias is None else bias.size // columns
    if rows <= DOTS and x.strides[-1] != x.itemsize != y.strides[-1]:
        x = x.copy()  # whose terms lie side by side then, as those of y
    try:
        found = foreseen(x, y, out, biases)
    except CodegenError:
        delivered(np.matmul(x, y), bias, out)
        return
    found(x, y, bias, out)


def is_few(x: Array, out: Array) -> bool:
    """Whether a product is so small that NumPy computes it."""
    return bool(out.shape[-2] * out.shape[-1] * x.shape[-1] <= FEW)


def is_narrow(x: Array, out: Array) -> bool:
    """Whether a product is computed transposed: lanes run along columns, of which it has few."""
    rows, columns = out.shape[-2:]
    return bool(columns < rows and (columns == 1 or (columns <= DOTS and x.shape[-1] * x.itemsize > PANEL)))


def delivered(found: Array, bias: Array | None, out: Array) -> None:
    """Write a product that lies elsewhere, whose bits thus depend on no layout of `out`."""
    if bias is None:
        out[...] = found
    else:
        np.add(found, bias[..., None, :], out=out)


def directly(x: Array, y: Array, out: Array, biases: int) -> Planned | None:
    """What computes `product` of whole arrays that lie so, which are given to it as they are; None
    where more is to be done. No cell is read."""
    if is_few(x, out) or is_narrow(x, out) or out.strides[-1] != out.itemsize:
        return None
    is_copied = out.shape[-2] <= DOTS and x.strides[-1] != x.itemsize != y.strides[-1]
    if is_copied or not all(x.itemsize in one.strides[-2:] for one in (x, y)):
        return None
    return foreseen(x, y, out, biases)


def foreseen(x: Array, y: Array, out: Array, biases: int = 1) -> Planned:
    """What `planned` plans for matrices that lie as these do."""
    *stack, rows, columns = out.shape
    n, strides = Sizes(tuple(stack), rows, columns, x.shape[-1]), (x.strides, y.strides, out.strides)
    return planned(n, (x.shape[:-2], y.shape[:-2]), strides, out.dtype, biases, threads.get_num_threads())


def kernels(x: Array, y: Array, out: Array) -> tuple[Step, ...]:
    """The kernel of `product` for matrices that are `ordered`, if one runs; no cell is read."""
    if is_few(x, out):
        return ()
    if is_narrow(x, out):
        return kernels(y.swapaxes(-1, -2), x.swapaxes(-1, -2), out.swapaxes(-1, -2))
    return (foreseen(x, y, out).step,)


def ordered(matrix: Array) -> Array:
    """A matrix whose rows or columns lie side by side, and all numbers whole cells apart."""
    size, strides = matrix.itemsize, matrix.strides
    is_plain = size in strides[-2:] and matrix.flags.aligned and not any(apart % size for apart in strides)
    if is_plain:
        return matrix
    return matrix[tuple(slice(1 if apart == 0 else None) for apart in strides[:-2])].copy()


@functools.lru_cache(maxsize=256)
def planned(
    n: Sizes,
    stacks: tuple[tuple[int, ...], ...],
    strides: tuple[tuple[int, ...], ...],
    dtype: np.dtype[Any],
    biases: int,
    members: int,
) -> Planned:
    """The kernel of products of matrices that lie so, in blocks for so many threads. `stacks`: of
    the operands, before they are broadcast."""
    size, apart = dtype.itemsize, [[one // dtype.itemsize for one in some] for some in strides]
    x_across, y_down = apart[0][-1] == 1, apart[1][-1] != 1
    how = kernel_of(n, x_across, y_down, dtype)
    is_small = n.number * n.rows * -(-n.columns // how.lanes) * how.lanes * n.terms < SMALL
    if not is_small and (parts := parts_of(n, how)) > 1:
        n = n._replace(parts=parts)
        how = kernel_of(n, x_across, y_down, dtype)
        apart[2] = [0] * len(n.stack) + [n.columns, 1]
    high, wide = how.rows, how.width
    if isinstance(how, Matmul):
        high, wide = blocks(n, how, size, 1 if is_small else members)
    down, across, padded = -(-n.rows // high), -(-n.columns // wide), -(-n.columns // how.width) * how.width
    sizes: dict[str, Any] = {"rows": n.rows, "columns": n.columns, "down": down, "across": across}
    sizes |= {"high": high, "wide": wide, "places": places(n, stacks, apart, biases, padded)}
    sizes |= {"x_apart": apart[0][-2 if x_across else -1], "z_apart": apart[2][-2]}
    sizes |= {"y_apart": apart[1][-1 if y_down else -2]}
    items, scratch = n.number * down * across, 0
    if isinstance(how, Matmul):
        sizes |= {"panels": -(-n.most // how.panel)}
        scratch = how.copied(wide) * size
    grain = items if is_small or members == 1 else -(-items // (ROUNDS * members))
    reason = f"few rows or columns: {how.rows} × {how.width} at a time, lanes along terms, nothing is copied"
    if isinstance(how, Matmul):
        reason = f"tiles of {how.rows} rows × {how.vectors} vectors, {items} blocks"
    reason += f", {n.parts} parts" * (n.parts > 1)
    made = step(emit if isinstance(how, Matmul) else emit_dots, how, sizes, items, grain, reason, scratch)
    return Planned(made, n.parts, n.columns, padded, np.zeros((biases + 1, padded), dtype))


def kernel_of(n: Sizes, is_across: bool, is_down: bool, dtype: np.dtype[Any]) -> Matmul | Dots:
    """The kernel of products of such sizes, whose rows of the left matrix and columns of the right
    one lie side by side, or do not."""
    cell, (lanes, registers) = CELLS[dtype.name], vectors(dtype.itemsize)
    time, rows, across = tile(n.rows, n.columns, lanes, registers)
    if is_across and is_down and n.terms >= lanes:
        without, *some = dots(n, lanes, registers)
        is_near = n.columns * n.most * dtype.itemsize <= NEAR
        if n.rows <= DOTS or (is_near and without < time + COPIED * (n.rows + n.columns) / lanes):
            return Dots(cell, lanes, *some)
    is_direct = not is_down and n.rows <= 2 * rows
    panels = -(-n.most // (DIRECT if is_direct else PANEL // dtype.itemsize))
    panel = 1 << (-(-n.most // panels) - 1).bit_length()  # few different ones, each of which is compiled
    side = 1 << min(lanes, n.terms // n.parts // panels).bit_length() - 1 if is_down else 1
    return Matmul(cell, lanes, rows, across, panel, is_across, is_down, side, is_direct)


def tile(rows: int, columns: int, lanes: int, registers: int) -> tuple[int, int, int]:
    """The time of a term, in multiplications of vectors, and rows and vectors of the tile by which
    a product ends first. Some registers are left over: LLVM moves sums about where none are."""
    found = []
    for some in (8, 4, 3, 2, 1):
        most = max(1, min(ROWS, (registers - 1) // some - 1, registers * 13 // 16 // some))
        high = -(-rows // -(-rows // most))
        found.append((-(-rows // high) * -(-columns // (some * lanes)) * (high * some + some + LOADED), high, some))
    return min(found, key=lambda one: one[0])


def dots(n: Sizes, lanes: int, registers: int) -> tuple[float, int, int]:
    """The same without copies, and columns in place of vectors."""
    found = []
    for most in range(1, MOST + 1):
        high = -(-n.rows // -(-n.rows // most))
        wide = -(-n.columns // -(-n.columns // max(1, min(MOST, (registers - 3) // high - 1))))
        time = (high * wide + LOADED * (high + wide)) / lanes + (n.terms % lanes + ADDED) * high * wide / n.terms
        found.append((-(-n.rows // high) * -(-n.columns // wide) * time, high, wide))
    return min(found)


def blocks(n: Sizes, how: Matmul, size: int, members: int) -> tuple[int, int]:
    """Rows and columns of a block, by which so many threads end first: each block copies its terms
    for itself. Many threads, not equally fast, wait for half a block at the end; but rows that are
    read where they lie are not cut."""
    waits = members > 4 and not how.is_direct

    def time(block: tuple[int, int]) -> int:
        down, across = -(-block[0] // how.rows), -(-block[1] // how.width)
        copied = (down * how.rows + (0 if how.is_direct else across * how.width)) * COPIED // how.lanes
        items = n.number * -(-n.rows // block[0]) * -(-n.columns // block[1])
        return (2 * -(-items // members) + waits) * (down * across * (how.rows * how.vectors + LOADED) + copied)

    tiles = -(-n.rows // how.rows), -(-n.columns // how.width)
    least = -(-tiles[1] // max(1, NEAR // (how.width * size * (how.rows if how.is_direct else how.panel))))
    found = set()
    for across in range(least, max(least, min(tiles[1], ROUNDS * members)) + 1):
        wanted = (round(turns * members / (n.number * across)) for turns in range(ROUNDS + 1))
        for down in {min(max(one, 1), tiles[0]) for one in wanted}:
            found.add((-(-tiles[0] // down) * how.rows, -(-tiles[1] // across) * how.width))
    return min(found, key=lambda block: (time(block), -block[0] * block[1]))


def parts_of(n: Sizes, how: Matmul | Dots) -> int:
    """Into how many parts products of few tiles and many terms are cut; of no number of threads."""
    tiles = n.number * -(-n.rows // how.rows) * -(-n.columns // how.width)
    return max(1, min(PARTS // tiles, n.terms // LONG))


def places(n: Sizes, stacks: tuple[tuple[int, ...], ...], apart: list[list[int]], biases: int, padded: int) -> Array:
    """Records of the products, part by part."""
    first = np.arange(n.parts + 1) * n.terms // n.parts
    x, y, z = (placed(shape, some, n.stack) for shape, some in zip((*stacks, n.stack), apart, strict=True))
    part, which = np.divmod(np.arange(n.number), len(x))
    begins = x[which] + first[part] * apart[0][-1], y[which] + first[part] * apart[1][-2]
    bias = np.where(part == 0, which % biases, biases) * padded
    written = np.arange(n.number) * n.rows * n.columns if n.parts > 1 else z
    return np.stack([*begins, bias, written, np.diff(first)[part]], axis=1)


def placed(shape: tuple[int, ...], apart: list[int], stack: tuple[int, ...]) -> Array:
    """Where each matrix of a stack begins, which is broadcast."""
    places = np.zeros((), np.int64)
    for length, one in zip(shape, apart[:-2], strict=True):
        places = np.add.outer(places, np.arange(length) * one)
    return np.broadcast_to(places, stack).reshape(-1)
