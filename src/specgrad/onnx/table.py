"""The operators of ONNX that are read: one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import cells, resize, shapes, sums, windows
from .node import Node

TABLE: dict[str, Callable[[Node], Any]] = {**windows.TABLE, **cells.TABLE, **shapes.TABLE, **sums.TABLE, **resize.TABLE}
