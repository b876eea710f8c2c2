"""How a kernel is called: first through Triton, which compiles it; then straight to the launcher of
what it compiled.

Triton chooses among compiled kernels by the types of all arguments, by which numbers are 1 or
multiples of 16, and by which tensors begin at multiples of sixteen bytes. A `Call` has one kernel,
one set of numbers and tensors of the same types, so only their addresses are asked; calls with any
other address go through Triton.

Triton does not promise how its launcher is called. So a `Call` watches Triton call it once, and
then makes the same call with other addresses and another stream. Where it does not recognise what
it sees, every call goes through Triton, and a warning says so once.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import torch
import triton

from ...errors import SlowPathWarning
from .. import torch_private

INTERPRETED = bool(triton.knobs.runtime.interpret) if hasattr(triton, "knobs") else False

NVIDIA = not INTERPRETED and torch.version.hip is None
"""Whether kernels are compiled for NVIDIA's devices, so that their instructions can be named and
their registers counted."""


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
    try:
        return bool(_runtime.launch_enter_hook.calls or _runtime.launch_exit_hook.calls)
    except AttributeError:  # a hook of an older version, which is a function or None
        return bool(_runtime.launch_enter_hook or _runtime.launch_exit_hook)


_runtime: Any = getattr(getattr(triton, "knobs", None), "runtime", None)


@functools.cache
def watches() -> bool:
    """Whether Triton launches as far as is known here: on NVIDIA's devices, with hooks that can be
    asked for listeners."""
    runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
    hooks = all(hasattr(runtime, hook) for hook in ("launch_enter_hook", "launch_exit_hook"))
    return NVIDIA and hooks


@functools.cache
def warn(reason: str) -> None:
    """Say once that launches take longer than they could."""
    words = (
        f"specgrad: Triton {triton.__version__} launches kernels in a way that specgrad does not know ({reason}): "
        "they run, and each "
        "call costs the host some 40 µs more; a version that is known: 3.6"
    )
    warnings.warn(words, SlowPathWarning, stacklevel=2)


class Launch:
    """A compiled kernel's launcher, and all that Triton gave it but the stream and the addresses,
    which come first among the kernel's arguments."""

    __slots__ = ("after", "before", "grid", "nested", "run")

    def __init__(self, run: Any, given: tuple[Any, ...], tensors: tuple[Any, ...], stream: int) -> None:
        """What was given, as it is known here; anything else is a ValueError."""
        self.run, self.grid, rest = run, given[:3], given[4:]
        if len(given) < 5 or given[3] != stream:
            raise ValueError("the fourth argument is not the stream")
        self.nested = isinstance(rest[-1], tuple) and any(part is tensors[0] for part in rest[-1])
        own, kernels = (rest[:-1], rest[-1]) if self.nested else (rest, rest)
        first = next((i for i, part in enumerate(kernels) if part is tensors[0]), -1)
        if first < 0 or (self.nested and first > 0):
            raise ValueError("the tensors are not among the arguments")
        if any(a is not b for a, b in zip(kernels[first : first + len(tensors)], tensors, strict=True)):
            raise ValueError("the tensors do not follow each other")
        self.before = tuple(None if _is_hook(part) else part for part in (own if self.nested else own[:first]))
        self.after = tuple(_addressed(part) for part in kernels[first + len(tensors) :])

    def __call__(self, stream: int, addresses: tuple[int, ...]) -> None:
        if self.nested:
            self.run(*self.grid, stream, *self.before, (*addresses, *self.after))
        else:
            self.run(*self.grid, stream, *self.before, *addresses, *self.after)


def _is_hook(part: Any) -> bool:
    """Whether this is for listeners, of which there are none: a hook, or what it would be told."""
    runtime = triton.knobs.runtime
    return part is runtime.launch_enter_hook or part is runtime.launch_exit_hook or type(part).__name__ == "LazyDict"


def _addressed(part: Any) -> Any:
    """An argument; tables by their addresses."""
    if isinstance(part, tuple) and any(hasattr(own, "data_ptr") for own in part):
        return tuple(own.data_ptr() if hasattr(own, "data_ptr") else own for own in part)
    return part


class Call:
    """A kernel with all its arguments but the tensors that a run has of its own, which come first
    among its parameters; then the plan's tables, if the kernel takes some, the sizes, and the
    tile."""

    __slots__ = ("kernel", "launch", "launcher", "numbers", "programs", "words")

    def __init__(
        self, kernel: Any, programs: int, sizes: Any, tile: Any, warps: int, registers: int = 0, tables: Any = None
    ) -> None:
        """`registers`: how many a lane has at most, if that is limited."""
        self.kernel, self.programs = kernel, programs
        self.numbers = (sizes,) if tables is None else (tables, sizes)
        self.words = {"tile": tile, "num_warps": warps}
        if registers:
            self.words["maxnreg"] = registers
        self.launcher: Any = None
        self.launch: Launch | None = None

    def __call__(self, tensors: tuple[Any, ...], aligned: bool) -> None:
        """Call through Triton. If all tensors begin at multiples of sixteen bytes, the second call
        is watched, and `launch` is there afterwards."""
        device = tensors[0].device
        with on(device):
            if not aligned or not watches():
                self.ask(tensors)
            elif self.launcher is None:
                self.launcher = getattr(self.ask(tensors), "run", False)
            else:
                self.watch(tensors, torch_private.raw_stream(device.index))

    def ask(self, tensors: tuple[Any, ...]) -> Any:
        return self.kernel[(self.programs,)](*tensors, *self.numbers, **self.words)

    def watch(self, tensors: tuple[Any, ...], stream: int) -> None:
        """See what Triton gives to its launcher."""
        run, seen = getattr(self.launcher, "launch", None), []
        if run is None:
            warn("there is no launcher")
            self.ask(tensors)
            return

        def watched(*given: Any) -> Any:
            seen.append(given)
            return run(*given)

        self.launcher.launch = watched
        try:
            self.ask(tensors)
        finally:
            self.launcher.launch = run
        try:
            for given in seen[:1]:
                self.launch = Launch(run, given, tensors, stream)
        except ValueError as reason:
            warn(str(reason))
