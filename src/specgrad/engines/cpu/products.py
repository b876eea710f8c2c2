"""The three products of convolution, transposed convolution and linear maps.

With the weight of a group as a matrix W (narrow channels × columns) and P the columns of an image,
the wide cells that each tap reads:

    narrow = W P          conv's value; conv_transpose's input cotangent
    wide   = fold(Wᵀ N)   conv's input cotangent; conv_transpose's value
    weight = N Pᵀ         both weight cotangents

where N are the narrow cells. No columns are built (`emitters.gemm`, `emitters.weight_gradient`).
Where one window is a whole image, as of linear maps, products are BLAS's. Zeros that stand for
padding are multiplied; where a factor is not finite, other kernels skip them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ... import threads
from .bilinear import Plan
from .blas import as_many_threads
from .gemm import ITEMS, product
from .weight_gradient import gradient

Array = npt.NDArray[Any]


@np.errstate(all="ignore")
def product_of(p: Plan, forward: bool, source: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """out[image, group] = W · columns(source[image, group]) + bias (forward); else Wᵀ · source,
    every column cell added to the cell that it was read from, + bias."""
    if not out.size:
        return out
    if not p.single:
        spoils = p.padded if forward else not p.pointwise
        is_seen = spoils and out.size < weight.size  # 0 times infinity leaves a NaN: fewer results than weights to ask
        skips = spoils and not is_seen and not np.isfinite(weight).all()
        product(p, forward, source.dtype, skips, items())(source, weight, bias, out)
        if is_seen and np.isnan(out.min()) and not np.isfinite(weight).all():
            product(p, forward, source.dtype, True, items())(source, weight, bias, out)
        return out
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    matrix = matrix.transpose(0, 2, 1) if forward else matrix
    given, made = (array.reshape(p.images, p.groups, -1).swapaxes(0, 1) for array in (source, out))
    with as_many_threads():
        np.matmul(given, matrix, out=made)
    if bias is not None:
        out += bias.reshape(p.groups, -1, 1)
    return out


@np.errstate(all="ignore")
def weight_of(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """out[group] = Σ over images of N · columns(wide)ᵀ."""
    if not out.size:
        return out
    if p.single:
        matrix = out.reshape(p.groups, p.narrow_channels, p.columns)
        columns = wide.reshape(p.images, p.groups, p.columns).swapaxes(0, 1)
        with as_many_threads():
            np.matmul(narrow[..., 0].transpose(1, 2, 0), columns, out=matrix)
        return out
    gradient(p, wide.dtype, False, items())(wide, narrow, out)
    if np.isnan(out.min(initial=0)):
        gradient(p, wide.dtype, True)(wide, narrow, out)
    return out


def items() -> int:
    """Into how many items work is cut, so that all threads have some."""
    return min(ITEMS, threads.get_num_threads() ** 2)
