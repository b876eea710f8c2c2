"""The GPU engine: pooling of torch tensors on CUDA devices, by Triton kernels.

What a derivative keeps is always a tuple of tensors of the output's shape (`kept_like` says which): the winner's tap of a maximum with
ties="first", in one byte where a window has at most 255 taps; the maximum for the other ties, with the number of tied cells or, of whole
planes, the place of the only one; pivot and total of a smooth maximum; nothing of an average. Cotangents are gathered: no atomics, equal calls give equal bits, and every element is
written once (values once more by a program that meets a NaN). Half floats are computed in float32 and rounded once. A tangent or cotangent may have another dtype than
the operand; its derivative has it too. Second derivatives are compositions of `push` and `pull`, which are linear in their last argument.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ...errors import ArgumentError, describe, refusal
from ...ops.pool import SmoothMaxPool
from .. import reduction
from . import passes, smooth, tables, tiles
from .calls import INTERPRETED as INTERPRETED
from .plan import Plan, plan
from .tiles import code_type, computed

TAKES = "pooling of torch tensors on CUDA devices: float64, float32, float16 and bfloat16, of any layout"
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@functools.cache
def holds(op: SmoothMaxPool, dtype: Any) -> bool:
    """Whether β is a number other than 0 in the precision of the computation."""
    beta = torch.tensor(float(op.beta), dtype=dtype)
    return bool(torch.isfinite(beta) and beta != 0)


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    if reduction(op) is None:
        return f"it does not run {type(op).__name__}"
    x = operands[0]
    if not isinstance(x, torch.Tensor):
        return f"it takes torch tensors only, not {type(x).__name__}"
    if not x.is_cuda and not INTERPRETED:
        return f"it takes tensors on CUDA devices only, not on {x.device.type}"
    if x.dtype not in FLOATS:
        return f"it does not take {x.dtype}"
    if reduction(op) == "logsumexp" and not holds(op, computed(x.dtype)):
        return f"beta is 0 or infinite as {x.dtype}"
    return None


def planned(op: Any, x: Any) -> Plan:
    return plan(op, tuple(x.shape), tuple(x.stride()))


def kept_like(op: Any, x: Any) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """(shape, dtype) of each tensor that `keep` keeps of x."""
    made = planned(op, x)
    if reduction(op) == "logsumexp":
        return ((made.shape, computed(x.dtype)),) * 2
    if reduction(op) == "mean":
        return ()
    if op.ties == "first":
        return ((made.shape, code_type(made.taps)),)
    if op.ties == "split":
        return (made.shape, x.dtype), (made.shape, torch.int32)
    return ((made.shape, x.dtype), (made.shape, code_type(made.taps)))[: 2 if alone(made) else 1]


def alone(made: Plan) -> bool:
    """Whether the place of a maximum is kept too, where it is the only one, although ties count all: it saves reading x again."""
    return tables.fills(made) and made.taps >= tiles.LARGE


def room(made: Plan, like: Any, dtype: Any, of_output: bool = True) -> Any:
    lengths = made.lengths if of_output else made.given
    return like.new_empty(lengths) if dtype == like.dtype else like.new_empty(lengths, dtype=dtype)


def written(made: Plan, y: Any, out: Any, of_output: bool = True) -> Any:
    """A result in the caller's order of axes; in `out` where one was given."""
    y = made.left(y) if of_output else y if made.straight else y.permute(made.back)
    if out is None:
        return y
    if not isinstance(out, torch.Tensor) or (out.shape, out.dtype, out.device) != (y.shape, y.dtype, y.device):
        rule = f"must be a {y.dtype} tensor of shape {tuple(y.shape)} on {y.device}"
        raise refusal(ArgumentError, made.op.name, "out", describe(out), rule, "allocate it with torch.empty")
    out.copy_(y)
    return out


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    (x,) = operands
    made = planned(op, x)
    y = room(made, x, x.dtype)
    if made.outputs:
        source = made.entered(x)
        if reduction(op) == "logsumexp":
            value(made, "smooth", source, y, ())
        elif reduction(op) == "mean":
            value(made, "sum", source, y, ())
        else:
            value(made, "max", source, y, ())
    return written(made, y, out)


def value(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Write the value, and what is kept of it, by the kernel that suits the windows."""
    if kind != "smooth" and tiles.slides(made):
        passes.fold(made, kind, x, y, kept)
    elif kind == "smooth" and tiles.slides(made) and tiles.plane_taps(made) <= tiles.SMALL:
        smooth.fold(made, x, y, kept)
    elif kind != "smooth" and made.taps >= tiles.LARGE:
        tables.reduce(made, kind, x, y, kept)
    else:
        tables.visit(made, kind, x, x, y, kept)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, tuple[Any, ...]]:
    (x,) = operands
    if reduction(op) == "mean":
        return forward(op, operands, out), ()
    made = planned(op, x)
    y = room(made, x, x.dtype)
    kept: tuple[Any, ...]
    if reduction(op) == "logsumexp":
        kept = tuple(room(made, x, computed(x.dtype)) for _ in range(2))
        if made.outputs:
            value(made, "smooth", made.entered(x), y, kept)
    elif op.ties == "first":
        kept = (room(made, x, code_type(made.taps)),)
        if made.outputs:
            value(made, "winners", made.entered(x), y, kept)
    elif op.ties == "all" and alone(made):
        kept = (y, room(made, x, code_type(made.taps)))
        if made.outputs:
            tables.reduce(made, "alone", made.entered(x), y, kept)
    else:
        kept = (y,)
        if made.outputs:
            source = made.entered(x)
            value(made, "max", source, y, ())
        if op.ties == "split":
            kept = (y, room(made, x, torch.int32))
            if made.outputs:
                tables.visit(made, "count", source, source, kept[1], (y,))
    return written(made, y, out), tuple(made.left(k) for k in kept)


def recall(op: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `keep` keeps; nothing is computed for an average."""
    return () if reduction(op) == "mean" else keep(op, operands)[1]


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    """The value, and the place of the first winner in its plane, -1 where no cell is real."""
    (x,) = operands
    made = planned(op, x)
    y, codes, places = (room(made, x, dtype) for dtype in (x.dtype, code_type(made.taps), torch.int64))
    if made.outputs:
        value(made, "winners", made.entered(x), y, (codes,))
        tables.select(made, codes, places, codes, index=True)
    return written(made, y, out), made.left(places)


def push(op: Any, operands: tuple[Any, ...], kept: tuple[Any, ...], tangents: tuple[Any, ...], out: Any = None) -> Any:
    """dy = Σ slope·dx; of a smooth maximum, the gather with its weights."""
    (x,), (dx,) = operands, tangents
    if dx is None:
        dx = torch.zeros_like(x)
    if reduction(op) == "mean":
        return forward(op, (dx,), out)
    maximum = reduction(op) == "max"
    first = maximum and op.ties == "first"
    if not first and dx.stride() != x.stride():
        x, dx = x.contiguous(), dx.contiguous()
    made = planned(op, dx)
    dy = room(made, dx, dx.dtype)
    if made.outputs:
        fitted, moved = tuple(made.fitted(k) for k in kept), made.entered(dx)
        if first:
            tables.select(made, moved, dy, fitted[0], index=False)
        else:
            kind = "ties" if maximum else "weights"
            shared = not maximum or op.ties == "split"
            tables.visit(made, kind, made.entered(x), moved, dy, fitted, shared=shared)
    return written(made, dy, out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: tuple[Any, ...],
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    """gx = Σ slope·gy over the windows that read a cell; of a smooth maximum, the scatter with its weights."""
    if wanted is not None and not wanted[0]:
        return (None,)
    (x,) = operands
    made = planned(op, x)
    gx = room(made, cotangent, cotangent.dtype, of_output=False)
    if made.cells and not made.outputs:
        gx.zero_()
    elif made.cells:
        gy, fitted = made.fitted(cotangent), tuple(made.fitted(k) for k in kept)
        if reduction(op) == "mean":
            one_divisor = not made.depth or tiles.divisor(made)[0] == "all"
            if tiles.slides(made) and one_divisor:
                passes.spread_sum(made, gy, gx)
            else:
                tables.collect(made, "sum", None, gy, gx, ())
        elif reduction(op) == "logsumexp":
            source = made.entered(x)
            if tiles.slides(made) and tiles.plane_taps(made) <= tiles.SMALL:
                smooth.spread(made, gy, gx, fitted, source)
            else:
                tables.collect(made, "weights", source, gy, gx, fitted)
        elif op.ties != "first":
            kind = "shared" if op.ties == "split" else "alone" if len(fitted) > 1 else "tied"
            tables.collect(made, kind, made.entered(x), gy, gx, fitted)
        elif tiles.slides(made):
            passes.spread_maximum(made, gy, gx, fitted[0])
        else:
            tables.collect(made, "first", None, gy, gx, fitted)
    return (written(made, gx, out and out[0], of_output=False),)
