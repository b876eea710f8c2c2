"""Compiled kernels on disk: to load one takes a millisecond, to emit and compile it some fifty.

A file holds a checksum, what is known of the kernel, and plain object code: nothing in it is
unpickled or imported. Its name is a hash of what the code depends on: the sources of this engine,
the emitter and its parameters, the target and the version of llvmlite. Only its owner may write the
folder and the files; others are not read. Whatever is wrong with a file, it is made again.
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

from . import CodegenError
from .builder import Kernel
from .object_code import Compiled, host, object_code

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

    def make() -> tuple[Any, bytes]:
        kernel = emit()
        return [kernel.parameters, kernel.scratch], object_code(kernel, *host())

    if key in _refused:
        raise _refused[key]
    try:
        (parameters, scratch), code = fetch(key, make)
        return Compiled(code, tuple(parameters), scratch)
    except CodegenError as problem:
        _refused[key] = problem
        raise


def fetch(key: tuple[Any, ...], make: Callable[[], tuple[Any, bytes]]) -> tuple[Any, bytes]:
    """What `make` returns (what is known of the code, and the code), from disk if it is there."""
    folder = _folder()
    if folder is None:
        return _made(make)
    words = repr((_sources(), llvmlite.__version__, tuple(host()), spelled(key)))
    path = folder / hashlib.sha256(words.encode()).hexdigest()
    found = _read(path)
    if found is None:
        found = _made(make)
        _write(path, found)
    return found


def _made(make: Callable[[], tuple[Any, bytes]]) -> tuple[Any, bytes]:
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


def _folder() -> Path | None:
    """Where code is kept, or None, with a warning, if that is nowhere."""
    if not _folders:
        home = os.environ.get(VARIABLE) or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "specgrad"
        )
        folder = Path(home, "code").absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_trusted(folder.stat()):
                _folders.append(folder)
            else:
                _give_up(folder, "is not this user's alone: others own it, or may write it")
        except OSError as problem:
            _give_up(folder, f"cannot be made ({problem.strerror})")
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
