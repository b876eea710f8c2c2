"""Which calls are plain. A plain call is an eager call on an ordinary tensor, outside of all
transforms, modes, traces and dual levels, so that only ordinary autograd takes part in it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ..engines.torch_private import active_transform, dispatch_keys, dispatch_modes, is_dual, tracing_state

CLASSES = (Tensor, torch.nn.Parameter)


@functools.cache
def ordinary_keys(device: str) -> frozenset[Any]:
    """The dispatch keys of ordinary tensors on a device, which are neither wrappers of a transform
    nor views of negated numbers."""
    found = set()
    for inference in (False, True):
        with torch.inference_mode(inference):
            found.add(dispatch_keys(torch.empty(0, device=device)))
    return frozenset(found)


def is_eager() -> bool:
    """Whether nothing compiles or traces a call, and no transform or dual level is active."""
    return (
        not torch.compiler.is_compiling() and active_transform() is None and not is_dual() and tracing_state() is None
    )


def is_ordinary(x: Tensor) -> bool:
    """Whether no torch dispatch mode is active and this tensor, of an ordinary class, has the
    dispatch keys of ordinary tensors. For eager calls."""
    # the keys come last, since `ordinary_keys` makes tensors of its own
    return dispatch_modes() == 0 and dispatch_keys(x) in ordinary_keys(x.device.type)


def is_plain(x: Tensor) -> bool:
    """Whether only ordinary autograd takes part in a call on this tensor."""
    return is_eager() and type(x) in CLASSES and not x.is_meta and is_ordinary(x)
