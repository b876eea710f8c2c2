"""Operators that move cells, matrix products and softmax for arrays of floats, by NumPy's views and
copies, and the kernel of `matmul`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...memory import Array, room
from ...ops import MOVES, Fold, Matmul, MaxUnpool, Softmax
from ...scalars.floats import Numbers
from . import matmul
from .network import RULES, Rule, made, shifted, summed_last


class _Move(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        out[...] = op.move(*xs, fill=Numbers(xs[0].dtype).number(op.name, "value", op.padding_value()))

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        return op.move(*(dx if s == slot else np.broadcast_to(dx.dtype.type(0), x.shape) for s, x in enumerate(xs)))

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        simple = op.adjoint(slot, [x.shape for x in xs], g)
        return summed_back(op, xs[0].shape, g) if simple is NotImplemented else simple


def summed_back(op: Any, shape: tuple[int, ...], g: Array) -> Array:
    """An array of this shape, each cell the sum of those that it was moved to."""
    total = np.zeros(shape, g.dtype)
    view = op.move(total)
    if view.flags.writeable and np.may_share_memory(view, total):  # nothing was moved twice
        view[...] = g
        return total
    (axis,) = op.geometry(shape).axes
    (read,) = np.nonzero(axis.real[:, 0])
    np.add.at(total.reshape(-1), axis.offsets[0][read, 0], g.reshape(-1)[read])
    return total


class _Adjoint(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        moved, shape = op.transposes(xs[0].shape)
        out[...] = summed_back(moved, shape, xs[0])

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        return op.transposes(xs[0].shape)[0].move(g)


class _Matmul(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        x, y = xs
        matmul.product(*_matrices(x, y), _matrix(x, y, out))

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        x, y = xs
        (left, right), g = _matrices(x, y), _matrix(x, y, g)
        pair = (left.swapaxes(-1, -2), g) if slot else (g, right.swapaxes(-1, -2))
        pulled = room((*g.shape[:-2], pair[0].shape[-2], pair[1].shape[-1]), g.dtype)
        matmul.product(*pair, pulled)
        return pulled if xs[slot].ndim > 1 else pulled[..., 0] if slot else pulled[..., 0, :]


def _matrices(x: Array, y: Array) -> tuple[Array, Array]:
    """Both operands as matrices: a vector is a row on the left, and a column on the right."""
    return x[None] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y


def _matrix(x: Array, y: Array, result: Array) -> Array:
    """The result as a matrix."""
    result = result[..., None] if y.ndim == 1 else result
    return result[..., None, :] if x.ndim == 1 else result


class _Softmax(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        _, powers, total = shifted(xs[0])
        np.divide(powers, total, out=powers)
        out[...] = powers
        return powers

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        moved = made(np.multiply, kept, dx)
        return np.subtract(moved, made(np.multiply, kept, summed_last(moved)), out=moved)


class _MaxUnpool(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        at, winners = self._places(op, xs[1])
        filled = np.zeros(out.shape, out.dtype)
        filled.reshape(-1)[at[winners]] = xs[0].reshape(-1)[winners]
        out[...] = filled

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        at, winners = self._places(op, xs[1])
        pulled = np.zeros(xs[1].shape, g.dtype)
        pulled.reshape(-1)[winners] = g.reshape(-1)[at[winners]]
        return pulled

    @staticmethod
    def _places(op: Any, indices: Any) -> tuple[Any, Any]:
        """Where each cell is put in the flat output, and the cells that are put there last."""
        batch, cells = indices.ndim - len(op.output_size), math.prod(op.output_size)
        plane = math.prod(indices.shape[batch:])
        flat = indices.reshape(-1).astype(np.intp)
        numbers = np.arange(flat.size)
        at = flat + numbers // max(plane, 1) * cells
        (put,) = np.nonzero(flat >= 0)
        last = np.zeros(math.prod(indices.shape[:batch]) * cells, np.intp)
        last[at[put]] = put  # of equal places, NumPy writes the last
        return at, put[last[at[put]] == put]


RULES.update(dict.fromkeys(MOVES, _Move()))
RULES.update({Fold: _Adjoint(), MaxUnpool: _MaxUnpool(), Matmul: _Matmul(), Softmax: _Softmax()})
