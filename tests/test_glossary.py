"""Assembled docstrings: every parameter is explained, with its default; type checkers agree."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import specgrad
from specgrad import conv_functions, functional, glossary, ranked

WINDOWS = [
    name
    for module in (functional, conv_functions)
    for name, thing in vars(module).items()
    if name in specgrad.__all__ and getattr(thing, "__module__", "") == module.__name__
]
DEFAULTS = {"None": None, "True": True, "False": False, "0": 0, "1": 1}


def sections(docstring):
    """The sections of a docstring, by title."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", [*WINDOWS, *ranked.__all__])
def test_help_explains_every_parameter(name):
    function = getattr(specgrad, name)
    said = sections(function.__doc__)
    parameters = inspect.signature(function).parameters
    assert re.findall(r"^(\w+)$", said["Parameters"], re.MULTILINE) == list(parameters)
    assert said[""].strip()
    assert ("pair" in said["Returns"]) == ("return_indices" in parameters)
    assert "ShapeError" in said["Raises"]
    assert f">>> {name.rstrip('123d') if name in ranked.__all__ else name}(" in said["Examples"]


@pytest.mark.parametrize("name", WINDOWS)
def test_defaults_are_those_of_the_signature(name):
    for parameter in inspect.signature(getattr(specgrad, name)).parameters.values():
        text = glossary.PARAMETERS[parameter.name]
        for stated in re.findall(r"\(default (\w+)\)", text):
            assert DEFAULTS[stated] == parameter.default
        if "None (the default)" in text:
            assert parameter.default is None or parameter.name == "stride"


@pytest.mark.parametrize(
    "kind", ["MaxPool", "AvgPool", "SmoothMaxPool", "GlobalMaxPool", "AdaptiveAvgPool", "Conv", "Fold"]
)
def test_operators_explain_their_parameters_too(kind):
    operator = getattr(specgrad, kind)
    said = sections(operator.__doc__)
    assert set(re.findall(r"^(\w+)$", said["Parameters"], re.MULTILINE)) == set(inspect.signature(operator).parameters)
    assert ">>> " in said["Examples"]


def test_every_entry_is_used():
    used = {p for name in WINDOWS for p in inspect.signature(getattr(specgrad, name)).parameters}
    assert set(glossary.PARAMETERS) == used


def test_pyright_agrees():
    checker = shutil.which("pyright") or str(Path(sys.executable).parent / "pyright")
    if not Path(checker).exists():
        pytest.skip("pyright is not installed")
    source = Path(specgrad.__file__).parent.parent
    calls = Path(__file__).parent / "typed" / "calls.py"
    ran = subprocess.run(
        [checker, "--pythonpath", sys.executable, str(calls)], cwd=source, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout
