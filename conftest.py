"""What pytest collects beside tests/: examples in docstrings, which know the public names."""

import pytest

import specgrad

collect_ignore = ["tests/typed"]


@pytest.fixture(autouse=True)
def public_names(doctest_namespace):
    doctest_namespace.update({name: getattr(specgrad, name) for name in specgrad.__all__})
