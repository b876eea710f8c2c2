"""How a kernel is called: first through Triton, which compiles it; then straight to what it compiled.

Triton chooses among compiled kernels by the types of all arguments, by which numbers are 1 or multiples of 16, and by which tensors begin at
multiples of sixteen bytes. A `Call` has one kernel, one set of numbers and tensors of the same types, so only their addresses are asked;
calls with any other address go through Triton. The current device and its current stream are asked each time.

Triton does not promise how its launcher is called: versions that are not `KNOWN` to take it so, and other devices than CUDA's, go through
Triton always.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
import triton

KNOWN = range(
    5, 10
)  # minor versions 3.5 to 3.9: run with 3.6; the launchers of the others take the same, as their sources say
INTERPRETED = bool(triton.knobs.runtime.interpret) if hasattr(triton, "knobs") else False

NVIDIA = not INTERPRETED and torch.version.hip is None
"""Whether kernels are compiled for NVIDIA's devices, so that their instructions can be named and their registers counted."""


@functools.cache
def _no_guard() -> Any:
    return contextlib.nullcontext()


def on(device: Any) -> Any:
    """Kernels launch on the current device: make it the operand's."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _no_guard()
    return torch.cuda.device(device)


def hooked() -> bool:
    """Whether somebody, a profiler, wants to see every launch."""
    runtime = triton.knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter)) or bool(getattr(leave, "calls", leave))


@functools.cache
def launches() -> bool:
    """Whether what Triton compiled can be launched without it: whether its launcher takes what `Call` gives it."""
    major, minor = (int(part) for part in triton.__version__.split(".")[:2])
    return (
        not INTERPRETED
        and major == 3
        and minor in KNOWN
        and torch.version.hip is None
        and hasattr(torch._C, "_cuda_getCurrentRawStream")
        and hasattr(triton, "knobs")
        and all(hasattr(triton.knobs.runtime, hook) for hook in ("launch_enter_hook", "launch_exit_hook"))
    )


class Call:
    """A kernel with all its arguments but the tensors, which come first among its parameters, then numbers, then constants."""

    __slots__ = ("compiled", "kernel", "numbers", "programs", "words")

    def __init__(self, kernel: Any, programs: int, numbers: tuple[int, ...], words: dict[str, Any]) -> None:
        self.kernel, self.programs, self.numbers, self.words = kernel, programs, numbers, words
        self.compiled: dict[int, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {}

    def __call__(self, *tensors: Any) -> None:
        index, bits = tensors[0].get_device(), 0
        places = []
        for tensor in tensors:
            place = tensor.data_ptr()
            places.append(place)
            bits |= place
        known = self.compiled.get(index)
        if known is None or bits % 16 or hooked():
            self.ask(tensors, keep=bits % 16 == 0)
            return
        run, function, after = known
        if index == torch.cuda.current_device():
            run(self.programs, 1, 1, torch._C._cuda_getCurrentRawStream(index), *function, *places, *after)
        else:
            with torch.cuda.device(index):
                run(self.programs, 1, 1, torch._C._cuda_getCurrentRawStream(index), *function, *places, *after)

    def ask(self, tensors: tuple[Any, ...], keep: bool) -> None:
        """Call through Triton; and keep what it compiled, if asked to."""
        with on(tensors[0].device):
            kernel = self.kernel[(self.programs,)](*tensors, *self.numbers, **self.words)
        if keep and launches() and all(hasattr(kernel, part) for part in ("run", "function", "packed_metadata")):
            constants = tuple(self.words[name] for name in self.kernel.arg_names if name in self.words)
            function = kernel.function, kernel.packed_metadata, None, None, None
            self.compiled[tensors[0].get_device()] = kernel.run, function, (*self.numbers, *constants)
