"""Pooling on NumPy arrays, by kernels that Numba compiles on first use.

An N-dimensional window is a chain of one-dimensional folds, so the cost of a cell does not grow with the window's volume.
This file decides which fold runs what; the folds are in `kernels`, how an array is walked is in `plan`.

Peak extra memory of a call, beyond its result and some rows per thread: maximum and average up to rank 2 none; each further axis an array
of the size the operand has once the last two axes are folded; winners, and maxima of windows of rank 3 that are searched one by one, one byte per output (four where a window has more than 255
places); VJPs of maxima a plane per thread, where it fits in the cache; operands that lie apart (cropped, stepped, turned) some planes that are brought together, a million cells or
one plane, and cotangents that do an array of their size; half floats some planes of operand and result in float32, a million cells of each or one
plane, and in VJPs of maxima whose winners are far apart a plane per thread, whose windows share none an array of the cotangent's size; ties "all" and "split" one array per axis, of the operand's size after that axis was folded, or where windows share no
cell two of the value's size; the derivatives of the smooth maximum two; VJPs of averages whose windows are not all divided alike an array of the
cotangent's size. Nothing grows with the kernel. `vjp` also holds the value.
"""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import numpy as np

from ...dispatch import check_out, write
from ...geometry import Sliding
from ...ops.pool import MaxPool
from ...scalars.floats import Numbers, admitted
from .. import REDUCTIONS, reduction, reference
from . import average, direct, maximum, smooth, ties
from .cells import Array, Seen, handed_over, is_plain_array, kind, native, see
from .folds import code_type
from .layouts import canonical

TAKES = "pooling of NumPy arrays: float64, float32, float16 and bfloat16; integers where the operator takes them"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    x = operands[0]
    if type(x) is not np.ndarray:
        return f"it takes NumPy arrays only, not {type(x).__name__}"
    return refuses_arrays(op, x.dtype, x.shape)


@functools.lru_cache(maxsize=256)
def refuses_arrays(op: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
    reduces, found = reduction(op), kind(dtype)
    if reduces is None:
        return f"it does not run {type(op).__name__}"
    if found is None:
        return f"it does not take {dtype}"
    if found.dtype.kind in "iu" and reduces != "max":
        return "it takes integers for a maximum only"
    if found.dtype.kind in "iu" and op.ties == "split":
        return "integers do not split"
    if reduces == "max" and spanned(op, shape) >= 1 << 31:
        return "windows span 2^31 places or more"
    if reduces == "logsumexp" and not Numbers(dtype).holds(op.beta):
        return f"beta is 0 or infinite as {dtype}"
    return None


def spanned(op: Any, shape: tuple[int, ...]) -> int:
    """How many places a window spans at most, gaps included, or a few more: a winner's code must tell them apart."""
    if type(op) is not MaxPool:
        return math.prod(shape)
    sides = list(zip(op.kernel_size, cast(tuple[int, ...], op.dilation), strict=True))
    most = math.prod(k * d for k, d in sides)
    return most if most < 1 << 31 else math.prod(Sliding(1, k, dilation=d).extent for k, d in sides)


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    (x,) = operands
    at_once = direct.forward(op, x) if out is None else None
    if at_once is not None:
        return at_once
    fold = fold_of(op.__class__)
    if fold is smooth:
        return write(op.name, smooth.value(op, x, out), out)
    return fold.value(op, x, out)


FOLDS = {kind: {"max": maximum, "mean": average, "logsumexp": smooth}[name] for kind, name in REDUCTIONS.items()}


def fold_of(kind: Any) -> Any:
    """Which fold runs operators of exactly this class."""
    return FOLDS[kind]


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    (x,) = operands
    fold = fold_of(op.__class__)
    if fold is average:
        return average.keep(op, x, out)
    if fold is maximum and op.ties != "first":
        value = forward(op, operands, out)
        return value, ties.tie(op, x, value)
    if fold is smooth:
        value, pairs = smooth.keep(op, x, out)
        return write(op.name, value, out), pairs
    return maximum.keep(op, x, out)


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    (x,) = operands
    fold = fold_of(op.__class__)
    if fold is average:
        return see(op, x, any_order=True)
    if fold is smooth:
        return smooth.pairs(op, x)
    return keep(op, operands)[1]


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    (x,) = operands
    return maximum.indices(op, x, out)


def kept_as_array(kept: maximum.Winners) -> Array:
    """What a maximum with ties "first" keeps, as one array of codes shaped like its value."""
    made = kept.seen.plan
    return kept.codes.reshape(made.lengths).transpose(made.back).reshape(made.shape)


def kept_of_array(seen: Seen, codes: Array) -> maximum.Winners:
    """What `kept_as_array` undoes, for an operand that is seen so."""
    own = canonical(seen.plan, codes, of_output=True)
    return maximum.Winners(seen, own.astype(code_type(seen.plan.codes), copy=False))


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    (x,), (dx,) = operands, tangents
    if dx is None:
        dx = np.zeros_like(x)
    if not is_plain_array(dx):
        return reference.push(op, operands, reference.recall(op, operands), tangents)
    dx = admitted(native(x.dtype), op.name, "tangent of x", dx)
    fold = fold_of(op.__class__)
    if fold is smooth:
        return write(op.name, smooth.push(kept, dx, out), out)
    if fold is average:
        return average.value(op, dx, out)
    return write(op.name, (maximum if op.ties == "first" else ties).push(kept, dx), out)


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    (x,), (dx,) = operands, tangents
    at_once = direct.jvp(op, x, dx)
    if at_once is None and fold_of(op.__class__) is smooth and is_plain_array(dx):
        return smooth.jvp(op, x, admitted(native(x.dtype), op.name, "tangent of x", dx))
    return NotImplemented if at_once is None else at_once


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> Any:
    (x,) = operands
    at_once = direct.vjp(op, x, cotangent)
    if at_once is None and fold_of(op.__class__) is smooth and is_plain_array(cotangent):
        at_once = smooth.vjp(op, x, admitted(native(x.dtype), op.name, "cotangent", cotangent))
    return NotImplemented if at_once is None else (at_once,)


def pull(
    op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None, out: Any = None
) -> tuple[Any, ...]:
    (x,) = operands
    if not is_plain_array(cotangent):
        return reference.pull(op, operands, reference.recall(op, operands), cotangent)
    gy = admitted(native(x.dtype), op.name, "cotangent", cotangent)
    target = None if out is None else out[0]
    if target is not None:
        check_out(op.name, target, x.shape, native(x.dtype))
        if np.may_share_memory(target, gy):
            return (write(op.name, pull(op, operands, kept, gy)[0], target),)
    fold = fold_of(op.__class__)
    if fold is smooth:
        gx = smooth.pull(kept, gy, target)
    elif fold is average or op.ties == "first":
        gx = fold.pull(kept, gy, target)
    else:
        gx = ties.pull(kept, gy, target)
    return (gx if gx is target else handed_over(gx if gx.shape == x.shape else gx.reshape(x.shape), target),)
