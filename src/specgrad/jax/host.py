"""XLA's foreign function interface: operators on the CPU by specgrad's own kernels, in XLA's own
memory.

The handler is a C function made by ctypes. It reads the addresses of operands and result from XLA's
call frame and runs the operator on arrays over this memory, so nothing is copied. The structures
are those of XLA's stable C interface (xla/ffi/api/c_api.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import dispatch
from ..derive import JVPOf, VJPOf
from .indices import Indices

TARGET = "specgrad"
INTERFACE = 0, 1  # the version of XLA's interface that these structures belong to
INVALID_ARGUMENT = 3


class _Span(ctypes.Structure):
    _fields_ = (("start", c_void_p), ("length", c_size_t))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p),
        ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("lengths", POINTER(c_int64)),
    )  # fmt: skip


class _Buffers(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p),
        ("count", c_int64), ("types", c_void_p), ("each", POINTER(POINTER(_Buffer))),
    )  # fmt: skip


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p),
        ("count", c_int64), ("types", c_void_p), ("names", c_void_p), ("each", POINTER(POINTER(_Span))),
    )  # fmt: skip


class _Version(ctypes.Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(_Metadata)))


class _ErrorArguments(ctypes.Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


_CreateError = ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))


class _Interface(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p),
        ("version", _Version), ("internal", c_void_p), ("create_error", _CreateError),
    )  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", POINTER(_Extension)),
        ("interface", POINTER(_Interface)), ("context", c_void_p), ("stage", c_int),
        ("operands", _Buffers), ("results", _Buffers), ("attributes", _Attributes),
    )  # fmt: skip


class Call(NamedTuple):
    """An operator with the shapes and dtypes of its operands and, last, of its result."""

    op: Any
    arrays: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


_calls: dict[bytes, Call] = {}
"""What the attribute of a compiled call stands for. Lowering enters it, also where XLA then finds
the program in its cache."""


def name(call: Call) -> str:
    """The attribute under which the handler finds a call: the same in every process, other for
    other operators."""
    text = f"{call.op!r} on {', '.join(f'{dtype}{list(shape)}' for shape, dtype in call.arrays)}"
    while _calls.setdefault(text.encode(), call) != call:  # another class of the same name
        text += "'"
    return text


def run(op: Any, operands: tuple[Any, ...], out: Any) -> None:
    """Write an operator's value into `out`: a first derivative too, without a copy."""
    if isinstance(op, Indices):
        out[...] = dispatch.with_indices(op.base, operands)[1]
    elif isinstance(op, VJPOf) and op.is_first:
        own, memory = op.remember(operands)
        wanted = tuple(out if slot == op.slot else None for slot in range(len(own)))
        dispatch.pull_into(memory, op.base, own, op.parts(operands)[1][0], wanted)
    elif isinstance(op, JVPOf) and op.is_first:
        own, memory = op.remember(operands)
        dispatch.push_into(memory, op.base, own, op.parts(operands)[2][0], out)
    else:
        op(*operands, out=out)


_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_DEFAULT = c_void_p(-1)  # FE_DFL_ENV of the C libraries of Linux


@contextlib.contextmanager
def _ieee_arithmetic() -> Iterator[None]:
    """Subnormal numbers as they are: XLA's threads read and write them as 0."""
    if _libc is None:
        yield
        return
    before = ctypes.create_string_buffer(256)
    _libc.fegetenv(before)
    _libc.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        _libc.fesetenv(before)


def _array(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array over memory of XLA's."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address) if size else None
    return np.ndarray(shape, dtype, memory)


def _handle(pointer: Any) -> int | None:
    frame = pointer.contents
    if frame.extension:  # XLA asks for the version that this handler was written for
        version = frame.extension.contents.metadata.contents.version
        version.major, version.minor = INTERFACE
        return None
    try:
        text = frame.attributes.each[0].contents
        op, (*operands, result) = _calls[ctypes.string_at(text.start, text.length)]
        given = [_array(frame.operands.each[i].contents.data, *about) for i, about in enumerate(operands)]
        for array in given:
            array.flags.writeable = False
        with _ieee_arithmetic():
            run(op, tuple(given), _array(frame.results.each[0].contents.data, *result))
    except BaseException as error:  # nothing may be raised through C
        return _error(frame, f"{type(error).__name__}: {error}")
    return None


def _error(frame: Any, message: str) -> int:
    size = _ErrorArguments.code.offset + _ErrorArguments.code.size
    arguments = _ErrorArguments(size, None, message.encode(), INVALID_ARGUMENT)
    made: int = frame.interface.contents.create_error(ctypes.byref(arguments))
    return made


_handler: Callable[..., Any] = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))(_handle)
jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(ctypes.cast(_handler, c_void_p).value), platform="cpu")  # type: ignore[arg-type]


def lower(context: Any, *operands: Any, op: Any) -> Any:
    """The lowering of an operator on the CPU."""
    avals = (*context.avals_in, *context.avals_out)
    call = Call(op, tuple((tuple(aval.shape), np.dtype(aval.dtype)) for aval in avals))
    return jax.ffi.ffi_lowering(TARGET)(context, *operands, call=name(call))
