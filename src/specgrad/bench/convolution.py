"""`specgrad bench conv`: convolution and its gradients on the layers of real networks, against
torch (oneDNN) and SciPy, in one run.

A product of matrices, not memory, bounds these; so figures are multiplications per second and, what
counts, how many times faster than the best peer. Times are minima. Every library allocates its
results; where the C library can be told to, it keeps freed memory, as specgrad does, so that nobody
pays for pages of the system.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dispatch, threads
from ..ops import Conv, ConvTranspose

ROUNDS = 3  # of all libraries in turn, so that whatever else the machine does falls on all alike
Calls = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Layer:
    """A layer of a real network: an operator, its input and its weight."""

    name: str
    op: Any
    x: tuple[int, ...]
    weight: tuple[int, ...]

    @property
    def products(self) -> float:
        """Multiplications of one rule."""
        y = self.op.output_shape(self.x, self.weight)
        cells = self.x if isinstance(self.op, ConvTranspose) else y
        return math.prod(cells) / cells[-len(self.weight) + 1] * math.prod(self.weight)


def layers(quick: bool) -> list[Layer]:
    """The layers; `quick` takes smaller batches."""
    n = 2 if quick else 8

    def conv(
        name: str, channels: int, size: tuple[int, ...], out: int, kernel: int, batch: int = n, **options: Any
    ) -> Layer:
        rank, groups = len(size), options.get("groups", 1)
        op = Conv((kernel,) * rank, **options)
        return Layer(name, op, (batch, channels, *size), (out, channels // groups, *(kernel,) * rank))

    def transposed(name: str, channels: int, size: int, out: int) -> Layer:
        op = ConvTranspose((4, 4), stride=2, padding=1)
        return Layer(name, op, (2 * n, channels, size, size), (channels, out, 4, 4))

    return [
        conv("ResNet stem 7×7 s2, 3→64 at 224", 3, (224, 224), 64, 7, stride=2, padding=3),
        conv("ResNet 1×1, 64→256 at 56", 64, (56, 56), 256, 1),
        conv("ResNet 3×3, 64 at 56", 64, (56, 56), 64, 3, padding=1),
        conv("ResNet 1×1 s2, 256→512 at 56", 256, (56, 56), 512, 1, stride=2),
        conv("ResNet 3×3, 128 at 28", 128, (28, 28), 128, 3, padding=1),
        conv("ResNet 3×3 s2, 128 at 56", 128, (56, 56), 128, 3, stride=2, padding=1),
        conv("ResNet 1×1, 1024→256 at 14", 1024, (14, 14), 256, 1),
        conv("ResNet 3×3, 256 at 14", 256, (14, 14), 256, 3, padding=1),
        conv("ResNet 3×3, 512 at 7", 512, (7, 7), 512, 3, padding=1),
        conv("MobileNet depthwise 3×3, 32 at 112", 32, (112, 112), 32, 3, padding=1, groups=32),
        conv("MobileNet depthwise 3×3 s2, 64 at 112", 64, (112, 112), 64, 3, stride=2, padding=1, groups=64),
        conv("MobileNet depthwise 3×3, 512 at 14", 512, (14, 14), 512, 3, padding=1, groups=512),
        conv("audio k9, 64 at 8192", 64, (8192,), 64, 9, padding=4),
        conv("audio k3 d4, 64 at 8192", 64, (8192,), 64, 3, padding=4, dilation=4),
        conv("U-Net 3-D 3×3×3, 32 at 32", 32, (32, 32, 32), 32, 3, batch=n // 2, padding=1),
        transposed("DCGAN transposed 4×4 s2, 256→128 at 8", 256, 8, 128),
        transposed("DCGAN transposed 4×4 s2, 128→64 at 16", 128, 16, 64),
        conv("rank 4, 3×3×3×3, 8 at 12", 8, (12, 12, 12, 12), 8, 3, batch=1, padding=1),
        conv("one image, one channel, 7×7 at 512", 1, (512, 512), 1, 7, batch=1, padding=3),
        conv("one volume, one channel, 5×5×5 at 64", 1, (64, 64, 64), 1, 5, batch=1, padding=2),
    ]


def specgrad_calls(layer: Layer, x: Any, weight: Any) -> Calls:
    op, engine = layer.op, dispatch.load("cpu")
    y, kept = engine.keep(op, (x, weight))
    arriving = np.ones_like(y)

    def gradient(slot: int) -> Any:
        return engine.pull(op, (x, weight), kept, arriving, wanted=(slot == 0, slot == 1))

    return {
        "forward": lambda: op(x, weight),
        "input gradient": functools.partial(gradient, 0),
        "weight gradient": functools.partial(gradient, 1),
    }


def torch_calls(layer: Layer, x: Any, weight: Any) -> Calls:
    import torch

    op, rank = layer.op, x.ndim - 2
    name = f"conv{'_transpose' if isinstance(op, ConvTranspose) else ''}{rank}d"
    if rank > 3:
        return {}
    torch.set_num_threads(threads.get_num_threads())
    before = tuple(a for a, _ in op.padding)
    options = {"stride": op.stride, "padding": before, "dilation": op.dilation, "groups": op.groups}
    function = functools.partial(getattr(torch.nn.functional, name), **options)
    leaf, learnt = (torch.from_numpy(a).requires_grad_(True) for a in (x, weight))
    y = function(leaf, learnt)
    arriving = torch.ones_like(y)

    def forward() -> Any:
        with torch.inference_mode():
            return function(leaf, learnt)

    return {
        "forward": forward,
        "input gradient": lambda: torch.autograd.grad(y, leaf, arriving, retain_graph=True),
        "weight gradient": lambda: torch.autograd.grad(y, learnt, arriving, retain_graph=True),
    }


def scipy_calls(layer: Layer, x: Any, weight: Any, module: str) -> Calls:
    """SciPy's correlations, which know one image of one channel, stride 1."""
    from scipy import ndimage, signal

    op = layer.op
    if isinstance(op, ConvTranspose) or x.shape[:2] != (1, 1) or weight.shape[:2] != (1, 1) or set(op.stride) != {1}:
        return {}
    image, taps = x[0, 0], weight[0, 0]
    if module == "scipy.ndimage":
        return {"forward": lambda: ndimage.correlate(image, taps, mode="constant")}
    return {"forward": lambda: signal.correlate(image, taps, mode="same")}


PEERS: dict[str, Callable[..., Calls]] = {
    "torch": torch_calls,
    "scipy.ndimage": functools.partial(scipy_calls, module="scipy.ndimage"),
    "scipy.signal": functools.partial(scipy_calls, module="scipy.signal"),
}


def keep_freed_memory() -> bool:
    """Tell the C library to keep what is freed; whether it can be told."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    trim_threshold, most_mapped = -1, -4
    return tell is not None and bool(tell(trim_threshold, 2**31 - 1) and tell(most_mapped, 0))


@dataclass
class Cell:
    """One figure: a layer, a rule, by whom, in seconds, and the multiplications that it takes."""

    workload: str
    rule: str
    who: str
    seconds: float
    products: float


def measure(quick: bool, clock: Callable[[Callable[[], Any]], float]) -> Iterator[list[Cell]]:
    """The cells of each layer in turn."""
    rng = np.random.default_rng(0)
    here = {name: calls for name, calls in PEERS.items() if importlib.util.find_spec(name.partition(".")[0])}
    for layer in layers(quick):
        x, weight = (rng.standard_normal(shape, np.float32) for shape in (layer.x, layer.weight))
        calls = {who: of(layer, x, weight) for who, of in {"specgrad": specgrad_calls, **here}.items()}
        best = {(rule, who): math.inf for rule in calls["specgrad"] for who in calls if rule in calls[who]}
        for _ in range(ROUNDS):
            for rule, who in best:
                best[rule, who] = min(best[rule, who], clock(calls[who][rule]))
        yield [Cell(layer.name, *key, seconds, layer.products) for key, seconds in best.items()]
