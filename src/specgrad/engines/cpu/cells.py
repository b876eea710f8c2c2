"""Arrays as kernels take them: flat, with strides in elements; half floats as the integers that carry their bits."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import threading
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...dispatch import check_out
from ...memory import LARGE, LINE, empty, room
from ...remembering import remembered
from .plan import Plan, plan

Array = npt.NDArray[Any]
HALVES = {"float16": 1, "bfloat16": 2}
KEPT = 1 << 20  # cells


class Kind(NamedTuple):
    """A dtype: how its cells are stored for a kernel, in which type they are computed, and which half it is."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    computed: np.dtype[Any]
    half: int
    lowest: Array
    """The identity of a maximum, and a number that is no reason to look closer."""
    zero: Array
    one: tuple[Any, Any]
    """What a sum that is not divided is divided by, as a reciprocal in two parts."""
    code: str
    """The computed type, as a plan is told."""


@functools.cache
def kind(dtype: np.dtype[Any]) -> Kind | None:
    """How kernels take cells of this dtype; None if they do not."""
    half = HALVES.get(dtype.name, 0)
    if not half and not (dtype.kind in "iu" or dtype.name in ("float32", "float64")):
        return None
    computed = np.dtype(np.float32) if half else dtype.newbyteorder("=")
    lowest: float = -np.inf if computed.kind == "f" else np.iinfo(computed.type).min
    return Kind(
        dtype.newbyteorder("="),
        np.dtype(np.uint16) if half else computed,
        computed,
        half,
        np.array([lowest, np.inf if computed.kind == "f" else 1], computed),
        np.zeros(2, computed),
        (computed.type(1), computed.type(2.0**-60 if computed.kind == "f" else 0)),
        computed.str,
    )


@functools.cache
def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same numbers in this machine's order of bytes."""
    return dtype.newbyteorder("=")


BITS = cast(Kind, kind(np.dtype(np.int16)))
"""Halves that are moved and not computed with."""


class Seen(NamedTuple):
    """An operand with its plan: its cells from the lowest address on, and where among them its first one lies."""

    plan: Plan
    kind: Kind
    flat: Array
    origin: int
    is_whole: bool = True
    """Whether its cells lie end to end in the order of the plan."""


def see(op: Any, x: Array, any_order: bool = False) -> Seen:
    """Make an operand ready for kernels. Copied are bytes in foreign order or between elements, and small operands of sums that lie
    apart, as `direct` copies them: an operand is summed in one order, whichever way leads here."""
    if x.flags.carray and x.dtype.isnative:  # contiguous, aligned and writable, as most are
        made, found = known(op, x.shape, x.dtype, any_order)
        return Seen(made, found, x.view(found.stored).ravel() if found.half else x.ravel(), 0)
    x, found, size = unlocked(x), cast(Kind, kind(x.dtype)), x.itemsize
    if not x.dtype.isnative or not x.flags.aligned or any(step % size for step in x.strides):
        x = np.array(x, found.dtype, order="C")
    elif any_order and x.size * max(size, 4) < LARGE and not are_together(x.strides, x.shape, size):
        x = np.array(x, order="C")
    steps = tuple(step // size for step in x.strides)
    made = plan(op, x.shape, steps, found.half, found.code, any_order)
    stored = x.view(found.stored)
    if x.flags.c_contiguous:
        return Seen(made, found, stored.reshape(-1), 0)
    if x.size == 0:
        return Seen(made, found, np.empty(0, found.stored), 0)
    if len(made.seen.order) == x.ndim:
        as_seen = stored.transpose(made.seen.order)
        if as_seen.flags.c_contiguous:
            return Seen(made, found, as_seen.reshape(-1), 0)
    return Seen(made, found, *spanned(stored), False)


@functools.lru_cache(maxsize=512)
def are_together(steps: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether the cells of an array lie end to end in some order of its axes."""
    cells = sorted((step, n) for step, n in zip(steps, shape, strict=True) if n > 1)
    ends = itertools.accumulate((n for _, n in cells), operator.mul, initial=itemsize)
    return all(step == end for (step, _), end in zip(cells, ends, strict=False))


class Memory:
    """The memory of an array, with all that NumPy asks of it but that it must not be written."""

    def __init__(self, array: Array) -> None:
        told = array.__array_interface__
        self.owner, self.__array_interface__ = array, {**told, "data": (told["data"][0], False)}


def unlocked(array: Array) -> Array:
    """An array of the same memory that could be written, as kernels are compiled for operands that could be, though they only read them."""
    if array.flags.writeable:
        return array
    if array.dtype.kind in "fiu" and array.dtype.isbuiltin:
        return np.asarray(Memory(array))
    return np.asarray(Memory(array.view(f"u{array.itemsize}"))).view(array.dtype)


def spanned(array: Array) -> tuple[Array, int]:
    """All cells from the lowest address of an array's to the highest, and where among them its first one lies."""
    steps = [step // array.itemsize for step in array.strides]
    origin = -sum(step * (n - 1) for step, n in zip(steps, array.shape, strict=True) if step < 0)
    span = sum(abs(step) * (n - 1) for step, n in zip(steps, array.shape, strict=True)) + 1
    corner = array[tuple(slice(-1, None) if step < 0 else slice(0, 1) for step in steps)]
    corner = corner.reshape(-1)[:1] if corner.ndim == 0 else corner
    return np.lib.stride_tricks.as_strided(corner, (span,), (array.itemsize,)), origin


@remembered(256)
def known(op: Any, shape: tuple[int, ...], dtype: np.dtype[Any], any_order: bool) -> tuple[Plan, Kind]:
    """The plan of a contiguous operand, and its kind."""
    found = cast(Kind, kind(dtype))
    return plan(op, shape, None, found.half, found.code, any_order), found


def foresee(
    op: Any, shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: np.dtype[Any], any_order: bool
) -> Seen:
    """As `see`, of an operand of which only the shape and the layout matter: strides in elements, or none if it is contiguous."""
    found = cast(Kind, kind(dtype))
    return Seen(plan(op, shape, steps, found.half, found.code, any_order), found, found.zero[:0], 0)


_at_hand = threading.local()


def scratch(purpose: str, size: int, dtype: np.dtype[Any]) -> Array:
    """Memory of this thread for one kernel at a time, kept for the next one if it is not much; its cells are anything."""
    if size > KEPT:
        return np.empty(size, dtype)
    key = purpose + dtype.char
    found: Array | None = getattr(_at_hand, key, None)
    if found is None or found.size < size:
        room = np.empty(max(size, 4096) * dtype.itemsize + LINE, np.uint8)
        skipped = -room.ctypes.data % LINE
        found = room[skipped : skipped + max(size, 4096) * dtype.itemsize].view(dtype)
        setattr(_at_hand, key, found)
    return found


def room_for(seen: Seen, out: Array | None) -> tuple[Array, Array]:
    """Memory for a value, flat in the order of the plan, and the array that it makes up: `out` itself if it lies so."""
    made, found = seen.plan, seen.kind
    if out is not None:
        check_out(made.op.name, out, made.shape, found.dtype)
        if made.is_as_given and out.flags.carray and out.dtype.isnative:
            return out.view(found.stored).reshape(-1), out
        if out.dtype.isnative and out.flags.aligned:
            as_seen = out.reshape(tuple(made.lengths[p] for p in made.back)).transpose(made.seen.order)
            if as_seen.flags.c_contiguous and np.may_share_memory(as_seen, out):
                return as_seen.view(found.stored).reshape(-1), out
    memory = empty(made.lengths, found.dtype)
    flat = memory.view(found.stored).ravel() if found.half else memory.ravel()
    return flat, memory if made.is_as_given else memory.transpose(made.back).reshape(made.shape)


def room_for_input(seen: Seen, out: Array | None = None) -> tuple[Array, Array]:
    """Memory for a cotangent of the operand, flat in the order of the plan, and the array that it makes up: `out` itself if it lies so."""
    made, found = seen.plan, seen.kind
    if out is not None and out.dtype == found.dtype and out.size == math.prod(made.given) and out.flags.aligned:
        as_seen = out.reshape(tuple(made.given[p] for p in made.back)).transpose(made.seen.order)
        if as_seen.flags.c_contiguous and np.may_share_memory(as_seen, out):
            return as_seen.view(found.stored).reshape(-1), out
    memory = empty(made.given, found.dtype)
    flat = memory.view(found.stored).ravel() if found.half else memory.ravel()
    return flat, memory if made.is_in_order else memory.transpose(made.back)


def handed_over(result: Array, out: Array | None) -> Array:
    """The result, in `out` where one was given, rounded if need be."""
    if out is None or out is result:
        return result
    with np.errstate(all="ignore"):  # a half float overflows to infinity, as everywhere
        np.copyto(out, result, casting="unsafe")
    return out


def rounded(result: Array, dtype: np.dtype[Any]) -> Array:
    """The result in this dtype: the array itself, or a copy of halves."""
    return result if result.dtype == dtype else handed_over(result, empty(result.shape, dtype))


def wide(array: Any, dtype: np.dtype[Any]) -> Array:
    """Cells of this dtype in the type that they are computed in: halves in float32, everything else as it is."""
    if dtype.itemsize > 2:
        return unlocked(np.asarray(array, dtype))
    found = room(array.shape, np.dtype(np.float32))
    np.copyto(found, array, casting="unsafe")
    return found


def is_plain_array(direction: Any) -> bool:
    """Whether a tangent or cotangent is an array of plain numbers, not of Duals or other objects."""
    return isinstance(direction, np.ndarray) and direction.dtype != object


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether these are floats that kernels compute in, or halves that they widen."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64") and dtype.isnative
