"""The test cases of ONNX, PyTorch and JAX: all that specgrad can state agree, and all are counted.
PyTorch's and JAX's thousands of cases run if tests are thorough."""

import pytest
from kinds import effort

from specgrad.conformance import suites

LEAST = {"onnx_cases": ("onnx", 116, 112), "torch_opinfo": ("torch", 3000, 2500), "jax_harness": ("jax", 200, 80)}
"""The library, and the least numbers of cases and of agreeing cases; newer versions may have
more."""


@pytest.mark.parametrize("home", effort(["onnx_cases"], suites.HOMES))
def test_outside_cases_agree(home):
    library, cases, agree = LEAST[home]
    pytest.importorskip(library)
    if home == "onnx_cases":
        from test_onnx_backend import cases as of_module

        from specgrad.conformance.suites import onnx_cases

        for kind in onnx_cases.KINDS:  # ONNX makes its cases once in a process; these remember whose they are
            of_module(kind.lower())
    suite = suites.run(home)
    assert [(told.name, told.difference) for told in suite.differences] == []
    assert suite.agree >= agree
    assert suite.agree + sum(suite.not_expressible.values()) >= cases
