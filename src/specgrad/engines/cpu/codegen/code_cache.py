"""The disk cache of compiled kernels: loading a kernel takes a millisecond, emitting and compiling
it some fifty.

A kernel has two files. The first has metadata and the name of the second; its own name is a hash of
the emitter and its parameters, the sources of this engine, the target and the version of llvmlite.
The second has plain object code; its name is a hash of the LLVM text and the compiler options. So
equal LLVM texts are compiled once: many parameters and most changes of the sources lead to the same
text. No file is unpickled or imported, and each has a checksum. Folder and files are used only if
nobody but their owner can write them. A damaged file is written again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
from llvmlite import ir

from . import CodegenError, translate
from .builder import Kernel
from .object_code import Compiled, code_of, host, text_of

VARIABLE = "SPECGRAD_CACHE_DIR"
MOST = 1 << 26  # bytes of all files
OFTEN = 64  # files that a process writes between two looks at how many bytes there are
DIGEST = hashlib.sha256().digest_size

_writes = itertools.count()
_folders: list[Path | None] = []
"""The folder, once it is known."""
_refused: dict[tuple[Any, ...], CodegenError] = {}
"""Kernels that LLVM did not compile: nobody tries again."""
_announcements: list[Callable[[], object]] = []


@contextlib.contextmanager
def announced(say: Callable[[], object]) -> Iterator[None]:
    """Call `say` before the first kernel of this block that is compiled, and not loaded."""
    _announcements.append(say)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            _announcements.remove(say)


def cached(key: tuple[Any, ...], emit: Callable[[], Kernel]) -> Compiled:
    """The kernel that `emit` makes, in machine code, from disk if it is there. `key` says which
    kernel that is: the emitter and its parameters."""

    def make() -> tuple[Any, str]:
        kernel = emit()
        return [kernel.parameters, kernel.scratch], text_of(kernel)

    if key in _refused:
        raise _refused[key]
    try:
        (parameters, scratch), code = fetch(key, make)
        return Compiled(code, tuple(parameters), scratch)
    except CodegenError as problem:
        _refused[key] = problem
        raise


def fetch(key: tuple[Any, ...], make: Callable[[], tuple[Any, str]]) -> tuple[Any, bytes]:
    """What is known of some code, and the code. `make` returns the first and a text for LLVM; it is
    not called if both are on disk."""
    folder = _folder()
    if folder is None:
        about, text = _made(make)
        return about, code_of(text, host())
    asked = folder / _name(_sources(), spelled(key))
    known = _read(asked)
    found = _read(folder / known[1].decode()) if known else None
    if known is None or found is None:
        known, found = _compiled(folder, *_made(make))
        _write(asked, known)
    return known[0], found[1]


def _compiled(folder: Path, about: Any, text: str) -> tuple[tuple[Any, bytes], tuple[Any, bytes]]:
    """What the two files of a kernel hold, the second of which is there then."""
    path = folder / _name(_translation(), text)
    found = _read(path)
    if found is None:
        found = None, code_of(text, host())
        _write(path, found)
    return (about, path.name.encode()), found


def _name(*words: Any) -> str:
    return hashlib.sha256(repr((llvmlite.__version__, tuple(host()), *words)).encode()).hexdigest()


def _made(make: Callable[[], tuple[Any, str]]) -> tuple[Any, str]:
    while _announcements:
        _announcements.pop()()
    return make()


def spelled(key: Any) -> Any:
    """A key in words and numbers that are the same in every process; of an object, its class and
    its attributes."""
    if key is None or isinstance(key, (bool, int, float, str)):
        return key
    if isinstance(key, (np.dtype, np.generic, ir.Type)):
        return type(key).__name__, str(key)
    if isinstance(key, (tuple, list)):
        return type(key).__name__, *map(spelled, key)
    if isinstance(key, (type, types.FunctionType)) and "<" not in key.__qualname__:
        return f"{key.__module__}.{key.__qualname__}"
    if not hasattr(key, "__dict__") or callable(key):
        raise TypeError(f"code_cache: a key has a {type(key).__qualname__}, which no words tell apart from another one")
    return spelled(type(key)), *((name, spelled(one)) for name, one in sorted(vars(key).items()))


@functools.cache
def _sources() -> str:
    """A hash of the sources that emit and compile."""
    found = hashlib.sha256()
    for source in sorted(Path(__file__).parent.parent.rglob("*.py")):
        found.update(source.read_bytes())
    return found.hexdigest()


@functools.cache
def _translation() -> str:
    """A hash of the source by which LLVM compiles a text."""
    return hashlib.sha256(Path(translate.__file__).read_bytes()).hexdigest()


def _folder() -> Path | None:
    """Where code is kept, or None, with a warning, if that is nowhere."""
    if not _folders:
        home = os.environ.get(VARIABLE) or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "specgrad")
        folder = Path(home, "code")
        try:
            folder = folder.expanduser().absolute()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_trusted(folder.stat()):
                _folders.append(folder)
            else:
                _give_up(folder, "is not this user's alone: others own it, or may write it")
        except (OSError, RuntimeError) as problem:  # the latter where nobody knows the user's home
            _give_up(folder, f"cannot be made ({getattr(problem, 'strerror', problem)})")
    return _folders[0]


def _give_up(folder: Path, reason: str) -> None:
    """Keep nothing any more, and say why, once."""
    _folders[:] = [None]
    warnings.warn(
        f"specgrad compiles its kernels in every process: {folder} {reason}; set {VARIABLE} to a directory of your own",
        RuntimeWarning,
        stacklevel=2,
    )


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only this user, or the system's, can have written a file or a folder."""
    return os.name != "posix" or (status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022)


def _read(path: Path) -> tuple[Any, bytes] | None:
    """What a file holds, if it is as it was written."""
    try:
        with path.open("rb") as file:
            digest, body = file.read(DIGEST), file.read()
            if digest != _digest(path, body) or not _is_trusted(os.fstat(file.fileno())):
                return None
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest files go first
    about, _, code = body.partition(b"\n")
    return json.loads(about), code


def _digest(path: Path, body: bytes) -> bytes:
    """A checksum of a file under its name: one that was renamed does not have it."""
    return hashlib.sha256(path.name.encode() + body).digest()


def _write(path: Path, made: tuple[Any, bytes]) -> None:
    """Put a file in its place, whole or not at all."""
    body = json.dumps(made[0]).encode() + b"\n" + made[1]
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb"
        ) as file:
            file.write(_digest(path, body) + body)
        os.replace(part, path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            part.unlink()
        _give_up(path.parent, f"cannot be written ({problem.strerror})")
    if next(_writes) % OFTEN == 0:
        _shrink(path.parent)


def _shrink(folder: Path) -> None:
    """Remove the oldest files, if there are too many bytes of them."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # another process may remove them too
        files = sorted((one.stat().st_mtime, one.stat().st_size, one.path) for one in entries)
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= MOST:
                break
            os.unlink(path)
            total -= size
