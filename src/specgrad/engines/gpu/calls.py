"""Calls of kernels: first through Triton, which compiles them, then directly by the compiled
kernel's launcher.

Triton selects a compiled kernel by the types of all arguments, by which numbers are 1 or multiples
of 16, and by which tensors are aligned to sixteen bytes. A `Call` has one kernel, fixed numbers,
and tensors of fixed types. So only the addresses can differ; calls with unaligned addresses go
through Triton.

Triton's launcher has no documented interface. So a `Call` records one call by Triton, and repeats
it with other addresses and another stream. If the recorded arguments have an unknown form, every
call goes through Triton, with one warning.
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
"""Whether kernels are compiled for NVIDIA devices, so that inline assembly and register limits can
be used."""


@functools.cache
def _no_guard() -> Any:
    return contextlib.nullcontext()


def on(device: Any) -> Any:
    """A context in which `device` is current, since kernels launch on the current device."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _no_guard()
    return torch.cuda.device(device)


def hooked() -> bool:
    """Whether a profiler listens to launches."""
    try:
        return bool(_runtime.launch_enter_hook.calls or _runtime.launch_exit_hook.calls)
    except AttributeError:  # an older version, in which a hook is a function or None
        return bool(_runtime.launch_enter_hook or _runtime.launch_exit_hook)


_runtime: Any = getattr(getattr(triton, "knobs", None), "runtime", None)


@functools.cache
def watches() -> bool:
    """Whether Triton's launches can be recorded: on NVIDIA devices, with hooks that tell whether
    they have listeners."""
    runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
    hooks = all(hasattr(runtime, hook) for hook in ("launch_enter_hook", "launch_exit_hook"))
    return NVIDIA and hooks


@functools.cache
def warn(reason: str) -> None:
    """Warn once that launches are slower than necessary."""
    words = (
        f"specgrad: Triton {triton.__version__} launches kernels in a way that specgrad does not know ({reason}): "
        "they run, and each "
        "call costs the host some 40 µs more; a version that is known: 3.6"
    )
    warnings.warn(words, SlowPathWarning, stacklevel=2)


class Launch:
    """A compiled kernel's launcher with all recorded arguments, except stream and tensor addresses.
    The addresses are the first of the kernel's arguments."""

    __slots__ = ("after", "before", "grid", "nested", "run")

    def __init__(self, run: Any, given: tuple[Any, ...], tensors: tuple[Any, ...], stream: int) -> None:
        """Split recorded arguments of the known form; raises ValueError for any other."""
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
    """Whether this argument is for listeners, of which there are none: a hook, or the hook's
    data."""
    runtime = triton.knobs.runtime
    return part is runtime.launch_enter_hook or part is runtime.launch_exit_hook or type(part).__name__ == "LazyDict"


def _addressed(part: Any) -> Any:
    """An argument, with tables replaced by their addresses."""
    if isinstance(part, tuple) and any(hasattr(own, "data_ptr") for own in part):
        return tuple(own.data_ptr() if hasattr(own, "data_ptr") else own for own in part)
    return part


class Call:
    """A kernel with all arguments but the run's own tensors, which are its first parameters. The
    others are the plan's tables, if the kernel takes any, the sizes, and the tile."""

    __slots__ = ("kernel", "launch", "launcher", "numbers", "programs", "words")

    def __init__(
        self, kernel: Any, programs: int, sizes: Any, tile: Any, warps: int, registers: int = 0, tables: Any = None
    ) -> None:
        """`registers`: the most registers of a lane; 0: no limit."""
        self.kernel, self.programs = kernel, programs
        self.numbers = (sizes,) if tables is None else (tables, sizes)
        self.words = {"tile": tile, "num_warps": warps}
        if registers:
            self.words["maxnreg"] = registers
        self.launcher: Any = None
        self.launch: Launch | None = None

    def __call__(self, tensors: tuple[Any, ...], aligned: bool) -> None:
        """Run the kernel through Triton. If all tensors are `aligned` to sixteen bytes, the second
        call is recorded and sets `launch`."""
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
        """Record the arguments that Triton passes to its launcher."""
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
