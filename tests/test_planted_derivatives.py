"""Faults planted in the tape, the rules of derivatives, the graph and the plan: the checks detect
each."""

import numpy as np
import pytest

import specgrad as sg
from specgrad.autograd import tape as tape_module
from specgrad.graph import program as program_module
from specgrad.graph import transform

X = np.array([[0.3, -0.2, 0.7, 0.1], [1.0, 0.4, -0.6, 0.9]])
V = np.array([[1.0, 2.0, -1.0, 0.5], [0.25, -3.0, 1.0, 1.0]])


def function(x):
    pooled = sg.smooth_max_pool(x * x, (2,), stride=1, beta=1.5)
    both = sg.max_pool(sg.scale(pooled, 2), (2,), stride=1) - sg.max_pool(sg.scale(pooled, 3), (2,), stride=1)
    return sg.sum(both * sg.avg_pool(pooled, (2,), stride=1) + sg.relu(both))


def suite():
    """Gradient and Hessian-vector product by tape, transforms, graph and program, compared with
    Dual numbers."""
    slopes = []
    for place in np.ndindex(*X.shape):
        unit = np.zeros_like(X)
        unit[place] = 1
        dual = sg.Dual(sg.Dual(X, unit), sg.Dual(V, np.zeros_like(X)))
        slopes.append(function(dual).tangent)
    gradient = np.array([float(function(sg.Dual(X, e.reshape(X.shape))).tangent) for e in np.eye(X.size)])
    curved = np.array([float(s.tangent) for s in slopes])
    recorded = sg.Tape()
    leaf = recorded.leaf(X)
    graph = sg.trace(function, X.shape)
    program = graph.compile(np.float64, engine="reference")
    twice = transform.vjp(transform.vjp(graph)).compile(np.float64, engine="reference")
    for found, wanted in (
        (recorded.backward(function(leaf))[leaf], gradient),
        (program.value_and_grad(X)[1][0], gradient),
        (sg.jvp(sg.grad(function), (X,), (V,))[1], curved),
        (sg.grad(lambda x: sg.sum(sg.grad(function)(x) * V))(X), curved),
        (twice(X, np.array(1.0), V)[0], curved),
    ):
        assert found.reshape(-1) == pytest.approx(wanted, rel=1e-10, abs=1e-12)
    assert program(X) == pytest.approx(function(X), rel=1e-12)


def curvature_of_smooth_max_forgotten(patch):
    patch.setattr(sg.SmoothMaxPool, "curvature", "piecewise_linear")


def products_taken_for_linear(patch):
    patch.setattr(sg.Mul, "curvature", "piecewise_linear")


def formula_of_smooth_max_without_beta(patch):
    right = sg.SmoothMaxPool.second_vjp
    patch.setattr(sg.SmoothMaxPool, "second_vjp", lambda self, *a: sg.scale(right(self, *a), 1 / self.beta))


def contributions_replaced_instead_of_added(patch):
    patch.setattr(tape_module, "total", lambda a, b: b)


def buffers_freed_too_early(patch):
    right = program_module.planned

    def planned(uses, *rest):
        return right([use._replace(reads=use.reads[:1], over=()) for use in uses], *rest)

    patch.setattr(program_module, "planned", planned)


def operators_merged_whatever_their_parameters(patch):
    right = transform._meaning

    def meaning(node, values):
        return (
            right(node, values) if node.op is None else (type(node.op), tuple(values[p].index for p in node.operands))
        )

    patch.setattr(transform, "_meaning", meaning)


FAULTS = [
    curvature_of_smooth_max_forgotten,
    products_taken_for_linear,
    formula_of_smooth_max_without_beta,
    contributions_replaced_instead_of_added,
    buffers_freed_too_early,
    operators_merged_whatever_their_parameters,
]


def test_nothing_is_reported_where_nothing_is_wrong():
    suite()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_fault_is_caught(fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises((AssertionError, sg.SpecgradError)):
        suite()
