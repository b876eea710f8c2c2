"""The emitters of convolution, interpreted on random geometries: no access out of range,
independent tasks, results exactly the specification's."""

import contextlib
import math
from unittest import mock

import numpy as np
import pytest
from codegen_pools import Call, Emitted, Run, faults
from kinds import effort
from tallies import compiled_for

import specgrad as sg
from specgrad.engines.cpu import bilinear, gemm, steps, weight_gradient
from specgrad.engines.cpu.codegen import object_code
from specgrad.engines.cpu.codegen.values import CELLS
from specgrad.engines.cpu.emitters import gemm as emitter
from specgrad.engines.cpu.emitters.gemm import Gemm
from specgrad.engines.cpu.emitters.weight_gradient import WeightGradient
from specgrad.errors import SpecgradError
from specgrad.prove.interpreter.domains import Floats, Rationals

FLOAT = CELLS["float32"]
SEEDS, CASES = range(effort(3, 5)), effort(20, 80)


@contextlib.contextmanager
def emitted(random, stand_in=Emitted, tight=False):
    """A context in which plans have kernels that are not compiled, small tiles, and bands of few
    cells. `tight`: every vector has a channel that exists."""
    lanes = int(random.choice([2, 4]))
    blocks, turned = {}, {}

    def blocking(channels, *_):
        return blocks.setdefault(channels, gemm.Blocking(lanes, *map(int, random.integers(1, 4, 2))))

    def sums_of(channels, *_):
        return gemm.Blocking(*blocking(channels)[:3])

    def chosen(grid, channels, outs, *_):
        tile = blocking(outs)
        if outs not in turned and random.integers(2):
            some = min(tile.vectors, -(-outs // lanes)) if tight else tile.vectors
            turned[outs] = tile._replace(vectors=some, is_turned=True)
        return turned.setdefault(outs, tile)

    def turned_gradient(_, channels, *__):
        rows, vectors = map(int, random.integers(1, 4, 2))
        vectors = min(vectors, -(-channels // lanes)) if tight else vectors
        return int(random.choice([-1000, 1 << 60])), gemm.Blocking(lanes, rows, vectors, True)

    caches = steps.compiled, gemm.product, weight_gradient.gradient, bilinear.plan
    with contextlib.ExitStack() as patches:
        bytes_of, few = int(random.choice([64, 1 << 10, 1 << 16])), int(random.choice([1, 30]))
        for module, name, one in ((steps, "Call", Call), (gemm, "LAID", bytes_of), (weight_gradient, "LAID", bytes_of)):
            patches.enter_context(mock.patch.object(module, name, one))
        near, met = int(random.choice([1, 64, 1 << 10])), int(random.integers(0, 3))
        for name, one in (("blocking", blocking), ("chosen", chosen), ("NEAR", near), ("MET", met)):
            patches.enter_context(mock.patch.object(gemm, name, one))
        for name, one in (("blocking", sums_of), ("turned", turned_gradient), ("NEAR", near)):
            patches.enter_context(mock.patch.object(weight_gradient, name, one))
        smallest = "LONG", "WORTH", "WORTHY", "APART", "FINE"
        for module, name in ((gemm, "FEW"), *((weight_gradient, name) for name in smallest)):
            patches.enter_context(mock.patch.object(module, name, few))
        patches.enter_context(mock.patch.object(bilinear, "SMALL", int(random.choice([0, 1 << 21]))))
        patches.enter_context(mock.patch.object(steps, "cached", lambda key, emit: stand_in(emit())))
        for cache in caches:
            cache.cache_clear()
            patches.callback(cache.cache_clear)
        yield


def drawn(random):
    """A convolution, or a transposed one, and shapes that it takes: few channels, any stride,
    dilation, padding and groups."""
    while True:
        rank = int(random.choice([1, 2, 2, 3]))

        def some(low, high, often=0.5, rank=rank):
            return tuple(int(random.integers(low, high)) if random.random() < often else low for _ in range(rank))

        kernel, stride, dilation, groups = some(1, 4, 0.9), some(1, 4), some(1, 4, 0.3), int(random.choice([1, 1, 2]))
        padding = tuple(zip(some(0, 5), some(0, 5), strict=True))
        if random.random() < 0.2:  # windows of one cell
            kernel, stride, padding = (1,) * rank, (1,) * rank, ((0, 0),) * rank
        size = tuple(int(random.integers(1, n)) for n in [(20,), (7, 9), (4, 4, 5)][rank - 1])
        images, reads, writes = map(int, random.integers(1, 4, 3))
        kind = (sg.Conv, sg.ConvTranspose)[int(random.integers(2))]
        op = kind(kernel, stride=stride, padding=padding, dilation=dilation, groups=groups)
        channels = (reads * groups, writes) if kind is sg.ConvTranspose else (writes * groups, reads)
        shapes = (images, reads * groups, *size), (*channels, *kernel)
        with contextlib.suppress(SpecgradError):
            if min(op.output_shape(*shapes)) > 0:
                return op, *shapes


def numbers(random, shape):
    return random.integers(-9, 9, shape).astype(object)


def made(p, forward, skips, source, weight, bias, shape):
    """The result of the kernels on exact numbers, or on floats."""
    product = gemm.product(p, forward, np.dtype(np.float32), skips)
    run = Run(Rationals() if source.dtype == object else Floats())
    groups, channels, _ = product.target
    expected = np.zeros(shape, source.dtype) + (0 if bias is None else bias.reshape(-1, *[1] * (len(shape) - 2)))
    if product.step is None:
        return expected
    added = np.zeros((groups, product.rows), source.dtype)
    added[:, :channels] = 0 if bias is None else bias.reshape(groups, channels)
    for name, array in (("source", source), ("weight", weight), ("bias", added)):
        run.give(name, FLOAT, array.ravel().tolist())
    run.take("packed", FLOAT, product.packed)
    if product.fills:
        run.arrays["target"] = run.memory.array("target", FLOAT.stored, expected.ravel().tolist(), True), FLOAT
    else:
        run.take("target", FLOAT, math.prod(shape))
    for step in (product.packing, product.step):
        run.step(step)
    return run.numbers("target", shape)


def weighed(p, skips, wide, narrow, shape):
    """The weight's cotangent by the kernels."""
    found = weight_gradient.gradient(p, np.dtype(np.float32), skips)
    run, out = Run(Rationals() if wide.dtype == object else Floats()), np.zeros(shape, wide.dtype)
    if found.step is None:
        return out
    matrix = out.reshape(-1, p.taps)
    for name, array in (("wide", wide), ("narrow", narrow)):
        run.give(name, FLOAT, array.ravel().tolist())
    run.take("weight", FLOAT, found.shares * len(matrix) * len(found.taps))
    run.step(found.step)
    matrix[:, found.taps] = run.numbers("weight", (found.shares, len(matrix), len(found.taps))).sum(axis=0)
    return out


def is_direct(p):
    """Whether weight gradients read cells in place, and so meet no padding."""
    found = weight_gradient.gradient(p, np.dtype(np.float32), False).step
    return found is not None and "in place" in found.reason


def values(random, op, x_shape, weight_shape, infinite=False, often=0.2, kernel=None):
    """Compare value and cotangents with the specification; with floats, one weight, or one cell of
    either side, is infinite. `often`: the share of kernels that skip padding. `kernel`: only check
    what this kernel makes."""
    transposed = isinstance(op, sg.ConvTranspose)
    y_shape = op.output_shape(x_shape, weight_shape)
    shapes = x_shape, weight_shape, y_shape, y_shape[1:2], x_shape[1:2]
    x, weight, g, bias, added = (numbers(random, shape) for shape in shapes)
    p = bilinear.plan(op, x_shape, weight_shape)
    skips = (infinite and not is_direct(p)) or random.random() < often
    if infinite:
        x, weight, g, bias, added = (array.astype(np.float32) for array in (x, weight, g, bias, added))
        weight.reshape(-1)[int(random.integers(weight.size))] = np.inf

    def compare(got, expected):
        assert np.array_equal(got, expected, equal_nan=infinite), (op, x_shape, weight_shape)

    with sg.engine("reference"):
        value, (gx, gw) = op(x, weight, bias), op.vjp((x, weight), g)
    if kernel != "weight_gradient":
        compare(made(p, not transposed, skips, x, weight, bias, y_shape), value)
        moved = gx + added.reshape(-1, *[1] * (len(x_shape) - 2))
        compare(made(p, transposed, skips, g, weight, added, x_shape), moved)
    if infinite:
        spoilt = (x, g)[int(random.integers(2))]
        spoilt.reshape(-1)[int(random.integers(spoilt.size))] = np.inf
        with sg.engine("reference"):
            gw = op.vjp((x, weight), g)[1]
    if kernel in (None, "weight_gradient"):
        compare(weighed(p, skips, *((g, x) if transposed else (x, g)), weight_shape), gw)


@pytest.mark.parametrize("seed", SEEDS)
def test_products_are_exact_on_random_geometries(seed):
    random = np.random.default_rng(seed)
    for _ in range(CASES):
        with emitted(random):
            values(random, *drawn(random))


def test_padding_is_absent_beside_infinite_cells_and_weights():
    random = np.random.default_rng(1)
    for _ in range(CASES):
        with emitted(random):
            values(random, *drawn(random), infinite=True)


@pytest.mark.parametrize(
    ("kernel", "taps"),
    [("gemm", (3, 2)), ("packing", (3, 2)), ("weight_gradient", (3, 2)), ("weight_gradient", (1, 1))],
)
def test_an_access_one_cell_off_is_found(kernel, taps, monkeypatch):
    monkeypatch.setattr(emitter, "UNROLL", 1)  # every load has a channel that exists
    groups = 2 if kernel == "packing" else 1  # several blocks
    size = (7, 9) if kernel == "weight_gradient" else (4, 6)
    around = {} if taps == (1, 1) else {"stride": (1, 2), "padding": 1}
    op, shapes = sg.Conv(taps, groups=groups, **around), ((2, 3 * groups, *size), (4 * groups, 3, *taps))

    def spoilt(n, spoil):
        random = np.random.default_rng(n)
        with emitted(random, lambda one: (spoil if one.module.name == kernel else Emitted)(one), tight=True):
            values(random, op, *shapes, often=0, kernel=kernel)

    assert faults(spoilt) >= 3


TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu", "arm64": "arm64-apple-macosx"}
TARGETS = [(TRIPLES[machine], cpu) for machine, known in object_code.TARGETS.items() for cpu in known]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[1])
def test_registers_are_blocked_for_every_target(target, monkeypatch):
    monkeypatch.setattr(gemm, "host", lambda: object_code.Target(*target))
    lanes, registers = gemm.vectors(4)
    for channels in (1, 3, 17, 64):
        tile = gemm.blocking(channels, 4)
        assert tile.lanes == lanes
        assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
        _, tile = gemm.turned(14, channels, 4)
        assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
        block = weight_gradient.blocking(channels, 9, 4)
        assert block.rows * block.vectors + block.rows + 1 <= registers
        _, block = gemm.turned(9, channels, 4, weight_gradient.LINES)
        assert block.rows * block.vectors + block.vectors + 1 <= registers
    for kernel in (
        gemm.emit(Gemm(FLOAT, *gemm.blocking(17, 4)[:3], 2, 2, True), 64),
        gemm.emit(Gemm(FLOAT, *gemm.turned(7, 64, 4)[1][:3], 2, 2, False, True), 64),
        weight_gradient.emit(WeightGradient(FLOAT, *weight_gradient.blocking(17, 9, 4), 2, True), 64),
        weight_gradient.emit(WeightGradient(FLOAT, *gemm.turned(9, 64, 4)[1], 2, False), 64),
        weight_gradient.emit(WeightGradient(FLOAT, *weight_gradient.blocking(17, 9, 4), 1, False, is_direct=True), 64),
    ):
        assert compiled_for(kernel, *target)
