"""Pooling operators on tensors by an engine: the CPU engine on the tensor's own memory, the GPU
engine if it is installed, and otherwise the specification, composed of aten calls.

The functions here compute numbers only; `operators` registers their derivatives with torch. Results
of every engine have the layout that `empty` gives. A maximum with ties "first" keeps one tensor of
codes with the shape of its value. Only the engine that computed codes can read them.
"""

from __future__ import annotations

import functools
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import threads
from ..engines import cpu, reference
from ..engines.cpu import pools
from ..engines.cpu.codegen import thread_pool
from ..engines.torch_private import active_transform, is_mapped
from ..geometry import Adaptive, strides

try:
    BFLOAT16: Any = importlib.import_module("ml_dtypes").bfloat16
except ImportError:  # then bfloat16 tensors are composed
    BFLOAT16 = None

Shape = tuple[int, ...]

NUMPY = {torch.float32, torch.float64, torch.float16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def last_axes(x: Tensor) -> int:
    """The number of axes of a tensor if its results are channels_last, else 0; inside vmap always
    0."""
    if x.ndim not in (4, 5):
        return 0
    if not torch.compiler.is_compiling() and active_transform() is None:
        return x.ndim if suggests_channels_last(x.shape, x.stride()) else 0
    if x.is_contiguous() or is_mapped(x):  # inside vmap the mapped axis comes first in any case
        return 0
    form = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    return x.ndim if x.is_contiguous(memory_format=form) else 0


@functools.lru_cache(maxsize=1024)
def suggests_channels_last(shape: Shape, steps: Shape) -> bool:
    """Whether the results of an operand of this shape and these strides, a view or not, are
    channels_last: torch's `suggest_memory_format`.

    The strides must not decrease in this order: channels, spatial axes from the last to the first,
    batch. If both layouts fit, the result is contiguous.
    """
    if len(shape) not in (4, 5) or 0 in shape or steps[1] == 0:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if steps[axis] < least or (axis == 0 and least == steps[1]):
            return False
        least = steps[axis] * shape[axis]
    return True


def as_images(x: Tensor, rank: int) -> tuple[Shape, Shape]:
    """The shape and strides of the tensor that aten pools instead: an image of one row for a
    signal, and a batch of one for a volume without a batch axis."""
    shape, steps = tuple(x.shape), x.stride()
    if rank == 1 and x.ndim == 3:
        return (*shape[:2], 1, shape[2]), (*steps[:2], shape[2] * steps[2], steps[2])
    if rank == 3 and x.ndim == 4:
        return (1, *shape), (max(n * s for n, s in zip(shape, steps, strict=True)), *steps)
    return shape, steps


def layout(shape: Shape, channels_last: int) -> torch.memory_format:
    """The memory format of a result: channels_last if its operand was, with as many axes."""
    if channels_last and len(shape) == channels_last:
        return torch.channels_last if channels_last == 4 else torch.channels_last_3d
    return torch.contiguous_format


def empty(like: Tensor, shape: Shape, channels_last: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=layout(shape, channels_last))


@functools.lru_cache(maxsize=256)
def empty_strides(shape: Shape, channels_last: int) -> Shape:
    """The strides of what `empty` gives."""
    return torch.empty(shape, device="meta", memory_format=layout(shape, channels_last)).stride()


def code_type(op: Any, shape: Shape, on: str) -> torch.dtype:
    """The dtype of a maximum's codes on a kind of device, large enough for a code for every cell
    that a window spans, although an engine may count fewer."""
    positions = op.positions(shape)
    spans = (
        -(-axis.size // max(axis.length, 1)) + 1 if isinstance(axis, Adaptive) else axis.extent
        for axis in op.spatial(tuple(shape[p] for p in positions))
    )
    most = math.prod(spans)
    found: torch.dtype = getattr(torch, code_name(most))
    return found if on == "cpu" or most <= 255 else torch.int32


def code_name(taps: int) -> str:
    """The dtype of codes for this number of taps and one more code, which means no winner."""
    return "uint8" if taps < 1 << 8 else "int16" if taps < 1 << 15 else "int32"


_code_type = functools.lru_cache(maxsize=256)(code_type)  # where shapes are numbers


def engine(op: Any, x: Tensor) -> Any:
    """The engine that runs this operator on tensors like this one."""
    if x.layout is not torch.strided:
        return Composed
    if x.device.type == "cpu":
        return Arrays if x.dtype in NUMPY or (x.dtype is torch.bfloat16 and BFLOAT16 is not None) else Composed
    if x.is_cuda and gpu() is not None and gpu().refuses(op, (x,)) is None:
        return Device
    return Composed


@functools.cache
def gpu() -> Any:
    """The GPU engine, or None where it cannot be imported."""
    try:
        return importlib.import_module("specgrad.engines.gpu")
    except ImportError:
        return None


def forward(op: Any, x: Tensor, channels_last: int) -> Tensor:
    return laid_out(engine(op, x).forward(op, x), channels_last)


def keep(op: Any, x: Tensor, channels_last: int) -> tuple[Tensor, Tensor]:
    """The value of a maximum with ties "first", and its codes."""
    value, codes = engine(op, x).keep(op, x)
    return laid_out(value, channels_last), laid_out(
        codes.to(_code_type(op, tuple(x.shape), x.device.type)), channels_last
    )


def push(op: Any, dx: Tensor, source: Tensor | None, channels_last: int) -> Tensor:
    """dy, with slopes that are computed from codes or from x; an average needs neither."""
    return laid_out(engine(op, dx).push(op, dx, source), channels_last)


def pull(op: Any, gy: Tensor, source: Tensor | None, shape: Shape, channels_last: int) -> Tensor:
    """gx, of this shape."""
    return laid_out(engine(op, gy).pull(op, gy, source, shape, channels_last), channels_last)


def places(op: Any, codes: Tensor, like: Tensor, shape: Shape, channels_last: int) -> Tensor:
    """The winners' flat indices in their planes, from a maximum's codes; `like` has the operand's
    dtype."""
    found: Tensor = engine(op, like).places(op, codes, shape, like)
    return laid_out(found, channels_last)


def with_places(op: Any, x: Tensor, channels_last: int) -> tuple[Tensor, Tensor]:
    """The value of a maximum with ties "first", and its winners' flat indices."""
    if engine(op, x) is Arrays:
        with OnTorchsThreads():
            found = cpu.indices(op, (as_array(x),))
        value, where = map(as_tensor, found)
        return laid_out(value, channels_last), laid_out(where, channels_last)
    value, codes = keep(op, x, channels_last)
    return value, places(op, codes, x, tuple(x.shape), channels_last)


def laid_out(result: Tensor, channels_last: int) -> Tensor:
    """A result in the layout that `layout` says; copied if an engine chose another."""
    return result.contiguous(memory_format=layout(result.shape, channels_last))


def reads_codes(op: Any) -> bool:
    """Whether the slopes are computed from codes: for maxima with ties "first"."""
    return getattr(op, "ties", None) == "first"


class Arrays:
    """The CPU engine, on NumPy views of the tensors' memory, with as many threads as torch may
    use."""

    @staticmethod
    def forward(op: Any, x: Tensor) -> Tensor:
        array = as_array(x)
        if cpu.refuses(op, (array,)):
            return Composed.forward(op, x)
        with OnTorchsThreads():
            return as_tensor(cpu.forward(op, (array,)))

    @staticmethod
    def keep(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        with OnTorchsThreads():
            value, kept = cpu.keep(op, (as_array(x),))
        return as_tensor(value), as_tensor(pools.codes_as_array(kept))

    @staticmethod
    def push(op: Any, dx: Tensor, source: Tensor | None) -> Tensor:
        moved = as_array(dx)
        with OnTorchsThreads():
            if source is None:
                return as_tensor(pools.average(op, moved))
            if reads_codes(op):
                return as_tensor(
                    pools.push(Arrays._winners(op, source, moved.shape, last_axes(dx), moved.dtype), moved)
                )
            x = as_array(source)
            return as_tensor(cpu.push(op, (x,), cpu.recall(op, (x,)), (moved,)))

    @staticmethod
    def pull(op: Any, gy: Tensor, source: Tensor | None, shape: Shape, channels_last: int) -> Tensor:
        arriving = as_array(gy)
        with OnTorchsThreads():
            if source is None:
                pool = pools.foreseen(op, shape, lying(shape, channels_last), arriving.dtype, any_order=True)
                gx = pools.pull_average(pool, arriving)
            elif reads_codes(op):
                gx = pools.pull(Arrays._winners(op, source, shape, channels_last, arriving.dtype), arriving)
            else:
                x = as_array(source)
                gx = cpu.pull(op, (x,), cpu.recall(op, (x,)), arriving)[0]
        return as_tensor(gx.reshape(shape))

    @staticmethod
    def places(op: Any, codes: Tensor, shape: Shape, like: Tensor) -> Tensor:
        with OnTorchsThreads():
            return torch.from_numpy(
                pools.indices(Arrays._winners(op, codes, shape, last_axes(codes), as_array(like).dtype))
            )

    @staticmethod
    def _winners(op: Any, codes: Tensor, shape: Shape, channels_last: int, dtype: Any) -> pools.Kept:
        """What the engine keeps of a forward, made from its codes."""
        return pools.codes_of_array(pools.foreseen(op, shape, lying(shape, channels_last), dtype), as_array(codes))


class Device:
    """The GPU engine, which takes tensors as they are."""

    @staticmethod
    def forward(op: Any, x: Tensor) -> Tensor:
        value: Tensor = gpu().forward(op, (x,))
        return value

    @staticmethod
    def keep(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        value, (codes,) = gpu().keep(op, (x,))
        return value, codes

    @staticmethod
    def push(op: Any, dx: Tensor, source: Tensor | None) -> Tensor:
        if source is None:
            moved: Tensor = gpu().forward(op, (dx,))
        elif reads_codes(op):
            moved = gpu().push(op, (dx,), (Device._codes(op, source, tuple(dx.shape)),), (dx,))
        else:
            moved = gpu().push(op, (source,), gpu().keep(op, (source,))[1], (dx,))
        return moved

    @staticmethod
    def pull(op: Any, gy: Tensor, source: Tensor | None, shape: Shape, channels_last: int) -> Tensor:
        if source is not None and not reads_codes(op):
            pulled: Tensor = gpu().pull(op, (source,), gpu().keep(op, (source,))[1], gy)[0]
            return pulled
        steps = empty_strides(shape, channels_last)
        program = gpu().prepare(op, "pull", shape, steps, gy.dtype, gy.device, gy.dtype)
        found: Tensor = program(gy, *(() if source is None else (Device._codes(op, source, shape),)))[0]
        return found

    @staticmethod
    def places(op: Any, codes: Tensor, shape: Shape, like: Tensor) -> Tensor:
        program = gpu().prepare(op, "places", shape, strides(shape), like.dtype, codes.device)
        found: Tensor = program(Device._codes(op, codes, shape))[0]
        return found

    @staticmethod
    def _codes(op: Any, codes: Tensor, shape: Shape) -> Tensor:
        """Codes in the engine's type."""
        return codes.to(torch.int32 if op.geometry(shape).taps > 255 else torch.uint8)


class Composed:
    """The specification over tensors. A code is the row-major number of the winning tap; the number
    of taps means no winner."""

    @staticmethod
    def forward(op: Any, x: Tensor) -> Tensor:
        value: Tensor = reference.forward(op, (x,))
        return value

    @staticmethod
    def keep(op: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        value, (evaluation, blocks) = reference.keep(op, (x,))
        S, taps = evaluation.scalars, evaluation.geometry.taps
        codes = [torch.zeros(0, dtype=torch.int32, device=x.device)]
        for window, (_, took_lead) in zip(evaluation.windows(S), blocks, strict=True):
            code = torch.full((window.size,), taps, dtype=torch.int32, device=x.device)
            for tap, led in enumerate(took_lead):  # the last tap to take the lead wins
                code = torch.where(led, tap, code)
            codes.append(code)
        return value, torch.cat(codes).reshape(value.shape)

    @staticmethod
    def push(op: Any, dx: Tensor, source: Tensor | None) -> Tensor:
        x, kept = Composed._kept(op, source, dx)
        moved: Tensor = reference.push(op, (x,), kept, (dx,))
        return moved

    @staticmethod
    def pull(op: Any, gy: Tensor, source: Tensor | None, shape: Shape, channels_last: int) -> Tensor:
        x, kept = Composed._kept(op, source, gy.new_zeros(()).expand(shape))
        pulled: Tensor = reference.pull(op, (x,), kept, gy)[0]
        return pulled

    @staticmethod
    def places(op: Any, codes: Tensor, shape: Shape, like: Tensor) -> Tensor:
        return places_of_taps(op, codes, shape)

    @staticmethod
    def _kept(op: Any, source: Tensor | None, like: Tensor) -> tuple[Tensor, Any]:
        if source is not None and not reads_codes(op):
            return source, reference.recall(op, (source,))
        evaluation = reference.Evaluation(op, (like,))
        S, start, blocks = evaluation.scalars, 0, []
        for window in evaluation.windows(S):
            here = None if source is None else source.reshape(-1)[start : start + window.size]
            blocks.append(None if here is None else (None, [here == tap for tap in range(evaluation.geometry.taps)]))
            start += window.size
        return like, (evaluation, blocks)


def places_of_taps(op: Any, codes: Tensor, shape: Shape) -> Tensor:
    """The flat indices in their planes of the cells that taps read, from the row-major numbers of
    the taps; -1 for the number after the last tap."""
    positions = op.positions(shape)
    axes = op.spatial(tuple(shape[p] for p in positions))
    left, found, step = codes.long(), torch.zeros_like(codes, dtype=torch.int64), 1
    for p, axis in reversed(list(zip(positions, axes, strict=True))):
        taps, runs = axis.taps().real.shape[1], axis.ranges()
        start = torch.as_tensor(runs.start, device=codes.device)
        dropped = codes.ndim < len(shape)  # without this axis, whose one window starts at 0
        start = start[0] if dropped else start.reshape(-1, *(1,) * (codes.ndim - 1 - p))
        found = found + (start + left % taps * runs.step) * step
        left, step = left // taps, step * axis.size
    return torch.where(left > 0, -1, found)


def as_array(x: Tensor) -> Any:
    """A tensor's memory as a NumPy array."""
    x = x.detach().resolve_neg()
    return x.view(torch.uint16).numpy().view(BFLOAT16) if x.dtype is torch.bfloat16 else x.numpy()


def as_tensor(array: Any) -> Tensor:
    """A NumPy array's memory as a tensor."""
    if BFLOAT16 is not None and array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


@functools.lru_cache(maxsize=256)
def lying(shape: Shape, channels_last: int) -> Shape | None:
    """The strides of a tensor of this layout, in elements; None if it is contiguous."""
    if not channels_last or len(shape) != channels_last:
        return None
    batch, *spatial, channels = strides((shape[0], *shape[2:], shape[1]))
    return (batch, channels, *spatial)


class OnTorchsThreads:
    """A context in which kernels run on torch's threads and on at most as many as torch may use, as
    in the workers of a DataLoader. Torch's threads spin for some milliseconds after each of its
    calls, so others would wait for cores."""

    __slots__ = ("before", "limit")

    def __enter__(self) -> None:
        allowed = torch.get_num_threads()
        self.limit = threads.num_threads(allowed) if allowed < threads.get_num_threads() else None
        if self.limit is not None:
            self.limit.__enter__()
        if allowed > 1:
            borrow()
        self.before, thread_pool.here.borrows = thread_pool.here.borrows, True

    def __exit__(self, *raised: Any) -> None:
        thread_pool.here.borrows = self.before
        if self.limit is not None:
            self.limit.__exit__(*raised)


@functools.cache
def borrow() -> None:
    """Find torch's threads, if its OpenMP runtime can lend them."""
    if torch.backends.openmp.is_available():
        thread_pool.borrow(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
