"""Arrays of other libraries: taken without a copy where their memory is NumPy's to read, and
results given back to their library.

An array is foreign if it is not NumPy's, torch's, dask's or ours and has ``__array__``,
``__dlpack__`` or a buffer: JAX, CuPy, memoryviews. So are the subclasses of NumPy's, such as memory
maps, whose cells are read as those of a plain array. What it is given back to is its
``__array_namespace__`` (the array API); a memoryview gives memoryviews. Others, which name no
library, give arrays of NumPy.
"""

from __future__ import annotations

import array
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..array_methods import ArrayMethods
from ..errors import ScalarError, refusal

BUFFERS = (memoryview, array.array)
UNREADABLE = (TypeError, RuntimeError, ValueError, BufferError)
"""What libraries raise when they do not give their memory."""


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library."""
    kind: Any = type(value)
    return _is_kind(kind)


@functools.lru_cache(maxsize=256)
def _is_kind(kind: type) -> bool:
    torch = sys.modules.get("torch")
    jax = sys.modules.get("jax")
    own: tuple[Any, ...] = (np.ma.MaskedArray, np.generic, ArrayMethods, *(() if torch is None else (torch.Tensor,)))
    own += () if jax is None else (jax.core.Tracer,)
    if kind is np.ndarray or issubclass(kind, own) or hasattr(kind, "__specgrad__") or is_dask(kind):
        return False
    return issubclass(kind, BUFFERS) or any(
        hasattr(kind, name) for name in ("__array__", "__dlpack__", "__array_interface__")
    )


def is_dask(kind: type) -> bool:
    """Whether these are the lazy arrays of dask, which have an engine of their own."""
    dask = sys.modules.get("dask.array")
    return dask is not None and issubclass(kind, dask.Array)


def as_numpy(name: str, argument: str, value: Any) -> Any:
    """A foreign array as NumPy's: its own memory where that is on the CPU."""
    reason = ""
    try:
        found = np.asarray(value)
        if found.dtype != object or found.shape or found[()] is not value:  # not a cell that holds the foreign array
            return found
    except UNREADABLE as problem:
        reason = str(problem)
    for options in ({"device": "cpu"}, dict[str, Any]()):  # which early versions of DLPack do not have
        try:
            return np.from_dlpack(value, **options)
        except (AttributeError, *UNREADABLE) as problem:
            reason = reason or str(problem)
    rule = f"cannot be read as an array of NumPy ({reason.partition(chr(10))[0][:80]})"
    remedy = "copy it to the CPU first, and call outside of functions that its library traces"
    raise refusal(ScalarError, name, argument, type(value).__name__, rule, remedy)


def home(values: Iterable[Any]) -> Callable[[Any], Any]:
    """The function that gives an array of NumPy to the library of the first foreign value;
    everything else it leaves as it is."""
    for value in values:
        if is_foreign(value) and not isinstance(value, np.ndarray):
            if isinstance(value, memoryview):
                return lambda y: y.data if type(y) is np.ndarray else y
            if hasattr(value, "__array_namespace__"):
                return functools.partial(_given_to, value.__array_namespace__())
    return _as_it_is


def _as_it_is(y: Any) -> Any:
    return y


def _given_to(library: Any, y: Any) -> Any:
    if not isinstance(y, np.ndarray | np.generic) or y.dtype == object:
        return y
    try:
        return library.from_dlpack(y)
    except (AttributeError, *UNREADABLE):  # a dtype or a device that DLPack does not carry
        return library.asarray(y)
