"""Random cases of statements about kernels: geometries, layouts and dtypes for each emitter."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...conformance.case import bfloat16
from ...errors import SpecgradError
from ...geometry import Shape
from ...ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    Matmul,
    MaxPool,
    SmoothMaxPool,
)

FLOATS = ("float32", "float32", "float64", "float16", *bfloat16())
TAPS = 24  # of smooth maxima, at most
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
SMALL = {"LEAST": 64, "LINES": 1 << 10, "TILE": 24}
"""Constants of the schedule with which small arrays have several tiles and tasks."""


class Case(NamedTuple):
    """An emitter, an operator, its operand's shape, dtype and layout, and constants of the
    schedule."""

    emitter: str
    op: Any
    shape: Any
    """The shape of the operand, or the shapes of several operands."""
    dtype: str
    order: tuple[int, ...]
    """The operand's axes in the order of memory."""
    constants: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        laid = "" if self.order == tuple(range(len(self.shape))) else f", lying as {self.order}"
        changed = f", with {dict(self.constants)}" if self.constants else ""
        return f"{self.op!r} on {self.dtype} of shape {self.shape}{laid}{changed}"


def sliding(random: Any, kind: Any, inner: bool, far: bool = False, shares: bool = False) -> tuple[Any, Shape]:
    """An operator with sliding windows, and a shape that it takes: kernels small and large, padded,
    dilated, cut by ceil_mode."""
    while True:
        rank = int(random.choice([1, 2, 2, 2, 3]))
        kernel = [int(random.integers(1, 5)) for _ in range(rank)]
        if random.random() < 0.15:
            kernel[int(random.integers(rank))] = int(random.integers(9, 20))
        stride = [int(random.integers(1, 5)) if random.random() < 0.5 else 1 for _ in kernel]
        if far:
            stride[-1] = int(random.integers(5, 9))
        dilation = [int(random.integers(1, 4)) if random.random() < 0.3 else 1 for _ in kernel]
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        padding = [tuple(map(int, random.integers(0, e + 1, 2))) if random.random() < 0.5 else (0, 0) for e in extent]
        room = [(20,), (7, 20), (3, 4, 12)][rank - 1] if not inner else [(12,), (5, 6), (3, 3, 4)][rank - 1]
        size = [max(1, e - sum(p)) + int(random.integers(0, r)) for e, p, r in zip(extent, padding, room, strict=True)]
        how: dict[str, Any] = {"stride": tuple(stride), "dilation": tuple(dilation), "padding": tuple(padding)}
        how["ceil_mode"] = bool(random.random() < 0.3)
        if kind is AvgPool:
            how["count_include_pad"] = bool(random.random() < 0.6)
            how["divisor_override"] = int(random.integers(1, 9)) if random.random() < 0.2 else None
        if kind is SmoothMaxPool:
            how |= {"beta": float(random.choice([0.5, 3.0, -1.0, -0.25])), "pad": str(random.choice(["zero", "skip"]))}
        elif shares:
            how["ties"] = str(random.choice(["all", "split"]))
        try:
            return placed(random, kind, tuple(kernel), how, size, inner)
        except SpecgradError:
            continue


def placed(random: Any, kind: Any, window: Any, how: dict[str, Any], size: list[int], inner: bool) -> tuple[Any, Shape]:
    """The operator over the last axes of an array, or over axes followed by a channel axis."""
    batch = (int(random.integers(1, 3)),)
    shape = (*batch, *size, int(random.integers(1, 10))) if inner else (*batch, *size)
    op = kind(window, **how, **({"axes": tuple(range(1, 1 + len(size)))} if inner else {}))
    op.output_shape(shape)
    return op, shape


def adaptive(random: Any, kind: Any, inner: bool = False) -> tuple[Any, Shape]:
    """An operator with adaptive bins, or of whole planes."""
    rank = int(random.choice([1, 2, 2, 3]))
    size = [int(random.integers(1, n)) for n in [(30,), (7, 24), (4, 5, 12)][rank - 1]]
    if random.random() < 0.2:
        whole = GlobalMaxPool if kind is AdaptiveMaxPool else GlobalAvgPool
        return placed(random, whole, rank, {}, size, inner)
    bins = tuple(int(random.integers(1, n + 3)) for n in size)
    return placed(random, kind, bins, {}, size, inner)


def pooled(random: Any, kind: Any, bins: Any) -> tuple[Any, Shape]:
    """A sliding or an adaptive operator."""
    return sliding(random, kind, bool(random.random() < 0.3)) if random.random() < 0.6 else adaptive(random, bins)


def convolution(random: Any, most: int = 1) -> tuple[Any, tuple[Shape, Shape]]:
    """A convolution with at most `most` input channels per group."""
    while True:
        rank = int(random.choice([1, 2, 2, 3]))
        kernel = tuple(int(random.integers(1, 4)) for _ in range(rank))
        how = {"stride": tuple(int(random.integers(1, 4)) if random.random() < 0.5 else 1 for _ in kernel)}
        how["dilation"] = tuple(int(random.integers(1, 3)) for _ in kernel)
        pairs = [tuple(map(int, random.integers(0, k + 1, 2))) for k in kernel]
        if most > 1 and random.random() < 0.2:  # windows of one cell
            kernel, how, pairs = (1,) * rank, {}, [(0, 0)] * rank
        groups, several = int(random.integers(1, 4 if most == 1 else 3)), int(random.integers(1, 3))
        size = tuple(int(random.integers(1, n)) for n in [(20,), (6, 12), (3, 4, 6)][rank - 1])
        op = Conv(kernel, padding=tuple(pairs), groups=groups, **how)
        wide = int(random.integers(1, most + 1))
        shapes = (int(random.integers(1, 3)), groups * wide, *size), (groups * several, wide, *kernel)
        try:
            op.output_shape(*shapes)
        except SpecgradError:
            continue
        return op, shapes


def product(random: Any, most: int, shares: bool) -> tuple[Any, tuple[Shape, ...]]:
    """A product of matrices of at most `most` rows: a linear map, a convolution with one window of
    the whole image, its transpose, or, if `shares`, stacks that are broadcast."""
    rows, columns, terms = (int(random.integers(1, n)) for n in (most + 1, 24, 24))
    kind = int(random.integers(4 if shares else 3))
    if kind == 3:
        stack = tuple(map(int, random.integers(1, 3, random.integers(0, 3))))
        x, y = ([1 if random.random() < 0.2 else n for n in stack[random.integers(0, len(stack) + 1) :]] for _ in "xy")
        return Matmul(), ((*x, rows, terms), (*y, terms, columns))
    if kind == 2:
        shapes: tuple[Shape, ...] = (rows, terms), (columns, terms), (columns,)
        return Linear(), shapes[: int(random.integers(2, 4))]
    kernel, groups = tuple(map(int, random.integers(1, 4, random.integers(1, 3)))), int(random.integers(1, 3))
    read, written = (int(random.integers(1, 4)) for _ in range(2))
    image, bias = (rows, groups * read), (groups * written,)
    if kind == 1:
        shapes = (*image, *[1] * len(kernel)), (groups * read, written, *kernel), bias
    else:
        shapes = (*image, *kernel), (groups * written, read, *kernel), bias
    op: Any = (ConvTranspose if kind == 1 else Conv)(kernel, groups=groups)
    return op, shapes[: int(random.integers(2, 4))]


def drawn(random: Any, claim: str, emitter: str) -> Case:
    """A case for a claim, of a kind that the planner usually gives to this emitter."""
    claim = claim.removeprefix("exact_")
    sums = claim in ("average", "average_vjp")
    dtype = str(random.choice(FLOATS))
    if emitter in ("gemm", "weight_gradient"):
        op, shapes = convolution(random, 3)
        return Case(emitter, op, shapes, str(random.choice(["float32", "float64"])), (), _blockings(random))
    if emitter in ("matmul", "dots"):
        op, factors = product(random, 9, claim == "product")
        return Case(emitter, op, factors, str(random.choice(["float32", "float64"])), (), _tilings(random, emitter))
    if claim.startswith("weighted") or claim == "log_sum_exp":
        smooth = claim == "log_sum_exp" or random.random() < 0.5
        op, shape = sliding(random, SmoothMaxPool if smooth else MaxPool, False, shares=True)
        while claim == "log_sum_exp" and math.prod(op.kernel_size) > TAPS:
            op, shape = sliding(random, SmoothMaxPool, False)
        return Case(emitter, op, shape, dtype, tuple(range(len(shape))), _constants(random))
    kind, bins = (AvgPool, AdaptiveAvgPool) if sums else (MaxPool, AdaptiveMaxPool)
    if claim in ("maximum", "argmax") and kind is MaxPool and random.random() < 0.25:
        dtype = str(random.choice(INTEGERS))
    if emitter in ("bins", "runs"):
        inner = emitter == "bins" and bool(random.random() < 0.5)
        op, shape = adaptive(random, bins, inner) if random.random() < 0.8 else sliding(random, kind, inner, far=True)
    elif emitter in ("direct", "tiles", "phases", "weights"):
        op, shape = sliding(random, kind, False)
    elif emitter == "channels":
        op, shape = sliding(random, kind, True)
        shape = (*shape[:-1], shape[-1] + 4)
    elif emitter in ("along", "flat"):
        op, shape = sliding(random, kind, bool(random.random() < 0.7))
    else:
        op, shape = pooled(random, kind, bins)
    order = tuple(range(len(shape)))
    if random.random() < 0.2:
        order = tuple(map(int, random.permutation(len(shape))))
    return Case(emitter, op, shape, dtype, order, _constants(random))


def _constants(random: Any) -> tuple[tuple[str, int], ...]:
    """The schedule's constants unchanged, or smaller ones."""
    flat, places = 99 * int(random.integers(2)), int(random.choice([1, 1 << 16]))
    changed = SMALL | {"FLAT": flat, "FULL": 9, "PLACES": places, "VECTOR": int(random.choice([16, 32, 64]))}
    return tuple(changed.items()) if random.random() < 0.5 else ()


def _blockings(random: Any) -> tuple[tuple[str, Any], ...]:
    """Constants with which convolutions have tiles of either kind, short vectors, several bands,
    chunks, parts and shares, and skip padding or not."""
    few = int(random.choice([1, 30]))
    drawn = dict.fromkeys(("FEW", "LONG", "WORTH", "WORTHY", "APART", "FINE"), few)
    drawn |= {"LAID": int(random.choice([64, 1 << 10, 1 << 16])), "NEAR": int(random.choice([1, 64, 1 << 10]))}
    drawn |= {"BETWEEN": int(random.choice([-1000, 1000])), "MET": int(random.integers(0, 3))}
    drawn |= {"SMALL": int(random.choice([0, 1 << 21])), "SKIPS": int(random.random() < 0.3)}
    return (*drawn.items(), ("FORMATS", {}))


def _tilings(random: Any, emitter: str) -> tuple[tuple[str, Any], ...]:
    """Constants with which products have small tiles, several panels, blocks and parts."""
    drawn = {"PANEL": int(random.choice([16, 48])), "NEAR": int(random.choice([1, 400])), "DIRECT": 3}
    drawn |= {"ROWS": int(random.integers(2, 6)), "LONG": int(random.choice([4, 99])), "SMALL": 0}
    drawn |= {"DOTS": int(random.choice([0, 4])), "ADDED": -1000} if emitter == "dots" else {"DOTS": 0, "ADDED": 1000}
    return (*drawn.items(), ("FORMATS", {}))


def laid(case: Case) -> Any:
    """An array of the case's shape and layout."""
    back = np.argsort(case.order) if case.order else ()
    return np.zeros([case.shape[p] for p in case.order], dtype_of(case)).transpose(back)


def dtype_of(case: Case) -> Any:
    """The NumPy dtype of the operand."""
    return np.dtype(bfloat16().get(case.dtype, case.dtype))
