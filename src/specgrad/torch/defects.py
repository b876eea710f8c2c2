"""Calls of torch's own pooling kernels that are known to be wrong. They are never made: our engines
answer them, whatever their size.

One entry for each defect of `LISTED`: the functions, the kind of device, the first version that is
right, which calls it affects, and a small call that shows it. A test makes these calls wherever
there is such a device, and fails for an entry that is not true. What is recorded to run without us,
by torch.jit, torch.fx or an export to ONNX, has torch's defects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engines.torch_private import active_transform, is_dual
from .kernels import as_images, suggests_channels_last
from .parsing import each, misses

INF = float("inf")


class Request(NamedTuple):
    """What of a call decides whether a defect affects it; padding and dilation as the caller wrote
    them."""

    x: Tensor
    rank: int
    padding: Any
    dilation: Any
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
    """A function, its input on the CPU, and its other arguments; its indices or its gradient are
    wrong, or it fails."""


def may_miss(call: Request) -> bool:
    if call.dilation == 1:
        return False
    pads, holes = each(call.padding, call.rank), each(call.dilation, call.rank)
    return pads is not None and holes is not None and misses(call.x.shape[-call.rank :], pads, holes)


def is_padded(call: Request) -> bool:
    if call.padding == 0:
        return False
    pads = each(call.padding, call.rank)
    return pads is not None and any(p > 0 for p in pads)


def lies_channels_last(call: Request) -> bool:
    """Whether aten takes its kernel for channels_last; also if that cannot be told, inside a
    transform."""
    if active_transform() is not None:
        return True
    return suggests_channels_last(*as_images(call.x, call.rank))


def is_differentiated(x: Tensor) -> bool:
    """Whether a derivative may be asked for; also inside any transform."""
    wanted = x.requires_grad and torch.is_grad_enabled()
    return wanted or is_dual() or active_transform() is not None


def names_winners(call: Request) -> bool:
    """Whether it matters which cell has won: for indices and for derivatives."""
    return call.indices or call.differentiated


def _lowest(*shape: int) -> Callable[[], Tensor]:
    form = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    return lambda: torch.full(shape, -INF).to(memory_format=form)


MAXIMA = tuple(f"max_pool{rank}d" for rank in (1, 2, 3))

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
    """Whether a tensor is contiguous and its channels lie apart, so that aten does not take it for
    channels_last."""
    return x.is_contiguous() and x.stride(-rank - 1) > 1


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


def is_wrong(
    function: str, x: Tensor, rank: int, padding: Any, dilation: Any, indices: bool, differentiated: bool
) -> bool:
    """Whether torch's own kernel is known to answer this call wrongly."""
    found = listed(function, x.device.type)
    if not found:
        return False
    request = Request(x, rank, padding, dilation, indices, differentiated)
    return any(defect.affects(request) for defect in found)


@functools.cache
def is_right_throughout(function: str, device: str, padding: Any) -> bool:
    """Whether no layout and no dtype of a differentiated call without holes has a known defect."""
    rank = int(function[-2])
    worst = torch.zeros((1, *(2,) * rank, 2), dtype=torch.float64).movedim(-1, 1)
    request = Request(worst, rank, padding, 1, indices=False, differentiated=True)
    return not any(defect.affects(request) for defect in listed(function, device))
