"""What fits into memory: sizes are checked before anything is allocated in proportion to them.

A result, or a table of the specification, that needs more bytes than can be had is refused with
their number. Only large ones ask the system what can be had: small ones cost a comparison.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

from .arguments import AXES
from .errors import Described, ShapeError, refusal, shape_words

SMALL = 1 << 28
"""Bytes below which nobody is asked."""


def available() -> int:
    """Bytes of memory that can be had, as far as the system and the control group say; 0 where
    neither does."""
    from pathlib import Path

    known = []
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        line = next(row for row in Path("/proc/meminfo").read_text().splitlines() if row.startswith("MemAvailable"))
        known.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        group = Path("/sys/fs/cgroup")
        known.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    if not known:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            known.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(known, default=0), 0)


def refuse_result(name: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a result that does not fit into memory, or that has more axes than an array may
    have."""
    if len(shape) > AXES:
        rule = f"has {len(shape)} axes, more than the {AXES} of an array"
        raise refusal(ShapeError, name, "result", Described("array"), rule, "use fewer axes")
    needed = math.prod(shape) * itemsize
    if needed > SMALL:
        _refuse(name, "result", shape_words(shape), needed, "ask for a smaller one")


def refuse_table(name: str, outputs: int, taps: int, itemsize: int = 34) -> None:
    """Refuse windows whose tables do not fit: a cell, its offset, two masks, and what they are made
    of."""
    needed = outputs * taps * itemsize
    if needed > SMALL:
        shown = Described(f"{outputs} of {taps} taps")
        remedy = "use smaller windows or less padding, or floats, of which an engine needs no tables"
        _refuse(name, "windows", shown, needed, remedy)


def _refuse(name: str, argument: str, shown: Any, needed: int, remedy: str) -> None:
    most = available() or 1 << 47
    if needed > most:
        raise refusal(ShapeError, name, argument, shown, f"needs {needed} bytes, and {most} can be had", remedy)
