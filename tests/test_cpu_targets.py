"""Kernels for other machines: every emitter compiles for every target; the specification replaces
kernels that do not compile."""

import importlib
import pkgutil

import ml_dtypes
import numpy as np
import pytest
from kinds import effort
from tallies import compiled_for

import specgrad as sg
from specgrad import ndimage
from specgrad.engines.cpu import (
    convolution,
    emitters,
    gemm,
    matmul,
    network,
    pooling,
    pools,
    steps,
    tied,
    weight_gradient,
    weighted,
)
from specgrad.engines.cpu.codegen import CodegenError, code_cache, object_code
from specgrad.ndimage import integer_means

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu", "arm64": "arm64-apple-macosx"}
TARGETS = {cpu: TRIPLES[machine] for machine, known in object_code.TARGETS.items() for cpu in known if cpu != "generic"}
DTYPES = ("float64", "float32", "float16", ml_dtypes.bfloat16)
CALLS = [
    (sg.MaxPool((3, 3), stride=2, padding=1), (1, 4, 9, 9)),
    (sg.MaxPool((2,), stride=2), (3, 64)),
    (sg.MaxPool((5, 5), stride=1, padding=2), (1, 2, 20, 20)),
    (sg.MaxPool((3,), stride=1, axes=(0,)), (8, 32)),
    (sg.MaxPool((3, 3), padding=1, ties="all"), (1, 2, 9, 9)),
    (sg.AvgPool((3, 3), stride=2, padding=1), (1, 4, 9, 9)),
    (sg.AvgPool((40,), stride=1), (2, 200)),
    (sg.AvgPool((2, 2), axes=(0, 1)), (8, 8, 32)),
    (sg.AdaptiveMaxPool((3, 5)), (2, 11, 13)),
    (sg.AdaptiveAvgPool((3, 5)), (2, 11, 13)),
    (sg.GlobalAvgPool(2), (2, 3, 8, 8)),
    (sg.SmoothMaxPool((3, 3), stride=2, beta=2), (1, 2, 9, 9)),
]
INTEGERS = [(sg.MaxPool((3, 3), stride=2, padding=1), (1, 4, 9, 9), dtype) for dtype in ("int64", "uint8", "int16")]
CONVOLUTIONS = [
    (sg.Conv((3, 3), padding=1), (1, 4, 9, 9), (4, 4, 3, 3)),
    (sg.Conv((3, 3), groups=4), (1, 4, 9, 9), (4, 1, 3, 3)),
]


@pytest.fixture(scope="module")
def kernels():
    """The kernels of value and derivatives of these calls, by emitter and parameters."""
    seen = {}

    def cached(key, emit):
        seen[key] = emit
        return code_cache.cached(key, emit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "cached", cached)
        steps.compiled.cache_clear()
        for cache in (integer_means._step, network.cellwise, matmul.planned):  # these would hide steps of earlier tests
            cache.cache_clear()
        for op, shape, dtype in [
            *((op, shape, dtype) for op, shape in CALLS for dtype in DTYPES if dtype == "float32" or len(shape) < 4),
            *INTEGERS,
        ]:
            x = np.zeros(shape, dtype)
            op(x)
            if x.dtype.kind not in "iu":
                op.jvp((x,), (x,))
                op.vjp((x,), np.zeros(op.output_shape(shape), dtype))
        for op, *shapes in CONVOLUTIONS:
            for dtype in DTYPES:
                operands = tuple(np.zeros(shape, dtype) for shape in shapes)
                op.vjp(operands, np.zeros(op.output_shape(*shapes), dtype))
        for dtype in ("float32", "float64"):
            sg.relu(np.zeros(network.FEW, dtype))
            for rows in (2, 9, 70):
                matrices = np.ones((rows, 80), dtype), np.ones((80, 90), dtype)
                sg.Matmul().vjp(matrices, np.ones((rows, 90), dtype))
                sg.linear(matrices[0], matrices[1].T.copy())
        for dtype in ("uint8", "int16"):
            ndimage.uniform_filter(np.zeros((9, 40), dtype), 5)
    return seen


def test_all_emitters_are_among_them(kernels):
    modules = [
        importlib.import_module(f"{emitters.__name__}.{m.name}") for m in pkgutil.iter_modules(emitters.__path__)
    ]
    assert {key[0].__module__ for key in kernels} == {m.__name__ for m in modules if hasattr(m, "emit")}
    cells = {cell.name for key in kernels for cell in vars(key[1]).values() if hasattr(cell, "stored")}
    assert cells >= {"float64", "float32", "float16", "bfloat16"}


@pytest.mark.parametrize("cpu", TARGETS)
def test_every_kernel_compiles_for_every_target(kernels, cpu):
    """If tests are thorough, all kernels for all targets; else one of each emitter, a different one
    for each target."""
    of_emitter, turn = {}, [*TARGETS].index(cpu)
    for key in kernels:
        of_emitter.setdefault(key[0], []).append(key)
    some = [keys[turn * len(keys) // len(TARGETS)] for keys in of_emitter.values()]
    for key in effort(some, kernels):
        assert compiled_for(kernels[key](), TARGETS[cpu], cpu)


def refused(key, emit):
    raise CodegenError("LLVM cannot compile a kernel")


CACHES = [
    found
    for module in (convolution, gemm, matmul, network, steps, pools, pooling, tied, weight_gradient, weighted)
    for found in vars(module).values()
    if hasattr(found, "cache_clear")
]


def answers(op, *operands):
    gy = np.ones(op.output_shape(*(x.shape for x in operands)))
    return op(*operands), *op.jvp(operands, operands), *op.vjp(operands, gy)


@pytest.mark.parametrize(
    "op",
    [
        sg.MaxPool((3,), padding=1),
        sg.AvgPool((2,)),
        sg.MaxPool((3,), ties="all"),
        sg.SmoothMaxPool((2,), beta=1),
        sg.Conv((3,), padding=1),
        sg.ConvTranspose((3,), stride=2),
    ],
)
def test_what_does_not_compile_falls_to_the_specification_with_a_warning(op, monkeypatch):
    operands = (np.arange(11.0)[None], *[np.arange(3.0).reshape(1, 1, 3)] * (len(op.slots) > 1))
    with sg.engine("reference"):
        expected = answers(op, *operands)
    monkeypatch.setattr(steps, "cached", refused)
    for cache in CACHES:
        cache.cache_clear()
    try:
        with pytest.warns(sg.SlowPathWarning, match="LLVM cannot compile a kernel"):
            got = answers(op, *operands)
    finally:
        for cache in CACHES:
            cache.cache_clear()
    assert [a.tolist() for a in got] == [a.tolist() for a in expected]


@pytest.mark.filterwarnings("error")
def test_relu_and_products_are_numpys_where_their_kernels_do_not_compile(monkeypatch):
    monkeypatch.setattr(steps, "cached", refused)
    for cache in CACHES:
        cache.cache_clear()
    x, y = np.linspace(-2, 2, network.FEW + 1), np.arange(900.0).reshape(30, 30)
    try:
        got = sg.relu(x), *sg.Relu().vjp((x,), x)
        products = sg.matmul(y, y), sg.linear(y, y.T, y[0]) - y[0]
    finally:
        for cache in CACHES:
            cache.cache_clear()
    assert all(np.array_equal(a, np.where(x > 0, x, 0)) for a in got)
    assert all(np.array_equal(a, y @ y) for a in products)


def test_a_kernel_that_was_refused_is_not_tried_again(monkeypatch):
    tries = []

    def emit():
        tries.append(1)
        raise CodegenError("no")

    monkeypatch.setattr(code_cache, "_refused", {})
    for _ in range(3):
        with pytest.raises(CodegenError, match="no"):
            code_cache.cached(("key", 1), emit)
    assert len(tries) == 1
