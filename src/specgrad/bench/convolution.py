"""`specgrad bench conv`: convolution and its gradients on the layers of real networks, against
torch (oneDNN) and SciPy, in one run.

Convolutions are bound by matrix products, not by memory. So results are multiplications per second,
and the ratio to the best peer. Times are minima. Every library allocates its results. If the C
library allows it, freed memory is kept, as in specgrad, so that no library pays for new pages.
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
from ..ops import Conv, ConvTranspose, Linear
from .layers import TABLES

ROUNDS = 8  # rounds over all libraries in turn, so that other load on the machine affects all alike
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
        return math.prod(cells) / cells[1 - len(self.weight)] * math.prod(self.weight)


def layers(shapes: str, quick: bool) -> list[Layer]:
    """The layers of a table of `TABLES`; `quick` takes smaller batches."""
    made = []
    for kind, name, x, weight, options in TABLES[shapes]:
        batch = -(-x[0] // 4) if quick else x[0]
        op = kind(*(() if kind is Linear else (weight[2:],)), **options)
        made.append(Layer(name, op, (batch, *x[1:]), weight))
    return made


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
    if rank > 3:
        return {}
    torch.set_num_threads(threads.get_num_threads())
    name, options = "linear", {}
    if not isinstance(op, Linear):
        name = f"conv{'_transpose' if isinstance(op, ConvTranspose) else ''}{rank}d"
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
    """SciPy's correlations, which support one image of one channel, stride 1."""
    from scipy import ndimage, signal

    op = layer.op
    if op.name != Conv.name or x.shape[:2] != (1, 1) or weight.shape[:2] != (1, 1) or set(op.stride) != {1}:
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
    """Tell the C library to keep freed memory; returns whether this is possible."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    trim_threshold, most_mapped = -1, -4
    return tell is not None and bool(tell(trim_threshold, 2**31 - 1) and tell(most_mapped, 0))


@dataclass
class Cell:
    """One measurement: layer, rule, library, seconds, and the number of multiplications."""

    workload: str
    rule: str
    who: str
    seconds: float
    products: float


def measure(todo: list[Layer], clock: Callable[[Callable[[], Any]], float]) -> Iterator[list[Cell]]:
    """The cells of each layer in turn."""
    rng = np.random.default_rng(0)
    here = {name: calls for name, calls in PEERS.items() if importlib.util.find_spec(name.partition(".")[0])}
    for layer in todo:
        x, weight = (rng.standard_normal(shape, np.float32) for shape in (layer.x, layer.weight))
        calls = {who: of(layer, x, weight) for who, of in {"specgrad": specgrad_calls, **here}.items()}
        best = {(rule, who): math.inf for rule in calls["specgrad"] for who in calls if rule in calls[who]}
        for _ in range(ROUNDS):
            for rule, who in best:
                best[rule, who] = min(best[rule, who], clock(calls[who][rule]))
        yield [Cell(layer.name, *key, seconds, layer.products) for key, seconds in best.items()]
