"""Where Numba's version is not known to allow the shorter way, kernels compile the ordinary way and give the same bits."""

import os
import subprocess
import sys

import pytest
from numba.core.caching import IndexDataCacheFile

from specgrad.engines.cpu.compiled import name_apart
from specgrad.engines.cpu.kernels import compiling

CODE = """
import sys, numba
numba.__version__ = sys.argv[1] or numba.__version__
if sys.argv[1]:
    numba.version_info = (*map(int, sys.argv[1].split(".")), *numba.version_info[2:])
import numpy as np, specgrad as sg
x = np.random.default_rng(3).normal(size=(2, 7, 20)).astype(np.float32)
y = sg.GlobalAvgPool(2)(x)
from specgrad.engines.cpu.compiled import kernel
assert len(kernel("whole.fold_planes").signatures) == 1
print("specgrad.engines.cpu.kernels.shortened" in sys.modules, y.tobytes().hex())
"""


def compiled_as(version, directory):
    """Whether a kernel was compiled the shorter way by what says it is this version of Numba, and what it computed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, version],
        env={**os.environ, "SPECGRAD_CACHE_DIR": str(directory)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_version_that_was_not_tried_compiles_the_ordinary_way_to_the_same_bits(tmp_path):
    _, bits = compiled_as("", tmp_path)
    assert compiled_as("0.1000", tmp_path) == ["False", bits]


@pytest.mark.parametrize(
    ("version", "shorter"), [((0, 61), False), ((0, 62), True), ((0, 68), True), ((0, 69), False), ((1, 60), False)]
)
def test_the_way_goes_by_the_version(version, shorter, monkeypatch):
    monkeypatch.setattr(compiling.numba, "version_info", version)
    assert all(("pipeline_class" in words) == shorter for words in compiling.ways())


def test_variants_that_two_processes_keep_at_once_are_not_mixed_up(tmp_path):
    """Both have read that nothing is kept yet; one says which file it will write, the other says so and writes, then the first writes."""
    first, second, later = (IndexDataCacheFile(str(tmp_path), "kernel", "stamp") for _ in range(3))
    for kept in (first, second):
        name_apart(kept)
        kept._load_index = dict
    written = []
    first._save_data = lambda *words: written.append(words)
    first.save("float32", "code of float32")
    second.save("float64", "code of float64")
    IndexDataCacheFile._save_data(first, *written[0])
    assert later.load("float64") == "code of float64"
    later.save("float32", "code of float32")
    assert (later.load("float32"), later.load("float64")) == ("code of float32", "code of float64")
