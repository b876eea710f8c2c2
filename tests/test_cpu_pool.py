"""The CPU engine against the specification: maxima bit for bit, sums within their derived bound."""

from __future__ import annotations

import numpy as np
import pytest
from engine_comparison import bits, compare, on, unit
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import effort, examples, in_turn

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance import bounds
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines import REDUCTIONS
from specgrad.geometry import Adaptive, Sliding
from specgrad.ops.pool import Maximum

ml_dtypes = pytest.importorskip("ml_dtypes")
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
POOLS = list(REDUCTIONS)


AWKWARD = np.array([-np.inf, np.nan, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])


@st.composite
def operands(draw, case, dtype):
    """The operand of a case in this dtype, with few or with awkward numbers, in a random layout."""
    (x,) = case.operands
    if np.dtype(dtype).kind == "i":
        x = x.astype(dtype)
    else:
        x = np.asarray(AWKWARD[x + 4] if draw(st.booleans()) else x).astype(dtype)
    order = draw(st.permutations(range(x.ndim)))
    x = x.transpose(order).copy().transpose(np.argsort(order))
    if draw(st.booleans()):
        x = np.repeat(x, 2, axis=-1)[..., ::-2][..., ::-1] if x.ndim else x
    return x


KINDS = [(kind, np.float32) for kind in POOLS] + [
    *((kind, dtype) for kind in (sg.MaxPool, sg.AvgPool) for dtype in FLOATS[1:]),
    (sg.MaxPool, np.int32),
]


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_agrees_with_the_specification(kind, dtype):
    integer = dtype is np.int32

    @settings(max_examples=examples(60 if dtype is np.float32 else 20))
    @given(st.data())
    def holds(data):
        case = data.draw(STRATEGIES[kind])
        if not (integer and case.op.ties == "split"):
            x = data.draw(operands(case, dtype))
            compare(case.op, x, case.tangents[0].astype(dtype), case.cotangent.astype(dtype))

    holds()


@pytest.mark.parametrize("op", [sg.MaxPool((2, 2)), sg.MaxPool((5, 4), stride=2, padding=1)], ids=repr)
def test_cells_without_a_sign_are_compared_as_such(op):
    random = np.random.default_rng(8)
    x = random.integers(0, 2**16, (2, 9, 23), np.uint16)
    compare(op, x, x // 4, random.integers(0, 99, op.output_shape(x.shape), np.uint16))


@pytest.mark.parametrize("seed", range(effort(24, 60)))
def test_agrees_on_large_windows(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    top = (40, 30, 12)[rank - 1]
    k, s, p = (tuple(int(v) for v in rng.integers(low, high, rank)) for low, high in ((6, 11), (1, 4), (0, 5)))
    size = tuple(int(rng.integers(max(a, 6), top)) for a in k)
    x = rng.choice(AWKWARD, size=(2, *size)) if seed % 3 == 0 else rng.integers(-9, 9, (2, *size))
    x = x.astype(np.float32)
    op = sg.MaxPool(k, stride=s, padding=p) if seed % 2 else sg.AvgPool(k, stride=s, padding=p, count_include_pad=False)
    compare(
        op,
        x,
        rng.integers(-4, 4, x.shape).astype(np.float32),
        rng.integers(-4, 4, op.output_shape(x.shape)).astype(np.float32),
    )


@pytest.mark.parametrize(
    "op", [sg.MaxPool((6, 9), stride=1, padding=(2, 4)), sg.AvgPool((5, 8), stride=1, padding=2)], ids=repr
)
def test_rows_that_are_folded_together_may_be_longer_than_a_piece_of_them(op):
    random = np.random.default_rng(4)
    x, tangent = (random.integers(-9, 9, (2, 11, 701)).astype(np.float32) for _ in range(2))
    compare(op, x, tangent, random.integers(-9, 9, op.output_shape(x.shape)).astype(np.float32))


@pytest.mark.parametrize("kind", [kind for kind in POOLS if not issubclass(kind, Maximum)])
def test_sums_keep_their_bounds(kind):
    dtype = np.float32

    @settings(max_examples=examples(25))
    @given(st.data())
    def holds(data):
        case = data.draw(STRATEGIES[kind])
        x, dx, gy = (np.asarray(a.astype(dtype) / dtype(3)) for a in (*case.operands, *case.tangents, case.cotangent))
        op = case.op
        y, dy = on("cpu", lambda: op.jvp((x,), (dx,)))
        gx = on("cpu", lambda: op.vjp((x,), gy))[0]
        if isinstance(op, sg.SmoothMaxPool):
            judged = bounds.smooth(op, x, dx, gy)
        else:
            judged = bounds.value(op, (x,)), bounds.jvp(op, (x,), (dx,)), bounds.vjp(op, (x,), gy)[0]
        for found, judge in zip((y, dy, gx), judged, strict=True):
            assert judge.holds(found), (op, judge.worst(found))

    holds()


def any_window(random, rank):
    """A maximum with random options, whose windows may lie in padding."""

    def some(least, most):
        return tuple(int(n) for n in random.integers(least, most, rank))

    kernel = some(1, 4)
    padding = tuple((int(random.integers(k + 1)), int(random.integers(k + 1))) for k in kernel)
    if random.integers(3) == 0:
        return sg.AdaptiveMaxPool(some(1, 5))
    options = {"stride": some(1, 5), "dilation": some(1, 3), "ceil_mode": bool(random.integers(2))}
    return sg.MaxPool(kernel, padding=padding, **options)


def test_maxima_of_planes_side_by_side_are_those_of_the_specification():
    """Channels-last arrays of ranks 1 to 3, with tied, infinite and NaN cells and signed zeros:
    values, indices and cotangents bit for bit."""
    random = np.random.default_rng(3)
    other_nan = np.array([0x7FF8_0000_2000_0000]).view(np.float64)[0]
    pools = ([np.nan, -np.inf, -0.0, 0.0, 1.0, 2.0], [-0.0, 0.0, -1.0], [np.nan, other_nan, *[1.0] * 60])
    for turn in range(effort(15, 200)):
        rank, channels = int(random.integers(1, 4)), int(random.choice([16, 19, 33]))
        dtype = [np.float32, np.float64][turn % 2]
        lying = random.choice(pools[turn % 3], (2, *random.integers(1, 90 if rank == 1 else 9, rank), channels))
        x = np.moveaxis(lying.astype(dtype), -1, 1)
        try:
            op = sg.GlobalMaxPool(rank) if turn % 5 == 0 else any_window(random, rank)
            gy = random.choice([-0.0, -2.0, 1.0, 3.0], op.output_shape(x.shape)).astype(dtype)
        except sg.SpecgradError:
            continue
        found, expected = (
            on(engine, lambda op=op, x=x, gy=gy: (*dispatch.with_indices(op, (x,)), op.vjp((x,), gy)[0], op(x)))
            for engine in ("cpu", "reference")
        )
        for got, wanted in zip(found, expected, strict=True):
            assert (bits(got) == bits(wanted)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_winners_in_runs_and_far_apart_are_sent_what_the_specification_sends(dtype):
    """Adjacent windows of 2 or 4 cells of a row, with cells left over; and bins so large that
    winners are cache lines apart, some of them shared."""
    random = np.random.default_rng(6)
    runs = [((k,), (3, n)) for k in (2, 4) for n in (64, 67, 200)] + [((1, 4), (2, 3, 83)), ((1, 1, 2), (2, 3, 2, 70))]
    pairs = [((2, 2), (2, 5, 71)), ((2, 2), (3, 8, 64)), ((2, 2), (1, 255, 601))]  # the last in tasks of 43 rows
    bins = [((3,), (2, 401)), ((2, 3), (3, 23, 38)), ((1, 2, 2), (2, 5, 12, 13))]
    bins += [((2, 3), (3, 31, 47))] if dtype is np.float32 else []  # codes of more than a byte
    for windows, (lengths, shape) in [
        *((sg.MaxPool, r) for r in runs + pairs),
        *((sg.AdaptiveMaxPool, b) for b in bins),
    ]:
        op = windows(lengths)
        x = random.integers(-3, 4, shape).astype(dtype)
        if dtype is not np.int32:
            x[random.random(shape) < 0.1] = np.nan
        gy = random.choice([-0.0, 1.0, 2.0, 5.0], op.output_shape(shape)).astype(dtype)
        found, expected = (on(engine, lambda op=op, x=x, gy=gy: op.vjp((x,), gy)[0]) for engine in ("cpu", "reference"))
        assert (bits(found) == bits(expected)).all()


@pytest.mark.parametrize(("first", "dtype"), [*enumerate([np.float32, ml_dtypes.bfloat16, np.int64])])
def test_windows_of_one_cell_are_that_cell(first, dtype):
    """Strided windows, and one bin per cell; planes one after the other, channels last, and
    reversed."""
    random = np.random.default_rng(8)
    sliding = [sg.MaxPool, sg.AvgPool] if dtype is not np.int64 else [sg.MaxPool]
    strides = [
        ((3,), (2, 70)),
        ((1, 2), (3, 5, 9)),
        ((2, 1), (3, 5, 9)),
        ((3, 2, 2), (2, 7, 4, 5)),
        ((1, 2, 1, 1), (2, 3, 4, 3, 2)),
    ]
    pools = [(kind((1,) * len(s), stride=s, ceil_mode=True), shape) for kind in sliding for s, shape in strides]
    pools += [
        (sg.MaxPool((1, 1), stride=(2, 3)), (2, 40, 60)),
        (sg.MaxPool((1, 1, 1), stride=(3, 2, 1)), (1, 9, 16, 20)),
    ]
    pools += [(sg.AdaptiveMaxPool((4, 5)), (3, 4, 5)), (sg.AdaptiveMaxPool((1,)), (2, 1)), (sg.MaxPool(()), (3,))]
    for turn, (op, shape) in enumerate(pools, first):
        x = random.integers(-4, 5, shape)
        x = x if dtype is np.int64 else AWKWARD[x + 4].astype(dtype)
        gy = random.choice([-0.0, 1.0, 2.0, 5.0], op.output_shape(shape)).astype(dtype)
        beside = np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)
        for laid in in_turn([x, beside, np.flip(x).copy()[(slice(None, None, -1),) * x.ndim]], turn):
            compare(op, laid, laid, gy)
            back = [on(engine, lambda op=op, x=laid, gy=gy: op.vjp((x,), gy)[0]) for engine in ("cpu", "reference")]
            assert (bits(back[0]) == bits(back[1])).all()
    compare(sg.AvgPool((1,), stride=2, divisor_override=2), np.arange(5.0), np.arange(5.0), np.arange(3.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_averages_of_windows_side_by_side_send_back_what_the_specification_does(dtype):
    """Windows of 2^n cells, whose shares are exact, with cells left over along each axis."""
    random = np.random.default_rng(7)
    sizes = [((2,), (3, 67)), ((4,), (2, 203)), ((2, 2), (2, 5, 71)), ((1, 4), (2, 3, 83)), ((4, 2), (3, 11, 64))]
    volumes = [((2, 2, 2), (2, 5, 7, 65)), ((2, 1, 4), (3, 4, 3, 66)), ((1, 2, 2), (2, 3, 6, 34))]
    for taps, shape in sizes + volumes:
        op, x = sg.AvgPool(taps), np.zeros(shape, dtype)
        gy = random.integers(-9, 10, op.output_shape(shape)).astype(dtype)
        found, expected = (on(engine, lambda op=op, x=x, gy=gy: op.vjp((x,), gy)[0]) for engine in ("cpu", "reference"))
        assert (bits(found) == bits(expected)).all()


def test_averages_of_planes_side_by_side_are_those_of_the_specification():
    """Sums of integers are exact in any order, and divided once."""
    random = np.random.default_rng(5)
    for turn in range(effort(18, 100)):
        rank = int(random.integers(1, 4))
        lying = random.integers(-9, 10, (2, *random.integers(1, 9, rank), int(random.choice([16, 19, 33]))))
        x = np.moveaxis(lying.astype([np.float32, np.float64][turn % 2]), -1, 1)
        kernel = tuple(int(n) for n in random.integers(1, 4, rank))
        op = sg.AvgPool(kernel, stride=int(random.integers(1, 4)), count_include_pad=bool(random.integers(2)))
        try:
            found, expected = (on(engine, lambda op=op, x=x: op(x)) for engine in ("cpu", "reference"))
        except sg.SpecgradError:
            continue
        assert (bits(found) == bits(expected)).all()


def test_averages_of_large_windows_send_back_what_the_specification_does():
    """Bins with and without overlap, windows with gaps between them, rows of many vectors and of
    less than one."""
    random = np.random.default_rng(4)
    for turn in range(effort(24, 36)):
        rank = turn % 3 + 1
        sizes = tuple(int(n) for n in random.integers(5, [90, 30, 12], 3))[3 - rank :]
        sizes = (*sizes[1:], int(random.integers(58, 70))) if turn % 4 else sizes
        if turn // 3 % 2:
            last = [1, 2, 6, sizes[-1] // 2 + 1][
                turn % 4
            ]  # of the longest windows some cells are alike, of the shortest none
            op = sg.AdaptiveAvgPool((*(int(random.integers(1, n + 1)) for n in sizes[:-1]), last))
        else:
            options = {"stride": (8, 5, 9)[3 - rank :], "padding": 1, "count_include_pad": turn % 4 == 0}
            op = sg.AvgPool(tuple(int(n) for n in random.integers(2, 6, rank)), **options)
        x = random.normal(size=(2, *sizes)).astype([np.float32, np.float64][turn % 2])
        gy = random.normal(size=op.output_shape(x.shape)).astype(x.dtype)
        found = on("cpu", lambda op=op, x=x, gy=gy: op.vjp((x,), gy)[0])
        wide = gy.astype(np.longdouble)  # its rounding errors are negligible
        wanted, size = (
            on("reference", lambda op=op, x=x, g=g: op.vjp((x.astype(g.dtype),), g)[0]) for g in (wide, np.abs(wide))
        )
        terms = bounds.terms(op, [x.shape])[1][0]
        assert (np.abs(found - wanted) <= (terms + 2) * unit(x.dtype)[0] * size).all()


ADVERSARIES = {
    "large offset": lambda rng, shape: 1e6 + rng.normal(size=shape),
    "alternating": lambda rng, shape: np.where(np.indices(shape).sum(0) % 2, 1e7, -1e7) + rng.normal(size=shape),
    "wild": lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12, shape),
}


@pytest.mark.parametrize("numbers", ADVERSARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel_size", [(2, 2), (3, 3), (5, 9), (12, 11)])
def test_averages_keep_their_bounds_on_adversarial_numbers(numbers, dtype, kernel_size):
    x = ADVERSARIES[numbers](np.random.default_rng(1), (1, 13, 14)).astype(dtype)
    op = sg.AvgPool(kernel_size, stride=1, padding=tuple(k // 2 for k in kernel_size), count_include_pad=False)
    gy = np.resize(x, op.output_shape(x.shape))
    assert bounds.value(op, (x,)).holds(on("cpu", lambda: op(x)))
    assert bounds.vjp(op, (x,), gy)[0].holds(on("cpu", lambda: op.vjp((x,), gy))[0])


NARROW = [
    (sg.SmoothMaxPool((2, 2), beta=4), (41, 25, 4, 4)),
    (sg.SmoothMaxPool((3, 2), beta=-0.5, stride=(1, 2), padding=1, pad="zero"), (307, 7, 5)),
    (sg.SmoothMaxPool((3,), beta=1, dilation=2, padding=2), (700, 9)),
    (sg.SmoothMaxPool((2, 2, 2), beta=2, stride=1), (150, 3, 4, 3)),
    (sg.SmoothMaxPool((3, 3), beta=1, stride=2, padding=1, pad="zero"), (250, 6, 9)),
    (sg.SmoothMaxPool((2, 3), beta=-1), (300, 8, 21)),
    (sg.SmoothMaxPool((4, 1), beta=1, stride=(3, 1)), (300, 7, 5)),
    (sg.SmoothMaxPool((1, 2, 2), beta=1, stride=(2, 2, 2)), (130, 3, 4, 6)),
]


@pytest.mark.parametrize(
    ("op", "shape", "dtype"),
    [(*case, dtype) for turn, case in enumerate(NARROW) for dtype in in_turn(FLOATS, turn)],
    ids=repr,
)
def test_narrow_planes_that_are_walked_together_or_lie_side_by_side_have_the_bits_of_each_alone(op, shape, dtype):
    random = np.random.default_rng(0)
    x = random.choice(np.append(AWKWARD, random.normal(size=50)), shape).astype(dtype)
    dx = random.normal(size=shape).astype(dtype)
    gy = random.normal(size=op.output_shape(shape)).astype(dtype)
    few = [slice(a, a + 2) for a in range(0, len(x), 2)]
    for whole, parts in (
        (op(x), [op(x[a]) for a in few]),
        (op.jvp((x,), (dx,))[1], [op.jvp((x[a],), (dx[a],))[1] for a in few]),
        (op.vjp((x,), gy)[0], [op.vjp((x[a],), gy[a])[0] for a in few]),
    ):
        assert (bits(whole) == bits(np.concatenate(parts))).all()
    beside = [np.moveaxis(np.moveaxis(array, 0, -1).copy(), -1, 0) for array in (x, dx, gy)]
    assert (bits(op(beside[0])) == bits(op(x))).all()
    assert (bits(op.jvp((beside[0],), (beside[1],))[1]) == bits(op.jvp((x,), (dx,))[1])).all()
    assert (bits(op.vjp((beside[0],), beside[2])[0]) == bits(op.vjp((x,), gy)[0])).all()


def test_nothing_leaks_and_no_mean_of_non_negative_numbers_is_negative():
    rng = np.random.default_rng(2)
    x = rng.exponential(size=(4, 40, 40)).astype(np.float32) * 10.0 ** rng.integers(-20, 20, (4, 40, 40)).astype(
        np.float32
    )
    x[0, 20, 20], x[1, 3, 3] = np.nan, np.inf
    for k in (3, 9, 31):
        y = on("cpu", lambda k=k: sg.avg_pool2d(x, k, stride=1, padding=k // 2))
        expected = on("reference", lambda k=k: sg.avg_pool2d(x, k, stride=1, padding=k // 2))
        np.testing.assert_array_equal(np.isfinite(y), np.isfinite(expected))
        assert (y[np.isfinite(y)] >= 0).all()


def test_ranges_say_what_taps_say():
    axes = [
        Sliding(7, k, s, a, b, d, c)
        for k in (1, 3)
        for s in (1, 2, 5)
        for a in (0, 4)
        for b in (0, 2)
        for d in (1, 2)
        for c in (False, True)
    ]
    for axis in [a for a in axes if a.length > 0] + [Adaptive(n, m) for n in (1, 5, 10) for m in (0, 1, 3, 7)]:
        taps, ranges = axis.taps(), axis.ranges()
        np.testing.assert_array_equal(taps.real.sum(1), ranges.count)
        np.testing.assert_array_equal(taps.exists.sum(1), ranges.existing)
        some = ranges.count > 0
        np.testing.assert_array_equal(taps.cell[np.arange(len(some)), taps.real.argmax(1)][some], ranges.first[some])
