"""Calls that torch's own pooling kernels are known to answer wrongly or to refuse. specgrad never
makes these calls: its engines run them, whatever the size of the input.

`LISTED` has one entry for each defect: the functions, the kind of device, the first version that is
right, the calls that are affected, and a small call that shows the defect. A test makes these small
calls on every device that it finds, and fails if an entry is not true. Programs recorded by
torch.jit, torch.fx or an export to ONNX run without specgrad, and have torch's defects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engines.torch_private import active_transform, is_dual
from .kernels import as_images, suggests_channels_last
from .operators import HALVES
from .parsing import misses

INF = float("inf")


class Request(NamedTuple):
    """What of a call decides whether a defect affects it."""

    x: Tensor
    op: Any
    """The operator that the call asks for."""
    indices: bool
    differentiated: bool


class Defect(NamedTuple):
    """One kind of call that torch answers wrongly."""

    title: str
    functions: tuple[str, ...]
    device: str
    right_from: tuple[int, int] | None
    """The first version of torch that is right; None if there is none yet."""
    affects: Callable[[Request], bool]
    example: tuple[str, Callable[[], Tensor], tuple[Any, ...]]
    """A function, its input on the CPU, and its other arguments. The value, the indices or the
    gradient of this call are wrong, or the call fails."""


def may_miss(call: Request) -> bool:
    """Whether a window may have no real cell."""
    op, lengths = call.op, call.x.shape[-call.op.spatial_rank() :]
    return misses(lengths, [before for before, _ in op.padding], op.dilation)


def is_padded(call: Request) -> bool:
    return any(before > 0 for before, _ in call.op.padding)


def is_half(call: Request) -> bool:
    return call.x.dtype in HALVES


def sums_halves(call: Request) -> bool:
    """Whether the gradient of a half float may be a sum, because several windows read its cell."""
    if not (is_half(call) and call.differentiated):
        return False
    op = call.op
    if hasattr(op, "kernel_size"):
        windows = zip(op.kernel_size, op.stride, getattr(op, "dilation", op.stride), strict=True)
        return any(d * (k - 1) >= s for k, s, d in windows)
    lengths = zip(call.x.shape[-op.spatial_rank() :], op.output_size, strict=True)
    return any(n % (m or n) for n, m in lengths)


def lies_channels_last(call: Request) -> bool:
    """Whether aten runs its kernel for channels_last tensors. Inside a transform this is not known,
    and the answer is True."""
    if active_transform() is not None:
        return True
    return suggests_channels_last(*as_images(call.x, call.op.spatial_rank()))


def is_differentiated(x: Tensor) -> bool:
    """Whether a call on x may be differentiated; True inside any transform."""
    wanted = x.requires_grad and torch.is_grad_enabled()
    return wanted or is_dual() or active_transform() is not None


def names_winners(call: Request) -> bool:
    """Whether the result depends on which cell wins: for indices and for derivatives."""
    return call.indices or call.differentiated


def _lowest(*shape: int) -> Callable[[], Tensor]:
    form = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    return lambda: torch.full(shape, -INF).to(memory_format=form)


MAXIMA = tuple(f"max_pool{rank}d" for rank in (1, 2, 3))
ADAPTIVE = tuple(f"adaptive_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))

LISTED = (
    *(
        Defect(
            "a dilated window without a real cell has an index outside the plane; its gradient is written there",
            MAXIMA,
            device,
            None,
            may_miss,
            ("max_pool1d", lambda: torch.zeros(1, 2, 1), (2, 1, 1, 2)),
        )
        for device in ("cpu", "cuda")
    ),
    Defect(
        "channels_last_3d: where no cell is greater than the dtype's lowest number, the index is another cell's",
        ("max_pool3d",),
        "cpu",
        None,
        lambda call: names_winners(call) and lies_channels_last(call),
        ("max_pool3d", _lowest(1, 2, 2, 2, 2), (1,)),
    ),
    Defect(
        "contiguous views of negated numbers (`x.is_neg()`) are pooled without their sign where nothing is "
        "differentiated",
        ("max_pool1d",),
        "cpu",
        None,
        lambda call: call.x.is_neg(),
        ("max_pool1d", lambda: torch._neg_view(torch.ones(1, 1, 1)), (1,)),
    ),
    Defect(
        "float16, bfloat16: each addition to the gradient of a cell of several windows is rounded, so that sums "
        "stop growing",
        (*MAXIMA, "avg_pool1d", "avg_pool2d", *ADAPTIVE),
        "cpu",
        None,
        sums_halves,
        ("adaptive_avg_pool1d", lambda: torch.ones(1, 1, 1).half(), (80,)),
    ),
    Defect(
        "float16, bfloat16: each addition to a value is rounded, so that sums stop growing",
        ("adaptive_avg_pool3d",),
        "cpu",
        None,
        lambda call: is_half(call) and set(call.op.output_size) != {1},
        ("adaptive_avg_pool3d", lambda: torch.ones(1, 1, 2, 3, 1000).half(), ((2, 1, 1),)),
    ),
    Defect(
        "float16, bfloat16: all calls are refused",
        ("avg_pool3d",),
        "cpu",
        None,
        is_half,
        ("avg_pool3d", lambda: torch.ones(1, 1, 1, 1, 1).half(), (1,)),
    ),
    Defect(
        "volumes without a batch axis that are channels_last, not channels_last_3d, are refused",
        ("max_pool3d",),
        "cpu",
        None,
        lambda call: call.x.ndim == 4 and suggests_channels_last(tuple(call.x.shape), call.x.stride()),
        ("max_pool3d", lambda: torch.zeros(2, 2, 2, 2).to(memory_format=torch.channels_last), (1,)),
    ),
    Defect(
        "channels_last: where all cells of a window are -inf, the index is 0",
        ("max_pool1d", "max_pool2d"),
        "cuda",
        None,
        lambda call: names_winners(call) and lies_channels_last(call),
        ("max_pool2d", _lowest(1, 2, 2, 2), (1,)),
    ),
    Defect(
        "channels_last, float64: small results end in `misaligned address`",
        ("max_pool1d", "max_pool2d"),
        "cuda",
        None,
        lambda call: call.x.dtype is torch.float64 and lies_channels_last(call),
        ("max_pool2d", lambda: torch.zeros(1, 1, 2, 2).double().to(memory_format=torch.channels_last), (2,)),
    ),
    Defect(
        "channels_last: the gradient of padded windows goes to other cells",
        ("avg_pool1d", "avg_pool2d"),
        "cuda",
        (2, 14),
        lambda call: is_padded(call) and call.differentiated and lies_channels_last(call),
        ("avg_pool2d", lambda: torch.zeros(1, 2, 4, 4).to(memory_format=torch.channels_last), (2, 1, 1)),
    ),
)


def lies_plainly(x: Tensor, rank: int) -> bool:
    """Whether rows are contiguous and channels lie apart, so that aten does not regard a tensor as
    channels_last."""
    steps = x.stride()
    return steps[-1] == 1 < steps[-rank - 1]


@functools.cache
def listed(function: str, device: str) -> tuple[Defect, ...]:
    """The defects that this version of torch has in a function on a kind of device."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return tuple(
        defect
        for defect in LISTED
        if function in defect.functions
        and device == defect.device
        and (defect.right_from is None or version < defect.right_from)
    )


def is_wrong(function: str, x: Tensor, op: Any, indices: bool, differentiated: bool) -> bool:
    """Whether torch's own kernel is known to answer this call wrongly."""
    found = listed(function, x.device.type)
    if not found:
        return False
    request = Request(x, op, indices, differentiated)
    return any(defect.affects(request) for defect in found)


def is_right_throughout(function: str, device: str, op: Any) -> bool:
    """Whether no layout of float32 and float64 has a known defect in a differentiated call without
    dilation."""
    worst = torch.zeros((1, *(2,) * op.spatial_rank(), 2), dtype=torch.float64).movedim(-1, 1)
    request = Request(worst, op, indices=False, differentiated=True)
    return not any(defect.affects(request) for defect in listed(function, device))
