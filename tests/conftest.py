"""A Hypothesis profile for all tests: deterministic, without deadlines (timing belongs in
benchmarks). And the order of tests."""

import gc

import pytest
from hypothesis import HealthCheck, settings
from kinds import examples

import specgrad

settings.register_profile(
    "specgrad",
    max_examples=examples(100),
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("specgrad")


gc.set_threshold(50_000, 20, 20)
"""Tests make millions of objects (instructions of kernels, terms of formulas); Python's default
thresholds would spend much of their time on garbage collection."""


def pytest_collection_modifyitems(items):
    """Begin with the slowest tests, those of the GPU, while other workers run the fast ones."""
    items.sort(key=lambda item: item.path.name != "test_gpu.py")


@pytest.fixture
def specification():
    """Use the reference engine, for tests of what operators mean."""
    with specgrad.engine("reference"):
        yield


@pytest.fixture
def any_size(monkeypatch):
    """Let specgrad.torch.functional run calls of every size, which otherwise leaves small ones to
    aten."""
    monkeypatch.setattr("specgrad.torch.routing.SMALL", 0)
