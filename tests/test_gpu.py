"""The GPU engine without a GPU: Triton's interpreter against the specification, and its compiler for sm_90.

`gpu_cases.py` and `gpu_compile.py` run in processes of their own, because Triton decides on its import whether it interprets. On a machine
with a CUDA device run `python tests/gpu_cases.py` itself, part by part: it takes the device, and has parts of its own for it.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

HERE = Path(__file__).parent


def run(script, *words, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, HERE / script, *words],
        env={**clean, "TRITON_DEFAULT_FP_FUSION": "1", **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout[-6000:] + done.stderr[-2000:]


PARTS = {
    "claims": (
        "--part",
        "claims",
        "--every",
        "40",
        "--kinds",
        "MaxPool",
        "AvgPool",
        "SmoothMaxPool",
        "AdaptiveAvgPool",
    ),
    "windows": ("--part", "windows", "--every", "4"),
    "planted faults": ("--part", "faults"),
}


@pytest.mark.parametrize("part", PARTS)
def test_agrees_with_the_specification(part):
    code, words = run("gpu_cases.py", *PARTS[part], TRITON_INTERPRET="1")
    assert code == 0, words
    assert "differences: 0" in words


def test_every_kernel_compiles_for_sm_90(tmp_path):
    code, words = run("gpu_compile.py", TRITON_CACHE_DIR=str(tmp_path))
    assert code == 0, words
