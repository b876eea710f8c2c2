"""torch.nn.functional's pooling functions on specgrad's engines: same names, arguments, defaults,
shapes, dtypes and errors.

A call that the engines do not support, or that torch refuses, goes to torch's own function, which
returns its result or raises its own error. This includes integers, tensors of other layouts,
classes or devices, small inputs (`routing`), and calls recorded by torch.jit, torch.fx and exports
to ONNX. Other names here are `smooth_max_pool1d/2d/3d`, and `specgrad`'s functions of any rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import Tensor

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
from .kernels import laid_out, last_axes
from .operators import HALVES
from .parsing import Ints, bins, each, sliding, unpooled
from .routing import CLASSES, Function, is_cast, is_widened, takes


def _maximum(rank: int) -> Any:
    name = f"max_pool{rank}d"
    torchs = getattr(F, name)

    def words(lengths: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
        found = sliding(lengths, kernel, stride, padding, dilation)
        if found is None or not isinstance(ceil_mode, bool):
            return None
        return {**found, "ceil_mode": ceil_mode, "ties": "first"}

    def theirs(input: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        kernel, stride, padding, dilation, ceil_mode = arguments
        return torchs(input, kernel, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=indices)

    answer = Function(name, MaxPool, words, theirs, padding=2, dilation=3).answer

    def function(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return answer(input, (kernel_size, stride, padding, dilation, ceil_mode), bool(return_indices))

    return _named(function, name, answer)


def _average(rank: int) -> Any:
    name = f"avg_pool{rank}d"
    torchs = getattr(F, name)

    def words(
        lengths: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: Any, counted: Any, divisor: Any = None
    ) -> Any:
        found = sliding(lengths, kernel, stride, padding, 1)
        if found is None or not isinstance(ceil_mode, bool) or not isinstance(counted, bool):
            return None
        if divisor is not None and (not isinstance(divisor, int) or divisor == 0):
            return None
        if rank == 3 and any(n < k for n, k in zip(lengths, found["kernel_size"], strict=True)):
            return None  # torch refuses it, of this rank only
        options = {"ceil_mode": ceil_mode, "count_include_pad": counted, "divisor_override": divisor}
        return {**found, **options}

    def theirs(input: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        kernel, stride, *others = arguments
        return torchs(input, kernel, kernel if stride is None else stride, *others)

    answer = Function(name, AvgPool, words, theirs, padding=2).answer

    def in_one_axis(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Any:
        return answer(input, (kernel_size, stride, padding, ceil_mode, count_include_pad), False)

    def function(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        arguments = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return answer(input, arguments, False)

    return _named(in_one_axis if rank == 1 else function, name, answer)


def _adaptive(rank: int, maximum: bool) -> Any:
    name = f"adaptive_{'max' if maximum else 'avg'}_pool{rank}d"
    torchs = getattr(F, name)

    def theirs(input: Any, arguments: tuple[Any, ...], indices: bool) -> Any:
        return torchs(input, *arguments, return_indices=indices) if maximum else torchs(input, *arguments)

    answer = Function(name, AdaptiveMaxPool if maximum else AdaptiveAvgPool, bins, theirs).answer

    def largest(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return answer(input, (output_size,), bool(return_indices))

    def mean(input: Tensor, output_size: Any) -> Any:
        return answer(input, (output_size,), False)

    return _named(largest if maximum else mean, name, answer)


def _power(rank: int) -> Any:
    name = f"lp_pool{rank}d"
    torchs, averaged, largest = getattr(F, name), _average(rank), _maximum(rank)

    def function(
        input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> Any:
        kernel = each(kernel_size, rank)
        sequence = isinstance(kernel_size, tuple | list)
        usual = isinstance(norm_type, int | float) and (not sequence or len(kernel_size) == rank > 1)  # type: ignore[arg-type]
        if not usual or kernel is None or not takes(input, rank, norm_type in (math.inf, -math.inf)):
            return torchs(input, norm_type, kernel_size, stride, ceil_mode)
        if norm_type == math.inf:
            return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -math.inf:
            return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        halved = input.dtype in HALVES  # rounded once, at the end, because powers overflow soon
        x = input.float() if halved else input
        mean = averaged(x.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        norm = (torch.sign(mean) * torch.relu(mean.abs())).mul(math.prod(kernel)).pow(1.0 / norm_type)
        return norm.to(input.dtype) if halved and not is_widened(input, rank) else norm

    return _named(function, name)


def _unpool(rank: int) -> Any:
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
        # in torch's own kernel, threads race for a cell that has two equal indices; a scatter along
        # one axis writes in order
        usual = type(input) in CLASSES and input.layout is torch.strided and input.ndim in (rank + 1, rank + 2)
        named = isinstance(indices, Tensor) and indices.dtype is torch.int64 and indices.shape == input.shape
        if usual and named and input.numel() > 0:
            step = kernel_size if stride is None else stride
            lengths = unpooled(input.shape[-rank:], kernel_size, step, padding, output_size)
            if lengths is not None:
                x = input.float() if is_cast(input) else input
                try:
                    lead, cells = x.shape[:-rank], math.prod(x.shape[-rank:])
                    planes = math.prod(lead)
                    # by way of one axis, because `flatten` would guard symbolic lengths
                    at, values = (t.reshape(-1).reshape(planes, cells) for t in (indices, x))
                    filled = x.new_zeros((planes, math.prod(lengths))).scatter(-1, at, values)
                    filled = filled.reshape(-1).reshape(*lead, *lengths)
                    return laid_out(filled, last_axes(x)) if rank == 2 else filled
                except RuntimeError:  # torch refuses it in its own words
                    pass
        return torchs(input, indices, kernel_size, stride, padding, output_size)

    return _named(function, name)


def _named(function: Any, name: str, answer: Callable[..., Any] | None = None) -> Any:
    """The function with torch's name and docstring. Modules call its `answer` directly."""
    function.answer = answer
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
