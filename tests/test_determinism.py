"""The bits of a result do not depend on `out`, layer or number of threads; docs/determinism.md
states the guarantees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples

import specgrad as sg
from specgrad.conformance.cases import STRATEGIES
from specgrad.graph import transform

KINDS = [kind for kind in sg.OPERATORS if not any(slot.integer for slot in kind.slots)]


def cropped(shape, dtype):
    """A view of the middle of a larger array."""
    return np.zeros([n + 3 for n in shape], dtype)[(..., *(slice(1, 1 + n) for n in shape))]


def copied(a, into):
    into[...] = a
    return into


LAYOUTS = {
    "contiguous": lambda a: np.array(a, order="C"),
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim and a.size else a,
    "repeated last": lambda a: np.broadcast_to(a[..., :1], a.shape) if a.ndim and a.size else a,
    "Fortran": lambda a: np.array(a, order="F"),
    "reversed": lambda a: a[(..., *(slice(None, None, -1) for _ in a.shape))],
    "cropped": lambda a: copied(a, cropped(a.shape, a.dtype)),
    "channels last": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) if a.ndim > 2 else a,
}
OUTS = {
    "contiguous": np.zeros,
    "Fortran": lambda shape, dtype: np.zeros(shape, dtype, order="F"),
    "cropped": cropped,
}


def are_in_order(arrays):
    """Whether the axes of all arrays are in C order in memory, with or without gaps."""
    return all(list(s) == sorted(s, reverse=True) for s in ([abs(n) for n in a.strides] for a in arrays))


def in_every_way(op, xs, dxs, gy):
    """(how, value, tangent, cotangents) of an operator on the same operands, computed in every
    way."""
    value, tangent = op.jvp(xs, dxs)
    yield "jvp and vjp", value, tangent, op.vjp(xs, gy)
    dtype = value.dtype
    yield "call", op(*xs), None, None
    for name, make in OUTS.items():
        out = make(value.shape, dtype)
        op(*xs, out=out)
        yield f"out {name}", out, None, None
    with sg.threads.num_threads(1):
        value, tangent = op.jvp(xs, dxs)
        yield "one thread", value, tangent, op.vjp(xs, gy)
    tape = sg.Tape()
    leaves = [tape.leaf(x) for x in xs]
    recorded = op(*leaves)
    found = tape.backward(recorded, gy)
    yield "tape", recorded.value, None, [found.get(leaf) for leaf in leaves]
    value, tangent = sg.jvp(op, xs, dxs)
    yield "transforms", value, tangent, sg.vjp(op, *xs)[1](gy)
    graph = sg.trace(op, *[x.shape for x in xs])
    yield "program", graph.compile(dtype)(*xs), None, None
    pushed, pulled = transform.jvp(graph).compile(dtype), transform.vjp(graph).compile(dtype)
    back = pulled(*xs, gy)
    back = back if isinstance(back, tuple) else (back,)
    known = are_in_order(xs) or op.reads(0)  # otherwise a graph does not know the operand's layout
    yield "program of derivatives", None, pushed(*xs, *dxs)[1], back if known else None


def same(a, b):
    return a is None or b is None or np.array_equal(a + 0, b + 0, equal_nan=True)  # 0.0 for -0.0


def agree(op, xs, dxs, gy):
    first, *others = in_every_way(op, xs, dxs, gy)
    for how, value, tangent, cotangents in others:
        assert same(value, first[1]), how
        assert same(tangent, first[2]), how
        assert all(map(same, cotangents or first[3], first[3])), how


LAID_OUT = st.sampled_from(list(LAYOUTS.values()))
DTYPES = st.sampled_from([np.float32, np.float64, np.float16])


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_operator_gives_the_same_bits_however_it_is_asked(kind):
    @given(STRATEGIES[kind], LAID_OUT, DTYPES)
    @settings(max_examples=examples(20))
    def check(case, laid_out, dtype):
        groups = (case.operands, case.tangents, [case.cotangent])
        xs, dxs, (gy,) = (tuple(laid_out(np.asarray(a * 0.3734, dtype)) for a in group) for group in groups)
        agree(case.op, xs, dxs, gy)

    check()


@st.composite
def sums(draw):
    """An operator that sums many cells, and the shape of an operand."""
    shape = tuple(draw(st.lists(st.integers(1, 24), min_size=2, max_size=4)))
    rank = draw(st.integers(1, len(shape) - 1))
    kernel = tuple(draw(st.integers(1, n)) for n in shape[-rank:])
    stride = draw(st.integers(1, 3))
    axis = tuple(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    made = [
        sg.AvgPool(kernel, stride=stride),
        sg.AvgPool(kernel, stride=stride, padding=1, count_include_pad=False),
        sg.SmoothMaxPool(kernel, stride=stride, beta=2),
        sg.GlobalAvgPool(rank),
        sg.AdaptiveAvgPool(tuple(draw(st.integers(1, n)) for n in shape[-rank:])),
        sg.Sum(axis),
        sg.Mean(axis),
        sg.GlobalMaxPool(rank, ties="split"),
    ]
    return draw(st.sampled_from(made)), shape


@pytest.mark.parametrize("laid_out", LAYOUTS)
def test_sums_have_the_same_bits_however_they_are_asked_for(laid_out):
    @given(sums(), DTYPES, st.integers(0, 1000))
    @settings(max_examples=examples(60))
    def check(drawn, dtype, seed):
        op, shape = drawn
        random = np.random.default_rng(seed)
        x, dx, gy = (
            LAYOUTS[laid_out](random.standard_normal(s).astype(dtype)) for s in (shape, shape, op.output_shape(shape))
        )
        agree(op, (x,), (dx,), gy)

    check()


LARGE = [
    (sg.GlobalAvgPool(2), (1, 300, 400)),
    (sg.AvgPool((3, 3), stride=1, padding=1), (3, 90, 200)),
    (sg.AvgPool((50,), stride=2), (2, 30000)),
    (sg.AdaptiveAvgPool((7, 2)), (400, 40, 3)),
    (sg.SmoothMaxPool((3, 3), beta=1), (2, 120, 150)),
    (sg.Sum(), (3, 300, 200)),
    (sg.Mean(0), (300, 200)),
]


@pytest.mark.parametrize(("op", "shape"), LARGE, ids=repr)
def test_large_sums_do_not_depend_on_threads_or_out(op, shape):
    random = np.random.default_rng(0)
    for laid_out in LAYOUTS.values():
        x = laid_out(random.standard_normal(shape).astype(np.float32))
        gy = random.standard_normal(op.output_shape(shape)).astype(np.float32)
        value, gradient = op(x), op.vjp((x,), gy)[0]
        for make in OUTS.values():
            assert same(op(x, out=make(value.shape, value.dtype)), value)
        for threads in (1, 2, 3, 5):
            with sg.threads.num_threads(threads):
                assert same(op(x), value)
                assert same(op.vjp((x,), gy)[0], gradient)


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_mean_of_a_broadcast_plane(where):
    """A small operand with a broadcast axis: with `out`, it was summed in another order."""
    random = np.random.default_rng(0)
    for _ in range(20):
        x = LAYOUTS["repeated" if where == "first" else "repeated last"](random.standard_normal((3, 11, 10)))
        agree(sg.GlobalAvgPool(2), (x,), (x,), np.ones((3, 1, 1)))
