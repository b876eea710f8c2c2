"""Half floats are computed in float32 and rounded once, in every layer."""

import numpy as np
import pytest
from hypothesis import given, settings
from kinds import effort, in_turn

import specgrad as sg
from specgrad.conformance.cases import STRATEGIES, bfloat16
from specgrad.graph import transform

HALVES = [np.float16, *bfloat16().values()]
KINDS = [kind for kind in sg.OPERATORS if not any(slot.integer for slot in kind.slots)]
COMPOSED = (sg.SmoothMaxPool, sg.Mul, sg.Conv, sg.ConvTranspose, sg.Linear)
"""Operators whose second derivatives are composed of several operators."""


def by_transforms(op, xs, dxs, gy):
    """Value, tangent, second tangent, cotangents, and their tangents."""

    def pushed(*x):
        return sg.jvp(op, x, dxs)[1]

    def pulled(*x):
        return sg.vjp(op, *x)[1](gy)

    return [op(*xs), pushed(*xs), sg.jvp(pushed, xs, other(xs))[1], *pulled(*xs), *sg.jvp(pulled, xs, dxs)[1]]


def other(xs):
    """A second direction."""
    return tuple(np.flip(x).copy() for x in xs)


def by_tape(op, xs, dxs, gy):
    tape = sg.Tape()
    leaves = [tape.leaf(x) for x in xs]
    value = op(*leaves)
    first = tape.backward(value, gy)
    found = [value.value, None, None, *(first.get(leaf) for leaf in leaves)]
    if len(xs) > 1:
        return [*found, *[None] * len(xs)]
    (gradient,) = sg.vjp(op, *leaves)[1](gy)
    second = tape.backward(gradient, *dxs) if sg.dispatch.is_var(gradient) else {}
    return [*found, second.get(leaves[0])]


def by_graph(run):
    def layer(op, xs, dxs, gy):
        graph = sg.trace(op, *[x.shape for x in xs])
        once = transform.jvp(graph)
        still = [np.zeros_like(dx) for dx in dxs]
        twice = run(transform.jvp(once), gy.dtype)(*xs, *dxs, *other(xs), *still)
        moved = run(transform.jvp(transform.vjp(graph)), gy.dtype)(*xs, gy, *dxs, np.zeros_like(gy))
        return [run(graph, gy.dtype)(*xs), run(once, gy.dtype)(*xs, *dxs)[1], twice[3], *moved]

    return layer


LAYERS = {
    "tape": by_tape,
    "graph": by_graph(lambda graph, dtype: graph.forward),
    "program": by_graph(lambda graph, dtype: graph.compile(dtype)),
    "program after a copy": by_graph(lambda graph, dtype: transform.simplified(graph).compile(dtype)),
}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(kind, dtype) for turn, kind in enumerate(KINDS) for dtype in in_turn(HALVES, turn)],
    ids=lambda one: one.__name__,
)
def test_every_layer_rounds_alike(kind, dtype):
    @given(STRATEGIES[kind])
    @settings(max_examples=effort(2, 6))
    def check(case):
        groups = (case.operands, case.tangents, [case.cotangent])
        xs, dxs, (gy,) = (tuple(np.asarray(a * 0.37, dtype) for a in group) for group in groups)
        wanted = by_transforms(case.op, xs, dxs, gy)
        for name, layer in LAYERS.items():
            for place, (found, bits) in enumerate(zip(layer(case.op, xs, dxs, gy), wanted, strict=True)):
                assert found is None or np.array_equal(found, bits), (name, place, found, bits)  # a zero may be -0.0
        if kind in COMPOSED:
            wide = by_transforms(
                case.op, *(tuple(a.astype(np.float32) for a in group) for group in (xs, dxs)), gy.astype(np.float32)
            )
            for place in (2, *range(3 + len(xs), 3 + 2 * len(xs))):
                assert np.array_equal(wanted[place], wide[place].astype(dtype)), place

    check()


def test_a_formula_of_half_floats_is_rounded_once():
    """A composition of half-float operators would be 1 bit off."""
    x, dx, g = (np.array(a, np.float16) for a in ([0.0, 0.0, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0]))
    pool = sg.SmoothMaxPool((2,), stride=1, beta=1)
    wide = pool.vjp((sg.Dual(x.astype(np.float32), dx.astype(np.float32)),), g.astype(np.float32))[0].tangent
    for layer in (by_transforms, *LAYERS.values()):
        assert layer(pool, (x,), (dx,), g)[4].tolist() == wide.astype(np.float16).tolist()
    objects = np.array([*x, None], object)[:-1]
    moved = sg.jvp(
        lambda a: sg.vjp(pool, a)[1](np.array([*g, None], object)[:-1])[0],
        (objects,),
        (np.array([*dx, None], object)[:-1],),
    )
    assert moved[1].tolist() == wide.astype(np.float16).tolist()


def test_a_sum_of_products_is_rounded_once():
    random = np.random.default_rng(0)
    halves = [tuple(random.standard_normal((2, 50)).astype(np.float16)) for _ in range(2)]
    gy = np.ones(50, np.float16)
    wide = by_transforms(
        sg.Mul(), *(tuple(a.astype(np.float32) for a in group) for group in halves), gy.astype(np.float32)
    )
    for layer in (by_transforms, LAYERS["graph"], LAYERS["program"]):
        assert np.array_equal(layer(sg.Mul(), *halves, gy)[2], wide[2].astype(np.float16))


@pytest.mark.parametrize("dtype", HALVES)
def test_shares_of_an_average_are_rounded_once(dtype):
    """With different divisors per window, shares stay float32 until they are summed."""
    op = sg.AvgPool((3, 3), stride=1, padding=1, count_include_pad=False)
    g = np.random.default_rng(0).standard_normal((4, 6)).astype(dtype)
    x = np.zeros_like(g)
    with sg.engine("cpu"):
        pulled = op.vjp((x,), g)[0]
    exact, sizes = (op.vjp((x.astype(np.float64),), a.astype(np.float64))[0] for a in (g, abs(g)))
    near = 10 * 2.0**-24 / (1 - 10 * 2.0**-24) * sizes  # at most 9 shares, in float32
    assert ((exact - near).astype(dtype) <= pulled).all()
    assert (pulled <= (exact + near).astype(dtype)).all()
