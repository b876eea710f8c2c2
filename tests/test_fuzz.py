"""No call without end: malformed calls of every public function, and sizes refused before any
allocation."""

import re
import time
import tracemalloc
from fractions import Fraction

import fuzz
import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch, sizes

X = np.arange(24.0).reshape(4, 2, 3)


def test_malformed_calls_are_answered_or_refused_within_a_second(monkeypatch):
    monkeypatch.setattr(sizes, "SMALL", sizes.SMALL)  # the fuzzer sets both; monkeypatch restores them
    monkeypatch.setattr(sizes, "available", sizes.available)
    pytest.importorskip("onnx")
    pytest.importorskip("torch")
    found, answered, refused = fuzz.run(20 * len(fuzz.NAMES), 0)
    assert [(name, seed, str(error)) for name, seed, error in found] == []
    assert answered > len(fuzz.NAMES) * 2
    assert refused > len(fuzz.NAMES) * 8


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x: 1 / 0, "ZeroDivisionError"),
        (lambda x: np.zeros(sg.get_num_threads() if dispatch.forced() else 7), "but the specification's is"),
        (lambda x: sum(range(10**6)), "took|TimeoutError"),  # TimeoutError on a busy machine
    ],
)
def test_the_fuzzer_finds_what_is_wrong(monkeypatch, wrong, says):
    for place, name in ((sizes, "SMALL"), (sizes, "available")):
        monkeypatch.setattr(place, name, getattr(place, name))
    monkeypatch.setattr(fuzz, "NAMES", ["relu"])
    monkeypatch.setattr(fuzz, "SECONDS", 0.01)
    monkeypatch.setattr(sg, "relu", wrong)
    assert re.search(says, str(fuzz.run(1, 0)[0][0][2]))


HUGE = {
    "adaptive": (lambda: sg.adaptive_max_pool(X, (5 * 10**8, 10**9)), 4 * 5 * 10**17 * 8),
    "adaptive of integers": (lambda: sg.adaptive_max_pool(X.astype(int), (5 * 10**8, 10**9)), 4 * 5 * 10**17 * 8),
    "bins": (lambda: sg.adaptive_max_pool(X, (10**8, 1)), None),
    "no batch": (lambda: sg.adaptive_avg_pool(X[:0], (1, 2**31 - 1)), None),
    "padding": (lambda: sg.avg_pool(X, (1, 1), stride=1, padding=10**8), 4 * (2 * 10**8 + 2) * (2 * 10**8 + 3) * 8),
    "pad": (lambda: sg.pad(X, ((0, 10**9), (0, 10**9))), None),
    "transposed": (lambda: sg.conv_transpose(X, np.ones((2, 1, 1)), stride=2**31 - 1), 4 * (2**32 - 1) * 8),
    "broadcast": (lambda: sg.broadcast_to(X[0, 0, 0], (10**6, 10**7)), 8 * 10**13),
    "outer": (lambda: sg.add(np.zeros((10**6, 1)), np.zeros(10**7)), 8 * 10**13),
    "fold": (lambda: sg.fold(X[0], (2**31 - 1,), (1,), stride=2**30), None),
    "unpool": (lambda: sg.max_unpool(X, np.zeros((4, 2, 3), int), (2**30, 2**30)), 4 * 2**60 * 8),
    "taps": (lambda: sg.avg_pool(X.astype(int), (1, 2**30), padding=((0, 0), (2**30, 0))), None),
    "tables": (
        lambda: sg.smooth_max_pool(X.astype(object), (1, 10**4), beta=1, stride=1, padding=((0, 0), (10**7, 0))),
        None,
    ),
    "power": (lambda: sg.power(np.array([Fraction(3, 7)], object), 10**12), None),
    "axes": (lambda: sg.sum(X, range(10**12)), None),
    "shape": (lambda: sg.reshape(X, range(10**12)), None),
    "order": (lambda: sg.transpose(X, range(10**12)), None),
    "kernel": (lambda: sg.max_pool(X, range(1, 10**12)), None),
    "window": (lambda: sg.max_pool2d(X, range(10**12)), None),
    "indices": (lambda: sg.take(X, range(10**12)), None),
    "argnums": (lambda: sg.grad(sg.sum, range(10**12)), None),
    "directions": (lambda: sg.check_grad(sg.relu, X, directions=10**9), None),
    "count": (lambda: sg.Concatenate(2**31 - 1), None),
    "rank": (lambda: sg.layer_norm(X, 10**9), None),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_cannot_fit_is_refused_at_once_with_the_bytes_it_would_need(name):
    call, needed = HUGE[name]
    sg.max_pool(X, (1, 1))  # loads the engine
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(sg.SpecgradError) as caught:
        call()
    took, (_, peak) = time.process_time() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 1
    assert peak < 2**20 + 24 * 10**7 * (name == "outer")
    if needed is not None:
        assert re.search(rf"needs {needed} bytes, and \d+ can be had; ", str(caught.value)), str(caught.value)


def test_padding_that_is_never_read_is_never_made():
    """The result has a few cells, however much padding lies between them."""
    tracemalloc.start()
    y = sg.unfold(X, (1,), stride=10**8, padding=10**8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert y.tolist() == [[[0, row[0], 0] for row in image] for image in X.tolist()]
    assert peak < 2**20


def test_integers_of_any_length_can_be_shown():
    with pytest.raises(sg.ArgumentError, match=r"kernel_size=\(an integer of \d+ bits,\) on axis 0: must be at most"):
        sg.max_pool(X, (10**5000,))
    with pytest.raises(sg.SpecgradError, match="float64"):
        sg.reshape(X, np.float64)
