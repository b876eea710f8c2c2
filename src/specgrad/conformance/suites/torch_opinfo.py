"""PyTorch's OpInfo samples for pooling and convolution: PyTorch's results on its own test inputs,
and ours."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ... import conv_functions, ranked
from ...graph import Graph
from . import Judge, NotExpressible, agreement

Array = np.ndarray[Any, Any]

VERSION = f"torch {torch.__version__}"

WINDOW = ("input", "kernel_size", "stride", "padding")
WEIGHTED = ("input", "weight", "bias")
PARAMETERS = {
    "max_pool": (*WINDOW, "dilation", "ceil_mode"),
    "avg_pool": (*WINDOW, "ceil_mode", "count_include_pad", "divisor_override"),
    "adaptive_max_pool": ("input", "output_size"),
    "adaptive_avg_pool": ("input", "output_size"),
    "conv": (*WEIGHTED, "stride", "padding", "dilation", "groups"),
    "conv_transpose": (*WEIGHTED, "stride", "padding", "output_padding", "groups", "dilation"),
    "linear": WEIGHTED,
}
"""The names of torch.nn.functional's arguments, in their order."""


def cases() -> Iterator[tuple[str, Judge]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known: Any = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
        for info in known:
            short = info.name.removeprefix("nn.functional.")
            if not (
                info.name.startswith("nn.functional.") and ("pool" in short or "conv" in short or short == "linear")
            ):
                continue
            # OpInfo's own iterator sets the seed for every sample, and inspects all callers
            torch.manual_seed(0)
            for number, sample in enumerate(info.sample_inputs_func(info, "cpu", torch.float32, False)):
                yield f"{short} #{number}", functools.partial(difference, short, info.op, sample)


def difference(short: str, function: Any, sample: Any) -> str | None:
    op, operands = stated(short, (sample.input, *sample.args), dict(sample.kwargs))
    try:
        result = function(sample.input, *sample.args, **sample.kwargs)
    except RuntimeError as error:
        raise NotExpressible(f"PyTorch raises {type(error).__name__}") from error
    value = result[0] if isinstance(result, tuple) else result
    return agreement(op, operands, value.detach().numpy())


def stated(short: str, positional: tuple[Any, ...], words: dict[str, Any]) -> tuple[Any, tuple[Array, ...]]:
    """The operator that specgrad's function of this name makes of torch.nn.functional's arguments,
    and its operands as arrays."""
    kind = short[:-2] if short[-2:] in ("1d", "2d", "3d") else short
    if kind not in PARAMETERS:
        raise NotExpressible(kind)
    given = {**dict(zip(PARAMETERS[kind], positional, strict=False)), **words}
    operands = tuple(given.pop(n).numpy() for n in WEIGHTED if isinstance(given.get(n), torch.Tensor))
    first = [given.pop(name) for name in ("kernel_size", "output_size") if name in given]
    options = {name: _plain(value) for name, value in given.items() if value is not None and value != ()}
    options.pop("return_indices", None)
    graph = Graph()
    made = [graph.input(f"x{i}", x.shape) for i, x in enumerate(operands)]
    function: Any = conv_functions.linear if kind == "linear" else getattr(ranked, short)
    function(*made, *map(_plain, first), **options)
    return graph.nodes[-1].op, operands


def _plain(value: Any) -> Any:
    """A parameter as an int or a tuple; a sequence of one number is this number, as in torch."""
    if not isinstance(value, tuple | list):
        return value
    return value[0] if len(value) == 1 else tuple(value)
