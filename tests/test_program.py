"""Compiled programs: plan, memory, threads, and refusals."""

import copy
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples
from networks import networks

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError, dispatch
from specgrad.graph import transform


def chain(x):
    for _ in range(6):
        x = sg.relu(sg.scale(x, 1.5)) - 0.25
    return x


def test_a_chain_of_pointwise_operators_runs_in_one_buffer():
    program = sg.trace(chain, (10, 10)).compile(np.float32)
    assert len(program.plan.buffers) == 1
    assert program.plan.peak_bytes == 400
    assert program.plan.total_bytes == 17 * 400
    assert str(program.plan) == "17 values in 1 buffers, 16 written in place: 400 bytes instead of 6800"
    x = np.linspace(-1, 1, 100, dtype=np.float32).reshape(10, 10)
    assert np.array_equal(program(x), chain(x))


@given(networks(exact=False))
@settings(max_examples=examples(60))
def test_programs_have_the_bits_of_the_eager_calls_and_need_no_more_memory(net):
    arrays, along = net.fill(lambda n: n / 16 + n % 3 * 1e-3), net.fill(lambda n: n / 40, seed=1)
    kept = [a.copy() for a in (*arrays, *along)]
    graph = sg.trace(net, *arrays)
    program, pushing = (g.compile(np.float64, engine="reference") for g in (graph, transform.jvp(graph)))
    with sg.engine("reference"):
        value, gradients = sg.value_and_grad(net, tuple(range(len(arrays))))(*arrays)
        moved = graph.jvp(arrays, along)
    for _ in range(2):  # the second call reuses the workspace
        got, found = program.value_and_grad(*arrays)
        assert got == value == program(*arrays)
        assert all(np.array_equal(a, b) for a, b in zip(found, gradients, strict=True))
        assert moved == pushing(*arrays, *along)
    for plan in (program.plan, program.gradient.plan, pushing.plan):
        assert plan.peak_bytes <= plan.total_bytes
    assert all(np.array_equal(a, b) for a, b in zip((*arrays, *along), kept, strict=True))


@given(networks(exact=False))
@settings(max_examples=examples(40))
def test_no_buffer_holds_two_living_values(net):
    """The plan is checked against the steps: a value must be the last one written to its buffer
    when it is read."""
    graph = sg.trace(net, *net.sizes)
    for derived in (transform.value_and_grad(graph), transform.jvp(graph)):
        program, holder = derived.compile(np.float64, engine="reference"), {}
        for step in program._steps:
            use = step.use()
            for place in use.reads:
                buffer = program.plan.buffer_of.get(place)
                if buffer is not None:
                    assert place in holder[buffer]
            for place in use.writes:
                buffer = program.plan.buffer_of.get(place)
                if buffer is not None:
                    shared = holder.get(buffer, set()) if use.alias is not None else set()
                    holder[buffer] = {*shared, place}
                    cells = int(np.prod(program.graph.nodes[place].shape))
                    assert program.plan.buffers[buffer] >= cells


def test_the_gradient_shares_what_the_forward_kept():
    def loss(x, w):
        return sg.sum(sg.smooth_max_pool(sg.max_pool(sg.conv(x, w), (2,)), (2,), beta=2.0))

    program = sg.trace(loss, (1, 9), (2, 1, 2)).compile(np.float64, engine="reference")
    text = str(program.gradient)
    assert text.count("keeps for 1") == 2
    assert text.count("from what was kept") == 2
    assert "pull of x, weight through Conv((2,))" in text


def numpy_engine():
    """An engine of a few operators that writes directly to `out`."""
    functions = {
        "relu": lambda x, out: np.maximum(x, 0, out=out),
        "add": lambda x, y, out: np.add(x, y, out=out),
        "mul": lambda x, y, out: np.multiply(x, y, out=out),
        "sum": lambda x, out: np.sum(x, out=out),
    }
    return SimpleNamespace(
        TAKES="tests",
        refuses=lambda op, operands: None if op.name in functions else "is not written",
        forward=lambda op, operands, out=None: functions[op.name](*operands, out=out),
    )


def test_after_the_first_call_only_outputs_are_allocated(monkeypatch):
    engine = numpy_engine()
    load = dispatch.load
    monkeypatch.setattr(dispatch, "ENGINES", {"plain": "", **dispatch.ENGINES})
    monkeypatch.setattr(dispatch, "load", lambda name: engine if name == "plain" else load(name))

    def function(x, y):
        for _ in range(5):
            x = sg.relu(x + y) * y
        return x, sg.sum(x)

    n = 100_000
    program = sg.trace(function, (n,), (n,)).compile(np.float64, engine="plain")
    x, y, outs = np.ones(n), np.full(n, 0.5), (np.empty(n), np.empty(()))
    expected = [a.copy() for a in program(x, y)]
    tracemalloc.start()
    program(x, y, out=outs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    fresh = program(x, y)
    grown = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000
    assert grown < 8 * n + 20_000
    for results in (outs, fresh):
        assert all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["float32", "float16"])
def test_the_cpu_engine_allocates_nothing_large_after_the_first_call(dtype):
    """No array of a megabyte is allocated; small ones may be, and every thread keeps the scratch of
    its first call."""

    def large(weight, x, other):
        h = sg.conv(x, weight, padding=1)
        wide = sg.max_pool(h, (3, 3), stride=1, padding=1) - sg.scale(other, 0.5)
        tied = sg.max_pool(wide, (2, 2), stride=1, padding=((0, 1), (0, 1)), ties="split")
        smooth = sg.smooth_max_pool(sg.relu(tied) * wide, (3, 3), stride=1, padding=1, beta=2)
        mean = sg.avg_pool(smooth, (5, 5), stride=1, padding=2) + sg.log_softmax(smooth)
        return sg.mse_loss(mean, wide) + sg.mean(sg.adaptive_max_pool(mean, (40, 40)))

    def narrow(weight, x, other):
        return sg.sum(sg.smooth_max_pool(sg.conv(x, weight, padding=1) * other, (2, 2), beta=2))

    for function, shape in ((large, (2, 8, 128, 128)), (narrow, (64, 64, 8, 8))):
        shapes = (shape[1], shape[1], 3, 3), shape, shape
        random = np.random.default_rng(0)
        given = [random.normal(size=shape).astype(dtype) for shape in shapes]
        program = sg.trace(function, *shapes).compile(dtype)
        with sg.num_threads(1):
            value, gradients = program.value_and_grad(*given)
            outs = [np.empty_like(a) for a in (value, *gradients)]
            program.value_and_grad(*given, out=outs)
            tracemalloc.start()
            program.value_and_grad(*given, out=outs)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < given[1].nbytes // 4
        assert all(np.array_equal(a, b) for a, b in zip(outs, (value, *gradients), strict=True))


def test_tangents_are_read_before_their_memory_is_written():
    """A tangent may share the buffer of a tangent or an operand from which it is computed."""

    def function(x, y):
        return sg.relu(x * y) * y - sg.scale(x + y, 2.0) * x

    graph = transform.jvp(sg.trace(function, (50,), (50,)))
    random = np.random.default_rng(0)
    given = [random.normal(size=50) for _ in range(4)]
    found, expected = graph.compile(np.float64)(*given), graph.compile(np.float64, engine="reference")(*given)
    for got, wanted in zip(found, expected, strict=True):
        assert got == pytest.approx(wanted, rel=1e-14)


def test_outputs_may_lie_between_the_cells_of_an_input():
    """Two channels of one image: their bounds overlap, and no byte is in both."""
    image = np.random.default_rng(0).normal(size=(5, 6, 2))
    program = sg.trace(lambda x: sg.avg_pool(sg.relu(x), (3, 3), stride=1, padding=1), (5, 6)).compile(np.float64)
    wanted = program(image[..., 0].copy())
    assert program(image[..., 0], out=image[..., 1]).base is image
    np.testing.assert_array_equal(image[..., 1], wanted)
    with pytest.raises(ArgumentError, match="shares memory with an input"):
        program(image[..., 0], out=image[..., 0])


def test_outputs_are_fresh_unless_given():
    program = sg.trace(lambda x: (x * x, x, sg.reshape(x, (4,))), (2, 2)).compile(np.float64, engine="reference")
    x = np.arange(4.0).reshape(2, 2)
    first, second = program(x), program(x)
    for a, b in zip(first, second, strict=True):
        assert not np.may_share_memory(a, b)
        assert not np.may_share_memory(a, x)
    outs = (np.empty((2, 2)), np.empty((2, 2)), np.empty(4))
    assert all(a is b for a, b in zip(program(x, out=outs), outs, strict=True))
    assert [a.tolist() for a in outs] == [a.tolist() for a in first]
    twice = sg.trace(lambda x: (sg.relu(x),) * 2, (2,)).compile(np.float64)(np.ones(2))
    assert not np.may_share_memory(*twice)
    gradient = sg.trace(lambda x: sg.sum(x * x), (2,)).compile(np.float64)
    outs = (np.empty(()), np.empty(2))
    value, (g,) = gradient.value_and_grad(np.ones(2), out=outs)
    assert value is outs[0]
    assert g is outs[1]
    assert g.tolist() == [2, 2]


def test_programs_run_from_several_threads():
    def loss(x):
        return sg.sum(sg.max_pool(sg.relu(x * x - 0.5), (3, 3), stride=1) * 2)

    program = sg.trace(loss, (1, 16, 16)).compile(np.float64, engine="reference")
    inputs = [np.random.default_rng(i).normal(size=(1, 16, 16)) for i in range(8)]
    with sg.engine("reference"):
        expected = [sg.value_and_grad(loss)(x) for x in inputs]

    def work(i):
        for _ in range(10):
            value, (gradient,) = program.value_and_grad(inputs[i])
            assert value == expected[i][0]
            assert np.array_equal(gradient, expected[i][1])

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(work, range(8)))
    assert len(program.gradient._free) <= 8


def test_dtypes_and_scalars():
    def function(x):
        return sg.sum(sg.avg_pool(x, (2,)) * 0.5)

    graph = sg.trace(function, (4,))
    for dtype in (np.float16, np.float32, np.float64, np.longdouble):
        value, (gradient,) = graph.compile(dtype, engine="reference").value_and_grad(np.arange(4).astype(dtype))
        assert value.dtype == gradient.dtype == dtype
        assert (value, gradient.tolist()) == (1.5, [0.25] * 4)
    program = graph.compile(object, engine="reference")
    value, (gradient,) = program.value_and_grad(np.array([Fraction(n, 3) for n in range(4)]))
    assert (value, gradient.tolist()) == (Fraction(1, 2), [Fraction(1, 4)] * 4)
    assert all(isinstance(g, Fraction) for g in gradient)
    for order in ("<f8", ">f8"):
        assert graph.compile(order)(np.arange(4).astype(">f8")) == 1.5
    whole = sg.trace(lambda x: sg.max_pool(x, (2,)) * 3, (4,)).compile(np.int32, engine="reference")
    assert whole(np.array([1, 5, 2, 3], np.int32)).tolist() == [15, 9]


def test_a_program_travels_to_another_process_and_is_copied():
    with sg.engine("reference"):
        program = sg.trace(lambda x: sg.sum(sg.max_pool(x, (2,))), (4,)).compile(np.float32)
    x = np.array([1, 3, 2, 0], np.float32)
    for other in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert (str(other), repr(other)) == (str(program), repr(program))
        assert (other.dtype, other.engine, other.alone) == (np.float32, "reference", True)
        assert other.value_and_grad(x)[1][0].tolist() == [0, 1, 1, 0]


def test_second_derivatives_compile():
    graph = sg.trace(lambda x: sg.sum(sg.log_softmax(x) * x), (3,))
    program = transform.vjp(transform.vjp(graph)).compile(np.float64, engine="reference")
    x, v, one = np.array([0.1, 0.5, -0.2]), np.array([1.0, 2.0, 3.0]), np.array(1.0)
    hessian = sg.jvp(sg.grad(lambda x: sg.sum(sg.log_softmax(x) * x)), (x,), (v,))[1]
    assert program(x, one, v)[0] == pytest.approx(hessian, rel=1e-12)


def test_a_preferred_engine_leaves_the_rest_to_others_and_a_forced_one_refuses_it():
    """Equal messages for calls and programs; an engine is preferred in `compile`, and forced in a
    block."""
    graph = sg.trace(lambda x: sg.sum(sg.relu(x)), (3,))
    x = np.array([Fraction(1), Fraction(-2), Fraction(3)], object)
    assert graph.compile(object, engine="cpu")(x) == 4
    with sg.engine("cpu"):
        with pytest.raises(ArgumentError) as called:
            sg.relu(x)
        with pytest.raises(ArgumentError) as compiled:
            graph.compile(object, engine="reference")
    assert str(called.value).startswith("relu: engine='cpu': it takes ")
    assert str(compiled.value).startswith("node relu_1: relu: engine='cpu': it takes ")
    with sg.engine("reference"):
        program = graph.compile(np.float64)
    assert program.engine == "reference"
    program.value_and_grad(np.ones(3))  # compiled here, by the engine of the program
    for part in (program, program.gradient):
        assert {step.engine.__name__ for step in part._steps if step.engine} == {"specgrad.engines.reference"}


def test_a_program_that_falls_to_the_reference_engine_warns_as_a_call_does(monkeypatch):
    monkeypatch.setattr(dispatch, "LARGE", 10)
    graph = sg.trace(sg.relu, (11,))
    for run in (lambda: sg.relu(np.ones(11, np.longdouble)), lambda: graph.compile(np.longdouble)):
        with pytest.warns(sg.SlowPathWarning, match="runs on the reference engine, slowly"):
            run()
    graph.compile(np.longdouble, engine="reference")


def refusals():
    graph = sg.trace(lambda a, labels: sg.cross_entropy(a, labels), (2, 3), np.array([0, 1]))
    program = graph.compile(np.float64, engine="reference")
    x, y, out = np.ones((2, 3)), np.array([0, 1]), np.array(7.0)
    pointwise = sg.trace(sg.relu, (3,)).compile(np.float64)
    w = np.ones(3)
    return program, out, [
        (lambda: graph.compile(engine="abacus"), ArgumentError,
         "compile: engine='abacus': is not an engine; choose from " + ", ".join(dispatch.ENGINES)),
        (lambda: graph.compile("float33"), ArgumentError,
         "compile: dtype='float33': is not a dtype of NumPy; write e.g. np.float32, or object for exact scalars"),
        (lambda: graph.compile(np.int64), ScalarError,
         "node cross_entropy_2: cross_entropy: logits=int64 array of shape (2, 3): integers do not divide; "
         "cast first, e.g. x.astype(np.float64)"),
        (lambda: graph.compile(bool), ScalarError,
         "node cross_entropy_2: cross_entropy: logits=bool array of shape (2, 3): bool is not a scalar specgrad "
         "takes; cast to a number first, e.g. x.astype(np.float64)"),
        (lambda: sg.trace(lambda x: x * sg.Dual(w, w), (3,)).compile(), ScalarError,
         "compile: constant_1=Dual of shape (3,): does not mix with float64; make the constant of the program's dtype"),
        (lambda: program(x.astype(np.float32), y, out=out), ScalarError,
         "program: input a=float32 array of shape (2, 3): this program takes float64; cast it, "
         "or compile the graph for float32"),
        (lambda: program(sg.Dual(x, x), y, out=out), ScalarError,
         "program: input a=Dual of shape (2, 3): this program takes float64; give a NumPy array"),
        (lambda: program(sg.Tape().leaf(x, "v"), y, out=out), ScalarError,
         "program: input a=Var 'v' of shape (2, 3): this program takes float64; give a NumPy array"),
        (lambda: program(x, y * 1.0, out=out), ScalarError,
         "program: input labels=float64 array of shape (2,): must hold integers; cast first, e.g. x.astype(np.int64)"),
        (lambda: program(x, y - 1, out=out), ArgumentError,
         "cross_entropy: integer_labels=-1: is not one of 3 classes; write labels from 0 to 2"),
        (lambda: program(x, out=out), ShapeError,
         "program: inputs=1: 2 are needed: a, labels; give one array for each (a list is a nest)"),
        (lambda: program(x[:, :2], y, out=out), ShapeError,
         "program: input a=float64 array of shape (2, 2): must have shape (2, 3); reshape or broadcast it first"),
        (lambda: program(x, y, out=(out, out)), ShapeError,
         "program: out=2: the program has 1 outputs; give one array for each"),
        (lambda: program(x, y, out=np.zeros(2)), ArgumentError,
         "program: out=float64 array of shape (2,): must be a writable float64 array of shape (); "
         "allocate it with np.empty(shape, dtype)"),
        (lambda: pointwise(w, out=w), ArgumentError,
         "program: out=float64 array of shape (3,): shares memory with an input or another output; "
         "give arrays of their own"),
        (lambda: pointwise.value_and_grad(w), ShapeError,
         "value_and_grad: outputs=[(3,)]: a gradient needs one output of one cell; sum or average the outputs, "
         "or use vjp"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(refusals()[2])))
def test_bad_calls_say_so_and_change_nothing(number):
    program, out, cases = refusals()
    call, kind, text = cases[number]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert out == 7
    assert program(np.zeros((2, 3)), np.array([0, 1]), out=out) == pytest.approx(np.log(3))


def test_a_program_is_of_its_graph_as_it_was():
    graph = sg.Graph()
    a = graph.input("a", (2,))
    graph.output(sg.sum(a * 2))
    program, ones = graph.compile(), np.ones(2)
    graph.output(a)
    for one in (program, pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert one(ones) == 4
        assert one.value_and_grad(ones)[1][0].tolist() == [2, 2]


def test_integers_that_nothing_reads_may_be_inputs():
    labels, x = np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0])

    def loss(labels, x):
        return sg.sum(x * 0.5)

    for order in (1, -1):
        graph = sg.trace(lambda *xs, order=order: loss(*xs[::order]), *(labels, x)[::order])
        assert graph(*(labels, x)[::order]) == graph.compile()(*(labels, x)[::order]) == 3


def test_integer_constants_are_not_rounded():
    exact, rounded = (sg.trace(lambda x, n=n: x * np.array([n]), (1,)) for n in (2**53, 2**53 + 1))
    assert exact.compile()(np.ones(1)) == [2**53]
    with pytest.raises(ScalarError, match="has integers that float64 does not hold"):
        rounded.compile()
    with pytest.raises(ScalarError, match="dtype='float128': is of this machine alone; compile for one of"):
        sg.trace(lambda x: x, (1,)).compile(np.longdouble).save("program.json")


@settings(max_examples=examples(800))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=3), st.sampled_from([1, 2, 4]))
def test_cells_overlap_exactly_if_they_have_a_byte_in_common(axes, itemsize):
    shape, strides = ([axis[part] for axis in axes] for part in (0, 1))
    middle = np.zeros(128, np.uint8)[60 : 60 + itemsize].view(f"u{itemsize}")
    array = np.lib.stride_tricks.as_strided(middle, shape, strides)
    starts = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in np.ndindex(*shape)]
    taken = [start + byte for start in starts for byte in range(itemsize)]
    assert dispatch.cells_overlap(array) == (len(set(taken)) < len(taken))
