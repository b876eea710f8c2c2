"""specgrad.jax: operators under JAX's transforms agree with operators on arrays, to any order;
invalid calls are refused while JAX traces."""

import contextlib
import functools
import importlib
import itertools
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from kinds import effort, in_turn

import specgrad as sg
from specgrad.dispatch import with_indices
from specgrad.errors import ArgumentError, ScalarError, ShapeError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import specgrad.jax as sgj  # noqa: E402
from specgrad.conformance import pytest_cases, runner  # noqa: E402
from specgrad.conformance.subjects import jax_layer  # noqa: E402
from specgrad.conformance.suites import NotExpressible, jax_harness  # noqa: E402
from specgrad.jax import host  # noqa: E402

X = (2, 3, 7, 6)
CASES = {
    "max": (sg.MaxPool((3, 2), stride=2, padding=1), X),
    "max all": (sg.MaxPool((3, 2), stride=2, padding=((2, 0), (0, 1)), ties="all"), X),
    "max split": (sg.MaxPool((3, 2), stride=1, dilation=2, ceil_mode=True, ties="split"), X),
    "max over other axes": (sg.MaxPool((2, 2), axes=(0, -1)), X),
    "max of padding alone": (sg.MaxPool((1,), stride=1, padding=1), (4,)),
    "min": (sg.MinPool((2, 2), padding=1), X),
    "average": (sg.AvgPool((2, 2), stride=2, padding=1, ceil_mode=True), X),
    "sum": (sg.SumPool((3, 2), stride=2, axes=(1, 2)), X),
    "adaptive max": (sg.AdaptiveMaxPool((3, 4)), X),
    "adaptive average": (sg.AdaptiveAvgPool((7, 6)), X),
    "global max": (sg.GlobalMaxPool(2, keepdims=False), X),
    "global average": (sg.GlobalAvgPool(1, axes=(1,)), (2, 4, 3)),
    "conv": (sg.Conv((3, 2), stride=2, padding=1, dilation=(1, 2)), X, (4, 3, 3, 2), (4,)),
    "conv in groups": (sg.Conv((2,), padding="same", groups=2), (4, 5), (2, 2, 2)),
    "conv_transpose": (sg.ConvTranspose((3, 2), stride=2, padding=1, output_padding=1), X, (3, 2, 3, 2), (2,)),
    "linear": (sg.Linear(), (4, 6), (5, 6), (5,)),
    "unfold": (sg.Unfold((2, 3), stride=2, padding=((1, 0), (2, 1)), dilation=(2, 1)), (3, 4, 6)),
    "fold": (sg.Fold((2, 2), (4, 6), stride=(1, 2), padding=1), (2, 12, 20)),
}
"""Operators with rational slopes: derivatives at integers are exact, on every device."""


@pytest.fixture(autouse=True)
def _in_float64():
    """Use the CPU, whose results have the bits of those on NumPy arrays."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def whole(shape, seed):
    """Multiples of 60, with ties: averages and split slopes of up to six cells are integers."""
    return 60.0 * np.random.default_rng(seed).integers(-3, 4, shape)


def same(got, expected):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert isinstance(one, jax.Array)
        np.testing.assert_array_equal(one, other)


def directed(op, shapes):
    """Operands, a tangent for each, and a cotangent."""
    xs = [whole(shape, 1 + place) for place, shape in enumerate(shapes)]
    return xs, [whole(shape, 11 + place) for place, shape in enumerate(shapes)], whole(op(*xs).shape, 21)


def second(f, xs, ts, g, jvp, vjp):
    """The tangent of the VJP, by the functions of one library."""
    return jvp(lambda *z: tuple(vjp(f, *z)[1](g)), tuple(xs), tuple(ts))[1]


@pytest.mark.parametrize("way", ["kernels", "composed"])
@pytest.mark.parametrize("name", CASES)
def test_value_and_derivatives_are_those_of_arrays(name, way):
    """Usually the second derivatives are forward over reverse in one of the ways, and reverse over
    reverse in the other."""
    op, *shapes = CASES[name]
    xs, ts, g = directed(op, shapes)
    slots = tuple(range(len(xs)))
    bends = {
        "forward over reverse": (
            lambda xs, ts, g: second(op, xs, ts, g, jax.jvp, jax.vjp),
            lambda: second(op, xs, ts, g, sg.jvp, sg.vjp),
        ),
        "reverse over reverse": (
            lambda xs, ts, g: jax.grad(lambda *z: jnp.vdot(jax.vjp(op, *z)[1](g)[0], ts[0]), slots)(*xs),
            lambda: sg.grad(lambda *z: sg.sum(sg.vjp(op, *z)[1](g)[0] * ts[0]), slots)(*xs),
        ),
    }
    some = in_turn([*bends], [*CASES].index(name) + (way == "composed"))

    def everything(xs, ts, g):
        y, dy = jax.jvp(op, tuple(xs), tuple(ts))
        return op(*xs), y, dy, jax.vjp(op, *xs)[1](g), *(bends[bend][0](xs, ts, g) for bend in some)

    with sgj.composed() if way == "composed" else jax.ensure_compile_time_eval():
        found = jax.jit(everything)(xs, ts, g)
    y, dy = op.jvp(xs, ts)
    same(found, (y, y, dy, op.vjp(xs, g), *(bends[bend][1]() for bend in some)))


@pytest.mark.parametrize("name", CASES)
def test_programs_for_a_gpu_are_xla_s_operations(name):
    op, *shapes = CASES[name]
    xs, ts, g = directed(op, shapes)

    def everything(xs, ts, g):
        indices = sgj.max_pool(xs[0], (1,) * xs[0].ndim, return_indices=True)[1]
        return op(*xs), jax.jvp(op, tuple(xs), tuple(ts)), jax.vjp(op, *xs)[1](g), indices

    program = jax.jit(everything).trace(xs, ts, g).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo" in program
    assert host.TARGET not in program
    assert "callback" not in program


@pytest.mark.parametrize("op", [sg.SmoothMaxPool((3, 2), stride=2, padding=1, beta=0.02), sg.LpPool((2, 2), p=3)])
def test_slopes_that_are_no_rationals_have_the_bits_of_arrays(op):
    (x,), (t,), g = directed(op, [X])
    found = jax.jit(lambda x, t, g: (jax.jvp(op, (x,), (t,)), jax.vjp(op, x)[1](g)))(x, t, g)
    same(found, (op.jvp((x,), (t,)), op.vjp((x,), g)))


def test_second_derivatives_of_the_row_are_within_the_bounds_of_the_conformance_suite():
    (check,) = pytest_cases(jax_layer.JaxComposed(), operators=("SmoothMaxPool",), claims=("second",), examples=1)
    check.values[0].session.effort = effort(runner.QUICK, check.values[0].session.effort)
    check.values[0]()


@pytest.mark.parametrize("name", CASES)
def test_vmap_is_one_call_per_example(name):
    op, *shapes = CASES[name]
    xs, ts, g = directed(op, shapes)

    def everything(*xs):
        return op(*xs), jax.jvp(op, xs, tuple(map(jnp.asarray, ts)))[1], jax.vjp(op, *xs)[1](g)

    alone = [tuple(place == one for place in range(len(xs))) for one in range(len(xs))]
    for mapped in {(True,) * len(xs), *in_turn(alone, len(name))}:
        axes = [1 if m else None for m in mapped]
        many = [np.stack([x, -2 * x, x[::-1]], 1) if m else x for x, m in zip(xs, mapped, strict=True)]
        found = jax.jit(jax.vmap(everything, axes))(*many)
        for place in range(3):
            one = [x[:, place] if m else x for x, m in zip(many, mapped, strict=True)]
            expected = op(*one), op.jvp(one, ts)[1], op.vjp(one, g)
            same(jax.tree.map(lambda part, place=place: part[place], found), expected)


def test_every_order_in_every_nesting():
    x, w = whole((1, 4), 3), whole((2, 1, 2), 4)

    def f(x, w, library):
        y = library.conv(library.avg_pool(x * x, (2,), stride=1), w)
        return (library.max_pool(y * x[:, :2], (2,)) * y[:, :1]).sum()

    def exact(a):
        return np.array([Fraction(v) for v in a.ravel()] + [None])[:-1].reshape(a.shape)

    third = sg.jacobian(sg.jacobian(sg.jacobian(lambda x: f(x, exact(w), sg))))(exact(x))
    expected = third.astype(float)
    assert expected.any()
    fwd, rev = jax.jacfwd, jax.jacrev
    for order in (rev, rev, rev), (fwd, rev, fwd), (rev, fwd, fwd):
        made = lambda x: f(x, w, sgj)  # noqa: E731
        for transform in order:
            made = transform(made)
        same(jax.jit(made)(x), expected)


def test_ties_nan_and_infinities():
    def slopes(x, **options):
        return jax.jit(jax.grad(lambda x: sgj.max_pool(x, (x.size,), **options).sum()))(jnp.asarray(x)).tolist()

    nan, inf = np.nan, np.inf
    assert slopes([1.0, 3, 3]) == [0, 1, 0]
    assert slopes([1.0, 3, 3], ties="all") == [0, 1, 1]
    assert slopes([1.0, 3, 3], ties="split") == [0, 0.5, 0.5]
    assert slopes([1, nan, nan, 0]) == [0, 0, 1, 0]
    assert slopes([-inf, -inf]) == [1, 0]
    assert slopes([-0.0, 0.0]) == [1, 0]
    tangent = jax.jvp(lambda x: sgj.max_pool(x, (2,)), (jnp.array([1.0, 2.0]),), (jnp.array([inf, 1.0]),))[1]
    assert tangent.tolist() == [1]  # the slope of a loser is absent, not 0 times infinity
    small = np.array([1e-40, -1e-40, 3e-40], np.float32)  # XLA's threads flush these to 0
    same(jax.jit(sg.MaxPool((3,)))(small), small[2:])
    same(jax.jit(sg.SumPool((3,)))(small), small.sum(keepdims=True))
    assert sgj.max_pool(jnp.array([-4.0]), (1,), stride=1, padding=1).tolist() == [0, -4, 0]


@pytest.mark.parametrize("name", [name for name in CASES if "max" in name or "min" in name])
def test_indices_by_xla_s_operations_are_those_of_arrays(name):
    op, shape = CASES[name]
    x = np.where(np.random.default_rng(1).random(shape) < 0.1, np.nan, whole(shape, 2))
    for cells in (x, np.nan_to_num(x).astype(np.int32)):
        with sgj.composed():
            same(jax.jit(lambda x: with_indices(op, (x,)))(cells), with_indices(op, (cells,)))


def test_indices_integers_and_half_floats():
    x = whole((2, 6, 6), 5)
    value, places = jax.jit(lambda x: sgj.max_pool(x, (2, 2), return_indices=True))(x)
    same((value, places), sg.max_pool(x, (2, 2), return_indices=True))
    same(jax.jit(lambda y, i: sgj.max_unpool(y, i, (6, 6)))(value, places), sg.max_unpool(value, places, (6, 6)))
    mapped = jax.vmap(lambda x: sgj.max_pool(x, (2, 2), return_indices=True)[1], 1)(x)
    same(mapped, np.stack([sg.max_pool(x[:, i], (2, 2), return_indices=True)[1] for i in range(6)]))
    same(jax.jit(lambda x: sgj.sum_pool(x, (2, 2)))(x.astype(np.int32)), sg.sum_pool(x.astype(np.int32), (2, 2)))
    for dtype in (jnp.float16, jnp.bfloat16):
        op, narrow = sg.SmoothMaxPool((2, 2), beta=2), jnp.asarray(x).astype(dtype)
        arrays = np.asarray(narrow)
        g = op(arrays)
        bent = jax.jit(lambda x, g, op=op: second(op, [x], [x], g, jax.jvp, jax.vjp))(narrow, g)
        same(bent, second(op, [arrays], [arrays], g, sg.jvp, sg.vjp))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda x: sgj.max_pool(x, (9, 9)),
            ShapeError,
            r"max_pool: kernel_size=\(9, 9\) on axis 0: the kernel spans 9",
        ),
        (lambda x: sgj.avg_pool(x.astype(int), (2, 2)), ScalarError, "avg_pool: x=int.* integers do not divide; cast"),
        (lambda x: sgj.conv(x, x.astype("f2")[None, None]), ShapeError, "conv: x="),
        (lambda x: sgj.linear(x, x.astype("f2")), ScalarError, "linear: weight=float16 .* does not mix with float64"),
        (lambda x: sgj.max_pool(x > 0, (2, 2)), ScalarError, "bool is not a scalar specgrad takes"),
        (lambda x: sgj.max_pool(x, (2, 2), out=np.empty(9)), ArgumentError, "out=.* not written into; leave it out"),
        (lambda x: sgj.max_pool(x, (2, 2), stride=0), ArgumentError, "max_pool: stride=0"),
        (lambda x: sgj.max_pool(x, (2, 2), stride=x.sum().astype(int)), ArgumentError, "stride=.*must be an integer"),
        (lambda x: sgj.smooth_max_pool(x, (2, 2), beta=x.sum()), ArgumentError, "beta=.*must be a finite real number"),
    ],
)
def test_bad_input_is_refused_while_jax_traces(call, kind, words):
    with pytest.raises(kind, match=words):
        jax.make_jaxpr(call)(np.ones((6, 6)))


def test_an_error_of_a_running_program_is_told_and_passes():
    unpool = jax.jit(lambda y, i: sgj.max_unpool(y, i, (4,)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="max_unpool: indices=7: is not the index of one of 4 cells"):
        unpool(np.ones(1), np.array([7])).block_until_ready()
    assert unpool(np.ones(1), np.array([1])).tolist() == [0, 1, 0, 0]


def test_kernels_run_in_memory_of_xla(monkeypatch):
    seen = []

    def run(op, operands, out, run=host.run):
        seen.extend(a.ctypes.data for a in (*operands, out))
        run(op, operands, out)

    monkeypatch.setattr(host, "run", run)
    x = jnp.asarray(whole((1, 64, 64), 6))
    f = jax.jit(lambda x, g: jax.vjp(sg.MaxPool((2, 2)), x)[1](g)[0])
    g = jnp.ones((1, 32, 32))
    result = f(x, g)
    assert seen[-3:] == [a.unsafe_buffer_pointer() for a in (x, g, result)]


def test_operators_are_static_and_told_apart():
    @dataclass(frozen=True, eq=False, repr=False)
    class MaxPool(sg.MaxPool):
        name: ClassVar = "max_pool"

        def value(self, S, window):
            best, kept = super().value(S, window)
            return best + S.constant(1), kept

    x = whole((4,), 7)
    assert jax.tree.leaves(sg.MaxPool((2,))) == []
    applied = jax.jit(lambda op, x: op(x), static_argnums=0)
    same(applied(sg.MaxPool((2,)), x), sg.MaxPool((2,))(x))
    same(applied(MaxPool((2,)), x), sg.MaxPool((2,))(x) + 1)


def test_other_operators_and_other_transforms():
    x = whole((3, 4), 8)
    same(jax.jit(jax.vmap(sg.relu))(x), sg.relu(x))
    same(jax.jit(jax.grad(lambda x: (sg.relu(x) * x).sum()))(x), 2 * np.maximum(x, 0))
    same(
        jax.jit(lambda x: sg.grad(lambda y: sg.sum(sg.max_pool(y * y, (2, 2))))(x))(x),
        sg.grad(lambda y: sg.sum(sg.max_pool(y * y, (2, 2))))(x),
    )
    with sgj.composed():  # more taps than `composed` supports: on the host
        long = whole((2000,), 9)
        same(
            jax.jit(jax.grad(lambda x: sgj.global_max_pool(x, 1, ties="first").sum()))(long),
            sg.GlobalMaxPool(1, ties="first").vjp((long,), np.ones(1))[0],
        )


@dataclass(frozen=True)
class Turned(sg.Reshape):
    """A user's reshape, which XLA's does not replace."""

    name: ClassVar = "turned"


@pytest.mark.parametrize(
    "f", [lambda x: x.reshape(-1), lambda x: sg.reshape(x, (2, 6)).T, lambda x: Turned((6, 2))(x)[1:].sum(0)]
)
def test_reshapes_and_methods_of_values_under_transforms(f):
    x = whole((3, 4), 7)

    def square(x):
        return sg.sum(f(sg.relu(x)) ** 2)

    want, slope = f(sg.relu(x)), sg.grad(square)(x)
    same(jax.jit(lambda x: f(sg.relu(x)))(x), want)
    for gradient in (jax.jit(sg.grad(square)), jax.grad(square), jax.jit(jax.grad(square))):
        same(gradient(x), slope)
    same(jax.vmap(sg.grad(square), 1)(np.stack([x, x + 1], 1))[0], slope)
    same(jax.jit(sg.vmap(f))(np.stack([x, x]))[1], f(x))
    same(jax.grad(lambda x: sg.grad(square)(x).sum())(x), sg.grad(lambda x: sg.sum(sg.grad(square)(x)))(x))
    same(jax.jit(lambda x: sg.jvp(square, (x,), (x,))[1])(x), (slope * x).sum())


def test_selection_by_a_traced_condition():
    mask, x = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    for a, b in ((x, 0 * x), (x, 0.5), (2.0, np.float32(x)), (np.arange(3), 7), (1.0, 2.0)):
        same(jax.jit(lambda c: sg.where(c, a, b))(mask), sg.where(mask, a, b))  # noqa: B023
    square = lambda c: sg.grad(lambda x: sg.sum(sg.where(c, x * x, x)))  # noqa: E731
    same(jax.jit(lambda c, x: square(c)(x))(mask, x), square(mask)(x))


SHARED = {
    **{name: CASES[name] for name in ("average", "adaptive average", "global average")},
    **{name: CASES[name] for name in ("conv", "conv_transpose", "linear", "unfold")},
    "max split": (sg.MaxPool((2, 2), ties="split"), (2, 4)),
    "smooth": (sg.SmoothMaxPool((2,), beta=0.02), (4,)),
    "powers": (sg.LpPool((2,), p=3), (4,)),
    "two layers": (lambda x, w: sg.max_pool(sg.conv(x, w), (2,)), (1, 5), (2, 1, 2)),
}


def first_and_second(library, f, xs, ts):
    """A value and its tangent, and a gradient and its tangent."""
    gradient = library.grad(lambda *xs: 30 * (f(*xs) ** 2).sum(), tuple(range(len(xs))))
    return library.jvp(f, xs, ts), library.jvp(gradient, xs, ts)


def on_two_devices():
    """Derivatives through a shard_map and within it are those of one device. Each device has a part
    of some operands; the gradients of the others, which they share, are summed once."""
    mesh, split, common = jax.sharding.Mesh(np.array(jax.devices()), ("devices",)), jax.P("devices"), jax.P()
    for turn, (name, way) in enumerate(itertools.product(SHARED, ("kernels", "composed"))):
        f, *shapes = SHARED[name]
        others = len(shapes) - 1
        for apart in {(True,) + (False,) * others, (not others,) + (True,) * others}:

            def at(place, xs, f=f, apart=apart):
                return f(*(x[place] if own else x for x, own in zip(xs, apart, strict=True)))

            def part(*xs, at=at):
                return at(0, xs)[None]

            def both(*xs, at=at):
                return sg.stack([at(0, xs), at(1, xs)])

            full = [(2,) * own + shape for own, shape in zip(apart, shapes, strict=True)]
            xs, ts = (tuple(whole(shape, seed + place) for place, shape in enumerate(full)) for seed in (1, 11))
            specs = tuple(split if own else common for own in apart)
            shard = functools.partial(jax.shard_map, mesh=mesh)
            programs = (
                functools.partial(first_and_second, jax, shard(part, in_specs=specs, out_specs=split)),
                shard(
                    functools.partial(first_and_second, jax, part),
                    in_specs=(specs, specs),
                    out_specs=((split, split), (specs, specs)),
                ),
            )
            expected = jax.tree.leaves(first_and_second(sg, both, xs, ts))
            for program in in_turn(programs, turn + turn // 2):  # one of them by kernels, the other composed
                with sgj.composed() if way == "composed" else contextlib.nullcontext():
                    found = jax.tree.leaves(jax.jit(program)(xs, ts))
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12 if name in ("smooth", "powers") else 0)
                if way == "composed":
                    program = jax.jit(program).trace(xs, ts).lower(lowering_platforms=("cuda",)).as_text()
                    assert program.count("all_reduce") == 2 * apart.count(False)


def large_windows_on_two_devices():
    """Windows on the host, in threads for which the context manager does not switch x64 on."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    split = jax.sharding.NamedSharding(mesh, jax.P("devices"))
    for dtype, x64 in ((np.float32, False), (np.float32, True), (np.float64, True)):
        x = np.random.default_rng(0).permutation(2 * 1100).reshape(2, 1100).astype(dtype) + dtype(1 / 3)
        op, places = sg.MaxPool((1030,), stride=10), sg.max_pool(x, (1030,), stride=10, return_indices=True)[1]
        expected = op(x), op.vjp((x,), np.ones((2, 8), dtype))[0], places, sg.max_unpool(op(x), places, (1100,))

        def found(x):
            value, places = sg.max_pool(x, (1030,), stride=10, return_indices=True)
            slope = jax.grad(lambda x: op(x).sum())(x)  # noqa: B023
            return value, slope, places, sg.max_unpool(value, places, (1100,))

        with jax.enable_x64(x64), sgj.composed():
            given = jax.device_put(x, split)
            for function in (found, jax.jit(found)):
                for got, wanted in zip(function(given), expected, strict=True):
                    assert got.dtype == (wanted.dtype if x64 or wanted.dtype != np.int64 else np.int32)
                    assert np.array_equal(got, wanted)


def test_shard_map_over_two_devices(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = "import jax, test_jax; jax.config.update('jax_enable_x64', True); test_jax.on_two_devices()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    code = "import test_jax; test_jax.large_windows_on_two_devices()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


ONES = (1, 1), (1, 1, 1, 1)
REDUCE_WINDOW = [
    *itertools.product(
        [(4, 6)],
        [(2, 1), (1, 2)],
        [(1, 1), (2, 1), (1, 2)],
        ["valid", "same", ((0, 3), (1, 2))],
        [(1, 1), (1, 2)],
    ),
    *itertools.product(
        [(3, 2, 4, 6)],
        [(1, 1, 2, 1), (2, 1, 2, 1)],
        [(1, 2, 2, 1), (1, 1, 1, 1)],
        ["valid", "same", ((0, 1), (1, 0), (2, 3), (0, 2))],
        [(1, 1, 1, 1), (1, 2, 2, 1)],
    ),
]
"""Shape, window, strides, padding and dilation of JAX's own tests of reduce_window: of its value,
its gradient and vmap. Tests with base_dilation (zeros between the cells) are no pooling."""
REDUCTIONS = {
    "add": (sg.SumPool, 0.0, jax.lax.add),
    "max": (sg.MaxPool, -np.inf, jax.lax.max),
    "min": (sg.MinPool, np.inf, jax.lax.min),
}


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_windows_of_jax_tests_of_reduce_window(reduce):
    """Values and gradients at distinct integers are exact, so JAX's equal ours, where JAX has
    them."""
    pool, start, combine = REDUCTIONS[reduce]
    cases = effort(REDUCE_WINDOW[len(reduce) + ord(reduce[0]) % 5 :: 9], REDUCE_WINDOW)
    random = np.random.default_rng(0)
    xs = [random.permutation(math.prod(case[0])).reshape(case[0]).astype(float) for case in cases]

    def everything(xs, of):
        found = []
        for x, (shape, *window) in zip(xs, cases, strict=True):
            f = of(*window)
            value, pullback = jax.vjp(f, x) if reduce == "add" or window[-1] in ONES else (f(x), None)
            g = jnp.asarray(whole(value.shape, 1))
            mapped = [jax.vmap(f, place, place)(jnp.stack([x, -x], place)) for place in (0, len(shape))]
            found.append((value, mapped, pullback(g) if pullback else None))  # JAX has no VJP of the others
        return found

    def theirs(dims, strides, padding, dilation):
        around = padding.upper() if isinstance(padding, str) else padding
        return lambda x: jax.lax.reduce_window(x, start, combine, dims, strides, around, window_dilation=dilation)

    def ours(dims, strides, padding, dilation):
        return pool(dims, stride=strides, padding=padding, dilation=dilation)

    expected = jax.jit(lambda xs: everything(xs, theirs))(xs)
    same(jax.jit(lambda xs: everything(xs, ours))(xs), jax.tree.map(lambda y: np.where(np.isfinite(y), y, 0), expected))


def test_what_jax_tests_of_reduce_window_refuse():
    with pytest.raises(ArgumentError, match="max_pool: kernel_size=\\(0,\\) on axis 0: must be at least 1"):
        sgj.max_pool(jnp.ones(1), (0,))
    with pytest.raises(ArgumentError, match="max_pool: stride=\\(0,\\) on axis 0: must be at least 1"):
        sgj.max_pool(jnp.ones(1), (1,), stride=(0,))
    empty = jax.lax.reduce_window(jnp.ones((5, 3, 2)), 0.0, jax.lax.add, (3, 1, 1), (1, 1, 1), "VALID", None, (3, 1, 1))
    assert empty.shape == (0, 3, 2)
    with pytest.raises(ShapeError, match="the kernel spans 7 cells"):
        sgj.sum_pool(jnp.ones((5, 3, 2)), (3, 1, 1), stride=1, dilation=(3, 1, 1))


@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_reductions_of_jax_are_windows(reverse):
    """JAX's cases: lengths 10 and 3×4×5, every axis, both directions."""
    pools = {"sum": sg.SumPool, "max": sg.MaxPool, "min": sg.MinPool, "logsumexp": sg.SmoothMaxPool}

    def everything(x, of):
        values = [of(name, axis)(x) for name in pools for axis in range(x.ndim)]
        return values + [jax.grad(lambda x, axis=axis: (of("sum", axis)(x) ** 2).sum())(x) for axis in range(x.ndim)]

    def theirs(name, axis):
        return lambda x: getattr(jax.lax, "cum" + name)(x, axis=axis, reverse=reverse)

    for shape in (10,), (3, 4, 5):

        def ours(name, axis, shape=shape):
            n = shape[axis]
            around = (0, n - 1) if reverse else (n - 1, 0)
            if name != "logsumexp":
                return pools[name]((n,), stride=1, padding=(around,), axes=(axis,))
            widths = [around if place == axis else (0, 0) for place in range(len(shape))]
            op = sg.SmoothMaxPool((n,), stride=1, axes=(axis,), beta=1.0)
            return lambda cells: op(jnp.pad(cells, widths, constant_values=-np.inf))  # the operator's own padding is 0

        x = whole(shape, 3) / 60
        found, expected = (jax.jit(functools.partial(everything, of=of))(x) for of in (ours, theirs))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)


def harnesses():
    """JAX's own list of cases, by name."""
    pytest.importorskip("absl")  # the list needs absl
    return importlib.import_module("jax._src.internal_test_util.test_harnesses").all_harnesses


def test_cases_of_jax_harness():
    found = []
    for harness in harnesses():
        if "computation" in harness.params and np.dtype(harness.dtype).kind in "fV":
            with contextlib.suppress(NotExpressible, KeyError):
                found.append((harness, jax_harness.windowed(harness.params, np.dtype(harness.dtype))[0]))
    assert len(found) >= 20
    for harness, op in found[::4]:
        x = np.asarray(harness.dyn_args_maker(np.random.RandomState(0))[0])
        if harness.dyn_fun(x).size:
            g = op(x)
            same(jax.jit(lambda x, g, op=op: (op(x), *jax.vjp(op, x)[1](g)))(x, g), (g, *op.vjp((x,), g)))


def test_jax_harness_of_the_derivatives_of_an_extremum():
    """select_and_gather_add is the JVP of a maximum (ge) or minimum (le), select_and_scatter_add
    the VJP; operands are random, without ties."""
    count = {"select_and_gather_add": 0, "select_and_scatter_add": 0}
    for harness in harnesses():
        words = harness.params
        dilated = any(d != 1 for d in words.get("base_dilation", ()))
        if harness.group_name not in count or np.dtype(harness.dtype) != np.float32 or dilated:
            continue
        count[harness.group_name] += 1
        window = {"stride": words["window_strides"], "padding": tuple(map(tuple, words["padding"]))}
        prim = next(a.value for a in harness.arg_descriptors if getattr(getattr(a, "value", None), "name", "") != "")
        pool = {"ge": sg.MaxPool, "le": sg.MinPool}[prim.name]
        op = pool(words["window_dimensions"], dilation=words.get("window_dilation", 1), **window)
        seed, x = harness.dyn_args_maker(np.random.RandomState(0))
        expected = harness.dyn_fun(seed, x)
        if harness.group_name == "select_and_gather_add":
            found = jax.jit(lambda x, t, op=op: jax.jvp(op, (x,), (t,))[1])(x, seed)
        else:
            found = jax.jit(lambda x, g, op=op: jax.vjp(op, x)[1](g)[0])(x, seed)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert min(count.values()) >= 6


def test_an_operator_is_a_layer_of_equinox():
    eqx = pytest.importorskip("equinox")
    conv = eqx.nn.Conv2d(1, 2, 3, padding=1, dtype=np.float64, key=jax.random.key(0))
    ours, theirs = (eqx.nn.Sequential([conv, pool]) for pool in (LAYERS["equinox"](eqx), eqx.nn.MaxPool2d(2, 2)))
    x = jnp.asarray(whole((1, 4, 6), 4))
    loss = eqx.filter_jit(eqx.filter_value_and_grad(lambda net, x: (net(x) ** 2).sum()))
    for one, other in zip(*(jax.tree.leaves(loss(net, x)) for net in (ours, theirs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    same(jax.vmap(ours)(x[None]), theirs(x)[None])


def test_a_call_is_a_layer_of_flax():
    linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")
    x = jnp.asarray(whole((2, 4, 6, 1), 5))
    ours, theirs = (
        linen.Sequential([linen.Conv(3, (3, 3), param_dtype=np.float64), pool])
        for pool in (LAYERS["flax"], lambda x: linen.max_pool(x, (2, 2), strides=(2, 2)))
    )
    weights = ours.init(jax.random.key(0), x)
    losses = [jax.jit(jax.value_and_grad(lambda w, net=net: (net.apply(w, x) ** 2).sum())) for net in (ours, theirs)]
    for one, other in zip(*(jax.tree.leaves(loss(weights)) for loss in losses), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    layer = nnx.Sequential(sg.MaxPool((2, 2), axes=(1, 2)))  # an operator is a layer of nnx
    same(nnx.jit(lambda net, x: net(x))(layer, x), LAYERS["flax"](x))


LAYERS = {
    "equinox": lambda eqx: eqx.nn.Lambda(sg.MaxPool((2, 2))),
    "flax": lambda x: sgj.max_pool(x, (2, 2), axes=(1, 2)),
}
"""The lines of docs/jax.md."""
