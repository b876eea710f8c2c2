"""Windows axis by axis, through memory: for kernels whose volume is too large for one call.

A maximum's codes compose: along the last axes a code counts the taps of those axes, and each further axis multiplies by that many.
All windows through one cell of an earlier pass that won it agree on what won there, so the way back needs no more than the codes.
"""

from __future__ import annotations

from typing import Any

import torch

from ...geometry import Sliding
from . import launch
from .plan import Plan, taps_of


def fold_maximum(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    launch.fold(made, kind, x, y, kept)


def fold_sum(made: Plan, x: Any, y: Any) -> None:
    launch.fold(made, "sum", x, y, ())


def spread_maximum(made: Plan, gy: Any, gx: Any, codes: Any) -> None:
    launch.spread(made, "first", gy, gx, codes)
