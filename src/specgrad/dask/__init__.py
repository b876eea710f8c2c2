"""Dask arrays: lazy pooling and convolution of chunked arrays.

This file is the engine that `dispatch` finds. It imports dask only when a dask array arrives. The
result is split into independent tasks (tiling.py): pooling in pools.py, convolution in bilinear.py
and transposed.py. Pointwise operators run chunk by chunk (cellwise.py).

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
from typing import Any

from ..errors import ScalarError, refusal
from ..ops.conv import Conv, ConvTranspose, Linear
from ..ops.shape import Reshape
from ..ops.window import Pool
from ..scalars.foreign import is_dask

TAKES = "pooling, convolution and pointwise operators of dask arrays, lazily"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    if not any(is_dask(type(operand)) for operand in operands):
        return f"it takes dask arrays only, not {type(operands[0]).__name__}"
    if _home(op) is None:  # another engine would compute the whole array at once
        rule = f"is a dask array, and {op.name} does not run in chunks"
        raise refusal(ScalarError, op.name, op.slots[0].name, operands[0], rule, "use x.map_blocks, or x.compute()")
    return None


def _home(op: Any) -> Any:
    """The file that runs an operator, or None. Tasks run the operator itself, also one of a user's;
    but a transposed convolution is run as another operator, and a reshape by dask, and so each must
    be just that."""
    kinds = {"pools": Pool, "bilinear": Conv | Linear}
    is_cellwise = op.pointwise and (type(op) is Reshape or not isinstance(op, Reshape))
    found = [word for word, kind in kinds.items() if isinstance(op, kind)] or ["cellwise"] * is_cellwise
    found += ["transposed"] * (type(op) is ConvTranspose)
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
