"""Pooling as functions: each builds the frozen operator and applies it.

A function takes an array (NumPy floats, integers where the operator allows, objects of any scalar),
a Dual, a tensor or a Var, and returns its like. What the parameters mean is written once, in
`glossary`. Convolution is in `conv_functions`, functions of cells, shapes and losses in
`array_functions`.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from . import arguments, dispatch
from .arguments import A, Ints, Padding
from .glossary import documented
from .ops import (
    Abs,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    MaxUnpool,
    MinPool,
    SmoothMaxPool,
    SumPool,
)
from .ops.pool import Extremum

Array = Any
_T = TypeVar("_T")


class _Adaptive(TypedDict, total=False):
    """The options of an extremum, for overloads; the functions themselves have the defaults."""

    ties: str
    axes: Sequence[int] | None
    out: Any


class _Sliding(_Adaptive, total=False):
    stride: Ints | None
    padding: Padding
    dilation: Ints
    ceil_mode: bool


_made: dict[Any, Any] = {}


def _make(kind: Callable[..., _T], *given: Any, **options: Any) -> _T:
    """The operator, made once for arguments that are written alike: checking them costs more than a
    small pooling. The key has options by their places: calls of a kind name them in one order."""
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
    """Whether nothing in it is NumPy's, of which marshal writes the bytes alone: to it np.True_ and
    np.int8(1) are the same."""
    return all(map(_is_plain, value)) if isinstance(value, list | tuple) else not hasattr(value, "dtype")


def _extremum(op: Extremum, x: Array, return_indices: bool, out: Array | None) -> Any:
    if return_indices is not False and arguments.flag(op.name, "return_indices", return_indices):
        return dispatch.with_indices(op, (x,), out)
    return op(x, out=out)


@overload
def max_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: Literal[False] = False, **options: Unpack[_Sliding]
) -> A: ...
@overload
def max_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: Literal[True], **options: Unpack[_Sliding]
) -> tuple[A, Any]: ...
@overload
def max_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: bool, **options: Unpack[_Sliding]
) -> A | tuple[A, Any]: ...
@documented
def max_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> Any:
    """The maximum of the cells in each window of a sliding kernel. Padding is ignored.

    `MaxPool` is the operator.

    >>> import numpy as np
    >>> max_pool(np.array([1.0, 3.0, 2.0]), (2,), stride=1)
    array([3., 3.])
    """
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


@overload
def min_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: Literal[False] = False, **options: Unpack[_Sliding]
) -> A: ...
@overload
def min_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: Literal[True], **options: Unpack[_Sliding]
) -> tuple[A, Any]: ...
@overload
def min_pool(
    x: A, kernel_size: Sequence[int], *, return_indices: bool, **options: Unpack[_Sliding]
) -> A | tuple[A, Any]: ...
@documented
def min_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> Any:
    """The minimum of the cells in each window of a sliding kernel. Padding is ignored.

    `MinPool` is the operator.

    >>> import numpy as np
    >>> min_pool(np.array([1.0, 3.0, 2.0]), (2,), stride=1)
    array([1., 2.])
    """
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


@documented
def sum_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> A:
    """The sum of the cells in each window of a sliding kernel. Padding adds 0.

    `SumPool` is the operator.

    >>> import numpy as np
    >>> sum_pool(np.array([1.0, 3.0, 2.0]), (2,), stride=1)
    array([4., 5.])
    """
    op = _make(SumPool, kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode, axes=axes)
    return op(x, out=out)


@documented
def lp_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    p: int | float | Fraction,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> A:
    """(Σ |cell|^p)^(1/p) over each window of a sliding kernel, for p from 1 to infinity. Padding
    adds 0.

    `LpPool` is the operator.

    >>> import numpy as np
    >>> lp_pool(np.array([3.0, -4.0]), (2,), p=2)
    array([5.])
    """
    window: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    if isinstance(p, int | float) and p in (1, math.inf) and not isinstance(p, bool):
        kind: Any = SumPool if p == 1 else MaxPool
        return _make(kind, kernel_size, **window, axes=axes)(Abs()(x), out=out)
    return _make(LpPool, kernel_size, p=p, **window, axes=axes)(x, out=out)


@documented
def max_unpool(y: A, indices: Array, output_size: Sequence[int], *, out: A | None = None) -> A:
    """The values y written to their indices in planes of zeros: a partial inverse of `max_pool`.

    `MaxUnpool` is the operator.

    >>> import numpy as np
    >>> max_unpool(np.array([3.0, 2.0]), np.array([1, 2]), (4,))
    array([0., 3., 2., 0.])
    """
    return _make(MaxUnpool, output_size)(y, indices, out=out)


@documented
def avg_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> A:
    """The mean of the cells in each window of a sliding kernel. Padding adds 0.

    `AvgPool` is the operator.

    >>> import numpy as np
    >>> avg_pool(np.array([1.0, 3.0, 2.0]), (2,), stride=1)
    array([2. , 2.5])
    """
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


@documented
def smooth_max_pool(
    x: A,
    kernel_size: Sequence[int],
    *,
    beta: int | float | Fraction,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    pad: str = "zero",
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> A:
    """(1/beta) log Σ exp(beta x) over the cells x in each window of a sliding kernel.

    `SmoothMaxPool` is the operator.

    >>> import numpy as np
    >>> smooth_max_pool(np.array([1.0, 2.0, 3.0, 4.0]), (4,), beta=10).round(6)
    array([4.000005])
    """
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


@overload
def adaptive_max_pool(
    x: A, output_size: Sequence[int | None], *, return_indices: Literal[False] = False, **options: Unpack[_Adaptive]
) -> A: ...
@overload
def adaptive_max_pool(
    x: A, output_size: Sequence[int | None], *, return_indices: Literal[True], **options: Unpack[_Adaptive]
) -> tuple[A, Any]: ...
@overload
def adaptive_max_pool(
    x: A, output_size: Sequence[int | None], *, return_indices: bool, **options: Unpack[_Adaptive]
) -> A | tuple[A, Any]: ...
@documented
def adaptive_max_pool(
    x: A,
    output_size: Sequence[int | None],
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> Any:
    """The maximum of each of `output_size` evenly spread bins, which may overlap.

    `AdaptiveMaxPool` is the operator.

    >>> import numpy as np
    >>> adaptive_max_pool(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), (3,))
    array([2., 4., 5.])
    """
    return _extremum(_make(AdaptiveMaxPool, output_size, ties=ties, axes=axes), x, return_indices, out)


@documented
def adaptive_avg_pool(
    x: A, output_size: Sequence[int | None], *, axes: Sequence[int] | None = None, out: A | None = None
) -> A:
    """The mean of each of `output_size` evenly spread bins, which may overlap.

    `AdaptiveAvgPool` is the operator.

    >>> import numpy as np
    >>> adaptive_avg_pool(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), (3,))
    array([1.5, 3. , 4.5])
    """
    return _make(AdaptiveAvgPool, output_size, axes=axes)(x, out=out)


@documented
def global_max_pool(
    x: A,
    rank: int,
    *,
    ties: str = "all",
    keepdims: bool = True,
    axes: Sequence[int] | None = None,
    out: A | None = None,
) -> A:
    """The maximum of the whole plane of the last `rank` axes.

    `GlobalMaxPool` is the operator.

    >>> import numpy as np
    >>> global_max_pool(np.array([[1.0, 3.0], [3.0, 2.0]]), 2)
    array([[3.]])
    """
    return _make(GlobalMaxPool, rank, ties=ties, keepdims=keepdims, axes=axes)(x, out=out)


@documented
def global_avg_pool(
    x: A, rank: int, *, keepdims: bool = True, axes: Sequence[int] | None = None, out: A | None = None
) -> A:
    """The mean of the whole plane of the last `rank` axes.

    `GlobalAvgPool` is the operator.

    >>> import numpy as np
    >>> global_avg_pool(np.array([[1.0, 3.0], [3.0, 2.0]]), 2, keepdims=False)
    array(2.25)
    """
    return _make(GlobalAvgPool, rank, keepdims=keepdims, axes=axes)(x, out=out)
