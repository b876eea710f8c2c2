"""Curated cases of convolutions and linear maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...operator import Operator
from ...ops import Conv, ConvTranspose, Linear
from ..cases import Case
from .windows import FLOATS, INF, NAN, WINDOWS, NamedCase, directed, named, row, thirds


def weighted(
    op: Operator, x: tuple[int, ...], weight: tuple[int, ...], bias: bool = True, dtype: Any = np.float32
) -> Case:
    """A case of a convolution whose operands are thirds."""
    written = op.output_shape(x, weight)[len(x) - len(weight) + 1]
    operands = [thirds(x, dtype), thirds(weight, dtype) * dtype(0.5), thirds((written,), dtype) + dtype(1)]
    return directed(op, *(a.astype(dtype) for a in operands[: 3 if bias else 2]))


def among(kind: Callable[..., Operator]) -> Iterator[NamedCase]:
    """NaN and infinity at an inner cell of a plane, and at the centre of a kernel of 3."""
    for name, special in (("NaN", NAN), ("infinity", INF)):
        for place in ("plane", "kernel"):
            x, weight = thirds((1, 1, 5, 5)), thirds((1, 1, 3, 3)) + np.float32(2)
            (x if place == "plane" else weight)[..., 1, 1] = special
            yield named(
                f"{name} in the midst of a {place}",
                kind((3, 3), stride=2, padding=1),
                x,
                weight,
                quick=place == "plane",
            )


def convolutions() -> Iterator[NamedCase]:
    for title, shape, words, quick in WINDOWS:
        if "axes" in words or len(words["kernel_size"]) not in (0, 1, 2, 3):
            continue
        rank = len(words["kernel_size"])
        batch, sizes = shape[: len(shape) - rank], shape[len(shape) - rank :]
        x = (*batch[:1], 2, *sizes)
        words = {**words, "stride": words.get("stride", 1)}
        yield NamedCase(title, weighted(Conv(**words), x, (3, 2, *words["kernel_size"])), quick)
    yield NamedCase("without bias", weighted(Conv((3, 3), padding=1), (1, 2, 4, 4), (2, 2, 3, 3), bias=False))
    yield NamedCase("without batch", weighted(Conv((2,)), (2, 5), (3, 2, 2)), quick=True)
    yield NamedCase("two leading axes", weighted(Conv((2,)), (2, 1, 2, 5), (3, 2, 2)))
    yield NamedCase("groups", weighted(Conv((2, 2), groups=2), (1, 4, 3, 3), (6, 2, 2, 2)), quick=True)
    yield NamedCase("depthwise", weighted(Conv((3,), groups=3, padding=1), (2, 3, 5), (3, 1, 3)), quick=True)
    yield NamedCase("depthwise with a multiplier", weighted(Conv((2,), groups=2), (1, 2, 4), (6, 1, 2)))
    yield NamedCase("1×1", weighted(Conv((1, 1)), (1, 3, 2, 2), (2, 3, 1, 1)))
    kernel = row(1, 2, 4)
    yield named("the kernel is not flipped", Conv((3,)), row(1, 10, 100, 1000), kernel, quick=True)
    yield named("an infinite weight does not meet padding", Conv((2,), padding=1), row(1), row(INF, 2), quick=True)
    yield named("NaN stays in the windows that read it", Conv((2,)), row(NAN, 1, 2, 3), row(1, -1), quick=True)
    yield named("NaN in the weight reaches all windows", Conv((2,)), row(1, 2, 3), row(1, NAN))
    yield named("infinity stays in the windows that read it", Conv((2,)), row(INF, 1, 2, 3), row(1, -1), quick=True)
    yield named(
        "cancellation of large terms", Conv((3,)), row(1e8, 1, -1e8, 3), np.ones((1, 1, 3), np.float32), quick=True
    )
    for title, dtype in FLOATS.items():
        yield NamedCase(title, weighted(Conv((2, 2)), (1, 2, 3, 3), (2, 2, 2, 2), dtype=dtype), quick=True)
    yield from among(Conv)
    yield named("int32", Conv((2,)), np.array([[[3, -1, 4, 1]]], np.int32), np.array([[[2, -3]]], np.int32), quick=True)


def transposed() -> Iterator[NamedCase]:
    block = np.array([[[[1, 2], [3, 4]]]], np.float32)
    yield named("each value a block", ConvTranspose((2, 2), stride=2), block, np.ones((1, 1, 2, 2), np.float32))
    for title, words, x, weight, *quick in [
        ("overlapping", {"kernel_size": (3,), "stride": 2}, (1, 2, 4), (2, 3, 3)),
        ("padding crops", {"kernel_size": (3, 3), "stride": 2, "padding": 1}, (1, 2, 3, 3), (2, 2, 3, 3), True),
        ("padding crops one side more", {"kernel_size": (3,), "stride": 2, "padding": ((0, 1),)}, (1, 1, 3), (1, 1, 3)),
        (
            "output_padding",
            {"kernel_size": (3,), "stride": 2, "padding": 1, "output_padding": 1},
            (1, 2, 3),
            (2, 2, 3),
            True,
        ),
        (
            "output_padding beyond the kernel",
            {"kernel_size": (1,), "stride": 3, "output_padding": 2},
            (1, 1, 2),
            (1, 1, 1),
        ),
        ("dilation", {"kernel_size": (2, 2), "stride": 1, "dilation": (2, 3)}, (1, 1, 3, 2), (1, 2, 2, 2), True),
        (
            "output_padding below the dilation",
            {"kernel_size": (2,), "dilation": 3, "output_padding": 2},
            (1, 1, 2),
            (1, 1, 2),
        ),
        ("groups", {"kernel_size": (2,), "stride": 2, "groups": 2}, (1, 4, 3), (4, 3, 2), True),
        ("rank 3", {"kernel_size": (2, 2, 2), "stride": 2}, (1, 1, 2, 1, 2), (1, 2, 2, 2, 2)),
        ("rank 0", {"kernel_size": ()}, (2, 3), (3, 2)),
        ("kernel of 7", {"kernel_size": (7,), "stride": 3, "padding": 2}, (1, 1, 4), (1, 1, 7), True),
        ("empty batch", {"kernel_size": (2,), "stride": 2}, (0, 2, 3), (2, 3, 2), True),
        ("without batch", {"kernel_size": (2,), "stride": 2}, (2, 3), (2, 3, 2), True),
    ]:
        yield NamedCase(title, weighted(ConvTranspose(**words), x, weight), bool(quick))  # type: ignore[arg-type]
    op = ConvTranspose((2,), stride=2)
    yield NamedCase("without bias", weighted(op, (1, 2, 3), (2, 2, 2), bias=False))
    for title, dtype in FLOATS.items():
        yield NamedCase(title, weighted(op, (1, 2, 3), (2, 2, 2), dtype=dtype), quick=True)
    yield from among(ConvTranspose)
    yield named("NaN stays in what it writes", op, row(NAN, 1), row(1, 2), quick=True)
    yield named("infinity stays in what it writes", op, row(1, INF), row(1, 2), quick=True)


def linear_maps() -> Iterator[NamedCase]:
    for title, x, weight, *quick in (
        ("a batch", (3, 4), (2, 4), "bias"),
        ("no batch", (4,), (2, 4), "no bias"),
        ("two leading axes", (2, 2, 3), (2, 3)),
        ("empty batch", (0, 3), (2, 3), "bias"),
        ("long rows", (1, 40), (2, 40)),
    ):
        yield NamedCase(title, weighted(Linear(), x, weight), quick == ["bias"])
        yield NamedCase(title + ", no bias", weighted(Linear(), x, weight, bias=False), quick == ["no bias"])
    for title, dtype in FLOATS.items():
        yield NamedCase(title, weighted(Linear(), (2, 3), (2, 3), dtype=dtype), quick=True)
    yield named(
        "NaN stays in its row",
        Linear(),
        np.array([[NAN, 1], [2, 3]], np.float32),
        np.array([[1, -1]], np.float32),
        quick=True,
    )
    yield named(
        "infinity stays in its row",
        Linear(),
        np.array([[INF, 1], [2, 3]], np.float32),
        np.array([[1, -1]], np.float32),
        quick=True,
    )


LISTS: dict[type[Operator], Callable[[], Iterator[NamedCase]]] = {
    Conv: convolutions,
    ConvTranspose: transposed,
    Linear: linear_maps,
}
