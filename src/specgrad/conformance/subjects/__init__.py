"""The subjects that `specgrad check` knows by name: our own layers, and the peers as they are, where installed.

To add one, write a file with a function `subjects()` that returns a list, and add a line to `HOMES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

OURS = {"engines": "specgrad", "layers": "specgrad", "gpu_engine": "specgrad gpu"}
PEERS = {
    "torch_functional": "torch",
    "torch_mkldnn": "torch",
    "jax_lax": "jax",
    "onnx_models": "onnx",
    "scipy_ndimage": "scipy",
    "tinygrad_tensor": "tinygrad",
}
"""Files, and how the names of their subjects begin, so that nothing is imported that is not asked for."""


NAMES = (
    "specgrad reference",
    "specgrad tape",
    "specgrad graph",
    "specgrad program",
    "specgrad torch cpu",
    "specgrad torch cuda",
    "specgrad gpu",
    "torch cpu",
    "torch cuda",
    "torch mkldnn",
    "jax",
    "onnxruntime",
    "onnx.reference",
    "scipy.ndimage",
    "tinygrad",
)
"""How subjects are called, where they are installed; engines are called by their own names."""


def found(homes: Iterable[str]) -> tuple[list[Any], dict[str, str]]:
    """The subjects of these files, and for each file that has none here the reason."""
    subjects: list[Any] = []
    missing: dict[str, str] = {}
    for home in homes:
        try:
            subjects.extend(importlib.import_module(f"{__name__}.{home}").subjects())
        except ModuleNotFoundError as error:
            missing[home] = f"{error.name} is not installed"
        except Exception as error:  # an installation that is broken is no reason not to check the others
            missing[home] = f"{type(error).__name__}: {error}"
    return subjects, missing


def named(name: str) -> Any:
    """The subject with this name, or None."""
    subjects, _ = found(home for home, begins in {**OURS, **PEERS}.items() if name.startswith(begins))
    return next((subject for subject in subjects if subject.name == name), None)
