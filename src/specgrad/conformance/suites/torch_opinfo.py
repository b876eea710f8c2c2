"""PyTorch's OpInfo samples for pooling and convolution: the inputs that PyTorch tests itself with,
its results and ours."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ...errors import SpecgradError
from ...ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, Conv, ConvTranspose, Linear, MaxPool
from . import NotExpressible, Told, agreement

Array = np.ndarray[Any, Any]

VERSION = f"torch {torch.__version__}"

NAMES = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
AVERAGES = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
CONVOLUTIONS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


def cases() -> Iterator[Told]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known: Any = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
        for info in known:
            short = info.name.removeprefix("nn.functional.")
            if not (
                info.name.startswith("nn.functional.") and ("pool" in short or "conv" in short or short == "linear")
            ):
                continue
            # OpInfo's own iterator sows again for every sample, and looks through all callers
            torch.manual_seed(0)
            for number, sample in enumerate(info.sample_inputs_func(info, "cpu", torch.float32, False)):
                yield _told(f"{short} #{number}", short, info.op, sample)


def _told(name: str, short: str, function: Any, sample: Any) -> Told:
    try:
        op, operands = stated(short, (sample.input, *sample.args), dict(sample.kwargs))
    except NotExpressible as reason:
        return Told(name, not_expressible=str(reason))
    except SpecgradError as error:
        return Told(name, f"refused: {error}")
    try:
        result = function(sample.input, *sample.args, **sample.kwargs)
    except RuntimeError as error:
        return Told(name, not_expressible=f"PyTorch raises {type(error).__name__}")
    value = result[0] if isinstance(result, tuple) else result
    return Told(name, agreement(op, operands, value.detach().numpy()))


def stated(short: str, positional: tuple[Any, ...], words: dict[str, Any]) -> tuple[Any, tuple[Array, ...]]:
    """The operator of a call of torch.nn.functional, and its operands as arrays."""
    rank = int(short[-2]) if short.endswith("d") and short[-2].isdigit() else 0
    kind = short[:-2] if rank else short
    if kind not in (
        "max_pool",
        "avg_pool",
        "adaptive_max_pool",
        "adaptive_avg_pool",
        "conv",
        "conv_transpose",
        "linear",
    ):
        raise NotExpressible(kind)
    names = {
        "max_pool": NAMES,
        "avg_pool": AVERAGES,
        "conv": CONVOLUTIONS,
        "conv_transpose": TRANSPOSED,
        "linear": ("input", "weight", "bias"),
    }.get(kind, ("input", "output_size", "return_indices"))
    given = {**dict(zip(names, positional, strict=False)), **words}
    given.pop("return_indices", None)
    operands = tuple(
        given.pop(n).numpy() for n in ("input", "weight", "bias") if isinstance(given.get(n), torch.Tensor)
    )
    given = {name: value for name, value in given.items() if value is not None and name not in ("weight", "bias")}
    if given.get("stride") == ():
        given.pop("stride")
    if kind == "linear":
        return Linear(), operands
    if kind in ("conv", "conv_transpose"):
        made = (Conv if kind == "conv" else ConvTranspose)(
            operands[1].shape[2:], **{k: _plain(v) for k, v in given.items()}
        )
        return made, operands
    if kind.startswith("adaptive"):
        adaptive = AdaptiveMaxPool if "max" in kind else AdaptiveAvgPool
        return adaptive(_each(given["output_size"], rank)), operands
    kernel = _each(given.pop("kernel_size"), rank)
    pool: Any = MaxPool if kind == "max_pool" else AvgPool
    return pool(kernel, **{k: _plain(v) for k, v in given.items()}), operands


def _each(value: Any, rank: int) -> tuple[Any, ...]:
    return (
        tuple(value)
        if isinstance(value, tuple | list) and len(value) > 1
        else ((value[0] if isinstance(value, tuple | list) else value),) * rank
    )


def _plain(value: Any) -> Any:
    return (
        value[0]
        if isinstance(value, tuple | list) and len(value) == 1
        else tuple(value)
        if isinstance(value, list)
        else value
    )
