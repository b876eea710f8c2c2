"""What is plain: an eager call on an ordinary tensor, noticed by nothing but ordinary autograd."""

from __future__ import annotations

import functools

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

CLASSES = (Tensor, torch.nn.Parameter)


@functools.cache
def ordinary_keys(device: str) -> frozenset[int]:
    """The dispatch keys of tensors that are nothing else besides: no wrapper of a transform, no
    view of negated numbers."""
    found = set()
    for inference in (False, True):
        with torch.inference_mode(inference):
            found.add(_C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return frozenset(found)


def is_eager() -> bool:
    """Whether a call runs now and as it is: nothing compiles or records it, and no transform or
    dual level is active."""
    return (
        not torch.compiler.is_compiling()
        and _C._functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        and _C._get_tracing_state() is None
    )


def is_ordinary(x: Tensor) -> bool:
    """Whether, in an eager call, no mode sees what is done with this tensor, of an ordinary class,
    and it is nothing else besides."""
    # asked last: what is plain is learnt there
    return _C._len_torch_dispatch_stack() == 0 and _C._dispatch_keys(x).raw_repr() in ordinary_keys(x.device.type)


def is_plain(x: Tensor) -> bool:
    """Whether a call on this tensor is noticed by nothing but ordinary autograd."""
    return is_eager() and type(x) in CLASSES and not x.is_meta and is_ordinary(x)
