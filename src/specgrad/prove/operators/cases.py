"""The cases of statements about operators: small geometries of one, two and three axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ...errors import SpecgradError
from ...geometry import Shape
from ...operator import Operator
from ...ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    MaxPool,
)
from .vocabulary import Case

TIES = ("first", "split", "all")


def cases() -> Iterator[Case]:
    """All cases that their operators accept."""
    for op, shapes in (*_sliding(), *_adaptive(), *_bilinear()):
        try:
            op.output_shape(*shapes)
        except SpecgradError:
            continue
        yield Case(op, shapes)


def _windows() -> Iterator[tuple[Shape, dict[str, Any]]]:
    """Sizes and sliding windows over them."""
    one = itertools.product(range(1, 6), (1, 2, 3), (1, 2, 3), ((0, 0), (1, 1), (0, 1), (2, 1)), (1, 2), (False, True))
    for n, k, s, pad, d, ceil in one:
        if k > 1 or d == 1:
            yield (n,), {"kernel_size": (k,), "stride": s, "padding": (pad,), "dilation": d, "ceil_mode": ceil}
    two = itertools.product(((2, 2), (2, 3), (3, 3)), ((2, 2), (1, 2), (2, 1), (3, 2)), (1, 2), (0, 1), (False, True))
    for sizes, kernel, s, border, ceil in two:
        yield sizes, {"kernel_size": kernel, "stride": s, "padding": border, "ceil_mode": ceil}
    yield (3, 3), {"kernel_size": (2, 2), "stride": 1, "dilation": 2}
    yield (3, 3), {"kernel_size": (3, 3), "stride": 1}
    for border in (0, 1):
        yield (2, 2, 2), {"kernel_size": (2, 2, 2), "stride": 2, "padding": border}
    yield (2, 2, 3), {"kernel_size": (1, 2, 2), "stride": 1}


def _sliding() -> Iterator[tuple[Operator, tuple[Shape, ...]]]:
    for sizes, window in _windows():
        for ties in TIES:
            yield MaxPool(**window, ties=ties), (sizes,)
        for divisor in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
            yield AvgPool(**window, **divisor), (sizes,)


def _adaptive() -> Iterator[tuple[Operator, tuple[Shape, ...]]]:
    lengths = [((n,), (m,)) for n, m in itertools.product(range(1, 7), repeat=2)]
    planes = itertools.product(((2, 2), (2, 3), (3, 3)), ((1, 2), (2, 1), (2, 2), (3, 2)))
    for sizes, bins in (*lengths, *planes):
        for ties in TIES:
            yield AdaptiveMaxPool(bins, ties=ties), (sizes,)
        yield AdaptiveAvgPool(bins), (sizes,)
    for sizes in ((1,), (3,), (6,), (2, 2), (2, 3), (3, 3), (2, 2, 2)):
        for ties in TIES:
            yield GlobalMaxPool(len(sizes), ties=ties), (sizes,)
        yield GlobalAvgPool(len(sizes)), (sizes,)


def _bilinear() -> Iterator[tuple[Operator, tuple[Shape, ...]]]:
    for sizes, window in _windows():
        if window.pop("ceil_mode", False):
            continue
        for channels, outputs, groups in ((1, 1, 1), (2, 1, 1), (2, 2, 2)):
            kernel = window["kernel_size"]
            yield Conv(**window, groups=groups), ((channels, *sizes), (outputs, channels // groups, *kernel))
            weight = (channels, outputs // groups, *kernel)
            yield ConvTranspose(**window, groups=groups), ((channels, *sizes), weight)
    for shape, weight in (((1,), (1, 1)), ((2,), (3, 2)), ((2, 3), (2, 3))):
        yield Linear(), (shape, weight)
