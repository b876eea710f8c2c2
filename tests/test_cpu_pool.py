"""The CPU engine against the specification: maxima bit for bit, sums within the bound that their terms allow."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specgrad as sg
from specgrad import dispatch, threads
from specgrad.conformance import bounds
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines.cpu import pooling
from specgrad.engines.cpu.compiled import kernel
from specgrad.geometry import Adaptive, Sliding
from specgrad.ops.pool import Maximum, Pool

ml_dtypes = pytest.importorskip("ml_dtypes")
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
POOLS = [kind for kind in sg.OPERATORS if issubclass(kind, Pool)]


def unit(dtype):
    """The unit roundoff of the type in which cells are computed, and of the one rounding at the end."""
    name = np.dtype(dtype).name
    computed = 2.0**-53 if name == "float64" else 2.0**-24
    return computed, {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(name, 0.0)


def bits(array):
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.itemsize}")


def on(engine, call):
    with sg.engine(engine), np.errstate(all="ignore"):
        return call()


def agree(got, expected, slack):
    """Equal where the specification is not finite, and else within `slack` times its own size of it (or of 1)."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    a, b = got.astype(np.float64), expected.astype(np.float64)
    near = np.isclose(a, b, rtol=slack, atol=slack, equal_nan=True)
    assert near.all(), (a[~near][:5], b[~near][:5])


AWKWARD = np.array([-np.inf, np.nan, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])


@st.composite
def operands(draw, case, dtype):
    """The operand of a case as numbers of this dtype, few or awkward, and laid out in memory in some way."""
    (x,) = case.operands
    if np.dtype(dtype).kind in "iu":
        x = np.asarray(x + 4).astype(dtype)
    else:
        x = np.asarray(AWKWARD[x + 4] if draw(st.booleans()) else x).astype(dtype)
    order = draw(st.permutations(range(x.ndim)))
    x = x.transpose(order).copy().transpose(np.argsort(order))
    if draw(st.booleans()):
        x = np.repeat(x, 2, axis=-1)[..., ::-2][..., ::-1] if x.ndim else x
    return x


def compare(op, x, dx, gy):
    """Value, indices, JVP and VJP of both engines."""
    slack = 0 if np.dtype(x.dtype).kind in "iu" else 200 * unit(x.dtype)[0] + 4 * unit(x.dtype)[1]
    y, got = (on(engine, lambda: op(x)) for engine in ("reference", "cpu"))
    if isinstance(op, Maximum):
        _, places = on("reference", lambda: dispatch.with_indices(op, (x,)))
        value, found = on("cpu", lambda: dispatch.with_indices(op, (x,)))
        np.testing.assert_array_equal(places, found)
        np.testing.assert_array_equal(bits(value), bits(y))
        np.testing.assert_array_equal(bits(got), bits(y))
    agree(got, y, slack)
    for call in (lambda: op.jvp((x,), (dx,))[1], lambda: op.vjp((x,), gy)[0]):
        agree(on("cpu", call), on("reference", call), slack)


KINDS = [(kind, np.float32) for kind in POOLS] + [
    *((kind, dtype) for kind in (sg.MaxPool, sg.AvgPool) for dtype in FLOATS[1:]),
    *((sg.MaxPool, dtype) for dtype in (np.int32, np.uint16)),
]


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_agrees_with_the_specification(kind, dtype):
    integer = np.dtype(dtype).kind in "iu"

    @settings(max_examples=60 if dtype is np.float32 else 20)
    @given(st.data())
    def holds(data):
        case = data.draw(STRATEGIES[kind])
        if not (integer and case.op.ties == "split"):
            x = data.draw(operands(case, dtype))
            signed = np.abs if np.dtype(dtype).kind == "u" else np.asarray
            compare(
                case.op,
                x,
                np.asarray(signed(case.tangents[0])).astype(dtype),
                np.asarray(signed(case.cotangent)).astype(dtype),
            )

    holds()


@pytest.mark.parametrize("seed", range(60))
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


@pytest.mark.parametrize("kind", [kind for kind in POOLS if not issubclass(kind, Maximum)])
def test_sums_keep_their_bounds(kind):
    dtype = np.float32

    @settings(max_examples=25)
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
    """A maximum of any options, in windows that need not meet the input."""

    def some(least, most):
        return tuple(int(n) for n in random.integers(least, most, rank))

    kernel = some(1, 4)
    padding = tuple((int(random.integers(k + 1)), int(random.integers(k + 1))) for k in kernel)
    if random.integers(3) == 0:
        return sg.AdaptiveMaxPool(some(1, 5))
    options = {"stride": some(1, 5), "dilation": some(1, 3), "ceil_mode": bool(random.integers(2))}
    return sg.MaxPool(kernel, padding=padding, **options)


def test_maxima_of_planes_side_by_side_are_those_of_the_specification():
    """Channels-last arrays of ranks 1 to 3, with tied, infinite and NaN cells and zeros of both signs; values, indices and cotangents bit for bit."""
    random, walked, apart, large = np.random.default_rng(3), 0, 0, 0
    other_nan = np.array([0x7FF8_0000_2000_0000]).view(np.float64)[0]
    pools = ([np.nan, -np.inf, -0.0, 0.0, 1.0, 2.0], [-0.0, 0.0, -1.0], [np.nan, other_nan, *[1.0] * 60])
    for turn in range(200):
        rank, channels = int(random.integers(1, 4)), int(random.choice([16, 19, 33]))
        dtype = [np.float32, np.float64][turn % 2]
        lying = random.choice(pools[turn % 3], (2, *random.integers(1, 90 if rank == 1 else 9, rank), channels))
        x = np.moveaxis(lying.astype(dtype), -1, 1)
        try:
            op = sg.GlobalMaxPool(rank) if turn % 5 == 0 else any_window(random, rank)
            gy = random.integers(-5, 6, op.output_shape(x.shape)).astype(dtype)
        except sg.SpecgradError:
            continue
        made = pooling.see(op, x).plan
        walked += made.inside is not None
        apart += made.inside is not None and made.unread is not None
        large += made.inside is not None and made.codes > 32
        found, expected = (
            on(engine, lambda op=op, x=x, gy=gy: (*dispatch.with_indices(op, (x,)), op.vjp((x,), gy)[0], op(x)))
            for engine in ("cpu", "reference")
        )
        for got, wanted in zip(found, expected, strict=True):
            assert (bits(got) == bits(wanted)).all()
    assert walked > 100
    assert apart > 40
    assert large > 20


def test_averages_of_planes_side_by_side_are_those_of_the_specification():
    """Sums of whole numbers are exact in any order, and divided once."""
    random, direct = np.random.default_rng(5), 0
    for turn in range(100):
        rank = int(random.integers(1, 4))
        lying = random.integers(-9, 10, (2, *random.integers(1, 9, rank), int(random.choice([16, 19, 33]))))
        x = np.moveaxis(lying.astype([np.float32, np.float64][turn % 2]), -1, 1)
        kernel = tuple(int(n) for n in random.integers(1, 4, rank))
        op = sg.AvgPool(kernel, stride=int(random.integers(1, 4)), count_include_pad=bool(random.integers(2)))
        try:
            found, expected = (on(engine, lambda op=op, x=x: op(x)) for engine in ("cpu", "reference"))
        except sg.SpecgradError:
            continue
        direct += pooling.see(op, x, True).plan.direct[0]
        assert (bits(found) == bits(expected)).all()
    assert direct > 40


def test_averages_of_large_windows_send_back_what_the_specification_does():
    """Bins that overlap or not, windows with gaps between them, rows that are whole vectors and rows that are not."""
    random, met = np.random.default_rng(4), 0
    for turn in range(24):
        sizes = tuple(int(n) for n in random.integers(5, 40, 2))
        if turn % 2:
            op = sg.AdaptiveAvgPool(tuple(int(random.integers(1, n // 2 + 1)) for n in sizes))
        else:
            options = {"stride": (5, 6), "padding": 1, "count_include_pad": turn % 4 == 0}
            op = sg.AvgPool(tuple(int(n) for n in random.integers(2, 7, 2)), **options)
        x = random.normal(size=(3, *sizes)).astype([np.float32, np.float64][turn // 2 % 2])
        gy = random.normal(size=op.output_shape(x.shape)).astype(x.dtype)
        met += pooling.see(op, x, any_order=True).plan.bins_back is not None
        assert bounds.vjp(op, (x,), gy)[0].holds(on("cpu", lambda op=op, x=x, gy=gy: op.vjp((x,), gy)[0]))
    assert met > 15


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


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (sg.SmoothMaxPool((2, 2), beta=4), (41, 25, 4, 4)),
        (sg.SmoothMaxPool((3, 2), beta=-0.5, stride=(1, 2), padding=1, pad="zero"), (307, 7, 5)),
        (sg.SmoothMaxPool((3,), beta=1, dilation=2, padding=2), (700, 9)),
        (sg.SmoothMaxPool((2, 2, 2), beta=2, stride=1), (150, 3, 4, 3)),
    ],
    ids=repr,
)
def test_narrow_planes_that_are_walked_together_have_the_bits_of_each_alone(op, shape, dtype):
    random = np.random.default_rng(0)
    x = random.choice(np.append(AWKWARD, random.normal(size=50)), shape).astype(dtype)
    together = pooling.see(op, x).plan.side_by_side
    assert together is not None
    dx = random.normal(size=shape).astype(dtype)
    gy = random.normal(size=op.output_shape(shape)).astype(dtype)
    few = [slice(a, a + 2) for a in range(0, len(x), 2)]
    assert pooling.see(op, x[few[0]]).plan.side_by_side is None
    for whole, parts in (
        (op(x), [op(x[a]) for a in few]),
        (op.jvp((x,), (dx,))[1], [op.jvp((x[a],), (dx[a],))[1] for a in few]),
        (op.vjp((x,), gy)[0], [op.vjp((x[a],), gy[a])[0] for a in few]),
    ):
        assert (bits(whole) == bits(np.concatenate(parts))).all()


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


def random_calls(seed, count):
    """Bits of values and cotangents of some operators over arrays that are worth splitting."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        x = rng.normal(
            size=(3, int(rng.integers(1, 9)), int(rng.integers(60, 200)), int(rng.integers(60, 200)))
        ).astype(np.float32)
        k, s = int(rng.integers(1, 12)), int(rng.integers(1, 3))
        op = [sg.MaxPool, sg.AvgPool][int(rng.integers(2))]((k, k), stride=s, padding=int(rng.integers(0, k)))
        y = op(x)
        found += [y.tobytes(), op.vjp((x,), y)[0].tobytes()]
    return found


def test_threads_do_not_change_bits():
    with sg.num_threads(1):
        alone = [random_calls(seed, 4) for seed in range(8)]
    together = [None] * 8

    def work(seed):
        with sg.num_threads(4):
            together[seed] = random_calls(seed, 4)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == together


def test_what_any_thread_finds_is_found():
    """A NaN is met by whichever thread has its task."""
    caller, together = threading.get_ident(), threading.Barrier(2, timeout=60)

    def work(among_helpers):
        together.wait()
        return (threading.get_ident() != caller) == among_helpers

    with sg.num_threads(2):
        assert threads.share(lambda: work(True), 2)
        assert threads.share(lambda: work(False), 2)
        assert not threads.share(lambda: together.wait() and False, 2)


def test_threads_are_counted():
    before = sg.get_num_threads()
    with sg.num_threads(3):
        assert sg.get_num_threads() == 3
        with sg.num_threads(1):
            assert sg.get_num_threads() == 1
    assert sg.get_num_threads() == before
    with pytest.raises(sg.ArgumentError):
        sg.set_num_threads(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_and_a_subprocess_pool_too():
    x = np.random.default_rng(3).normal(size=(8, 64, 100, 100)).astype(np.float32)
    expected = sg.max_pool2d(x, 3, stride=1, padding=1)
    child = os.fork()
    if child == 0:
        try:
            with sg.num_threads(2):
                os._exit(0 if (sg.max_pool2d(x, 3, stride=1, padding=1) == expected).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = "import numpy as np, specgrad as sg; print(sg.max_pool2d(np.ones((2, 4, 4), np.float32), 2).sum(), sg.get_num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SPECGRAD_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["8.0", "3"]


def test_a_new_geometry_compiles_nothing():
    x = np.random.default_rng(4).normal(size=(2, 17, 19)).astype(np.float32)
    for k, s, p in ((3, 1, 1), (5, 1, 2), (5, 2, 2), (9, 1, 4), (9, 2, 4)):  # one of each kind
        op = sg.MaxPool((k, k), stride=s, padding=p)
        op.vjp((x,), op(x))
        sg.avg_pool2d(x, k, stride=s, padding=p, count_include_pad=False)
    names = (
        "fold.fold_windows",
        "small.fold_small",
        "winners.find_winners",
        "small_winners.find_small_winners",
        "scatter.scatter_winners",
    )
    before = [len(kernel(name).signatures) for name in names]
    for k, s, d, size in ((2, 2, 1, 30), (5, 3, 2, 41), (11, 1, 1, 23), (13, 4, 1, 40), (4, 1, 3, 20), (3, 2, 1, 8)):
        z = np.random.default_rng(5).normal(size=(3, size, size + 1)).astype(np.float32)
        op = sg.MaxPool((k, k), stride=s, dilation=d, padding=1)
        op.vjp((z,), op(z))
        sg.avg_pool2d(z, k, stride=s, dilation=d, padding=1, count_include_pad=False)
    assert before == [len(kernel(name).signatures) for name in names]


def test_kernels_that_several_threads_ask_for_at_once_are_kept_where_they_belong(tmp_path):
    """Numba reads the directory of its cache from one variable of all threads."""
    code = """
import threading
from specgrad.engines.cpu import compiled
names = ["small.fold_small", "fold.fold_windows", "smooth.smooth_value", "planes.side_by_side", "bins.spread_bins", "inner.find_inner"]
ready = threading.Barrier(len(names))
def ask(name):
    ready.wait()
    place = compiled.kernel(name)._cache.cache_path
    assert place.startswith(str(compiled.cache_directory())), place
for _ in range(20):
    compiled.kernel.cache_clear()
    asking = [threading.Thread(target=ask, args=(name,)) for name in names]
    [a.start() for a in asking]
    [a.join() for a in asking]
"""
    made = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert not made.stderr
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path):
    file = tmp_path / "a file"
    file.write_text("")
    code = (
        "import warnings, numpy as np\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import specgrad as sg; x = np.ones((1, 4, 4), np.float32)\n"
        "    sg.max_pool2d(x, 2); sg.MaxPool((2, 2)).vjp((x,), np.ones((1, 2, 2), np.float32))\n"
        "print(len([w for w in seen if 'SPECGRAD_CACHE_DIR' in str(w.message)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SPECGRAD_CACHE_DIR": str(file)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"


FUZZ = """
import numpy as np, specgrad as sg, warnings
warnings.simplefilter("ignore")
rng = np.random.default_rng(6)
legal = illegal = 0
for _ in range(3000):
    rank = int(rng.integers(0, 4))
    x = rng.normal(size=tuple(rng.integers(0, 9, rank + int(rng.integers(0, 3))))).astype(np.float32)
    n = lambda low, high: tuple(int(v) for v in rng.integers(low, high, rank))
    try:
        with np.errstate(all="ignore"):
            op = [
                lambda: sg.MaxPool(n(-1, 12), stride=n(0, 4), padding=n(-1, 6), dilation=n(0, 4), ceil_mode=bool(rng.integers(2))),
                lambda: sg.AvgPool(n(0, 9), stride=n(0, 40), padding=n(0, 6), dilation=n(1, 4)),
                lambda: sg.AdaptiveMaxPool(n(-1, 20)),
                lambda: sg.AdaptiveAvgPool(n(0, 20)),
                lambda: sg.SmoothMaxPool(n(1, 5), beta=1.0, padding=n(0, 4)),
            ][int(rng.integers(5))]()
            y = op(x)
            op.vjp((x,), y)
            op.jvp((x,), (x,))
        legal += 1
    except sg.SpecgradError:
        illegal += 1
print(legal, illegal)
"""


def test_no_geometry_crashes():
    done = subprocess.run([sys.executable, "-c", FUZZ], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    legal, illegal = map(int, done.stdout.split())
    assert legal > 500
    assert illegal > 500


def extra(call):
    """Bytes that a call holds at its peak beyond its result."""
    call()
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - sum(part.nbytes for part in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("k", [3, 15])
def test_extra_memory_does_not_grow_with_the_kernel(k):
    x = np.random.default_rng(7).normal(size=(8, 8, 128, 128)).astype(np.float32)
    g = sg.max_pool2d(x, k, stride=1, padding=k // 2)
    pools = sg.MaxPool((k, k), stride=1, padding=k // 2), sg.AvgPool((k, k), stride=1, padding=k // 2)
    for op in pools:
        assert extra(lambda op=op: op(x)) < 2**20
    assert extra(lambda: pools[0].vjp((x,), g)) < 1.5 * x.nbytes + 2**20  # the value, and a byte per output
    assert extra(lambda: pools[1].vjp((x,), g)) < 1.1 * x.nbytes + 2**20  # the value


def test_out_is_written_in_place_and_layouts_are_kept():
    x = np.random.default_rng(8).normal(size=(2, 3, 10, 12)).astype(np.float32)
    out = np.empty((2, 3, 5, 6), np.float32)
    assert sg.max_pool2d(x, 2, out=out) is out
    np.testing.assert_array_equal(out, sg.max_pool2d(x, 2))
    holes = np.empty((2, 3, 5, 12), np.float32)[..., ::2]
    assert sg.avg_pool2d(x, 2, out=holes) is holes
    np.testing.assert_array_equal(holes, sg.avg_pool2d(x, 2))
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = sg.max_pool(last, (2, 2), axes=(1, 2))
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), out)
    assert sg.max_pool2d(last.transpose(0, 3, 1, 2), 2).transpose(0, 2, 3, 1).flags.c_contiguous


def test_a_large_float_array_on_the_reference_engine_is_a_warning(monkeypatch):
    monkeypatch.setattr(dispatch, "LARGE", 1000)
    x = np.ones((110, 10), np.longdouble)
    with pytest.warns(sg.SlowPathWarning, match=r"does not take .*; give what another engine takes"):
        sg.global_avg_pool(x, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sg.engine("reference"):
            sg.global_avg_pool(x[:10], 2)


def test_arguments_that_are_equal_but_not_alike_are_told_apart():
    x = np.ones((4, 4))
    sg.max_pool(x, (2, 2))
    with pytest.raises(sg.ArgumentError):
        sg.max_pool(x, (2.0, 2.0))
    with pytest.raises(sg.ArgumentError):
        sg.max_pool(x, (True, True))


def test_winners_are_kept_as_one_byte_each():
    x = np.random.default_rng(9).normal(size=(4, 20, 20)).astype(np.float32)
    _, kept = dispatch.load("cpu").keep(sg.MaxPool((3, 3)), (x,))
    assert kept.codes.dtype == np.uint8


def test_windows_wider_than_a_code_are_left_to_the_specification():
    op = sg.MaxPool((2, 2), stride=50_000, dilation=50_000, padding=25_000)
    x = np.arange(12.0).reshape(3, 4)
    assert "2^31" in pooling.refuses(op, (x,))
    assert pooling.refuses(sg.MaxPool((2, 2)), (x,)) is None
    y, kept = op.jvp((x,), (np.ones_like(x),))
    assert y.shape == kept.shape
