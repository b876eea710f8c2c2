"""Kernels compile in a shorter way, which computes what is written; where Numba's version is not known to allow it, the ordinary way, to the same bits."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from specgrad.engines.cpu.compiled import name_apart
from specgrad.engines.cpu.kernels import compiling, shortened

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
print(*(name in sys.modules for name in ("specgrad.engines.cpu.kernels.shortened", "numba.np.linalg")), y.tobytes().hex())
"""


def compiled_as(version, directory):
    """Whether a kernel was compiled the shorter way by what says it is this version of Numba, whether that looked through all its modules, and
    what the kernel computed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, version],
        env={**os.environ, "SPECGRAD_CACHE_DIR": str(directory)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_version_that_was_not_tried_compiles_the_ordinary_way_to_the_same_bits(tmp_path):
    assert compiled_as("0.1000", tmp_path) == ["False", "True", compiled_as("", tmp_path)[-1]]


def test_a_kernel_that_is_kept_is_loaded_without_what_numba_compiles_by(tmp_path):
    first = compiled_as("", tmp_path)
    assert first[:2] == ["True", "True"]
    assert compiled_as("", tmp_path) == ["True", "False", first[-1]]


COUNTING = """
import numpy as np, specgrad as sg
x, w = np.ones((1, 2, 5, 5)), np.ones((2, 1, 3, 3))
x[0, 0, 2, 2] = np.inf  # times 0 is NaN: what weights get is then found again, by loops that slice arrays
print(*sg.Conv((3, 3), groups=2, padding=1).vjp((x, w), np.zeros((1, 2, 5, 5)))[1].ravel())
"""


def test_a_kept_kernel_that_counts_references_finds_what_counts_them(tmp_path):
    env = {**os.environ, "SPECGRAD_CACHE_DIR": str(tmp_path)}
    ran = [subprocess.run([sys.executable, "-c", COUNTING], env=env, capture_output=True, text=True) for _ in range(2)]
    assert [(done.returncode, done.stdout.split()) for done in ran] == [(0, ["nan"] * 9 + ["0.0"] * 9)] * 2


@pytest.mark.parametrize(
    ("version", "shorter"), [((0, 61), False), ((0, 62), True), ((0, 68), True), ((0, 69), False), ((1, 60), False)]
)
def test_the_way_goes_by_the_version(version, shorter, monkeypatch):
    monkeypatch.setattr(compiling.numba, "version_info", version)
    assert all(("pipeline_class" in words) == shorter for words in compiling.ways())


def fibonacci(x, n):
    """Two variables whose values change places."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    x[0] = a


def last_even(x, n):
    """A variable that is assigned where not every turn passes, and one that changes its type."""
    found = -1
    for i in range(n):
        twice = i
        if twice % 2 == 0:
            found = i
        while twice > 3:
            twice -= 2
    beyond = found if n > 20 else 0.5
    x[0], x[1] = found, beyond


def bounded(x, n):
    """The lesser and the greater of numbers of two types, and of NaN in either place."""
    x[0], x[1], x[2] = min(n, 2.5), max(n, 2.5), max(min(n, 7), 3)
    nan = x[3] - x[3]
    x[3], x[4], x[5], x[6] = min(nan, 1.0), min(1.0, nan), max(nan, 1.0), max(1.0, nan)


def viewed(x, n):
    """A part of an array, from the end and from the beginning."""
    for i in range(len(x[2:-1])):
        x[2:-1][i] += x[-1] * n


@pytest.mark.parametrize("function", [fibonacci, last_even, bounded, viewed])
def test_what_is_compiled_the_shorter_way_computes_what_is_written(function):
    kernel = compiling.compiled(function)
    for n in (0, 1, 5, 8, 31):
        written = np.array([1, 2, 3, np.inf, 5, 6, 7.5])
        computed = written.copy()
        references = sys.getrefcount(computed)
        with np.errstate(invalid="ignore"):
            function(written, n)
        kernel(computed, n)
        assert np.array_equal(computed, written, equal_nan=True)
        assert sys.getrefcount(computed) == references


def theirs():
    """What `shortened` puts something in the place of."""
    return [getattr(owner, name) for owner, name, _ in shortened.MEANWHILE]


def test_numba_is_itself_again_after_a_kernel_and_after_a_mistake_in_one():
    def mistaken(x):
        return x[0].nothing

    before = theirs()
    assert not any(found is ours for found, (_, _, ours) in zip(before, shortened.MEANWHILE, strict=True))
    compiling.compiled(viewed)(np.ones(7), 1)
    with pytest.raises(numba.TypingError, match=r"test_cpu_compiling\.py"):
        compiling.compiled(mistaken)(np.ones(1))
    assert theirs() == before
    assert "resolve_function_type" not in vars(numba.core.registry.cpu_target.typing_context)
    assert numba.njit(lambda n: np.arange(max(n, 2)))(3).tolist() == [0, 1, 2]


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
