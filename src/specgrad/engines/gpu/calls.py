"""How a kernel is called: first through Triton, which compiles it; then straight to what it compiled.

Triton chooses among compiled kernels by the types of all arguments, by which numbers are 1 or multiples of 16, and by which tensors begin at
multiples of sixteen bytes. A `Call` has one kernel, one set of numbers and tensors of the same types, so only their addresses are asked;
calls with any other address go through Triton. The current device and its current stream are asked each time.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
import triton

INTERPRETED = bool(triton.knobs.runtime.interpret) if hasattr(triton, "knobs") else False


@functools.cache
def _no_guard() -> Any:
    return contextlib.nullcontext()


def on(device: Any) -> Any:
    """Kernels launch on the current device: make it the operand's."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _no_guard()
    return torch.cuda.device(device)


class Call:
    """A kernel with all its arguments but the tensors, which come first among its parameters, then numbers, then constants."""

    __slots__ = ("compiled", "kernel", "numbers", "programs", "words")

    def __init__(self, kernel: Any, programs: int, numbers: tuple[int, ...], words: dict[str, Any]) -> None:
        self.kernel, self.programs, self.numbers, self.words = kernel, programs, numbers, words
        self.compiled: dict[Any, Any] = {}

    def __call__(self, *tensors: Any) -> None:
        device = tensors[0].device
        places = [tensor.data_ptr() for tensor in tensors]
        aligned = functools.reduce(int.__or__, places) % 16 == 0
        with on(device):
            known = self.compiled.get(device) if aligned else None
            if known is not None:
                run, constants = known
                run(*places, *self.numbers, *constants)
                return
            kernel = self.kernel[(self.programs,)](*tensors, *self.numbers, **self.words)
        if aligned and kernel is not None and not INTERPRETED:
            constants = tuple(self.words[name] for name in self.kernel.arg_names if name in self.words)
            self.compiled[device] = kernel[(self.programs, 1, 1)], constants
