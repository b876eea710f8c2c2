"""The subjects that `specgrad check` knows by name: our own layers, and installed peers,
unmodified.

To add a subject, write a file with a function `subjects()` that returns a list, and add a line to
`OURS` or `PEERS`. Installed libraries are found without importing them; a file is imported when one
of its subjects runs.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...dispatch import ENGINES


class Home(NamedTuple):
    """A file of subjects: their names, the modules that they need, and whether they are `slow`."""

    names: tuple[str, ...]
    needs: tuple[str, ...] = ()
    slow: bool = False

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def missing(self) -> str | None:
        """The first needed module that is not installed, or None."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), None)


OTHER_ARRAYS = ("torch", "dask")
"""The engines that take no NumPy arrays."""

OURS = {
    "engines": Home(tuple(f"specgrad {engine}" for engine in ENGINES if engine not in OTHER_ARRAYS)),
    "layers": Home(("specgrad tape", "specgrad graph", "specgrad program")),
    "enclosures": Home(("specgrad bounds",), ("scipy",)),
    "torch_layer": Home(("specgrad torch cpu", "specgrad torch cuda"), ("torch",)),
    "jax_layer": Home(("specgrad jax", "specgrad jax xla"), ("jax",), slow=True),
    "gpu_engine": Home(("specgrad gpu",), ("torch", "triton"), slow=True),
}
PEERS = {
    "torch_functional": Home(("torch cpu", "torch cuda"), ("torch",)),
    "torch_mkldnn": Home(("torch mkldnn",), ("torch",)),
    "jax_lax": Home(("jax",), ("jax",), slow=True),
    "onnx_models": Home(("onnxruntime", "onnx.reference"), ("onnx",)),
    "scipy_ndimage": Home(("scipy.ndimage",), ("scipy",)),
    "lirpa": Home(("auto_LiRPA",), ("torch", "auto_LiRPA")),
    "tinygrad_tensor": Home(("tinygrad",), ("tinygrad",), slow=True),
}
HOMES = {**OURS, **PEERS}
NAMES = tuple(name for home in HOMES.values() for name in home.names)


def installed(homes: Mapping[str, Home]) -> tuple[list[str], dict[str, str]]:
    """The files whose modules are installed, and for the subjects of each other file the missing
    module. Nothing is imported."""
    missing = {str(home): f"{home.missing} is not installed" for home in homes.values() if home.missing}
    return [name for name, home in homes.items() if not home.missing], missing


def found(homes: Iterable[str]) -> tuple[list[Any], dict[str, str]]:
    """The subjects of these files, and for files without subjects on this machine the reason."""
    subjects: list[Any] = []
    missing: dict[str, str] = {}
    for home in homes:
        try:
            subjects.extend(importlib.import_module(f"{__name__}.{home}").subjects())
        except ModuleNotFoundError as error:
            missing[str(HOMES[home])] = f"{error.name} is not installed"
        except Exception as error:  # a broken installation does not stop the check of the others
            missing[str(HOMES[home])] = f"{type(error).__name__}: {error}"
    return subjects, missing


def absent(name: str) -> str:
    """Why there is no subject with this name, and which names there are."""
    for home in HOMES.values():
        if name in home.names:
            return f"{home.missing} is not installed" if home.missing else "it has no device here that it could run on"
    written = "path/to/file.py:subject, package.module:subject, or one of: " + ", ".join(NAMES)
    return f"is no subject; write {written}"


def named(name: str) -> Any:
    """The subject with this name, or None. A device may follow a library's name, as in "tinygrad
    python"."""
    homes = {home: one for home, one in HOMES.items() if any(name.startswith(begin) for begin in one.names)}
    subjects, _ = found(installed(homes)[0])
    return next((subject for subject in subjects if subject.name == name), None)
