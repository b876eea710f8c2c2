"""Graphs: built or traced, printed, checked, transformed; and refusals."""

import copy
import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction

import flint
import numpy as np
import pytest
import torch
import z3

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError
from specgrad.graph import transform
from specgrad.ops.pointwise import Pointwise


def network(x, weight, labels):
    hidden = sg.relu(sg.conv(x, weight, padding=1))
    return sg.cross_entropy(sg.reshape(sg.max_pool(hidden, (2, 2)), (2, -1)), labels)


LABELS = np.array([1, 0])
PRINTED = """\
x = input(differentiable): (2, 1, 2, 4)
weight = input(differentiable): (1, 1, 3, 3)
labels = input(): (2,)
conv_3 = Conv((3, 3), padding=((1, 1), (1, 1)))(x, weight): (2, 1, 2, 4)
relu_4 = Relu()(conv_3): (2, 1, 2, 4)
max_pool_5 = MaxPool((2, 2))(relu_4): (2, 1, 1, 2)
reshape_6 = Reshape((2, -1))(max_pool_5): (2, 2)
cross_entropy_7 = CrossEntropy()(reshape_6, labels): ()
return cross_entropy_7"""


def built():
    graph = sg.Graph()
    x, weight = graph.input("x", (2, 1, 2, 4)), graph.input("weight", (1, 1, 3, 3))
    return graph.output(network(x, weight, graph.input("labels", (2,), differentiable=False)))


def test_tracing_and_building_give_the_same_graph():
    traced = sg.trace(network, (2, 1, 2, 4), np.zeros((1, 1, 3, 3)), LABELS)
    assert str(built()) == str(traced) == PRINTED
    traced.validate()


def test_one_graph_runs_over_floats_fractions_duals_and_vars():
    graph = sg.trace(lambda x, y: sg.sum(x * y + 0.5), (2,), (2,))
    assert graph.forward(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 12
    assert graph.forward(np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)).dtype == np.float32
    exact = graph.forward(*(np.array([Fraction(1, 3), Fraction(2, 3)]) for _ in "xy"))
    assert exact == Fraction(14, 9)
    assert isinstance(exact.item(), Fraction)
    one = np.ones(2)
    assert graph.forward(sg.Dual(one, one), one).tangent == 2
    tape = sg.Tape()
    x = tape.leaf(np.array([1.0, 2.0]))
    assert tape.backward(graph.forward(x, x))[x].tolist() == [2, 4]
    assert sg.grad(graph.forward)(one, 3 * one).tolist() == [3, 3]


def test_nests_become_one_input_per_leaf():
    def model(parameters, x):
        return {"loss": sg.sum(sg.linear(x, parameters["w"], parameters["b"][0])), "x": x}

    graph = sg.trace(model, {"w": (2, 3), "b": [np.zeros(2)]}, (4, 3))
    assert [node.name for node in graph.inputs] == ["parameters['w']", "parameters['b'][0]", "x"]
    loss, x = graph.forward({"w": np.ones((2, 3)), "b": [np.ones(2)]}, np.ones((4, 3)))
    assert (loss, x.shape) == (32, (4, 3))


def test_a_shape_may_be_of_numpys_integers():
    assert sg.trace(lambda x: x, tuple(np.array([2, 3]))).inputs[0].shape == (2, 3)


def test_derivatives_and_what_they_are_of_are_pickled_and_copied():
    x, one = np.array([1.0, -2.0, 3.0]), np.array(1.0)
    graph = transform.vjp(sg.trace(lambda x: sg.sum(sg.relu(x) * x), (3,)))
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert again.forward(x, one).tolist() == again.compile()(x, one).tolist() == [2, 0, 6]
    assert pickle.loads(pickle.dumps(sg.Scale(0.5))).needs == sg.Scale(0.5).needs == ("division",)


def test_keys_of_a_nest_come_in_any_order():
    one, ten = np.ones(3), np.full(3, 10.0)
    graph = sg.trace(lambda x, p: sg.sum(p["a"] * 2 + p["b"][0] + x), (3,), {"a": (3,), "b": [(3,)]})
    asked = {"b": [ten], "a": one}
    assert graph.forward(one, asked) == graph.compile()(one, asked) == graph.forward(one, one, ten) == 39
    assert graph.jvp((one, asked), (0 * one, {"b": [one], "a": ten}))[1] == 63
    wrong = (
        r"forward: input p\['a'\]=.*: is not in the nest under its name; give a nest with the keys that were "
        r"traced, or arrays"
    )
    with pytest.raises(ShapeError, match=wrong):
        graph.forward(one, {"b": [ten], "c": one})


def test_what_is_done_to_a_constant_later_is_not_part_of_the_graph():
    weight, x = np.ones(3), np.arange(3.0)
    graph = sg.trace(lambda x: sg.sum(x * weight) + sg.sum(x * weight), (3,))
    program = graph.compile()
    weight[:] = 100
    assert graph.forward(x) == program(x) == program.value_and_grad(x)[0] == 6
    assert len([node for node in program.graph.nodes if node.op is None]) == 2  # x, and the weight once


def test_a_view_of_a_constant_is_not_part_of_the_graph_either():
    c = np.ones(3)
    graph = sg.trace(lambda x: x * np.broadcast_to(c, (2, 3)), (2, 3))
    c[:] = 5
    assert graph(np.ones((2, 3))).tolist() == [[1] * 3] * 2


def test_derivatives_are_graphs_with_structural_zeros():
    graph = sg.trace(lambda x, y: (sg.max_pool(sg.relu(x), (2,)), sg.detach(y)), (4,), (3,))
    pushed = transform.jvp(graph)
    assert [node.name for node in pushed.inputs] == ["x", "y", "d_x", "d_y"]
    pulled = transform.vjp(graph)
    assert str(pulled).splitlines()[-3:] == [
        "vjp(relu)_6 = VJPOf(Relu(), 0, shapes=(None,))(x, vjp(max_pool)_5): (4,)",
        "constant_7 = 0: (3,)",
        "return vjp(relu)_6, constant_7",
    ]
    x, y = np.array([1.0, 3.0, -1.0, -2.0]), np.ones(3)
    (value, same), (dy, still) = graph.jvp((x, y), (x, y))
    assert (value.tolist(), dy.tolist(), same.tolist(), still.tolist()) == ([3, 0], [3, 0], [1, 1, 1], [0, 0, 0])
    gx, gy = graph.vjp((x, y), (np.array([5.0, 7.0]), np.ones(3)))
    assert (gx.tolist(), gy.tolist()) == ([0, 5, 0, 0], [0, 0, 0])


def test_common_subexpressions_and_dead_nodes_go():
    graph = sg.Graph()
    x = graph.input("x", (3,))
    sg.smooth_max_pool(x, (3,), beta=1)
    one = np.ones(3)
    y = sg.relu(x * one) + sg.relu(x * one)
    graph.output(y, y)
    clean = transform.simplified(graph)
    assert str(clean) == (
        "x = input(differentiable): (3,)\nconstant_1 = array(float64): (3,)\nmul_2 = Mul()(x, constant_1): (3,)\n"
        "relu_3 = Relu()(mul_2): (3,)\nadd_4 = Add()(relu_3, relu_3): (3,)\nreturn add_4, add_4"
    )
    before = str(graph)
    assert [a.tolist() for a in clean.forward(one)] == [a.tolist() for a in graph.forward(one)] == [[2, 2, 2]] * 2
    assert str(graph) == before
    linear = transform.vjp(transform.vjp(sg.trace(lambda x: sg.sum(sg.scale(x, 3)), (2,))))
    assert "Relu" not in str(linear)
    assert len(linear.nodes) <= 7


def test_transforms_repeat_and_mix():
    graph = sg.trace(lambda x: sg.sum(x * x * x), (2,))
    x, v, one = np.array([1.0, 2.0]), np.array([1.0, 10.0]), np.array(1.0)
    gradient = transform.vjp(graph)
    assert gradient.forward(x, one).tolist() == [3, 12]
    twice = transform.vjp(gradient)
    assert [node.name for node in twice.inputs][:2] == ["x", "g_sum_3"]
    assert twice.forward(x, one, v)[0].tolist() == [6, 120]
    thrice = transform.vjp(twice)
    assert thrice.forward(x, one, v, v, 0 * one)[0].tolist() == [6, 600]
    assert transform.jvp(transform.jvp(graph)).forward(x, v, v, 0 * v)[-1] == 6 + 1200
    traced = transform.simplified(sg.trace(sg.grad(lambda x: sg.sum(x * x * x)), (2,)))
    assert str(traced).count("Mul()") == str(gradient).count("Mul()")


def test_an_operator_without_a_row_is_refused_when_a_graph_is_differentiated():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Unknown(Pointwise):
        name = "unknown"

        def value(self, S, window):
            return next(iter(window)).cells(0), None

        def row(self, S, window, kept):
            raise AssertionError("not reached")

        def cotangent(self, slot, operands, cotangent):
            raise NotImplementedError("unknown has no derivative")

    with pytest.raises(NotImplementedError, match="unknown has no derivative"):
        transform.vjp(sg.trace(lambda x: Unknown()(x), (2,)))


def test_validate_finds_what_the_builder_could_not_have_made():
    for change, text in (
        ({"shape": (5,)},
         "graph: node='relu_1': has shape (5,) but its operator gives (2,); build it with the functions of specgrad"),
        ({"operands": (1,)},
         "graph: node='relu_1': reads a value that is not there before it; build it with the functions of specgrad"),
        ({"operands": (-1,)},
         "graph: node='relu_1': reads a value that is not there before it; build it with the functions of specgrad"),
        ({"name": "x"},
         "graph: node='x': does not have its own name and index; build it with the functions of specgrad"),
        ({"index": 0},
         "graph: node='relu_1': does not have its own name and index; build it with the functions of specgrad"),
    ):  # fmt: skip
        graph = sg.trace(sg.relu, (2,))
        graph.nodes[1] = dataclasses.replace(graph.nodes[1], **change)
        with pytest.raises(ArgumentError) as caught:
            graph.forward(np.ones(2))
        assert str(caught.value) == text
    graph = sg.trace(sg.relu, (2,))
    graph.outputs.append(9)
    with pytest.raises(ArgumentError, match=r"graph: output=9: is not a node; give a Var of this graph"):
        graph.validate()


def refusals():
    graph, other = sg.Graph(), sg.Graph()
    a, b = graph.input("a", (2, 3)), other.input("b", (2, 3))
    labels = graph.input("labels", (2,), differentiable=False)
    graph.output(sg.cross_entropy(a, labels))
    x, y = np.ones((2, 3)), np.array([0, 1])
    tape = sg.Tape()
    var = tape.leaf(x, "v")
    return graph, [
        (lambda: a * b, ArgumentError,
         "mul: x=Var 'a' of shape (2, 3): is of another graph than the graph that is recording; "
         "use Vars of one graph, and arrays"),
        (lambda: a * var, ArgumentError,
         "mul: x=Var 'a' of shape (2, 3): is of another graph than the tape that is recording; use Vars of one tape, "
         "and arrays"),
        (lambda: graph.output(b), ArgumentError,
         "output: value=Var 'b' of shape (2, 3): is of another graph than the graph that is recording; "
         "use Vars of one graph, and arrays"),
        (lambda: graph.constant(var), ArgumentError,
         "constant: value=Var 'v' of shape (2, 3): a graph's constants are arrays, known before it runs; "
         "make it an input of the graph"),
        (lambda: graph.input("a", (2,)), ArgumentError,
         "input: name='a': is not a name of its own; give every input another name, in letters"),
        (lambda: graph.input(3, (2,)), ArgumentError,
         "input: name=3: is not a name of its own; give every input another name, in letters"),
        (lambda: graph.input("c", (2, -1)), ArgumentError,
         "input: shape=(2, -1): has an open length; write every length"),
        (lambda: graph.constant(3.0, "ab"), ArgumentError,
         "constant: shape='ab' on axis 0: must be an integer, got str; write whole numbers"),
        (lambda: graph.constant(3.0, (2, -1)), ArgumentError,
         "constant: shape=(2, -1): has an open length; write every length"),
        (lambda: graph.constant(x, (2,)), ArgumentError,
         "constant: shape=(2,): an array has a shape of its own; leave it out, or give a number"),
        (lambda: graph.jvp(x, x), ShapeError,
         "jvp: inputs=float64 array of shape (2, 3): must be a tuple with one entry per operand, got ndarray; "
         "write (x,) for a single one"),
        (lambda: graph.input("c", (2, 1.5)), ArgumentError,
         "input: shape=(2, 1.5) on axis 1: must be an integer, got float; write whole numbers"),
        (lambda: graph.input("c", (2,), differentiable=None), ArgumentError,
         "input: differentiable=None: must be a bool; write True or False"),
        (lambda: sg.linear(a, np.ones((2, 4))), ShapeError,
         "node linear_3: linear: x=array of shape (2, 3) on axis 1: the weight reads 4 channels, the input has 3; "
         "give the weight that many input channels, or set groups"),
        (lambda: sg.add(a, labels), ArgumentError,
         "node add_3: add: y=array of shape (2,): labels is used both as integers and as numbers; "
         "make two inputs of it"),
        (lambda: sg.cross_entropy(a, sg.sum(a, 1)), ArgumentError,
         "node cross_entropy_4: cross_entropy: integer_labels=array of shape (2,): must be integers: "
         "an input with differentiable=False, or an integer array; make it graph.input('sum_3', (2,), "
         "differentiable=False)"),
        (lambda: sg.cross_entropy(a, np.array([0.0, 1.0])), ScalarError,
         "node cross_entropy_3: cross_entropy: integer_labels=float64 array of shape (2,): must hold integers; "
         "cast first, e.g. x.astype(np.int64)"),
        (lambda: sg.cross_entropy(a, np.array([0, 3])), ArgumentError,
         "node cross_entropy_3: cross_entropy: integer_labels=3: is not one of 3 classes; write labels from 0 to 2"),
        (lambda: sg.max_pool(a, (2,), return_indices=True), ArgumentError,
         "max_pool: x=Var 'a' of shape (2, 3): has no numbers before it runs; leave return_indices out"),
        (lambda: other.forward(x), ArgumentError,
         "graph: outputs=0: a graph needs an output; name it: graph.output(y)"),
        (lambda: transform.vjp(other), ArgumentError,
         "graph: outputs=0: a graph needs an output; name it: graph.output(y)"),
        (lambda: other.compile(), ArgumentError, "graph: outputs=0: a graph needs an output; name it: graph.output(y)"),
        (lambda: graph.forward(x), ShapeError,
         "forward: inputs=1: 2 are needed: a, labels; give one array for each (a list is a nest)"),
        (lambda: graph.forward(x.T, y), ShapeError,
         "forward: input a=float64 array of shape (3, 2): must have shape (2, 3); reshape or broadcast it first"),
        (lambda: graph.forward(x, y + 0.5), ScalarError,
         "forward: input labels=float64 array of shape (2,): must hold integers; cast first, e.g. x.astype(np.int64)"),
        (lambda: graph.forward(x, y + 3), ArgumentError,
         "cross_entropy: integer_labels=3: is not one of 3 classes; write labels from 0 to 2"),
        (lambda: graph.jvp((x, y), (x, y)), ShapeError,
         "jvp: tangents=2: 1 are needed: a; give one array for each (a list is a nest)"),
        (lambda: graph.jvp((x, y), (x.T,)), ShapeError,
         "jvp: tangent a=float64 array of shape (3, 2): must have shape (2, 3); reshape or broadcast it first"),
        (lambda: graph.vjp((x, y), np.ones(2)), ShapeError,
         "vjp: cotangent cross_entropy_2=float64 array of shape (2,): must have shape (); "
         "reshape or broadcast it first"),
        (lambda: graph.vjp((x, y), (1.0, 1.0)), ShapeError,
         "vjp: cotangents=2: 1 are needed: cross_entropy_2; give one array for each (a list is a nest)"),
        (lambda: transform.value_and_grad(sg.trace(sg.relu, (3,))), ShapeError,
         "value_and_grad: outputs=[(3,)]: a gradient needs one output of one cell; sum or average the outputs, "
         "or use vjp"),
        (lambda: sg.trace(sg.relu, "abc"), ScalarError,
         "trace: x='abc': str is not an array specgrad takes; give a NumPy array"),
        (lambda: sg.smooth_max_pool(a, (2,), beta=float("nan")), ArgumentError,
         "smooth_max_pool: beta=nan: must be a finite real number other than 0; write a positive number for a smooth "
         "maximum, a negative one for a smooth minimum"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(refusals()[1])))
def test_bad_calls_say_so_and_leave_the_graph_as_it_was(number):
    graph, cases = refusals()
    call, kind, text = cases[number]
    before = str(graph)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    if "sum_3" not in text:  # the operand of that call is a node itself
        assert str(graph) == before
    assert graph.forward(np.zeros((2, 3)), np.array([0, 1])) == pytest.approx(np.log(3))


WEIGHT = np.array([[0.1, -2.0]], np.float32)
LIFTED = [Fraction(float(w)) for w in WEIGHT[0]]


def read_back(y):
    """A result of any scalar type as a Fraction."""
    if isinstance(y, z3.ArithRef):
        return z3.simplify(y).as_fraction()
    if isinstance(y, flint.arb):
        assert y.is_exact()
        y = y.fmpq()
    return Fraction(int(y.p), int(y.q)) if isinstance(y, flint.fmpq) else Fraction(y)


@pytest.mark.parametrize("make", [Fraction, flint.fmpq, flint.arb, z3.RealVal, Decimal, np.float64])
def test_constant_arrays_take_on_the_scalar_of_the_inputs(make):
    """Float weights are exact in every scalar: 0.1 in float32 is a rational number."""
    graph = sg.trace(lambda x: sg.linear(x, WEIGHT), (2,))
    x = np.array([make(3), make(5)], make if make is np.float64 else object)
    for run in (graph.forward, graph.compile(x.dtype)):
        assert read_back(run(x).item()) == 3 * LIFTED[0] - 10


def test_constant_arrays_take_on_the_scalar_under_duals_tapes_and_tensors():
    graph = sg.trace(lambda x: sg.linear(x, WEIGHT), (2,))
    x = np.array([Fraction(3), Fraction(5)])
    assert graph.forward(sg.Dual(x, np.array([Fraction(1), Fraction(0)]))).tangent.item() == LIFTED[0]
    tape = sg.Tape()
    leaf = tape.leaf(x)
    assert tape.backward(graph.forward(leaf))[leaf].tolist() == LIFTED
    assert graph.forward(torch.tensor([3.0, 5.0], dtype=torch.float64)).item() == float(3 * LIFTED[0] - 10)


def test_float_constants_are_not_integers():
    with pytest.raises(ScalarError, match="does not mix"):
        sg.trace(lambda x: x * np.array([0.5]), (1,)).forward(np.array([1]))
