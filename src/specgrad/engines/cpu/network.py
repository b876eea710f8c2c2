"""Pointwise operators, reductions and losses for arrays of floats, by NumPy's own loops.

Sums are in NumPy's order, so results differ from the specification's by rounding. Cells that the
specification excludes by a selection are excluded by a selection here too, never multiplied by 0.
Half floats are computed in float32 and rounded once. Integers and all other scalars run on the
reference engine.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import threads
from ...dispatch import ARRAYS, check_out, forced
from ...geometry import Shape
from ...memory import Array, empty, room
from ...operator import Operator, output_shape
from ...ops import OPERATORS
from ...ops.activation import Relu
from ...ops.loss import CrossEntropy, MseLoss
from ...ops.pointwise import Add, Mul, Own, Pointwise, Scale, Sub
from ...ops.reduce import LogSoftmax, Mean, Sum
from ...ops.shape import Detach, Reshape
from ...scalars import as_indices
from ...scalars.floats import Numbers, admitted
from ...sizes import refuse_result
from . import limits
from .codegen import CodegenError
from .codegen.values import CELLS
from .emitters import cellwise as emitter
from .operands import handed_over, is_float
from .steps import Step, grain, step

FEW = 1 << 12  # cells from which relu is a kernel's

TAKES = (
    "convolution, pointwise and shape operators, products of matrices, reductions and losses on NumPy arrays: "
    "float64, float32, float16 and bfloat16"
)


@functools.lru_cache(maxsize=1024)
def foreseen(op: Any, shapes: tuple[Shape, ...], dtypes: tuple[np.dtype[Any], ...]) -> Shape | None:
    """The shape of a result, if nothing but the shapes of its operands is to be looked at: if all
    are float32 or float64, and no number is an index."""
    dtype = dtypes[0]
    is_plain = set(dtypes) == {dtype} and is_float(dtype) and dtype.itemsize > 2
    if not is_plain or type(op).check is not Operator.check or any(slot.integer for slot in op.slots):
        return None
    shape: Shape = op.output_shape(*shapes)
    refuse_result(op.name, shape, dtype.itemsize)
    return shape


def result_of(op: Any, operands: tuple[Any, ...]) -> Shape | None:
    """What is foreseen of a call; None of other operands than NumPy's arrays."""
    if not ARRAYS.issuperset(map(type, operands)):
        return None
    return foreseen(op, tuple([x.shape for x in operands]), tuple([x.dtype for x in operands]))


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    if result_of(op, operands) is not None:
        return None
    numbers = [x for slot, x in zip(op.slots, operands, strict=False) if not slot.integer]
    if not all(type(x) is np.ndarray for x in numbers):
        return "it takes NumPy arrays only"
    dtype = numbers[0].dtype
    if not is_float(dtype) or any(x.dtype != dtype for x in numbers):
        return "it takes float16, bfloat16, float32 or float64, of one kind"
    return None


def widened(arrays: tuple[Any, ...], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Operands or directions in the type that cells of this dtype are computed in; labels as they
    are."""
    if dtype.itemsize > 2:
        return arrays
    return tuple([_widened(x) if getattr(x, "dtype", None) == dtype else x for x in arrays])


def _widened(x: Array) -> Array:
    found = room(x.shape, np.dtype(np.float32))
    np.copyto(found, x, casting="unsafe")
    return found


def target_of(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Where a result is computed, and where it belongs: the same but for half floats."""
    final = empty(shape, dtype) if out is None else out
    return (room(shape, np.dtype(np.float32)) if dtype.itemsize == 2 else final), final


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return keep(op, operands, out)[0]


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    shape, dtype = result_of(op, operands), operands[0].dtype
    if shape is None:
        slots = zip(op.slots, operands, strict=False)
        operands = tuple(as_indices(op.name, slot.name, x) if slot.integer else x for slot, x in slots)
        shape = output_shape(op, tuple([x.shape for x in operands]))
        refuse_result(op.name, shape, dtype.itemsize)
        op.check(operands)
        operands = widened(operands, dtype)
    if out is not None:
        check_out(op.name, out, shape, dtype)
    return _kept(op, operands, shape, dtype, out)


def _kept(op: Any, operands: tuple[Any, ...], shape: Shape, dtype: np.dtype[Any], out: Any) -> tuple[Any, Any]:
    """The same for operands that were looked at, and widened."""
    target, final = target_of(out, shape, dtype)
    with np.errstate(all="ignore"):
        kept = RULES[type(op)].value(op, operands, target)
        return handed_over(target, final), kept


def at_once(op: Any, *operands: Any) -> Any:
    """The value of a call of which nothing but shapes is looked at; else NotImplemented."""
    if type(op) not in RULES or forced() is not None or (shape := result_of(op, operands)) is None:
        return NotImplemented
    try:
        return _kept(op, operands, shape, operands[0].dtype, None)[0]
    except CodegenError:
        return NotImplemented


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return keep(op, operands)[1] if op.keeps else None


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    dtype = operands[0].dtype
    wide = widened(operands, dtype)
    shape = output_shape(op, tuple([np.shape(x) for x in operands]))
    total = room(shape, wide[0].dtype)  # not `out`, which may be the memory of an operand or a tangent
    total[...] = 0
    with np.errstate(all="ignore"):
        for slot, tangent in enumerate(tangents):
            if tangent is not None and op.slots[slot].differentiable:
                dx = admitted(dtype, op.name, f"tangent of {op.slots[slot].name}", tangent)
                total += RULES[type(op)].push(op, wide, kept, slot, *widened((dx,), dtype))
        return handed_over(total, empty(shape, dtype) if out is None else out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: tuple[Any, ...] | None = None,
) -> tuple[Any, ...]:
    pulled: list[Any] = []
    dtype = operands[0].dtype
    wide = widened(operands, dtype)
    (arriving,) = widened((admitted(dtype, op.name, "cotangent", cotangent),), dtype)
    with np.errstate(all="ignore"):
        for slot, x in enumerate(operands):
            if not op.slots[slot].differentiable or not (wanted is None or wanted[slot]):
                pulled.append(None)
                continue
            target, final = target_of(None if out is None else out[slot], np.shape(x), dtype)
            RULES[type(op)].pull_into(op, wide, kept, slot, arriving, target)
            pulled.append(handed_over(target, final))
    return tuple(pulled)


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes along which an operand of this shape was broadcast."""
    if array.shape == shape or array.ndim < len(shape):
        return array
    fresh = array.ndim - len(shape)
    axes = [a for a, n in enumerate(array.shape) if a < fresh or (shape[a - fresh] == 1 and n != 1)]
    lengths = tuple(1 if a in axes else n for a, n in enumerate(array.shape))
    summed: Array = array.sum(axis=tuple(axes), keepdims=True, out=room(lengths, array.dtype))
    return summed.reshape(shape)


def are_alike(least: int, *arrays: Array) -> bool:
    """Whether arrays have so many cells, and the last one can be computed in pieces: its cells lie
    as those at their places in the others do, and it overlaps with none of these unless it is the
    same."""
    *xs, out = arrays
    return (
        out.size >= least
        and out.flags.carray
        and all(x.shape == out.shape and x.flags.c_contiguous and x.flags.aligned for x in xs)
        and not any(x is not out and np.may_share_memory(x, out) and x.ctypes.data != out.ctypes.data for x in xs)
    )


def in_pieces(work: Callable[..., Any], *arrays: Array) -> None:
    """Call `work`, which computes each cell of the last array from those at its place in all
    others, on pieces that fit into a cache, by all threads; or once, if arrays are small or not
    alike. It must take longer than memory does."""
    if not are_alike(4 * limits.PIECE, *arrays):
        work(*arrays)
        return
    flat = [x.reshape(-1) for x in arrays]

    def piece(first: int, last: int) -> None:
        with np.errstate(all="ignore"):  # which each thread has for itself
            work(*(x[first:last] for x in flat))

    threads.spread(piece, arrays[-1].size, limits.PIECE)


def made(ufunc: Any, *xs: Any) -> Array:
    """The value of a pointwise function, in memory that a program may lend."""
    found: Array = ufunc(*xs, out=room(np.broadcast(*xs).shape, xs[0].dtype))
    return found


def summed_last(array: Array) -> Array:
    """Σ over the last axis, which stays as one cell."""
    return array.sum(axis=-1, keepdims=True, out=room((*array.shape[:-1], 1), array.dtype))


class Rule:
    """How one operator runs: the value into `out` and what to keep of it, and one operand's share
    of each derivative."""

    def value(self, op: Any, xs: Any, out: Array) -> Any:
        raise NotImplementedError

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        """The tangent; of an operator that is linear in each operand, the value of the tangent in
        that one's place."""
        moved = room(output_shape(op, tuple([x.shape for x in xs])), dx.dtype)
        self.value(op, tuple(dx if s == slot else x for s, x in enumerate(xs)), moved)
        return moved

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        """The cotangent, before it is summed over broadcast axes."""
        return self.push(op, xs, kept, slot, g)

    def pull_into(self, op: Any, xs: Any, kept: Any, slot: int, g: Array, target: Array) -> None:
        """Write the cotangent; the target may be the memory of the cotangent that arrives, or of an
        operand."""
        target[...] = _summed(self.pull(op, xs, kept, slot, g), target.shape)


class _Pointwise(Rule):
    """A pointwise operator by its own function and slopes, over whole arrays instead of cells at
    their places."""

    def value(self, op: Any, xs: Any, out: Array) -> Any:
        S = Numbers(out.dtype)

        def work(*arrays: Array) -> None:
            arrays[-1][...] = op.function(S, *arrays[:-1])

        if type(op) is Own:  # its function may not be meant for several threads
            work(*xs, out)
        else:
            in_pieces(work, *xs, out)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        S = Numbers(xs[0].dtype)
        slope = op.slopes_of(S, *xs)[slot]
        return np.zeros_like(dx) if slope is None else slope.apply(S, dx)


@functools.lru_cache(maxsize=256)
def cellwise(what: str, cells: int, dtype: np.dtype[Any]) -> Step:
    """A kernel of two arrays of so many cells."""
    how = emitter.Cellwise(what, CELLS[dtype.name], limits.VECTOR // dtype.itemsize)
    given, items = {"cells": cells, "piece": limits.PIECE}, -(-cells // limits.PIECE)
    return step(emitter.emit, how, given, items, grain(items, limits.PIECE), "pieces of all cells")


def gated(x: Array, g: Array, out: Array) -> bool:
    """Copy cells to where those of another array are above 0 or NaN; False if no kernel does
    this."""
    with contextlib.suppress(CodegenError):
        if are_alike(FEW, x, g, out):
            cellwise("gate", out.size, out.dtype).call(x, g, out)
            return True
    return False


class _Relu(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        (x,) = xs
        if not gated(x, x, out):
            np.maximum(x, 0, out=out)
            out += 0  # -0.0 becomes 0.0

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        moved = room(dx.shape, dx.dtype)
        self.pull_into(op, xs, kept, slot, dx, moved)
        return moved

    def pull_into(self, op: Any, xs: Any, kept: Any, slot: int, g: Array, target: Array) -> None:
        (x,) = xs
        if not gated(x, g, target):
            off = np.less_equal(x, 0, out=room(x.shape, np.dtype(np.bool_))).view(np.int8)  # NaN passes
            passes, bits = np.subtract(off, 1, out=off), f"i{g.itemsize}"  # all bits, or none: no branch per cell
            np.bitwise_and(g.view(bits), passes, out=target.view(bits))


class _Ufunc(Rule):
    """A ufunc of two operands, and what it makes of a move of one of them."""

    def __init__(self, ufunc: Any, moved: Callable[[Any, int, Array], Array]) -> None:
        self.ufunc, self.moved = ufunc, moved

    def value(self, op: Any, xs: Any, out: Array) -> Any:
        self.ufunc(xs[0], xs[1], out=out)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return self.moved(xs, slot, dx)


class _Scale(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        np.multiply(xs[0], Numbers(out.dtype).number(op.name, "factor", op.factor), out=out)


class _Same(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        out[...] = xs[0].reshape(out.shape)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return dx.reshape(op.output_shape(xs[0].shape))

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        return g.reshape(xs[0].shape)


class _Sum(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        np.sum(xs[0], axis=op.positions(xs[0].shape), keepdims=op.keepdims, out=out)
        if type(op) is Mean:
            out /= self._count(op, xs[0])

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        at = op.positions(xs[0].shape)
        kept_axes = g.reshape([1 if p in at else n for p, n in enumerate(xs[0].shape)])
        share = made(np.divide, kept_axes, self._count(op, xs[0])) if type(op) is Mean else kept_axes
        return np.broadcast_to(share, xs[0].shape)

    @staticmethod
    def _count(op: Any, x: Array) -> Any:
        return x.dtype.type(np.prod([x.shape[p] for p in op.positions(x.shape)], dtype=np.int64))


def shifted(x: Array) -> tuple[Array, Array, Array]:
    """x - m, exp(x - m) and Σ exp(x - m) over the last axis, for a finite m near the maximum."""
    m = x.max(axis=-1, keepdims=True, initial=-np.inf, out=room((*x.shape[:-1], 1), x.dtype))
    m[~np.isfinite(m)] = 0
    below = made(np.subtract, x, m)
    powers = made(np.exp, below)
    return below, powers, summed_last(powers)


class _LogSoftmax(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        below, powers, total = shifted(xs[0])
        np.divide(powers, total, out=powers)
        np.subtract(below, np.log(total, out=total), out=out)
        return powers

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return made(np.subtract, dx, summed_last(made(np.multiply, kept, dx)))

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        taken = made(np.multiply, kept, summed_last(g))
        return np.subtract(g, taken, out=taken)


class _CrossEntropy(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        logits, labels = xs[0], np.asarray(xs[1]).reshape(-1).astype(np.intp)
        below, slopes, total = shifted(logits)
        slopes /= total
        true = np.arange(labels.size) * logits.shape[-1] + labels  # where the logits of the labels lie
        np.mean(np.log(total, out=total).reshape(-1) - below.reshape(-1)[true], out=out)
        slopes.reshape(-1)[true] -= 1
        slopes /= slopes.dtype.type(labels.size)
        return slopes

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return made(np.multiply, kept, dx).sum()

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        return made(np.multiply, kept, g)


class _MseLoss(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        gap = made(np.subtract, xs[0], xs[1])
        np.mean(np.multiply(gap, gap, out=gap), out=out)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return (self.pull(op, xs, kept, slot, dx)).sum()

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        gap = made(np.subtract, xs[slot], xs[1 - slot])
        np.multiply(gap, g * gap.dtype.type(2), out=gap)
        return np.divide(gap, gap.dtype.type(gap.size), out=gap)


RULES: dict[type, Rule] = {
    **{kind: _Pointwise() for kind in OPERATORS if (kind.value, kind.row) == (Pointwise.value, Pointwise.row)},
    Own: _Pointwise(),
    Relu: _Relu(),
    Add: _Ufunc(np.add, lambda xs, slot, dx: dx),
    Sub: _Ufunc(np.subtract, lambda xs, slot, dx: made(np.negative, dx) if slot else dx),
    Mul: _Ufunc(np.multiply, lambda xs, slot, dx: made(np.multiply, dx, xs[1 - slot])),
    Scale: _Scale(),
    Reshape: _Same(),
    Detach: _Same(),
    Sum: _Sum(),
    Mean: _Sum(),
    LogSoftmax: _LogSoftmax(),
    CrossEntropy: _CrossEntropy(),
    MseLoss: _MseLoss(),
}
