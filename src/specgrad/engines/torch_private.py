"""Torch's private names that specgrad uses, all of them, each with what is done where a torch does
not have it: slower, and as right. The redispatch below autograd and forward mode over forward mode
have no substitute."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad


def private(path: str, fallback: Any) -> Any:
    """What torch has at this path, or else the fallback."""
    try:
        return pkgutil.resolve_name(f"torch.{path}")
    except (ImportError, AttributeError):
        return fallback


active_transform: Callable[[], Any] = private("_C._functorch.peek_interpreter_stack", lambda: ...)
"""The innermost transform of torch.func that is running, or None; unknown: some."""
is_mapped: Callable[[torch.Tensor], bool] = private("_C._functorch.is_batchedtensor", lambda x: True)
"""Whether a tensor is what vmap gives to the function that it maps; unknown: yes."""
tracing_state: Callable[[], Any] = private("_C._get_tracing_state", lambda: torch.jit.is_tracing() or None)  # type: ignore[attr-defined, no-untyped-call]
"""What torch.jit.trace records into, or None."""
dispatch_modes: Callable[[], int] = private("_C._len_torch_dispatch_stack", lambda: 1)
"""How many modes see operators; unknown: one."""
function_modes: Callable[[], int] = private("_C._len_torch_function_stack", lambda: 1)
"""How many modes see calls of torch's functions; unknown: one."""
is_deterministic: Callable[[], bool] = private(
    "_C._get_deterministic_algorithms", torch.are_deterministic_algorithms_enabled
)
"""Whether torch must use deterministic algorithms."""
is_profiled: Callable[[], bool] = private("_C._autograd._profiler_enabled", lambda: True)
"""Whether a profiler records; unknown: it does."""
raw_stream: Callable[[int], int] = (
    private("_C._cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream)
    if torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    else lambda index: -1
)
"""The address of the current stream, 0 for the default one; without CUDA, no stream's."""
current_device: Callable[[], int] = private("_C._cuda_getDevice", torch.cuda.current_device)
is_capturing: Callable[[], bool] = private("_C._cuda_isCurrentStreamCapturing", bool)
"""Whether a CUDA graph is captured; without CUDA, none is."""
empty_cuda: Callable[..., Any] = private(
    "_C._dynamo.guards._empty_strided_cuda",
    lambda shape, steps, dtype: torch.empty_strided(shape, steps, dtype=dtype, device="cuda"),
)
"""New memory on the current device; as what torch.compile generates asks for it, in half the
time."""
TRACED: tuple[type, ...] = tuple(
    kind
    for kind in (
        private("_subclasses.fake_tensor.FakeTensor", None),
        private("_subclasses.functional_tensor.FunctionalTensor", None),
    )
    if kind is not None
)
"""The classes of the tensors that torch.compile traces with."""

if hasattr(forward_ad, "_current_level"):

    def is_dual() -> bool:
        """Whether a level of forward-mode automatic differentiation is entered."""
        return forward_ad._current_level >= 0

else:

    def is_dual() -> bool:
        """Whether a level of forward-mode automatic differentiation is entered; unknown: yes."""
        return True


if hasattr(_C, "_dispatch_keys"):

    def dispatch_keys(x: torch.Tensor) -> Any:
        """What else a tensor is: a wrapper of a transform, a view of negated numbers."""
        return _C._dispatch_keys(x).raw_repr()

else:

    def dispatch_keys(x: torch.Tensor) -> Any:
        """What else a tensor is; unknown: something that equals nothing."""
        return object()


def aten_function(name: str) -> Any:
    """The function of this name that is nearest to aten's."""
    return getattr(torch, name, None) or private(f"_C._nn.{name}", getattr(torch.nn.functional, name))


def redispatch_below_autograd(op: Any, keyset: Any, *arguments: Any) -> Any:
    """Call an operator without autograd, whatever else takes part."""
    with _C._AutoDispatchBelowAutograd():
        return op.redispatch(keyset & _C._after_autograd_keyset, *arguments)


_functorch = private("_C._functorch", None)
_BATCHES = ("_add_batch_dim", "get_unwrapped", "is_batchedtensor", "maybe_get_bdim", "maybe_get_level")

if hasattr(forward_ad, "_set_fwd_grad_enabled") and all(hasattr(_functorch, name) for name in _BATCHES):

    def with_outer_tangents(rule: Callable[[tuple[Any, ...]], Any], saved: tuple[Any, ...]) -> Any:
        """Call a rule of forward mode on what was saved for it, tensors or None.

        Torch turns forward mode off around such a rule, because the tensors have the tangents of
        the rule's own level; so aten's calls would give none of the levels around it. Here forward
        mode is on, and the tensors lose the tangents of the rule's own level.
        """
        with forward_ad._set_fwd_grad_enabled(True):
            return rule(tuple(x if x is None else _primal(x) for x in saved))

    def _primal(x: torch.Tensor) -> torch.Tensor:
        if not _functorch.is_batchedtensor(x):
            # torch has one level, which compiled code enters without Python's count of levels
            unwrapped: torch.Tensor = forward_ad.unpack_dual(x, level=0).primal  # type: ignore[no-untyped-call]
            return unwrapped
        inner = _primal(_functorch.get_unwrapped(x))  # unpack_dual has no rule for vmap
        mapped: torch.Tensor = _functorch._add_batch_dim(
            inner, _functorch.maybe_get_bdim(x), _functorch.maybe_get_level(x)
        )
        return mapped

else:

    def with_outer_tangents(rule: Callable[[tuple[Any, ...]], Any], saved: tuple[Any, ...]) -> Any:
        """Call a rule of forward mode at the only level; unknown: whether the tangents of other
        levels are right."""
        levels = private("_C._functorch.get_interpreter_stack", lambda: None)()
        if active_transform() is not None and (
            levels is None or sum("Jvp" in str(level.key()) for level in levels) > 1
        ):
            raise NotImplementedError(
                "torch: this version has no means for forward mode over forward mode; "
                "use torch.func.jacrev or torch.func.vjp for the inner derivative"
            )
        return rule(saved)
