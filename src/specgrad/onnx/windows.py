"""ONNX's convolutions and pools, as specgrad's: the padding that `auto_pad` means, and what windows
of padding alone would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import specgrad as sg

from ..geometry import Sliding, same_padding
from .node import Node

Pairs = tuple[tuple[int, int], ...]
MOST_WINDOWS = 2**20


def per_axis(node: Node, name: str, rank: int, default: int) -> tuple[int, ...]:
    """An attribute with one integer per spatial axis."""
    given = node.attribute(name) or (default,) * rank
    if len(given) != rank:
        raise node.refused(name, given, f"must have {rank} entries, one per spatial axis", "export the model again")
    return tuple(int(n) for n in given)


def padding(node: Node, sizes: Any, kernel: Any, stride: Any, dilation: Any) -> Pairs:
    """(before, after) per axis; SAME_LOWER puts the odd cell before the input, SAME_UPPER after
    it."""
    word, rank = node.attribute("auto_pad"), len(kernel)
    pads = node.attribute("pads")
    if word in ("SAME_UPPER", "SAME_LOWER"):
        same = [same_padding(*axis) for axis in zip(sizes, kernel, stride, dilation, strict=True)]
        return tuple((b, a) if word == "SAME_LOWER" else (a, b) for a, b in same)
    if word not in ("NOTSET", "VALID"):
        raise node.refused(
            "auto_pad", word, "is not a padding of ONNX", "write NOTSET, VALID, SAME_UPPER or SAME_LOWER"
        )
    if word == "VALID" or not pads:
        return ((0, 0),) * rank
    if len(pads) != 2 * rank:
        raise node.refused("pads", pads, f"must have {2 * rank} entries", "export the model again")
    return tuple((int(pads[axis]), int(pads[rank + axis])) for axis in range(rank))


def spatial(node: Node, x: Any) -> tuple[int, ...]:
    """The lengths after batch and channels."""
    if len(x.shape) < 3:
        rule = f"has {len(x.shape)} axes"
        raise node.refused("input 0", x, rule, "give batch, channels and one spatial axis at least")
    return tuple(x.shape[2:])


def weight_kernel(node: Node, weight: Any, sizes: Any) -> tuple[int, ...]:
    """The kernel, which the weight has and `kernel_shape` may repeat."""
    kernel = tuple(weight.shape[2:])
    if len(kernel) != len(sizes) or (node.attribute("kernel_shape") or kernel) != kernel:
        rule = f"the weight has shape {weight.shape}, the input {len(sizes)} spatial axes"
        raise node.refused("kernel_shape", node.attribute("kernel_shape"), rule, "export the model again")
    return kernel


def conv(node: Node) -> Any:
    x, weight = node.var(0), node.var(1)
    sizes = spatial(node, x)
    kernel = weight_kernel(node, weight, sizes)
    stride, dilation = (per_axis(node, name, len(kernel), 1) for name in ("strides", "dilations"))
    pads = padding(node, sizes, kernel, stride, dilation)
    bias = node.var(2) if node.has(2) else None
    return sg.conv(x, weight, bias, stride=stride, padding=pads, dilation=dilation, groups=node.attribute("group"))


def conv_transpose(node: Node) -> Any:
    """`output_shape`, or auto_pad's input times stride, says how much is cropped, or added at the
    end."""
    x, weight = node.var(0), node.var(1)
    sizes = spatial(node, x)
    kernel = weight_kernel(node, weight, sizes)
    rank, word = len(kernel), node.attribute("auto_pad")
    stride, dilation = (per_axis(node, name, rank, 1) for name in ("strides", "dilations"))
    extra = per_axis(node, "output_padding", rank, 0)
    wanted = node.attribute("output_shape")
    if wanted is None and word in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, stride, strict=True))
    if wanted is None:
        pads = padding(node, sizes, kernel, stride, dilation)
    else:
        node.attribute("pads")  # which output_shape overrules
        wanted = wanted[-rank:]
        if len(wanted) != rank:
            raise node.refused("output_shape", wanted, f"must have {rank} entries", "export the model again")
        cropped = [
            s * (n - 1) + e + d * (k - 1) + 1 - m
            for n, k, s, d, e, m in zip(sizes, kernel, stride, dilation, extra, wanted, strict=True)
        ]
        extra = tuple(e + max(-c, 0) for e, c in zip(extra, cropped, strict=True))
        halves = [(max(c, 0) // 2, max(c, 0) - max(c, 0) // 2) for c in cropped]
        pads = tuple((a, b) if word == "SAME_UPPER" else (b, a) for a, b in halves)
    bias = node.var(2) if node.has(2) else None
    groups = node.attribute("group")
    return sg.conv_transpose(
        x, weight, bias, stride=stride, padding=pads, output_padding=extra, dilation=dilation, groups=groups
    )


def sliding(node: Node, x: Any) -> dict[str, Any]:
    """The window of a pool, as specgrad's arguments."""
    sizes = spatial(node, x)
    rank = len(sizes)
    kernel = per_axis(node, "kernel_shape", rank, 1)
    stride, dilation = (per_axis(node, name, rank, 1) for name in ("strides", "dilations"))
    ceil_mode = bool(node.attribute("ceil_mode")) and node.attribute("auto_pad") in ("NOTSET", "VALID")
    pads = padding(node, sizes, kernel, stride, dilation)
    return {"kernel_size": kernel, "stride": stride, "padding": pads, "dilation": dilation, "ceil_mode": ceil_mode}


def refuse_empty(node: Node, x: Any, window: dict[str, Any]) -> None:
    """ONNX does not say what a window of padding alone is; runtimes give -inf, -FLT_MAX or NaN
    there."""
    names = ("kernel_size", "stride", "padding", "dilation")
    for axis, (n, k, s, (before, after), d) in enumerate(zip(x.shape[2:], *(window[w] for w in names), strict=True)):
        slide = Sliding(n, k, s, before, after, d, window["ceil_mode"])
        # taps that are no further apart than the input is long cannot step over it: the outermost
        # windows decide
        ends = np.arange(slide.length) if n < d and slide.length < MOST_WINDOWS else np.array([0, slide.length - 1])
        if slide.length > 0 and not slide.reads(ends).count.all():
            rule = f"a window along spatial axis {axis} reads padding alone"
            raise node.refused("pads", window["padding"], rule, "use less padding")


def max_pool(node: Node) -> Any:
    x = node.var(0)
    window = sliding(node, x)
    node.attribute("storage_order")  # of the indices, which are not computed
    refuse_empty(node, x, window)
    return sg.max_pool(x, **window)


def average_pool(node: Node) -> Any:
    x = node.var(0)
    window = sliding(node, x)
    counted = bool(node.attribute("count_include_pad"))
    if not counted:
        refuse_empty(node, x, window)
    return sg.avg_pool(x, **window, count_include_pad=counted)


def lp_pool(node: Node) -> Any:
    x = node.var(0)
    return sg.lp_pool(x, p=node.attribute("p"), **sliding(node, x))


def whole_plane(pool: Callable[..., Any], **options: Any) -> Callable[[Node], Any]:
    def read(node: Node) -> Any:
        x = node.var(0)
        return pool(x, len(spatial(node, x)), **options)

    return read


TABLE: dict[str, Callable[[Node], Any]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalMaxPool": whole_plane(sg.global_max_pool, ties="first"),  # as the networks that exporters read
    "LpPool": lp_pool,
    "GlobalAveragePool": whole_plane(sg.global_avg_pool),
}
