"""What pytest collects beside tests/: examples in docstrings. Those of the 1d, 2d and 3d names are
of functions of any rank."""

import pytest

import specgrad

collect_ignore = ["tests/typed"]


@pytest.fixture(autouse=True)
def public_names(request, doctest_namespace):
    if request.node.name.startswith("specgrad.ranked."):
        doctest_namespace.update({name: getattr(specgrad, name) for name in specgrad.__all__})
