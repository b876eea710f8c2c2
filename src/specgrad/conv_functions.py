"""Convolution, its adjoint, patches and linear maps as functions, as `functional` has pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import A, Ints, Padding
from .functional import Array, _make
from .glossary import documented
from .operator import shape_of
from .ops import Conv, ConvTranspose, Fold, Linear, Unfold


@documented
def conv(
    x: A,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out: A | None = None,
) -> A:
    """bias + Σ x·weight over the window.

    x is (*batch, in, *spatial) and weight (out, in/groups, *kernel).

    `Conv` is the operator.

    >>> import numpy as np
    >>> conv(np.array([[1.0, 2.0, 3.0]]), np.array([[[1.0, 10.0]]]))
    array([[21., 32.]])
    """
    op = _make(Conv, _kernel("conv", weight), stride=stride, padding=padding, dilation=dilation, groups=groups)
    return op(x, weight, bias, out=out)


@documented
def conv_transpose(
    x: A,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out: A | None = None,
) -> A:
    """The adjoint of `conv` in its input, plus bias, for weight (in, out/groups, *kernel).

    `ConvTranspose` is the operator.

    >>> import numpy as np
    >>> conv_transpose(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]), stride=2)
    array([[ 1., 10.,  2., 20.]])
    """
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


@documented
def unfold(
    x: A,
    kernel_size: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    out: A | None = None,
) -> A:
    """The patches of a sliding kernel as columns (*batch, channels * Πkernel, patches).

    `Unfold` is the operator.

    >>> import numpy as np
    >>> unfold(np.array([[1.0, 2.0, 3.0]]), (2,))
    array([[1., 2.],
           [2., 3.]])
    """
    return _make(Unfold, kernel_size, stride=stride, padding=padding, dilation=dilation)(x, out=out)


@documented
def fold(
    columns: A,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    out: A | None = None,
) -> A:
    """The columns summed into (*batch, channels, *output_size): the transpose of `unfold`.

    `Fold` is the operator.

    >>> import numpy as np
    >>> fold(np.array([[1.0, 2.0], [2.0, 3.0]]), (3,), (2,))
    array([[1., 4., 3.]])
    """
    op = _make(Fold, kernel_size, output_size, stride=stride, padding=padding, dilation=dilation)
    return op(columns, out=out)


@documented
def linear(x: A, weight: Array, bias: Array | None = None, *, out: A | None = None) -> A:
    """bias[o] + Σ_i x[..., i]·weight[o, i], for weight (out, in).

    `Linear` is the operator.

    >>> import numpy as np
    >>> linear(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]))
    array([11.])
    """
    return _make(Linear)(x, weight, bias, out=out)


def _kernel(name: str, weight: Any) -> tuple[int, ...]:
    return shape_of(name, "weight", weight)[2:]
