"""Arrays of other libraries: read without a copy, run by the engine for NumPy arrays, and returned
as their library's arrays."""

import array
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch
from specgrad.engines import reference
from specgrad.errors import ScalarError
from specgrad.scalars import as_operand

X = np.arange(16, dtype=np.float32).reshape(4, 4) - 7


class Library:
    """An array library with arrays on the CPU, or on a device from which only DLPack copies."""

    def __init__(self, device=1, converts=True):
        self.device, self.converts, self.taken = device, converts, []

    def asarray(self, x):
        made = Array(np.asarray(x), self)
        self.taken.append(made.cells)
        return made

    from_dlpack = asarray


class Array:
    def __init__(self, cells, library):
        self.cells, self.library = cells, library
        self.shape, self.dtype = cells.shape, cells.dtype

    def __array_namespace__(self, **_):
        return self.library

    def __array__(self, dtype=None, copy=None):
        if self.library.device != 1:
            raise TypeError("implicit conversion is not allowed")
        return self.cells

    def __dlpack_device__(self):
        return self.library.device, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if not self.library.converts:
            raise BufferError("not from this device")
        if self.library.device != 1 and dl_device != (1, 0):
            raise BufferError("unsupported device")
        return self.cells.__dlpack__()


@pytest.fixture(params=[1, 2], ids=["on the CPU", "on a device"])
def library(request):
    return Library(request.param)


def calls(x, like):
    """Calls of operators on an array in every way; `like` makes arrays of its kind."""
    op = sg.MaxPool((2, 2))
    g = like(np.ones((2, 2), np.float32))
    graph = sg.trace(lambda x: sg.sum(sg.avg_pool(x, (2, 2)) * 3), (4, 4))
    return {
        "function": lambda: (sg.max_pool(x, (2, 2)), sg.add(x, 1), sg.where(sg.greater(x, 0), x, x)),
        "indices": lambda: sg.max_pool(x, (2, 2), return_indices=True),
        "jvp": lambda: op.jvp((x,), (x,)),
        "vjp": lambda: op.vjp((x,), g),
        "transforms": lambda: (
            sg.grad(lambda x: sg.sum(x * x))(x),
            *sg.jvp(lambda x: x * 2, (x,), (x,)),
            *sg.vjp(op, x)[1](g),
            sg.vjp(op, x)[0],
        ),
        "graph": lambda: (graph.forward(x), *graph.jvp((x,), (x,)), *graph.vjp((x,), like(np.float32(1)))),
        "program": lambda: (
            graph.compile(np.float32)(x),
            graph.compile(np.float32).value_and_grad(x)[0],
            *graph.compile(np.float32).value_and_grad(x)[1],
        ),
    }


@pytest.mark.parametrize("way", calls(X, np.asarray))
def test_results_are_of_the_kind_of_the_operands_with_the_same_cells(library, way):
    found, wanted = calls(library.asarray(X), library.asarray)[way](), calls(X, np.asarray)[way]()
    for got, expected in zip(found, wanted, strict=True):
        assert type(got) is Array
        np.testing.assert_array_equal(got.cells, expected)


def test_operands_are_read_where_they_lie_and_run_by_the_fast_engine(monkeypatch):
    x = Library().asarray(X)
    assert as_operand("relu", "x", x) is x.cells
    monkeypatch.setattr(reference, "forward", None)
    assert type(sg.max_pool(x, (2, 2))) is Array
    out = np.empty((2, 2), np.float32)
    assert sg.max_pool(x, (2, 2), out=out) is out
    assert dispatch.choose(sg.MaxPool((2, 2)), (as_operand("relu", "x", x),)) is not reference


def test_memoryviews_and_other_buffers():
    cells = np.array([1.0, -2.0])
    view = sg.relu(memoryview(cells))
    assert (type(view), view.tolist()) == (memoryview, [1, 0])
    assert np.shares_memory(as_operand("relu", "x", memoryview(cells)), cells)
    assert sg.relu(array.array("f", [1, -2])).dtype == np.float32
    exact = Array(np.array([Fraction(1, 2)]), Library())
    assert sg.relu(exact)[0] == Fraction(1, 2)  # an array that no library represents stays a NumPy array


class Capsule:
    """An array that DLPack alone gives, in its first version or with the keywords of the second."""

    def __init__(self, cells, first_version):
        self.cells, self.first_version = cells, first_version

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, **more):
        if self.first_version and more:
            raise TypeError("unexpected keyword arguments")
        return self.cells.__dlpack__()


@pytest.mark.parametrize("first_version", [False, True])
def test_arrays_that_dlpack_alone_gives(first_version):
    given = Capsule(X, first_version)
    np.testing.assert_array_equal(sg.max_pool(given, (2, 2)), sg.max_pool(X, (2, 2)))
    assert np.shares_memory(as_operand("relu", "x", given), X)
    released = memoryview(np.ones(3))
    released.release()
    for nothing in (released, Capsule(np.array(["text"]), first_version)):
        with pytest.raises(ScalarError, match=r"max_pool: x='.*': cannot be read as an array of NumPy"):
            sg.max_pool(nothing, (2,))


@pytest.mark.parametrize("way", calls(X, np.asarray))
def test_memory_maps_are_read_where_they_lie_by_the_fast_engine(tmp_path, way, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    mapped, wanted = np.load(tmp_path / "x.npy", mmap_mode="r"), calls(X, np.asarray)[way]()
    for name in ("forward", "keep", "recall"):
        monkeypatch.setattr(reference, name, None)
    for got, expected in zip(calls(mapped, np.asarray)[way](), wanted, strict=True):
        assert type(got) is type(expected)
        np.testing.assert_array_equal(got, expected)
    assert np.shares_memory(as_operand("relu", "x", mapped), mapped)


class Scaled(np.ndarray):
    """Half of what is written, and nothing that NumPy computes is of its class."""

    def __setitem__(self, index, value):
        self.view(np.ndarray)[index] = value / 2

    def __array_wrap__(self, *_):
        raise TypeError


def mapped(path, shape):
    return np.memmap(path / "cells", np.float32, "w+", shape=shape)


@pytest.mark.parametrize(
    "make",
    [
        mapped,
        lambda _, shape: np.zeros(shape, np.float32).view(np.matrix),
        lambda _, s: np.zeros(s, np.float32).view(Scaled),
    ],
    ids=["memmap", "matrix", "own"],
)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(
    "call",
    [
        lambda **o: sg.Relu()(X, **o),
        lambda **o: sg.linear(X, X[:3], **o),
        lambda **o: sg.Matmul()(X, X, **o),
        lambda **o: sg.max_pool(X, (2, 2), **o),
        lambda **o: sg.max_pool(X, (2, 2), return_indices=True, **o)[0],
        lambda **o: sg.LogSoftmax()(X, **o),
        lambda **o: sg.trace(lambda x: sg.matmul(x, x), X).compile(np.float32)(X, **o),
    ],
    ids=["relu", "linear", "matmul", "max_pool", "indices", "log_softmax", "program"],
)
def test_results_are_written_into_arrays_of_any_class(call, engine, make, tmp_path):
    with sg.engine(engine):
        wanted = call()
        out = make(tmp_path, wanted.shape)
        assert call(out=out) is out
    assert np.array_equal(np.asarray(out), wanted)


def test_a_constant_of_another_library_is_recorded_as_numbers():
    tape = sg.Tape()
    x = tape.leaf(X)
    y = sg.sum(x * Library().asarray(X))
    np.testing.assert_array_equal(tape.backward(y)[x], X)
    np.testing.assert_array_equal(tape.leaf(Library().asarray(X)).value, X)
    g = sg.grad(lambda a, b: sg.sum(a * b), argnums=(0, 1))(Library().asarray(X), X)
    assert [type(part) for part in g] == [Array, np.ndarray]


def test_what_cannot_be_read_says_why():
    with pytest.raises(
        ScalarError,
        match=r"relu: x='Array': cannot be read as an array of NumPy \(implicit conversion is not allowed\); copy it",
    ):
        sg.relu(Array(X, Library(2, converts=False)))


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    x = jnp.asarray(X)
    for way, run in calls(x, jnp.asarray).items():
        for got, expected in zip(run(), calls(X, np.asarray)[way](), strict=True):
            assert isinstance(got, jax.Array)
            np.testing.assert_array_equal(got, expected)
    assert sg.max_pool(x.astype(jnp.bfloat16), (2, 2)).dtype == ml_dtypes.bfloat16
    assert np.shares_memory(as_operand("relu", "x", x), np.asarray(x))
    np.testing.assert_array_equal(jax.jit(sg.relu)(x), sg.relu(X))  # by specgrad.jax


A, B = np.ones(2, np.float32), np.ones(2)
MIXED = {
    "call": lambda: sg.add(A, B),
    "vjp": lambda: sg.Mul().vjp((A, B), A),
    "transform": lambda: sg.grad(lambda x: sg.sum(x * B))(A),
    "tape": lambda: sg.Tape().leaf(A) * B,
    "number of NumPy's": lambda: sg.Tape().leaf(A) * np.float64(2),
    "foreign": lambda: sg.add(Library().asarray(A), B),
    "graph": lambda: sg.trace(lambda x, y: x * y, (2,), (2,)).forward(A, B),
    "program": lambda: sg.trace(lambda x, y: x * y, (2,), (2,)).compile(np.float32)(A, B),
}


@pytest.mark.parametrize("way", MIXED)
def test_float32_and_float64_do_not_mix_anywhere(way):
    with pytest.raises(
        ScalarError, match=r"float64 does not mix with float32; convert all|this program takes float32; cast it"
    ):
        MIXED[way]()


def test_numbers_of_python_take_on_the_dtype_and_constants_of_graphs_are_converted():
    assert (sg.Tape().leaf(A) * 2.5).value.dtype == np.float32
    assert sg.trace(lambda x: x * B, (2,)).forward(A).dtype == np.float32
