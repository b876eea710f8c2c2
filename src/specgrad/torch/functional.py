"""torch.nn.functional's pooling under its own names: same arguments, defaults, shapes, dtypes and errors, by specgrad's engines.

A call that these engines do not take, or that torch refuses, goes to torch's own function, which then answers or raises its own error:
integers, tensors of other layouts, classes or devices, inputs below `SMALL` elements, where calling from Python costs more than pooling,
and means of whole planes that lie together and want no gradient; and what is recorded to be run without us, by torch.jit, torch.fx and
exports to ONNX. Calls that torch is known to answer wrongly (`defects`) do not. Beyond torch's names: `smooth_max_pool1d/2d/3d`, and what `specgrad` has for any rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ..errors import SpecgradError
from ..functional import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_max_pool,
    max_pool,
    smooth_max_pool,
)
from ..ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from ..ranked import smooth_max_pool1d, smooth_max_pool2d, smooth_max_pool3d
from .defects import is_wrong
from .direct import is_plain, run
from .kernels import BFLOAT16, as_images, laid_out, last_axes, suggests_channels_last
from .operators import FAMILIES, FIELDS, HALVES, decoded
from .parsing import Asked, Ints, asking, bins, each, sliding

SMALL = 1 << 17
"""Elements of an input below which aten is called, and twice as many where a gradient is wanted: two calls from Python instead of one.
Measured with benchmarks/torch_front_end.py --small, where the slower of maximum and average draws level with torch."""

FLOATS = (torch.float32, torch.float64, torch.float16, *((torch.bfloat16,) if BFLOAT16 is not None else ()))
DEVICES = ("cpu", *(("cuda",) if all(map(find_spec, ("triton", "specgrad.engines.gpu"))) else ()))
"""Where there is an engine; elsewhere torch's own kernels are faster than the specification."""
CLASSES = (Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)


def _takes(function: str, x: Any, rank: int, padding: Any = 0, dilation: Any = 1, indices: bool = False) -> bool:
    """Whether an input is one for our engines: plain float cells, batched or not, and many of them, or known to be torch's to spoil."""
    if type(x) not in CLASSES or x.layout is not torch.strided or x.ndim not in (rank + 1, rank + 2):
        return False
    if torch.compiler.is_compiling():  # lengths may be symbols there, which a comparison would fix
        return x.dtype in FLOATS and x.device.type in DEVICES and not torch.onnx.is_in_onnx_export()
    if torch._C._get_tracing_state() is not None:
        return False
    least = max(SMALL * (1 + (x.requires_grad and torch.is_grad_enabled())), 1)
    if x.numel() >= least and x.dtype in FLOATS and x.device.type in DEVICES:
        return True
    return is_wrong(function, x, rank, padding, dilation, indices) and x.numel() > 0 and x.dtype is not torch.bool


def _widened(x: Tensor, rank: int) -> Tensor:
    """Under autocast on the CPU torch pools half floats of rank 3 in float32."""
    casts = rank == 3 and x.dtype in HALVES and x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return x.float() if casts else x


def _answered(asked: Asked, x: Tensor, return_indices: bool, torchs: Callable[[], Any]) -> Any:
    """What our operator gives; what it refuses is torch's to answer or to refuse."""
    try:
        return _found(asked, x, return_indices)
    except SpecgradError:
        return torchs()


def _found(asked: Asked, x: Tensor, return_indices: bool) -> Any:
    found = _run(asked, x, return_indices)
    if not asked.misses:
        return found
    value, *places = found if return_indices else (found,)
    value = _lowered(asked, value, x.shape)
    return (value, *places) if return_indices else value


def _lowered(asked: Asked, value: Tensor, shape: Sequence[int]) -> Tensor:
    """A maximum with torch's value, the lowest number of the dtype, for windows without a real cell."""
    words = dict(zip(FIELDS[asked.kind], asked.parameters, strict=True))
    lowest = -math.inf if value.is_floating_point() else torch.iinfo(value.dtype).min
    for i, axis in enumerate(words["axes"]):
        start = torch.arange(value.shape[axis], device=value.device) * words["stride"][i] - words["padding"][2 * i]
        cells = start[:, None] + torch.arange(words["kernel_size"][i], device=value.device) * words["dilation"][i]
        real = ((cells >= 0) & (cells < shape[axis])).any(1)
        value = torch.where(real.reshape(-1, *(1,) * (-axis - 1)), value, lowest)
    return value


def _run(asked: Asked, x: Tensor, return_indices: bool) -> Any:
    if is_plain(x):
        op = asked.op or decoded(asked.kind, asked.parameters)
        if not _is_one_volume(op, x):
            return run(op, x, return_indices)
        found = run(op, x.unsqueeze(0), return_indices, 5)  # of which the results, too, have their channels stored last
        return tuple(part.squeeze(0) for part in found) if return_indices else found.squeeze(0)
    made, last = FAMILIES[asked.kind], last_axes(x)
    if not return_indices:
        return made.value(x, last, *asked.parameters)
    value, codes = made.keep(x, last, *asked.parameters)
    return value, made.places(codes, x.detach(), list(x.shape), last, *asked.parameters)


def _is_one_volume(op: Any, x: Tensor) -> bool:
    """Whether this is the maximum of a volume without a batch axis whose channels are stored last: torch keeps that layout, of maxima alone."""
    return x.ndim == 4 and type(op) is MaxPool and len(op.kernel_size) == 3 and suggests_channels_last(*as_images(x, 3))


def _maximum(rank: int) -> Callable[..., Any]:
    name = f"max_pool{rank}d"
    torchs = getattr(F, name)

    def words(lengths: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
        found = sliding(lengths, kernel, stride, padding, dilation)
        return None if found is None else {**found, "ceil_mode": bool(ceil_mode), "ties": "first"}

    asked = asking(MaxPool, words)

    def function(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        def theirs() -> Any:
            return torchs(
                input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=return_indices
            )

        if not _takes(name, input, rank, padding, dilation, return_indices):
            return theirs()
        found = asked(input.shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
        return theirs() if found is None else _answered(found, _widened(input, rank), return_indices, theirs)

    return _named(function, name)


def _average(rank: int) -> Callable[..., Any]:
    name = f"avg_pool{rank}d"
    torchs = getattr(F, name)

    def words(lengths: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: Any, counted: Any, divisor: Any) -> Any:
        found = sliding(lengths, kernel, stride, padding, 1)
        if found is None or (divisor is not None and (not isinstance(divisor, int) or divisor == 0)):
            return None
        if rank == 3 and any(n < k for n, k in zip(lengths, found["kernel_size"], strict=True)):
            return None  # torch refuses it, of this rank only
        options = {"ceil_mode": bool(ceil_mode), "count_include_pad": bool(counted), "divisor_override": divisor}
        return {**found, **options}

    asked = asking(AvgPool, words)

    def run(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: tuple[Any, ...] = (),
    ) -> Any:
        def theirs() -> Any:
            steps = kernel_size if stride is None else stride
            return torchs(input, kernel_size, steps, padding, ceil_mode, count_include_pad, *divisor)

        if not _takes(name, input, rank, padding):
            return theirs()
        options = ceil_mode, count_include_pad, divisor[0] if divisor else None
        found = asked(input.shape[-rank:], kernel_size, stride, padding, *options)
        return theirs() if found is None else _answered(found, _widened(input, rank), False, theirs)

    def in_one_axis(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Any:
        return run(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def function(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        return run(input, kernel_size, stride, padding, ceil_mode, count_include_pad, (divisor_override,))

    return _named(in_one_axis if rank == 1 else function, name)


def _is_only_read(x: Any, rank: int) -> bool:
    """Whether the means of this tensor's planes are aten's to find, which reads at the speed of memory, too: they want no gradient, lie
    together, and are several, since threads share the cells of a single one in a way of their own."""
    return (
        torch._C._get_tracing_state() is None  # there lengths that are only looked at are recorded, too
        and type(x) is Tensor
        and not (x.requires_grad and torch.is_grad_enabled())
        and x.is_cpu
        and x.is_contiguous()
        and x.shape[:-rank].numel() > 1
        and SMALL > 0
    )


def _adaptive(rank: int, maximum: bool) -> Callable[..., Any]:
    name = f"adaptive_{'max' if maximum else 'avg'}_pool{rank}d"
    torchs, kind = getattr(F, name), AdaptiveMaxPool if maximum else AdaptiveAvgPool
    wholes = (1, (1,) * rank, [1] * rank)
    aten = torchs if maximum or rank == 1 else getattr(torch._C._nn, name)  # where the function of F ends

    asked = asking(kind, bins)

    def run(input: Tensor, output_size: Any, return_indices: bool, theirs: Callable[[], Any]) -> Any:
        if not _takes(name, input, rank) or (found := asked(input.shape[-rank:], output_size)) is None:
            return theirs()
        return _answered(found, _widened(input, rank), return_indices, theirs)

    def largest(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return run(
            input, output_size, return_indices, lambda: torchs(input, output_size, return_indices=return_indices)
        )

    def mean(input: Tensor, output_size: Any) -> Any:
        if type(output_size) in (int, tuple, list) and output_size in wholes and _is_only_read(input, rank):
            return aten(input, output_size)
        return run(input, output_size, False, lambda: torchs(input, output_size))

    return _named(largest if maximum else mean, name)


def _power(rank: int) -> Callable[..., Any]:
    name = f"lp_pool{rank}d"
    torchs, averaged, largest = getattr(F, name), _average(rank), _maximum(rank)

    def function(
        input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> Any:
        kernel = each(kernel_size, rank)
        sequence = isinstance(kernel_size, tuple | list)
        usual = isinstance(norm_type, int | float) and (not sequence or len(kernel_size) == rank > 1)  # type: ignore[arg-type]
        if not _takes(name, input, rank) or kernel is None or not usual:
            return torchs(input, norm_type, kernel_size, stride, ceil_mode)
        if norm_type == math.inf:
            return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -math.inf:
            return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        mean = averaged(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (torch.sign(mean) * torch.relu(mean.abs())).mul(math.prod(kernel)).pow(1.0 / norm_type)

    return _named(function, name)


def _unpool(rank: int) -> Callable[..., Any]:
    name = f"max_unpool{rank}d"
    torchs = getattr(F, name)

    def function(
        input: Tensor,
        indices: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Sequence[int] | None = None,
    ) -> Any:
        # torch's own kernel lets threads race for a cell that two indices name; a scatter along one axis takes them in order
        usual = type(input) in CLASSES and input.layout is torch.strided and input.ndim in (rank + 1, rank + 2)
        named = isinstance(indices, Tensor) and indices.dtype is torch.int64 and indices.shape == input.shape
        if usual and named and input.numel() > 0:
            wanted = [each(v, rank) for v in (kernel_size, kernel_size if stride is None else stride, padding)]
            try:
                lengths = F._unpool_output_size(input, *wanted, output_size)[-rank:]  # type: ignore[attr-defined]
                flat = input.new_zeros((*input.shape[:-rank], math.prod(lengths)))
                filled = flat.scatter(-1, indices.flatten(-rank), input.flatten(-rank))
                filled = filled.reshape(*input.shape[:-rank], *lengths)
                return laid_out(filled, last_axes(input)) if rank == 2 else filled
            except (RuntimeError, TypeError, ValueError):  # torch refuses it in its own words
                pass
        return torchs(input, indices, kernel_size, stride, padding, output_size)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under torch's name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`torch.nn.functional.{name}`, by specgrad's engines."
    return function


max_pool1d, max_pool2d, max_pool3d = map(_maximum, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_average, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive(rank, True) for rank in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive(rank, False) for rank in (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = map(_power, (1, 2, 3))
max_unpool1d, max_unpool2d, max_unpool3d = map(_unpool, (1, 2, 3))

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "global_avg_pool",
    "global_max_pool",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "smooth_max_pool",
    "smooth_max_pool1d",
    "smooth_max_pool2d",
    "smooth_max_pool3d",
]
