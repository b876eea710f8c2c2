"""Kernels by name: compiled on first use, and kept on disk under a key that changes with their sources.

Numba keeps a compiled function beside the source of that function alone; a changed helper in another file would go unnoticed. So the
directory is named by a hash of all kernel sources and of the versions that made the code. Where it cannot be written, kernels are
compiled in every process, and one warning says so.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import sys
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

from ... import threads

VARIABLE = "SPECGRAD_CACHE_DIR"
KERNELS = Path(__file__).parent / "kernels"


@functools.cache
def cache_directory() -> Path | None:
    """Where compiled kernels are kept, or None (with a warning) if that is nowhere."""
    import llvmlite
    import numba

    key = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.version}".encode())
    for source in sorted(KERNELS.glob("*.py")):
        key.update(source.read_bytes())
    home = os.environ.get(VARIABLE) or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "specgrad"
    )
    directory = Path(home) / key.hexdigest()[:16]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as problem:
        warnings.warn(
            f"specgrad compiles its kernels in every process: {directory} cannot be written ({problem.strerror}); "
            f"set {VARIABLE} to a directory that can",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


@functools.cache
def kernel(name: str) -> Any:
    """The compiled function `name`, as "file.function"."""
    with threads.loading:  # Numba reads the directory from one variable of all threads
        import numpy.ma  # noqa: F401  which Numba, at its first array, would import without a lock
        from numba.core import config

        from .kernels import compiling

        file, _, function = name.partition(".")
        found = getattr(importlib.import_module(f"{__package__}.kernels.{file}"), function)
        directory = cache_directory()
        if directory is not None:
            before = config.CACHE_DIR
            config.CACHE_DIR = str(directory)
            try:
                found.enable_caching()
            finally:
                config.CACHE_DIR = before
            name_apart(found._cache._cache_file)
            compiling.hasten(found)
        return found


def straight(run: Any, given: tuple[Any, ...]) -> Any:
    """What Numba compiled of a kernel for arguments of these types, which it then need not find out again; the kernel itself, if a version of
    Numba keeps that otherwise."""
    try:
        return run.overloads[tuple([run.typeof_pyval(argument) for argument in given])].entry_point
    except (AttributeError, KeyError):
        return run


def name_apart(kept: Any) -> None:
    """Let no two variants of a kernel ever be kept in files of one name.

    Numba numbers them, and does not lock: of two processes that compile two variants at the same time both may take the same number, and
    whoever looks one up later gets the other, which runs on operands it was not made for.
    """
    kept._data_name = lambda _: kept._index_name.removesuffix("nbi") + uuid.uuid4().hex + ".nbc"
