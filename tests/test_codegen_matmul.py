"""Products of matrices: the emitters interpreted on random sizes, and machine code on any memory
and number of threads."""

import contextlib
import itertools
from unittest import mock

import numpy as np
import pytest
from codegen_pools import Call, Emitted, Run, faults
from kinds import effort
from tallies import compiled_for
from test_codegen_conv import TARGETS

import specgrad as sg
from specgrad.engines.cpu import gemm, matmul, steps
from specgrad.engines.cpu.codegen import object_code
from specgrad.engines.cpu.codegen.values import CELLS
from specgrad.engines.cpu.emitters.matmul import Dots
from specgrad.prove.interpreter.domains import Rationals

FLOAT = CELLS["float32"]
DOTS, NO_DOTS = (4, -1000), (0, 1000)
"""`DOTS` and `ADDED` with which products run by dots where they can, and nowhere."""
SEEDS, CASES = range(effort(3, 4)), effort(40, 200)


@contextlib.contextmanager
def emitted(random, stand_in=Emitted):
    """A context in which plans have kernels that are not compiled, small tiles, panels and
    blocks."""
    lanes, tile = int(random.choice([2, 4])), tuple(map(int, random.integers(1, 4, 2)))
    chosen = [DOTS, NO_DOTS][random.integers(2)]
    few = {
        "PANEL": 4 * lanes * int(random.integers(1, 4)),
        "NEAR": int(random.choice([1, 400])),
        "DIRECT": 3,
        "LONG": 4,
    }
    with contextlib.ExitStack() as patches:
        for module, name, one in (
            (steps, "Call", Call),
            (steps, "cached", lambda key, emit: stand_in(emit())),
            (matmul, "vectors", lambda _: (lanes, 16)),
            (matmul, "tile", lambda *_: (0, *tile)),
            (matmul, "SMALL", int(random.choice([0, 2000]))),
            *((matmul, name, one) for name, one in zip(("DOTS", "ADDED"), chosen, strict=True)),
            *((matmul, name, one) for name, one in few.items()),
        ):
            patches.enter_context(mock.patch.object(module, name, one))
        for cache in (steps.compiled, matmul.planned):
            cache.cache_clear()
            patches.callback(cache.cache_clear)
        yield


def drawn(random, *most):
    """Operands whose rows or columns lie side by side, some broadcast, and a bias or none."""
    rows, columns, terms = (int(random.integers(1, n)) for n in most)
    stack = tuple(int(random.integers(1, 4)) for _ in range(random.integers(0, 3)))

    def some(down, across, is_across):
        lengths = [1 if random.random() < 0.2 else n for n in stack[random.integers(0, len(stack) + 1) :]]
        if is_across:
            return random.integers(-9, 10, (*lengths, down, across))
        return random.integers(-9, 10, (*lengths, across, down)).swapaxes(-1, -2)

    across = random.random() < 0.7, random.random() < 0.3  # as of linear maps, more often than not
    x, y = some(rows, terms, across[0]), some(terms, columns, across[1])
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = [(columns,), (*stack, columns)][random.integers(2)]
    return x, y, (*stack, rows, columns), random.integers(-9, 10, shape) if random.random() < 0.5 else None


def ran(x, y, shape, bias, members):
    """The product by the planned kernel, interpreted over exact numbers."""
    n = matmul.Sizes(tuple(shape[:-2]), *shape[-2:], x.shape[-1])
    x, y, out = (one.astype(np.float32, order="K") for one in (x, y, np.zeros(shape)))
    biases = 1 if bias is None else bias.size // n.columns
    step, parts, _, padded, _ = matmul.planned(
        n, (x.shape[:-2], y.shape[:-2]), (x.strides, y.strides, out.strides), out.dtype, biases, members
    )
    added = np.zeros((biases + 1, padded), int)
    if bias is not None:
        added[:-1, : n.columns] = bias.reshape(-1, n.columns)
    run = Run(Rationals())
    for name, array in (("x", x), ("y", y)):
        run.give(name, FLOAT, array.ravel(order="K").astype(int).tolist())
    run.give("bias", FLOAT, added.ravel().tolist())
    run.take("z", FLOAT, out.size * parts)
    run.step(step)
    return run.numbers("z", (parts, *shape)).sum(0), {(walk, parts > 1) for walk in run.walks}


def expected(x, y, bias):
    return np.matmul(x, y) + (0 if bias is None else bias[..., None, :])


@pytest.mark.parametrize("seed", SEEDS)
def test_products_are_exact_on_random_sizes(seed):
    random, walks = np.random.default_rng(seed), set()
    for _ in range(CASES):
        x, y, shape, bias = drawn(random, 9, 20, 30)
        with emitted(random):
            found, walked = ran(x, y, shape, bias, int(random.integers(1, 4)))
        assert np.array_equal(found, expected(x, y, bias)), (x.shape, x.strides, y.shape, y.strides, bias is None)
        walks.update(walked)
    assert walks == set(itertools.product(["matmul", "dots"], [True, False]))


@pytest.mark.parametrize("kernel", ["matmul", "dots"])
def test_an_access_one_cell_off_is_found(kernel):
    def spoilt(n, spoil):
        random = np.random.default_rng(n // 4)
        with emitted(random, lambda one: (spoil if one.module.name == kernel else Emitted)(one)):
            matmul.DOTS, matmul.ADDED = DOTS if kernel == "dots" else NO_DOTS
            x, y = random.integers(-9, 10, (2, 3, 11)), random.integers(-9, 10, (2, 7, 11)).swapaxes(-1, -2)
            bias = random.integers(-9, 10, 7)
            found, _ = ran(x, y, (2, 3, 7), bias, 2)
            assert np.array_equal(found, expected(x, y, bias))

    assert faults(spoilt) >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_machine_code_adds_up_whole_numbers_exactly_on_any_number_of_threads(seed):
    random = np.random.default_rng(seed)
    for n in range(CASES // 4):
        x, y, shape, bias = drawn(random, *((9, 40, 9000) if n % 3 == 0 else (90, 200, 300)))
        if random.random() < 0.3:  # few columns
            x, y = y.swapaxes(-1, -2), x.swapaxes(-1, -2)
            shape = (*shape[:-2], *shape[:-3:-1])
            bias = None if bias is None else random.integers(-9, 10, shape[-1])
        dtype = ("float32", "float64")[random.integers(2)]
        operands = [one if one is None else one.astype(dtype, order="K") for one in (x, y, bias)]
        if random.random() < 0.3:
            operands[0] = np.repeat(operands[0], 2, axis=-1)[..., ::2]
        if random.random() < 0.3:
            operands[1] = operands[1][..., ::-1, :].copy()[..., ::-1, :]
        out = np.full(shape, np.nan, dtype)
        with sg.num_threads(int(random.integers(1, 6))):
            matmul.product(*operands[:2], out, operands[2])
        assert np.array_equal(out, expected(x, y, bias)), (x.shape, y.shape, dtype)


def test_no_bit_depends_on_the_number_of_threads():
    random = np.random.default_rng(0)
    for rows, columns, terms in [(300, 200, 600), (3, 900, 4000), (5, 30, 9000), (2, 20, 9000), (700, 10, 900)]:
        x, weight = (random.standard_normal(shape, np.float32) for shape in ((rows, terms), (columns, terms)))
        found = []
        for n in (1, 2, 3, 16):
            with sg.num_threads(n):
                found.append([sg.linear(x, weight).tobytes(), sg.matmul(x, np.ascontiguousarray(weight.T)).tobytes()])
        assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    ("rows", "columns", "terms"), [(3, 2, 171), (20, 20, 20), (5, 7, 40), (90, 3, 70), (90, 70, 80)]
)
def test_no_bit_depends_on_how_the_result_lies(rows, columns, terms):
    random = np.random.default_rng(0)
    x, y = random.standard_normal((4, rows, terms), np.float32), random.standard_normal((terms, columns), np.float32)
    expected = sg.matmul(x, y)
    for out in (
        np.empty_like(expected, order="F"),
        np.empty((columns, rows, 4), np.float32).T,
        np.empty((4, rows, 2 * columns), np.float32)[..., ::2],
        np.empty((4, rows, 2 * columns), np.float32)[..., :columns],
    ):
        sg.Matmul()(x, y, out=out)
        assert np.array_equal(out, expected), out.strides


def test_sizes_share_few_kernels():
    def kinds(sizes):
        return {
            matmul.kernel_of(one, True, is_down, np.dtype(np.float32)) for one in sizes for is_down in (True, False)
        }

    assert len(kinds(matmul.Sizes((), 97, 200, n) for n in range(1, 3000))) < 40
    assert len(kinds(matmul.Sizes((), n, 200, 784) for n in range(1, 300))) < 40


def test_a_broadcast_stack_is_not_copied():
    base = np.arange(128.0 * 256).reshape(128, 256)[:, ::2]
    assert matmul.ordered(np.broadcast_to(base, (400, 3, 128, 128))).nbytes == base.size * base.itemsize
    assert matmul.ordered(np.broadcast_to(base[:, None], (128, 3, 128))).shape == (128, 3, 128)


def test_a_product_may_be_written_over_an_operand():
    x = np.random.default_rng(0).integers(-9, 10, (300, 300)).astype(np.float32)
    found = expected(x.astype(int), x.astype(int), None)
    matmul.product(x, x, x)
    assert np.array_equal(x, found)


def test_infinities_and_nan_stay_in_their_rows_and_columns():
    random = np.random.default_rng(1)
    for rows, columns, terms in [(3, 70, 300), (20, 70, 300), (20, 5, 33)]:
        x, y = random.standard_normal((rows, terms)), random.standard_normal((columns, terms)).T
        x[1, 2], y[terms - 1, columns - 1] = np.nan, np.inf
        assert np.array_equal(np.isfinite(sg.matmul(x, y)), np.isfinite(np.matmul(x, y)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[1])
def test_kernels_have_registers_on_every_target(target, monkeypatch):
    monkeypatch.setattr(gemm, "host", lambda: object_code.Target(*target))
    _, registers = gemm.vectors(4)
    for rows, columns in [(1, 1000), (4, 1000), (8, 10), (300, 300)]:
        for is_across in (True, False):
            how = matmul.kernel_of(matmul.Sizes((), rows, columns, 500), is_across, is_across, np.dtype(np.float32))
            vectors = how.width if isinstance(how, Dots) else how.vectors
            beside = 0 if how.rows == 1 else min(how.rows, vectors)  # a vector that is used once is not kept
            assert how.rows * vectors + beside + 1 <= registers
            emit = matmul.emit_dots if isinstance(how, Dots) else matmul.emit
            assert compiled_for(emit(how, 64), *target)
