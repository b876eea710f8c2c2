"""Dask arrays: lazy pooling and convolution of chunked arrays.

This file is the engine that `dispatch` finds. It imports dask only when a dask array arrives. The
result is split into independent tasks (tiling.py): pooling in pools.py, convolution in bilinear.py
and transposed.py. Pointwise operators run chunk by chunk (cellwise.py), sums and means as sums of
chunks (sums.py).

>>> import dask.array as da, specgrad as sg
>>> x = da.ones((1000, 1000), chunks=(300, 400))
>>> y = sg.max_pool(x, (3, 3), stride=2)
>>> y.chunks
((150, 150, 150, 49), (200, 200, 99))
>>> float(y.sum().compute())
249001.0
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from ..errors import ScalarError, refusal
from ..ops.conv import Conv, ConvTranspose, Linear
from ..ops.reduce import Mean, Sum
from ..ops.shape import Reshape
from ..ops.window import Pool
from ..scalars import find_family
from ..scalars.foreign import is_dask

TAKES = "pooling, convolution, pointwise operators, sums and means of dask arrays, lazily"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    if not any(is_dask(type(operand)) for operand in operands):
        return f"it takes dask arrays only, not {type(operands[0]).__name__}"
    if _home(op) is None:  # another engine would compute the whole array at once
        rule = f"is a dask array, and {op.name} does not run in chunks"
        remedy = "compute x first, or use x.map_blocks if chunks have all cells of each result"
        raise refusal(ScalarError, op.name, op.slots[0].name, operands[0], rule, remedy)
    for slot, x in zip(op.slots, operands, strict=False):  # cells of objects are not known before they are computed
        if is_dask(type(x)) and x.dtype != object and not slot.integer and not any(map(math.isnan, x.shape)):
            like = np.broadcast_to(np.zeros((), x.dtype), x.shape)
            find_family(op.name, [slot.name], [like]).require(op.name, slot.name, like, op.needs)
    return None


def _home(op: Any) -> Any:
    """The file that runs an operator, or None. Tasks run the operator itself, also one of a user's;
    but a transposed convolution is run as another operator, and reshapes and sums by dask, and so
    each must be just that."""
    kinds = {"pools": Pool, "bilinear": Conv | Linear}
    is_cellwise = op.pointwise and (type(op) is Reshape or not isinstance(op, Reshape))
    found = [word for word, kind in kinds.items() if isinstance(op, kind)] or ["cellwise"] * is_cellwise
    found += ["transposed"] * (type(op) is ConvTranspose) + ["sums"] * (type(op) in (Sum, Mean))
    return importlib.import_module(f"{__name__}.{found[0]}") if found else None


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return _home(op).forward(op, operands, out)


def keep(op: Any, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value; derivatives compute what they need of it again, chunk by chunk."""
    return forward(op, operands), None


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return None


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    return forward(op, operands, out), _home(op).indices(op, operands)


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...]) -> Any:
    return _home(op).push(op, operands, tangents)


def pull(op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None) -> tuple[Any, ...]:
    pulled: tuple[Any, ...] = _home(op).pull(op, operands, cotangent, wanted or (True,) * len(operands))
    return pulled
