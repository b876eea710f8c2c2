"""Every Python, every extra, the oldest and the newest dependencies that are allowed: `make
matrix`.

A cell is one environment: an interpreter, some extras, and whether pip takes the lower bounds of
pyproject.toml or the newest releases (torch is always the one of constraints.txt). It is made in a
temporary folder, tried, and removed. An interpreter that is not here is named and left out.
`.matrix.log` has what each cell printed.

    python .ci/matrix.py                  all cells
    python .ci/matrix.py 3.12 tests       those whose name has all these words
    python .ci/matrix.py --list           their names
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LOG = ROOT / ".matrix.log"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTED = ("cli", "exact", "prove", "half")
TESTS = "geometry operators scalars tape transforms planted_derivatives half_floats cpu_small_calls memory messages"
START = "import numpy as np, specgrad as sg; x = np.ones((1, 4, 4)); "
TRIALS = {
    "core": "p = sg.trace(lambda x: sg.sum(sg.max_pool(x, (2, 2))), x).compile(x.dtype); "
    "assert p.value_and_grad(x)[0] == 4",
    "cli": "from specgrad.cli import main; import sys; sys.argv[1:] = ['check', '--quick', '--operator', "
    "'MaxPool']; main()",
    "exact": "import flint; a = np.array([flint.arb(1), flint.arb(2)]); assert sg.smooth_max_pool(a, (2,), "
    "beta=1)[0] > 2",
    "prove": "import z3; a = np.array(z3.Reals('a b')); z3.prove(sg.max_pool(a, (2,))[0] >= a[0])",
    "half": "import ml_dtypes; assert sg.max_pool(x.astype(ml_dtypes.bfloat16), (2, 2)).dtype == ml_dtypes.bfloat16",
    "plot": "import matplotlib",
    "certify": "g = sg.trace(lambda x: sg.max_pool(x, (2, 2)), x); sg.bounds(g, (x, x + 1))",
    "onnx": "import specgrad.onnx, onnxruntime",
    "dask": "import dask.array as da; assert sg.max_pool(da.asarray(x), (2, 2)).sum().compute() == 4",
    "ndimage": "from specgrad import ndimage; assert ndimage.maximum_filter(x, 3).max() == 1",
    "jax": "import jax; y = jax.numpy.ones((4, 4)); sg.jvp(lambda x: sg.avg_pool(x, (2, 2)), (y,), (y,))",
    "torch": "import torch, specgrad.torch; t = torch.tensor(x, requires_grad=True); sg.max_pool(t, (2, "
    "2)).sum().backward()",
    "gpu": "import triton, specgrad.torch",
    "docs": "import mkdocs, material",
    "examples": "import sklearn, rich, matplotlib",
    "peers": "import jax, onnxruntime, scipy, tinygrad, torch",
    "suites": "import absl, expecttest",
}
"""What is run where only one extra is installed."""


class Cell(NamedTuple):
    """An environment, and what is tried in it: the tests that need no more than its extras, or the
    trial of its one extra."""

    python: str
    extras: tuple[str, ...]
    oldest: bool
    tests: bool

    def __str__(self) -> str:
        what = "tests with " if self.tests else "only "
        age = "oldest" if self.oldest else "newest"
        return f"Python {self.python}, {age} dependencies, {what}{','.join(self.extras) or 'core'}"


def cells(versions: list[str]) -> list[Cell]:
    """The newest dependencies on every Python; the oldest on the oldest Python, for which their
    wheels were made."""
    ages = [(version, False) for version in versions] + [(version, True) for version in versions[:1]]
    return [Cell(version, TESTED, oldest, True) for version, oldest in ages] + [
        Cell(version, () if extra == "core" else (extra,), oldest, False)
        for version, oldest in ages
        for extra in TRIALS
    ]


def found() -> dict[str, str]:
    """The versions of Python that are here and start, and where."""
    candidates = [(version, shutil.which(f"python{version}")) for version in VERSIONS]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates += [(version, str(one)) for version in VERSIONS for one in pyenv.glob(f"*/bin/python{version}")]
    if uv := shutil.which("uv"):
        asked = {v: subprocess.run([uv, "python", "find", v], capture_output=True, text=True) for v in VERSIONS}
        candidates += [(version, answer.stdout.strip()) for version, answer in asked.items() if not answer.returncode]
    return {version: path for version, path in candidates if path and _starts(path)}


def _starts(path: str) -> bool:
    return not subprocess.run([path, "-c", "import venv"], capture_output=True).returncode


def constraints(oldest: bool) -> list[str]:
    """The torch that is pinned; and every lower bound of pyproject.toml, if the oldest are
    wanted."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line.startswith("torch==")]
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = [*table["dependencies"], *(word for words in table["optional-dependencies"].values() for word in words)]
    bounds = (re.match(r"([\w-]+)>=([\w.]+)", word) for word in words if not word.startswith("torch"))
    return pinned + sorted({f"{m[1]}=={m[2]}" for m in bounds if m}) * oldest


def attempt(cell: Cell, interpreter: str, folder: Path) -> str:
    """How a cell went, in a word or two."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    bounds = folder.parent / "bounds.txt"
    bounds.write_text("\n".join(constraints(cell.oldest)), encoding="utf-8")
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", str(bounds)]
    package = f"{ROOT}[{','.join(cell.extras)}]" if cell.extras else str(ROOT)
    files = [str(ROOT / "tests" / f"test_{name}.py") for name in TESTS.split()]
    trial = START + TRIALS[cell.extras[0] if cell.extras else "core"]
    steps = [
        ("no environment", [interpreter, "-m", "venv", str(folder)]),
        ("not installed", [*install, package, *["pytest"] * cell.tests]),
        ("FAILED", [python, *(["-m", "pytest", "-p", "no:cacheprovider", *files] if cell.tests else ["-c", trial])]),
    ]
    with LOG.open("ab") as log:
        for failure, words in steps:
            log.write(f"\n{cell}\n$ {' '.join(words)}\n".encode())
            log.flush()
            if subprocess.run(words, stdout=log, stderr=log, cwd=folder.parent, env=environment).returncode:
                return failure
    return "passed"


def main(words: list[str]) -> int:
    """Try the cells whose names have all words; 0 if there are any and all passed."""
    pythons = found()
    versions = [version for version in VERSIONS if version in pythons]
    chosen = [cell for cell in cells(versions) if all(word in str(cell) for word in words if word != "--list")]
    missing = ", ".join(version for version in VERSIONS if version not in pythons)
    print(f"Python {', '.join(versions)}; not here: {missing or 'none'}", flush=True)
    if "--list" in words:
        print(*chosen, sep="\n")
        return 0
    LOG.unlink(missing_ok=True)
    results = []
    for cell in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            results.append(attempt(cell, pythons[cell.python], Path(folder, "environment")))
        print(f"{results[-1]:15} {time.monotonic() - begun:6.0f} s  {cell}", flush=True)
    return int(not results or any(result != "passed" for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
