"""The sliding-window operators as functions: each builds the frozen operator and applies it.

A function takes an array (NumPy floats, integers where the operator allows, objects of any scalar), a Dual, or a Var, and returns
its like. All parameters mean what the operator's own docstring says; `out` is an array to write the value into. Functions of cells,
shapes and losses are in `array_functions`.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from . import arguments, dispatch
from .arguments import Ints, Padding
from .operator import shape_of
from .ops import (
    Abs,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    Fold,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    LpPool,
    MaxPool,
    MaxUnpool,
    MinPool,
    SmoothMaxPool,
    SumPool,
    Unfold,
)
from .ops.pool import Extremum

Array = Any
_T = TypeVar("_T")

_made: dict[Any, Any] = {}


def _make(kind: Callable[..., _T], *given: Any, **options: Any) -> _T:
    """The operator, made once for arguments that are written alike: checking them costs more than a small pooling. Options are told by their places,
    so all calls for one kind name them in one order."""
    if dispatch.tracer is not None and dispatch.traced():
        return kind(*given, **options)
    try:
        key = kind, marshal.dumps((given, *options.values()), 2)  # unlike ==, it tells 2 from 2.0 and True
    except ValueError:
        return kind(*given, **options)
    found: _T | None = _made.get(key)
    if found is None:
        found = kind(*given, **options)
        if _is_plain((given, *options.values())):
            if len(_made) > 1000:
                _made.clear()
            _made[key] = found
    return found


def _is_plain(value: Any) -> bool:
    """Whether nothing in it is NumPy's, of which marshal writes the bytes alone: np.True_ and np.int8(1) are the same to it."""
    return all(map(_is_plain, value)) if isinstance(value, list | tuple) else not hasattr(value, "dtype")


def _extremum(op: Extremum, x: Array, return_indices: bool, out: Array | None) -> Any:
    if return_indices is not False and arguments.flag(op.name, "return_indices", return_indices):
        return dispatch.with_indices(op, (x,), out)
    return op(x, out=out)


def max_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The greatest real cell under a sliding kernel; with `return_indices` also where it is in its plane. See `MaxPool`."""
    op = _make(
        MaxPool,
        kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        ties=ties,
        axes=axes,
    )
    return _extremum(op, x, return_indices, out)


def min_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The lowest real cell under a sliding kernel; with `return_indices` also where it is in its plane. See `MinPool`."""
    op = _make(
        MinPool,
        kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        ties=ties,
        axes=axes,
    )
    return _extremum(op, x, return_indices, out)


def sum_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The sum of the cells under a sliding kernel. See `SumPool`."""
    op = _make(SumPool, kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode, axes=axes)
    return op(x, out=out)


def lp_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    p: int | float | Fraction,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """(Σ |cell|^p)^(1/p) under a sliding kernel, for p from 1 to infinity. See `LpPool`."""
    window: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    if isinstance(p, int | float) and p in (1, math.inf) and not isinstance(p, bool):
        kind: Any = SumPool if p == 1 else MaxPool
        return _make(kind, kernel_size, **window, axes=axes)(Abs()(x), out=out)
    return _make(LpPool, kernel_size, p=p, **window, axes=axes)(x, out=out)


def max_unpool(y: Array, indices: Array, output_size: Sequence[int], *, out: Array | None = None) -> Any:
    """The cells of y at their indices in planes of zeros: the way back from `max_pool`. See `MaxUnpool`."""
    return _make(MaxUnpool, output_size)(y, indices, out=out)


def avg_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The mean of the cells under a sliding kernel, padding being 0. See `AvgPool`."""
    op = _make(
        AvgPool,
        kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
        axes=axes,
    )
    return op(x, out=out)


def smooth_max_pool(
    x: Array,
    kernel_size: Sequence[int],
    *,
    beta: int | float | Fraction,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    pad: str = "zero",
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """(1/beta) log Σ exp(beta x) of the cells under a sliding kernel. See `SmoothMaxPool`."""
    op = _make(
        SmoothMaxPool,
        kernel_size,
        beta=beta,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        pad=pad,
        axes=axes,
    )
    return op(x, out=out)


def adaptive_max_pool(
    x: Array,
    output_size: Sequence[int | None],
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The greatest cell of each of `output_size` evenly spread bins. See `AdaptiveMaxPool`."""
    return _extremum(_make(AdaptiveMaxPool, output_size, ties=ties, axes=axes), x, return_indices, out)


def adaptive_avg_pool(
    x: Array, output_size: Sequence[int | None], *, axes: Sequence[int] | None = None, out: Array | None = None
) -> Any:
    """The mean of each of `output_size` evenly spread bins. See `AdaptiveAvgPool`."""
    return _make(AdaptiveAvgPool, output_size, axes=axes)(x, out=out)


def global_max_pool(
    x: Array,
    rank: int,
    *,
    ties: str = "all",
    keepdims: bool = True,
    axes: Sequence[int] | None = None,
    out: Array | None = None,
) -> Any:
    """The greatest cell of the whole plane of the last `rank` axes. See `GlobalMaxPool`."""
    return _make(GlobalMaxPool, rank, ties=ties, keepdims=keepdims, axes=axes)(x, out=out)


def global_avg_pool(
    x: Array, rank: int, *, keepdims: bool = True, axes: Sequence[int] | None = None, out: Array | None = None
) -> Any:
    """The mean of the whole plane of the last `rank` axes. See `GlobalAvgPool`."""
    return _make(GlobalAvgPool, rank, keepdims=keepdims, axes=axes)(x, out=out)


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out: Array | None = None,
) -> Any:
    """bias + Σ x·weight over the window, for x (*batch, in, *spatial) and weight (out, in/groups, *kernel). See `Conv`."""
    op = _make(Conv, _kernel("conv", weight), stride=stride, padding=padding, dilation=dilation, groups=groups)
    return op(x, weight, bias, out=out)


def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out: Array | None = None,
) -> Any:
    """The adjoint of `conv` in its input, plus bias, for weight (in, out/groups, *kernel). See `ConvTranspose`."""
    op = _make(
        ConvTranspose,
        _kernel("conv_transpose", weight),
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )
    return op(x, weight, bias, out=out)


def unfold(
    x: Array,
    kernel_size: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    out: Array | None = None,
) -> Any:
    """The patches under a sliding kernel as columns (*batch, channels * Πkernel, patches). See `Unfold`."""
    return _make(Unfold, kernel_size, stride=stride, padding=padding, dilation=dilation)(x, out=out)


def fold(
    columns: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    out: Array | None = None,
) -> Any:
    """Columns added up to (*batch, channels, *output_size): the transpose of `unfold`. See `Fold`."""
    op = _make(Fold, kernel_size, output_size, stride=stride, padding=padding, dilation=dilation)
    return op(columns, out=out)


def linear(x: Array, weight: Array, bias: Array | None = None, *, out: Array | None = None) -> Any:
    """bias[o] + Σ_i x[..., i]·weight[o, i], for weight (out, in). See `Linear`."""
    return Linear()(x, weight, bias, out=out)


def _kernel(name: str, weight: Any) -> tuple[int, ...]:
    return shape_of(name, "weight", weight)[2:]
