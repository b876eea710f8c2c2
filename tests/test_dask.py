"""Dask arrays: every chunking gives the result of the array in memory, exactly over rationals."""

import os
import signal
import time
import warnings
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import examples

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance import runner as check_runner
from specgrad.conformance import subjects
from specgrad.conformance.cluster import connect
from specgrad.conformance.report import Report
from specgrad.conformance.workers import Background
from specgrad.dask.tiling import readers, tiles
from specgrad.geometry import Adaptive, Sliding
from specgrad.ops.pool import Extremum
from specgrad.ops.shape import Reshape
from specgrad.prove import runner as prove_runner

da = pytest.importorskip("dask.array")
Client = pytest.importorskip("distributed").Client


@st.composite
def chunkings(draw, length):
    """Random chunks of an axis of this length."""
    cuts = sorted(draw(st.sets(st.integers(1, max(length - 1, 1)), max_size=2))) if length > 1 else []
    return tuple(np.diff([0, *cuts, length]).tolist())


@st.composite
def slidings(draw):
    made = Sliding(*[draw(st.integers(1, n)) for n in (9, 4, 5)], *[draw(st.integers(0, 4)) for _ in "ab"],
                   draw(st.integers(1, 3)), draw(st.booleans()))  # fmt: skip
    return made if made.length > 0 else Sliding(made.size, 1, made.stride, made.before, made.after, 1, made.ceil_mode)


ADAPTIVES = st.builds(Adaptive, st.integers(1, 12), st.integers(1, 14))


@settings(max_examples=examples(300))
@given(st.data(), slidings() | ADAPTIVES)
def test_parts_have_the_taps_of_the_axis(data, axis):
    chunks = data.draw(chunkings(axis.size))
    parts, whole = tiles(axis, chunks), axis.taps()
    assert [p.first for p in parts] + [axis.length] == [0] + [p.last for p in parts]
    begin = data.draw(st.integers(0, axis.size - 1))
    end = data.draw(st.integers(begin + 1, axis.size))
    reading = readers(axis, chunks, begin, end)
    for part in parts + reading:
        own = part.axis.taps()
        assert part.axis.length == part.last - part.first
        taps = own.cell.shape[1]
        for mine, theirs in zip(own, whole, strict=True):
            shift = part.begin * own.real if mine is own.cell else 0
            np.testing.assert_array_equal(mine + shift, theirs[part.first : part.last, :taps])
        assert not whole.exists[part.first : part.last, taps:].any()
    found = np.concatenate([np.zeros(0, int)] + [np.arange(p.first, p.last) for p in reading]).tolist()
    reads = (whole.real & (whole.cell >= begin) & (whole.cell < end)).any(axis=1)
    assert set(np.flatnonzero(reads)) <= set(found)
    assert len(set(found)) == len(found)


@pytest.fixture
def by_specification(monkeypatch):
    """Run tasks by the specification in this thread, so that no kernel is compiled."""
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(dispatch, "ENGINES", {name: dispatch.ENGINES[name] for name in ("dask", "reference")})
    with dask.config.set(scheduler="synchronous"):
        yield


POOLS = [
    sg.MaxPool((3, 2), stride=(2, 1), padding=1),
    sg.MaxPool((2, 3), stride=3, padding=2, dilation=2, ceil_mode=True, ties="split"),
    sg.MaxPool((2,), stride=10, padding=15, axes=(1,), ties="all"),
    sg.MaxPool((1, 1), stride=(9, 3), padding=((1, 1), (0, 1)), ceil_mode=True),  # only padding along an axis
    sg.MinPool((2, 2), padding="same", axes=(2, 1)),
    sg.AvgPool((3, 3), stride=2, padding=1, ceil_mode=True),
    sg.AvgPool((2, 3), stride=1, padding=1, count_include_pad=False),
    sg.SumPool((1, 2), stride=2, padding=3),
    sg.AdaptiveMaxPool((4, 5)),
    sg.AdaptiveAvgPool((6, 9)),
    sg.AdaptiveMaxPool((0, 3)),
    sg.AdaptiveAvgPool((None, 3), axes=(0, 2)),
    sg.GlobalMaxPool(2),
    sg.GlobalAvgPool(2, keepdims=False),
]


def rationals(random, shape):
    return np.vectorize(Fraction, otypes=[object])(random.integers(-3, 4, shape), random.integers(1, 4, shape))


def same(lazy, want):
    assert isinstance(lazy, da.Array)
    assert lazy.shape == want.shape
    got = lazy.compute()
    assert got.shape == want.shape
    assert (got == want).all()


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("op", POOLS, ids=str)
def test_any_chunking_gives_the_value_and_both_derivatives(op, data, by_specification):
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = (2, 5, 7)
    x, dx = rationals(random, shape), rationals(random, shape)
    chunks = tuple(data.draw(chunkings(n)) for n in shape)
    lazy = da.from_array(x, chunks=chunks)
    want, moved = op.jvp((x,), (dx,))
    g = rationals(random, want.shape)
    value, tangent = op.jvp((lazy,), (da.from_array(dx, chunks=3),))
    same(value, want)
    same(tangent, moved)
    same(op.vjp((lazy,), g)[0], op.vjp((x,), g)[0])
    if isinstance(op, Extremum):
        same(dispatch.with_indices(op, (lazy,))[1], dispatch.with_indices(op, (x,))[1])


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize(
    "op",
    [
        sg.Conv((2, 3), stride=2, padding=1, groups=2),
        sg.Conv((2,), dilation=2),
        sg.ConvTranspose((2, 3), stride=(2, 3), padding=((1, 0), (1, 2)), groups=2, output_padding=(1, 2)),
        sg.ConvTranspose((3,), dilation=2),
        sg.Linear(),
    ],
    ids=str,
)
def test_any_chunking_gives_convolutions_and_their_derivatives(op, data, by_specification):
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    kernel, groups = op.weight_kernel()
    weight = (2, 4 // groups) if isinstance(op, sg.ConvTranspose) else (4, 2 // groups)
    shapes = [(3, 2, *(5, 7)[: len(kernel)]), (*weight, *kernel), (4,)]
    operands, tangents = ([rationals(random, shape) for shape in shapes] for _ in "xd")
    chunks = tuple(data.draw(chunkings(n)) for n in shapes[0])
    weight = operands[1] if data.draw(st.booleans()) else da.from_array(operands[1], chunks=1)
    lazy = (da.from_array(operands[0], chunks=chunks), weight, operands[2])
    want, moved = op.jvp(operands, tangents)
    value, tangent = op.jvp(lazy, tangents)
    same(value, want)
    same(tangent, moved)
    g = rationals(random, want.shape)
    for mine, theirs in zip(op.vjp(lazy, g), op.vjp(operands, g), strict=True):
        same(mine, theirs)


def test_pointwise_operators_and_transforms_stay_lazy(by_specification):
    x, y = np.arange(-6.0, 6).reshape(3, 4), np.arange(3.0)[:, None]
    lazy = da.from_array(x, chunks=(2, 3)), da.from_array(y, chunks=1)
    same(sg.mul(*lazy), x * y)
    for mine, theirs in zip(sg.Mul().vjp(lazy, x), sg.Mul().vjp((x, y), x), strict=True):
        same(mine, theirs)
    same(sg.Mul().jvp(lazy, (None, y))[1], x * y)
    value, pullback = sg.vjp(lambda x: sg.max_pool(sg.relu(x), (2, 2), stride=1), lazy[0])
    same(value, sg.max_pool(sg.relu(x), (2, 2), stride=1))
    same(
        pullback(da.ones((2, 3)))[0],
        sg.vjp(lambda x: sg.max_pool(sg.relu(x), (2, 2), stride=1), x)[1](np.ones((2, 3)))[0],
    )


@pytest.mark.parametrize("shape", [(-1,), (4, 12), (2, 3, 8), (6, 1, 8)])
def test_reshape_keeps_the_order_of_the_whole_array(shape, by_specification):
    x = np.arange(48.0).reshape(6, 8)
    lazy, op = da.from_array(x, chunks=(4, 3)), sg.Reshape(shape)
    same(sg.reshape(lazy, shape), x.reshape(shape))
    same(op.jvp((lazy,), (lazy,))[1], x.reshape(shape))
    same(op.vjp((lazy,), x.reshape(shape))[0], x)
    if shape != (-1,):
        none = (0, *shape[1:])
        same(sg.reshape(da.from_array(np.zeros((3, 0)), chunks=2), none), np.zeros(none))


def cells(numbers, kind):
    """An array of objects of this kind."""
    made = np.empty(np.shape(numbers), object)
    made.reshape(-1)[:] = [kind(number) for number in np.ravel(numbers).tolist()]
    return made


WITH_CELLS = [sg.AvgPool((2,)), sg.AdaptiveMaxPool((4,)), sg.Exp(), sg.Mul(), sg.Conv((2,)), sg.ConvTranspose((2,))]


@pytest.mark.parametrize("kind", [Decimal, mpmath.mpf, Fraction, "uint8"])
@pytest.mark.parametrize("op", WITH_CELLS, ids=str)
def test_other_scalars_keep_their_kind(op, kind):
    """Cells that no window reads, too; and infinities of both signs may meet in a sum."""
    if (kind is Fraction and op == sg.Exp()) or (kind == "uint8" and "division" in op.needs):
        return
    random = np.random.default_rng(0)
    shapes = [(2, 1, 9), (1, 1, 2), (1,)] if "conv" in op.name else [(2, 1, 9), (9,)][: len(op.slots)]
    numbers = [random.integers(0, 3, shape) * 1.0 for shape in shapes]
    if kind in (Decimal, mpmath.mpf):
        numbers[0][0, 0, [1, 5]] = np.inf, -np.inf
    made = [n.astype(kind) if kind == "uint8" else cells(n, kind) for n in numbers]
    lazy = [da.from_array(made[0], chunks=(1, 1, (4, 4, 1))), *made[1:]]
    want, got = op(*made), op(*lazy).compute()
    pulled = zip(op.vjp(made, want), op.vjp(lazy, want), strict=True)
    for mine, theirs in [(got, want), *((lazy.compute(), exact) for exact, lazy in pulled)]:
        assert mine.dtype == theirs.dtype
        assert {type(cell) for cell in mine.flat} == {type(cell) for cell in theirs.flat}
        np.testing.assert_array_equal(mine.astype(float), theirs.astype(float))


def test_kernels_run_the_tasks():
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 40, 30)).astype(np.float32)
    x[0, 3:9, 5] = 0.0, -0.0, np.nan, np.inf, -np.inf, 0.0
    lazy = da.from_array(x, chunks=(1, (17, 3, 20), 16))
    want, places = sg.max_pool(x, (3, 3), stride=2, padding=1, return_indices=True)
    got, found = sg.max_pool(lazy, (3, 3), stride=2, padding=1, return_indices=True)
    np.testing.assert_array_equal(got.compute().view(np.int32), want.view(np.int32))
    np.testing.assert_array_equal(found.compute(), places)
    u = 2.0**-24
    finite = np.nan_to_num(x, posinf=1, neginf=-1)
    want = sg.avg_pool(finite.astype(np.float64), (3, 3), stride=2, padding=1)
    got = sg.avg_pool(da.from_array(finite, chunks=(1, 9, 30)), (3, 3), stride=2, padding=1).compute()
    sizes = sg.avg_pool(np.abs(finite).astype(np.float64), (3, 3), stride=2, padding=1)
    assert (np.abs(got - want) <= 10 * u / (1 - 10 * u) * sizes).all()


@pytest.mark.parametrize("kind", [sg.Sum, sg.Mean], ids=lambda kind: kind.name)
@pytest.mark.parametrize("dtype", [object, np.float32, np.float16])
def test_sums_of_chunks_are_those_of_the_array(kind, dtype):
    random = np.random.default_rng(1)
    x, dx = (random.integers(-5, 6, (5, 7, 4)) * Fraction(1) for _ in "ab")
    x, dx = x.astype(dtype), dx.astype(dtype)
    if dtype is np.float16:
        x *= np.float16(3000)  # sums leave the range
    lazy, moved = (da.from_array(one, chunks=(2, 3, 2)) for one in (x, dx))
    for axis in (None, 0, (0, 2), -1):
        for keepdims in (False, True):
            op = kind(axis, keepdims=keepdims)
            g = np.full(op.output_shape(x.shape), Fraction(3) if dtype is object else 3, dtype)
            (y, dy), (gx,) = op.jvp((lazy,), (moved,)), op.vjp((lazy,), g)
            with np.errstate(over="ignore"):
                wanted = op(x), op(dx), op.vjp((x,), g)[0]
            for one, other in zip((y, dy, gx), wanted, strict=True):
                assert isinstance(one, da.Array)
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                if dtype is object:
                    assert np.array_equal(one.compute(), other)
                else:
                    np.testing.assert_allclose(one.compute(), other, rtol=2.0 ** (-20 if dtype is np.float32 else -10))
            assert gx.chunks == lazy.chunks


def test_a_loss_of_a_lazy_array_has_a_lazy_gradient():
    def loss(x):
        return sg.mean(sg.mul(pooled := sg.max_pool(x, (2, 2)), pooled))

    x = np.random.default_rng(2).integers(-9, 9, (8, 12)).astype(float)
    value, gradient = sg.value_and_grad(loss)(da.from_array(x, chunks=(3, 5)))
    assert isinstance(gradient, da.Array)
    assert value.compute() == loss(x)
    np.testing.assert_array_equal(gradient.compute(), sg.grad(loss)(x))


@dataclass(frozen=True)
class Turned(Reshape):
    """A user's reshape, which dask's does not replace."""

    name = "turned"


REFUSED = {
    "turned does not run in chunks": lambda x: Turned((64,))(x),
    "integers do not divide": lambda x: sg.avg_pool(x.astype(int), (2, 2)),
    r"x=bool array of shape \(8, 8\): bool is not a scalar": lambda x: sg.max_pool(x > 0, (2, 2)),
    "the kernel spans 20 cells": lambda x: sg.max_pool(x, (20, 2)),
    "a lazy value is not written into an array": lambda x: sg.max_pool(x, (2, 2), out=np.zeros((4, 4))),
    "has chunks of unknown size": lambda x: sg.max_pool(x[x[:, 0] > 0], (1, 1)),
    "reshape: x=dask array of shape .*: has chunks of unknown size": lambda x: sg.reshape(x[x[:, 0] > 0], (-1,)),
    "softmax does not run in chunks": lambda x: sg.softmax(x),
    r"y=array of shape \(5, 8\): does not broadcast with x": lambda x: sg.add(x, np.ones((5, 8))),
    "has not the 64 cells of x": lambda x: sg.reshape(x, (9, 9)),
    "the weight reads 2 channels": lambda x: sg.conv(x[None], np.ones((1, 2, 2, 2))),
    r"must have shape \(4, 4\)": lambda x: sg.MaxPool((2, 2)).vjp((x,), np.ones((3, 3))),
}


def test_no_engine_loads_a_lazy_array():
    with sg.engine("reference"), pytest.raises(sg.SpecgradError, match="it would compute a whole dask array"):
        sg.relu(da.ones(4))


@pytest.mark.parametrize("rule", REFUSED)
def test_what_tasks_would_refuse_is_refused_at_once(rule):
    with pytest.raises(sg.SpecgradError, match=rule):
        REFUSED[rule](da.from_array(np.arange(64.0).reshape(8, 8), chunks=3))


def slowly(block, folder):
    """Record the start of a task, and return the block after some time."""
    (folder / str(time.time_ns())).touch()
    time.sleep(0.1)
    return block


@pytest.fixture(scope="module")
def client():
    """A client of two workers in processes of their own."""
    distributed = pytest.importorskip("distributed")
    processes = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings in distributed's own code
        with distributed.LocalCluster(**processes, dashboard_address=None, silence_logs=50) as cluster:
            yield distributed.Client(cluster, set_as_default=False)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_result_though_a_worker_dies(client, tmp_path):
    x = np.random.default_rng(0).integers(0, 99, (64, 64)).astype(np.float32)
    lazy = da.from_array(x, chunks=16).map_blocks(slowly, folder=tmp_path, dtype=x.dtype)
    result = client.compute(sg.max_pool(lazy, (3, 3), stride=2, padding=1))
    while len(list(tmp_path.iterdir())) < 5:
        time.sleep(0.02)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    got = result.result(timeout=100)
    np.testing.assert_array_equal(got, sg.max_pool(x, (3, 3), stride=2, padding=1))


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_finds_what_local_processes_find(client, monkeypatch):
    monkeypatch.setattr(subjects, "OURS", {"layers": subjects.OURS["layers"]._replace(needs=("sys",))})
    plan = check_runner.Plan(("MaxPool",), ("shape", "value"), check_runner.QUICK, 0)
    found = []
    for cluster in (None, client):
        background = Background(plan, False, cluster)
        list(background.wait())
        background.stop()
        report = Report([], [], {}, "", 0)
        background.report(report)
        found.append(report.cells)
    assert found[0] == found[1]
    assert len(found[0]) == 6
    todo = prove_runner.tasks("geometry")[:3]
    proved = [
        sorted((f.words, f.case, f.verdict.status) for task in prove_runner.run(todo, client=one) for f in task[1])
        for one in (None, connect("prove", client.scheduler.address))
    ]
    assert proved[0] == proved[1]
    assert proved[0]


@pytest.mark.filterwarnings("ignore")
def test_a_busy_scheduler_is_joined(client, monkeypatch):
    # An assertion of distributed fails in a client that joined less than two milliseconds before
    # the scheduler broadcasts.
    fails, real = iter([True]), Client._ensure_connected

    async def ensure_connected(self, timeout=None):
        assert not next(fails, False)
        await real(self, timeout=timeout)

    monkeypatch.setattr(Client, "_ensure_connected", ensure_connected)
    with connect("check", client.scheduler.address) as joined:
        assert joined.submit(abs, -1).result(timeout=100) == 1


def test_a_scheduler_that_does_not_answer_is_misuse(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("specgrad.conformance.cluster.WAITING", 0.2)
    with pytest.raises(sg.SpecgradError, match=r"check: scheduler='tcp://127.0.0.1:1': no scheduler answers there"):
        connect("check", "tcp://127.0.0.1:1")
