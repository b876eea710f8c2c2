"""`specgrad bench` measures every operator of its list."""

import dataclasses

import numpy as np
import pytest

from specgrad import bench
from specgrad.engines import reduction

LOADS = {type(load.op): load for load in bench.workloads(True) if len(load.shape) == 4}


@pytest.mark.parametrize("kind", LOADS, ids=lambda kind: kind.__name__)
def test_every_rule_of_an_operator_is_measured_with_the_bytes_that_it_moves(kind):
    load = dataclasses.replace(LOADS[kind], shape=(1, 2, 24, 24))
    x = np.ones(load.shape, np.float32)
    calls = bench.specgrad_calls(load, x)
    y = load.op(x)
    assert set(calls) == {"forward", "vjp"} | ({"winners"} if reduction(load.op) == "max" else set())
    for run, moved in calls.values():
        run()
        assert moved >= x.nbytes + y.nbytes
