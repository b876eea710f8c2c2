"""What is plain: an eager call on an ordinary tensor, noticed by nothing but ordinary autograd."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ..engines.torch_private import active_transform, dispatch_keys, dispatch_modes, is_dual, tracing_state

CLASSES = (Tensor, torch.nn.Parameter)


@functools.cache
def ordinary_keys(device: str) -> frozenset[Any]:
    """The dispatch keys of tensors that are nothing else besides: no wrapper of a transform, no
    view of negated numbers."""
    found = set()
    for inference in (False, True):
        with torch.inference_mode(inference):
            found.add(dispatch_keys(torch.empty(0, device=device)))
    return frozenset(found)


def is_eager() -> bool:
    """Whether a call runs now and as it is: nothing compiles or records it, and no transform or
    dual level is active."""
    return (
        not torch.compiler.is_compiling() and active_transform() is None and not is_dual() and tracing_state() is None
    )


def is_ordinary(x: Tensor) -> bool:
    """Whether, in an eager call, no mode sees what is done with this tensor, of an ordinary class,
    and it is nothing else besides."""
    # asked last: what is plain is learnt there
    return dispatch_modes() == 0 and dispatch_keys(x) in ordinary_keys(x.device.type)


def is_plain(x: Tensor) -> bool:
    """Whether a call on this tensor is noticed by nothing but ordinary autograd."""
    return is_eager() and type(x) in CLASSES and not x.is_meta and is_ordinary(x)
