"""Convolution, transposed convolution and linear maps of NumPy floats, by three products.

With the weight of a group as a matrix W (narrow channels × columns) and P the columns of an image,
the wide cells that each tap reads:

    narrow = W P          conv's value; conv_transpose's input cotangent
    wide   = fold(Wᵀ N)   conv's input cotangent; conv_transpose's value
    weight = N Pᵀ         both weight cotangents

where N are the narrow cells. No columns are built (`emitters.gemm`, `emitters.weight_gradient`).
Where one window is a whole image, as of linear maps, they are there (`emitters.matmul`). Zeros that
stand for padding are multiplied; where a factor is not finite, other kernels skip them.

Peak extra memory of a call, beyond a band per thread and the packed weight: for half floats a copy
of each operand and result in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import threads
from ...geometry import Adaptive, Shape
from ...memory import Array, room
from ...ops.conv import Conv, ConvTranspose, Linear
from . import matmul
from .bilinear import Plan, plan
from .codegen import CodegenError
from .codegen.values import CELLS
from .gemm import product
from .network import RULES, Rule
from .operands import handed_over
from .passes import Fold
from .schedule import chain
from .steps import Chain, Step
from .weight_gradient import gradient

ITEM = 1 << 22  # multiplications of an item, at least, where it is not alone


def product_of(p: Plan, forward: bool, source: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """out[image, group] = W · columns(source[image, group]) + bias (forward); else Wᵀ · source,
    every column cell added to the cell that it was read from, + bias."""
    source, weight = laid(source), laid(weight)
    if p.single:
        if bias is not None and out.size != p.images * bias.size:  # one number for all cells of a channel
            bias = np.repeat(bias, out.size // (p.images * bias.size))
        kernel = whole(p, forward, source.dtype, 0 if bias is None else p.groups, threads.get_num_threads())
        if kernel is not None:
            kernel(source, weight, bias, out)
            return
        given, matrix, made = factors(p, forward, source, weight, out)
        matmul.product(given, matrix, made, None if bias is None else bias.reshape(p.groups, -1))
        return
    spoils = p.padded if forward else not p.pointwise
    is_seen = spoils and out.size < weight.size  # 0 times infinity leaves a NaN: fewer results than weights to ask
    skips = spoils and not is_seen and not np.isfinite(weight).all()
    shared_out(product, threads.get_num_threads(), p, forward, source.dtype, skips)(source, weight, bias, out)
    if is_seen and np.isnan(out.min()) and not np.isfinite(weight).all():
        shared_out(product, threads.get_num_threads(), p, forward, source.dtype, True)(source, weight, bias, out)


def weight_of(p: Plan, wide: Array, narrow: Array, out: Array) -> None:
    """out[group] = Σ over images of N · columns(wide)ᵀ."""
    wide, narrow = laid(wide), laid(narrow)
    if p.single:
        kernel = whole(p, None, wide.dtype, 0, threads.get_num_threads())
        if kernel is not None:
            kernel(narrow, wide, None, out)
        else:
            matmul.product(*outer_factors(p, wide, narrow, out))
        return
    is_seen = out.size <= wide.size + narrow.size  # as above: 0 times infinity leaves a NaN
    skips = not is_seen and not (np.isfinite(wide).all() and np.isfinite(narrow).all())
    shared_out(gradient, threads.get_num_threads(), p, wide.dtype, skips)(wide, narrow, out)
    if is_seen and np.isnan(out.min(initial=0)):
        shared_out(gradient, threads.get_num_threads(), p, wide.dtype, True)(wide, narrow, out)


def factors(p: Plan, forward: bool, source: Array, weight: Array, out: Array) -> tuple[Array, Array, Array]:
    """Both matrices of `product_of`, and their product, where one window is a whole image."""
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    given, made = (array.reshape(p.images, p.groups, -1).swapaxes(0, 1) for array in (source, out))
    return given, matrix.transpose(0, 2, 1) if forward else matrix, made


def outer_factors(p: Plan, wide: Array, narrow: Array, out: Array) -> tuple[Array, Array, Array]:
    """The same of `weight_of`."""
    columns = wide.reshape(p.images, p.groups, p.columns).swapaxes(0, 1)
    matrix = out.reshape(p.groups, p.narrow_channels, p.columns)
    return narrow.reshape(p.images, p.groups, -1).transpose(1, 2, 0), columns, matrix


@functools.lru_cache(maxsize=256)
def whole(p: Plan, forward: bool | None, dtype: np.dtype[Any], biases: int, members: int) -> matmul.Planned | None:
    """The kernel of `product_of`, or of `weight_of` (None), where one window is a whole image: of
    arrays that are laid. None where more is to be done than to run it."""
    wide, narrow, weight = (
        unread((cells,), dtype)
        for cells in (
            p.images * p.groups * p.columns,
            p.images * p.groups * p.narrow_channels,
            p.groups * p.narrow_channels * p.columns,
        )
    )
    try:
        if forward is None:
            return matmul.directly(*outer_factors(p, wide, narrow, weight), 1)
        source, out = (wide, narrow) if forward else (narrow, wide)
        return matmul.directly(*factors(p, forward, source, weight, out), max(biases, 1))
    except CodegenError:
        return None


def kernels(op: Any, shapes: tuple[Shape, ...], dtype: np.dtype[Any]) -> dict[str, tuple[Step, ...]]:
    """The kernels that run on contiguous finite operands of these shapes, one after the other, by
    what they compute; none where NumPy computes small products."""
    p, members = plan(op, *shapes[:2]), threads.get_num_threads()
    if p.single:
        x, weight, y = (unread(shape, dtype) for shape in (*shapes[:2], op.output_shape(*shapes)))
        wide, narrow = (y, x) if p.transposed else (x, y)
        triples = factors(p, not p.transposed, x, weight, y), factors(p, p.transposed, y, weight, x)
        steps = [matmul.kernels(*three) for three in (*triples, outer_factors(p, wide, narrow, weight))]
    else:
        products = [shared_out(product, members, p, forward != p.transposed, dtype, False) for forward in (True, False)]
        found = [*((one.packing, one.step) for one in products), (shared_out(gradient, members, p, dtype, False).step,)]
        steps = [tuple(step for step in some if step is not None) for some in found]
    return dict(zip(("value", "VJP in x", "VJP in weight"), steps, strict=True))


def unread(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """An array that lies whole, of which nobody reads a cell, in no memory."""
    apart = [math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, apart, writeable=False)


@functools.lru_cache(maxsize=256)
def shared_out(planned: Callable[..., Any], members: int, p: Plan, *given: Any) -> Any:
    """A plan whose items are so many that all threads have some: of several cuts, where threads are
    many, that which leaves fewest of them without work at the end; if several do, the finest whose
    items are not small. No bit depends on it."""
    if members <= 4:
        return planned(p, *given, members**2)
    most = max(1, min(4, p.work // (members * ITEM)))

    def busy(found: Any) -> float:
        chunks = found.step.call.chunks if found.step is not None else 1
        return float(chunks / -(-chunks // members))

    cuts = *range(most, 0, -1), *range(most + 1, 5)
    return max((planned(p, *given, n * members) for n in cuts), key=busy)


@functools.lru_cache(maxsize=256)
def plane_sums(planes: int, cells: int, dtype: np.dtype[Any]) -> Chain:
    """The kernel that adds up the cells of each plane."""
    return chain(Fold("sum", False, (Adaptive(cells, 1),), planes, 1, CELLS[dtype.name]))


def laid(array: Array) -> Array:
    """The cells of an array, end to end."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy()


class _Bilinear(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        x, weight, *bias = xs
        if out.size:
            p, target = plan(op, x.shape, weight.shape), _apart(out, xs)
            product_of(p, not p.transposed, x, weight, bias[0] if bias else None, target)
            handed_over(target, out)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        if slot == 2:
            return dx.reshape(-1, *[1] * len(op.weight_kernel()[0]))
        return super().push(op, xs[:2], kept, slot, dx)  # no bias

    def pull_into(self, op: Any, xs: Any, kept: Any, slot: int, g: Array, target: Array) -> None:
        if not g.size or not target.size:
            target[...] = 0
            return
        (x, weight), part = xs[:2], _apart(target, (*xs, g))
        p = plan(op, x.shape, weight.shape)
        if slot == 0:
            product_of(p, p.transposed, g, weight, None, part)
        elif slot == 1:
            wide, narrow = (g, x) if p.transposed else (x, g)
            weight_of(p, wide, narrow, part)
        else:
            planes, cells = p.images * len(part), g.size // (p.images * len(part))
            sums = g = laid(g)
            if cells > 1:
                sums = room((planes,), g.dtype)
                plane_sums(planes, cells, g.dtype)(g, sums)
            sums.reshape(p.images, len(part)).sum(axis=0, out=part)
        handed_over(part, target)


def _apart(out: Array, read: tuple[Array, ...]) -> Array:
    """What a result is written into: `out` where its memory will do and nothing that is read lies
    in it; else an array of its own."""
    is_apart = out.flags.carray and not any(np.may_share_memory(out, x) for x in read)
    return out if is_apart else room(out.shape, out.dtype)


KINDS = Conv, ConvTranspose, Linear
RULES.update(dict.fromkeys(KINDS, _Bilinear()))
