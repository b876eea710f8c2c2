"""The GPU engine: pooling of torch tensors on CUDA devices, by Triton kernels.

Derivatives keep a tuple of tensors of the output's shape (see `kept_like`). A maximum with
ties="first" keeps the winner's tap, in one byte if windows have at most 255 taps. The other ties
keep the maximum, with the number of tied cells or, for whole planes, the place of a single winner.
A smooth maximum keeps pivot and total, an average nothing. Cotangents are gathered without atomics:
equal calls give equal bits, and every element is written once (values again by a program that meets
a NaN). Half floats are computed in float32 and rounded once. The dtype of a tangent or cotangent
may differ from the operand's; its derivative has the same dtype. Second derivatives are
compositions of `push` and `pull`, which are linear in their last argument.

Every call runs a `Program`, made once by `prepare` for a rule and operands of one geometry.
Frequent callers keep the program.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ...errors import ArgumentError, describe, refusal
from ...geometry import Shape
from ...ops.pool import SmoothMaxPool
from .. import reduction
from . import passes, smooth, tables, tiles
from .calls import INTERPRETED as INTERPRETED
from .plan import Plan, plan
from .program import Buffer, Program
from .tiles import code_type, computed

TAKES = "pooling of torch tensors on CUDA devices: float64, float32, float16 and bfloat16, of any layout"
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@functools.cache
def holds(op: SmoothMaxPool, dtype: Any) -> bool:
    """Whether β is finite and nonzero in the dtype of the computation."""
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


def kept_types(made: Plan, dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """The dtypes of the tensors that `keep` keeps of an operand."""
    op = made.op
    if reduction(op) == "logsumexp":
        return (computed(dtype),) * 2
    if reduction(op) == "mean":
        return ()
    if op.ties == "first":
        return (code_type(made.taps),)
    if op.ties == "split":
        return dtype, torch.int32
    return (dtype, code_type(made.taps)) if alone(made) else (dtype,)


def kept_like(op: Any, x: Any) -> tuple[tuple[Shape, Any], ...]:
    """(shape, dtype) of each tensor that `keep` keeps of x."""
    made = plan(op, tuple(x.shape), x.stride())
    return tuple((made.shape, dtype) for dtype in kept_types(made, x.dtype))


def alone(made: Plan) -> bool:
    """Whether the place of a single winner is kept too, for ties other than "first": the VJP then
    need not read x."""
    return tables.fills(made) and made.taps >= tiles.LARGE


def prepare(
    op: Any, rule: str, shape: Shape, steps: Shape, dtype: torch.dtype, device: torch.device, moved: Any = None
) -> Program:
    """The program of a rule on an operand of this shape, strides, dtype and device; `moved` is the
    dtype of the tangent or cotangent.

    forward(x) -> y; keep(x) -> y, *kept (without the value itself); indices(x) -> y, places;
    places(codes) -> places; push(x, dx, *kept) -> dy and pull(x, gy, *kept) -> gx. The last two
    take x only if `reads_operand`.
    """
    made = plan(op, shape, steps)
    key = rule, dtype, device, moved
    found: Program | None = made.made.get(key)
    if found is None:
        found = Program(device)
        RULES[rule](found, made, dtype, moved)
        made.made[key] = found.ready()
    return found


def of(op: Any, rule: str, x: Any, moved: Any = None) -> Program:
    return prepare(op, rule, tuple(x.shape), x.stride(), x.dtype, x.device, moved)


def reads_operand(op: Any) -> bool:
    """Whether derivatives need x."""
    return not (reduction(op) == "mean" or getattr(op, "ties", None) == "first")


def source(program: Program, made: Plan, dtype: torch.dtype) -> Buffer:
    """The operand x, or a tangent with the layout of x."""
    return program.operand(dtype, None, made.entered) if made.copies else program.operand(dtype)


def like_output(program: Program, made: Plan, dtype: torch.dtype) -> Buffer:
    """An operand of the output's shape."""
    return program.operand(dtype, made.layout[1], made.fitted)


def value(program: Program, made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Write the value and the kept tensors, by the kernel for these windows."""
    if not made.outputs:
        return
    if kind != "smooth" and tiles.slides(made):
        passes.fold(program, made, kind, x, y, kept)
    elif kind == "smooth" and tiles.slides(made) and tiles.plane_taps(made) <= tiles.SMALL:
        smooth.fold(program, made, x, y, kept)
    elif kind != "smooth" and made.taps >= tiles.LARGE:
        tables.reduce(program, made, kind, x, y, kept)
    else:
        tables.visit(program, made, kind, x, x, y, kept)


def _forward(program: Program, made: Plan, dtype: torch.dtype, _: Any) -> None:
    kind = {"logsumexp": "smooth", "mean": "sum", "max": "max"}[reduction(made.op) or ""]
    x, y = source(program, made, dtype), program.result(*made.layout, dtype)
    value(program, made, kind, x, y, ())


def _keep(program: Program, made: Plan, dtype: torch.dtype, _: Any) -> None:
    op, x, y = made.op, source(program, made, dtype), program.result(*made.layout, dtype)
    tied = reduction(op) == "max" and op.ties != "first"
    # the first tensor that these ties keep is the value itself
    kept = tuple(program.result(*made.layout, kind) for kind in kept_types(made, dtype)[tied:])
    if not tied:
        kind = {"logsumexp": "smooth", "mean": "sum", "max": "winners"}[reduction(op) or ""]
        value(program, made, kind, x, y, kept)
    elif made.outputs and op.ties == "all" and kept:
        tables.reduce(program, made, "alone", x, y, (y, *kept))
    elif made.outputs:
        value(program, made, "max", x, y, ())
        if op.ties == "split":
            tables.visit(program, made, "count", x, x, kept[0], (y,))


def _indices(program: Program, made: Plan, dtype: torch.dtype, _: Any) -> None:
    x, y = source(program, made, dtype), program.result(*made.layout, dtype)
    places = program.result(*made.layout, torch.int64)
    codes = program.between(made.lengths, code_type(made.taps))
    value(program, made, "winners", x, y, (codes,))
    if made.outputs:
        tables.select(program, made, codes, places, codes, index=True)


def _places(program: Program, made: Plan, dtype: torch.dtype, _: Any) -> None:
    codes, places = like_output(program, made, code_type(made.taps)), program.result(*made.layout, torch.int64)
    if made.outputs:
        tables.select(program, made, codes, places, codes, index=True)


def _push(program: Program, made: Plan, dtype: torch.dtype, moved: Any) -> None:
    op = made.op
    x = source(program, made, dtype) if reads_operand(op) else None
    dx = source(program, made, moved)
    kept = tuple(like_output(program, made, kind) for kind in kept_types(made, dtype))
    dy = program.result(*made.layout, moved)
    if not made.outputs:
        return
    if x is None:
        tables.select(program, made, dx, dy, kept[0], index=False)
    else:
        maximum = reduction(op) == "max"
        shared = not maximum or op.ties == "split"
        tables.visit(program, made, "ties" if maximum else "weights", x, dx, dy, kept, shared=shared)


def _pull(program: Program, made: Plan, dtype: torch.dtype, moved: Any) -> None:
    op = made.op
    x = source(program, made, dtype) if reads_operand(op) else None
    gy = like_output(program, made, moved)
    kept = tuple(like_output(program, made, kind) for kind in kept_types(made, dtype))
    gx = program.result(*made.layout_given, moved)
    program.zero = made.cells > 0 and not made.outputs
    if not made.cells or program.zero:
        return
    if reduction(op) == "mean":
        one_divisor = not made.depth or tiles.divisor(made)[0] == "all"
        if tiles.slides(made) and one_divisor:
            passes.spread_sum(program, made, gy, gx)
        else:
            tables.collect(program, made, "sum", None, gy, gx, ())
    elif reduction(op) == "logsumexp":
        if tiles.slides(made) and tiles.plane_taps(made) <= tiles.SMALL:
            smooth.spread(program, made, gy, gx, kept, x)
        else:
            tables.collect(program, made, "weights", x, gy, gx, kept)
    elif op.ties != "first":
        kind = "shared" if op.ties == "split" else "alone" if len(kept) > 1 else "tied"
        tables.collect(program, made, kind, x, gy, gx, kept)
    elif tiles.slides(made):
        passes.spread_maximum(program, made, gy, gx, kept[0])
    else:
        tables.collect(program, made, "first", None, gy, gx, kept)


RULES = {"forward": _forward, "keep": _keep, "indices": _indices, "places": _places, "push": _push, "pull": _pull}


def written(op: Any, y: Any, out: Any) -> Any:
    """A result, copied to `out` if given."""
    if out is None:
        return y
    if not isinstance(out, torch.Tensor) or (out.shape, out.dtype, out.device) != (y.shape, y.dtype, y.device):
        rule = f"must be a {y.dtype} tensor of shape {tuple(y.shape)} on {y.device}"
        raise refusal(ArgumentError, op.name, "out", describe(out), rule, "allocate it with torch.empty")
    out.copy_(y)
    return out


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return written(op, of(op, "forward", operands[0])(*operands)[0], out)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, tuple[Any, ...]]:
    y, *kept = of(op, "keep", operands[0])(*operands)
    if reduction(op) == "max" and op.ties != "first":
        kept = [y, *kept]
    return written(op, y, out), tuple(kept)


def recall(op: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kept tensors of `keep`; nothing is computed for an average."""
    return () if reduction(op) == "mean" else keep(op, operands)[1]


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    """The value, and the first winner's index in its plane, -1 in windows without a real cell."""
    y, places = of(op, "indices", operands[0])(*operands)
    return written(op, y, out), places


def push(op: Any, operands: tuple[Any, ...], kept: tuple[Any, ...], tangents: tuple[Any, ...], out: Any = None) -> Any:
    """dy = Σ slope·dx; for a smooth maximum, the gather with its weights."""
    (x,), (dx,) = operands, tangents
    if dx is None:
        dx = torch.zeros_like(x)
    if reduction(op) == "mean":
        return forward(op, (dx,), out)
    if not reads_operand(op):
        return written(op, of(op, "push", dx, dx.dtype)(dx, *kept)[0], out)
    if dx.stride() != x.stride():
        x, dx = x.contiguous(), dx.contiguous()
    return written(op, of(op, "push", x, dx.dtype)(x, dx, *kept)[0], out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: tuple[Any, ...],
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    """gx = Σ slope·gy over the windows that read a cell; for a smooth maximum, the scatter with its
    weights."""
    if wanted is not None and not wanted[0]:
        return (None,)
    read = operands if reads_operand(op) else ()
    (gx,) = of(op, "pull", operands[0], cotangent.dtype)(*read, cotangent, *kept)
    return (written(op, gx, out and out[0]),)
