"""Subjects of a check: objects that compute forward values, and optionally derivatives, of NumPy
arrays."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..operator import Operator

Array = np.ndarray[Any, Any]


class NotOffered(Exception):
    """Raised by a subject for an unsupported operator, parameter, dtype or derivative; the message
    says which."""


class Subject(Protocol):
    """A subject: `forward` is required, the other methods are optional.

    jvp(op, inputs, tangents) returns the output's tangent. vjp(op, inputs, cotangent) returns a
    tuple with one cotangent per input (None: no derivative). second(op, inputs, tangents,
    cotangent) returns the tangents of these cotangents while the inputs move along `tangents`.
    bounds(op, inputs, radius) returns the least and the greatest output, stacked, while the first
    input moves by up to an array `radius`. `conventions` lists the subject's documented conventions
    (see `conventions`), which are reported but not counted as differences.
    """

    name: str

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        """The output of the operator."""


class BadSubject(Exception):
    """A name without a subject; the message says what to write."""


def is_operator(found: Any) -> bool:
    """Whether `found` is an operator or a class of operators."""
    return isinstance(found, Operator) or (isinstance(found, type) and issubclass(found, Operator))


def load(place: str) -> Any:
    """The subject at `path/to/file.py:name` or `package.module:name`. A class or function is called
    to make the subject.

    A file without a name stands for its `subject`. An operator, or a class of operators, is a
    subject itself.
    """
    module_name, _, name = (f"{place}:subject" if place.endswith(".py") else place).rpartition(":")
    if not module_name or not name:
        raise BadSubject(f"{place!r}: write path/to/file.py:subject, package.module:subject, or a name from the list")
    path = Path(module_name)
    if module_name.endswith(".py") and not path.is_file():
        raise BadSubject(f"{place!r}: there is no file {module_name}; write its path from the current folder")
    try:
        module = _from_file(path) if path.suffix == ".py" else _from_here(module_name)
        found = getattr(module, name, None)
        if is_operator(found):
            return found
        if isinstance(found, type) or (callable(found) and not hasattr(found, "forward")):
            found = found()
        if found is None:
            raise BadSubject(f"{place!r}: {module_name} defines no {name!r}; write a subject's name after the colon")
        forward, called = getattr(found, "forward", None), getattr(found, "name", None)
        conventions = getattr(found, "conventions", ())
    except BadSubject:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BadSubject(f"{place!r}: importing it raised {named(error)}: {words_of(error)}") from error
    if not callable(forward):
        raise BadSubject(f"{place!r}: a subject needs a method forward(op, inputs)")
    if not isinstance(called, str) or not called.strip():
        raise BadSubject(f"{place!r}: a subject needs a name")
    if not isinstance(conventions, tuple | list | set | frozenset):
        raise BadSubject(f"{place!r}: conventions must be a tuple of names, not {conventions!r}")
    return found


def words_of(error: BaseException) -> str:
    """The first line of an error's message, printable; "no message" if the message cannot be
    computed."""
    try:
        return printable((str(error).strip() or "no message").splitlines()[0])
    except Exception:
        return "no message"


def where(error: BaseException, subject: Any) -> str:
    """The last line of the subject's own file in an error's traceback, or ""."""
    home = getattr(sys.modules.get(str(getattr(subject, "__module__", None))), "__file__", None)
    passed = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in passed if frame.f_code.co_filename == home]
    return f" (line {lines[-1]} of {Path(str(home)).name})" if lines else ""


def named(error: BaseException) -> str:
    """The name of an error's type; MemoryError for all its subclasses."""
    return "MemoryError" if isinstance(error, MemoryError) else printable(type(error).__name__)


def printable(text: str) -> str:
    """Text with each unprintable character escaped as in Python: controls, directions, lone
    surrogates."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _from_here(name: str) -> Any:
    """A module that is installed, or in the current folder."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    """A file as a module; the file can import other files of its folder. Its name replaces no other
    module."""
    place = path.resolve()
    if str(place.parent) not in sys.path:
        sys.path.insert(0, str(place.parent))
    taken = getattr(sys.modules.get(path.stem), "__file__", str(place) if path.stem not in sys.modules else None)
    name = path.stem if taken == str(place) else f"subject_in_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise BadSubject(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
