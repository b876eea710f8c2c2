"""The three products of convolution, transposed convolution and linear maps, value and derivatives of both.

With the weight of a group as a matrix W (narrow channels × columns) and P the columns of an image, the wide cells that each tap reads:

    narrow = W P          conv's value; conv_transpose's input cotangent
    wide   = fold(Wᵀ N)   conv's input cotangent; conv_transpose's value
    weight = N Pᵀ         both weight cotangents

where N are the narrow cells. No columns are built (`emitters.gemm`, `emitters.weight_gradient`). Linear maps and 1×1 kernels of very
many channels are BLAS's. Zeros that stand for padding are multiplied; where a factor is not finite, other kernels skip them.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import threads
from ...memory import room
from .bilinear import Plan
from .blas import as_many_threads, one_thread_each
from .gemm import product
from .weight_gradient import gradient

Array = npt.NDArray[Any]


@np.errstate(all="ignore")
def product_of(p: Plan, forward: bool, source: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """out[image, group] = W · columns(source[image, group]) + bias (forward); else Wᵀ · source, every
    column cell added to the cell that it was read from, + bias."""
    if not out.size:
        return out
    if not p.is_by_blas:
        spoils = p.padded if forward else not p.pointwise
        product(p, forward, source.dtype, spoils and not is_finite(weight))(source, weight, bias, out)
        return out
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    matrix = matrix if forward else matrix.transpose(0, 2, 1)
    if p.single:
        with as_many_threads():
            for group in range(p.groups):
                np.matmul(source[:, group, :, 0], matrix[group].T, out=out[:, group, :, 0])
    else:
        pairs = list(itertools.product(range(p.images), range(p.groups)))
        run(p, lambda at: np.matmul(matrix[at[1]], source[at], out=out[at]), pairs)
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
        with as_many_threads():
            for group in range(p.groups):
                np.matmul(narrow[:, group, :, 0].T, wide[:, group, :, 0], out=matrix[group])
        return out
    gradient(p, wide.dtype, False)(wide, narrow, out)
    if np.isnan(out.min(initial=0)):
        gradient(p, wide.dtype, True)(wide, narrow, out)
    return out


def run(p: Plan, work: Any, tasks: list[Any]) -> None:
    """Do all tasks with one BLAS thread each: on this thread if they are small, else on all of
    them."""
    quiet = np.errstate(all="ignore")(work)  # each thread has an error state of its own
    with one_thread_each():
        if p.is_small:
            for task in tasks:
                quiet(task)
        else:
            threads.run(quiet, tasks)


def is_finite(weight: Array) -> bool:
    """Whether zeros may stand for padding."""
    return bool(np.isfinite(weight, out=room(weight.shape, np.dtype(np.bool_))).all())
