"""One Hypothesis profile for all tests: repeatable, without a deadline (timing belongs in
benchmarks). And their order."""

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
"""Tests make objects by the million (instructions of kernels, terms of formulas): to look for
garbage among them as often as Python does takes much of their time."""


def pytest_collection_modifyitems(items):
    """Begin with the longest, which are those of the GPU: other workers take the short ones
    meanwhile."""
    items.sort(key=lambda item: item.path.name != "test_gpu.py")


@pytest.fixture
def specification():
    """Run the specification itself, whichever engine is faster: for tests of what operators
    mean."""
    with specgrad.engine("reference"):
        yield


@pytest.fixture
def any_size(monkeypatch):
    """Let specgrad.torch.functional run calls of every size itself, which leaves small ones to
    aten."""
    monkeypatch.setattr("specgrad.torch.routing.SMALL", 0)
