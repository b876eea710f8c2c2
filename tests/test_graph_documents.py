"""Graphs and programs as documents: written and read back exactly, drawn; malformed documents are
refused with a message."""

import json
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import ml_dtypes
import numpy as np
import own_operators
import pytest
from hypothesis import given, settings
from kinds import share

import specgrad as sg
from specgrad.conformance.cases import STRATEGIES
from specgrad.errors import ArgumentError, ModelError
from specgrad.graph import transform

W = np.arange(6, dtype=np.float32).reshape(2, 3) / 3


def network(x, t):
    pooled = sg.max_pool(x, (2,), padding="same")[..., None, 0] * Fraction(1, 3)
    return sg.cross_entropy(sg.linear(pooled + x, W), t)


@pytest.fixture
def graph():
    return sg.trace(network, sg.Shape(2, 3), sg.Shape(2, differentiable=False))


X, T = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.array([0, 1])


@pytest.mark.parametrize("kind", [k for k in sg.OPERATORS if k in STRATEGIES], ids=lambda k: k.__name__)
def test_every_operator_and_its_derivatives_are_read_as_they_were_written(kind):
    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 15))
    def check(case):
        graph = sg.Graph()
        slots = zip(case.op.slots, case.operands, strict=False)
        inputs = [graph.input(s.name, x.shape, differentiable=not s.integer) for s, x in slots]
        graph.output(case.op(*inputs))
        for one in (graph, transform.vjp(graph), transform.jvp(transform.vjp(graph))):
            again = sg.Graph.from_json(one.to_json())
            assert str(again) == str(one)
            assert [node.op for node in again.nodes] == [node.op for node in one.nodes]
            assert (again.outputs, again.integers) == (one.outputs, one.integers)

    check()


CONSTANTS = [
    *(W.astype(dtype) for dtype in (np.float16, np.float32, np.float64, ">f4", ml_dtypes.bfloat16, np.int64)),
    *(
        W[:0],
        W.T,
        np.array(2.5),
        np.array([np.nan, np.inf, -0.0]),
        np.array([Fraction(1, 3), 7]),
        np.array([True, False]),
    ),
    *(3, -2.5, 1e300, Fraction(-1, 3), 2**100),
]


@pytest.mark.parametrize("constant", CONSTANTS, ids=range(len(CONSTANTS)))
def test_constants_keep_their_bits(constant):
    graph = sg.Graph()
    value = graph.constant(constant)
    again = sg.Graph.from_json(graph.output(value).to_json()).nodes[0].constant
    assert type(again) is type(constant)
    if isinstance(constant, np.ndarray):
        assert (again.dtype.newbyteorder("="), again.shape) == (constant.dtype.newbyteorder("="), constant.shape)
        assert again.tolist() == constant.tolist() or again.tobytes() == constant.tobytes()
    else:
        assert again == constant


def test_a_graph_is_called_and_a_program_is_saved_with_its_constants(graph, tmp_path):
    assert graph(X, T) == graph.forward(X, T)
    for dtype in (np.float32, object):
        program = (
            graph.compile(dtype)
            if dtype is not object
            else sg.trace(lambda x: x * Fraction(1, 3), (2,)).compile(object, "reference")
        )
        program.save(tmp_path / "program.json")
        again = sg.Program.load(tmp_path / "program.json")
        assert (again.dtype, again.engine, str(again), str(again.source)) == (
            program.dtype,
            program.engine,
            str(program),
            str(program.source),
        )
    program = graph.compile(np.float32)
    program.save(str(tmp_path / "p"))
    value, gradients = sg.Program.load(str(tmp_path / "p")).value_and_grad(X, T)
    wanted, others = program.value_and_grad(X, T)
    assert (value.tobytes(), gradients[0].tobytes()) == (wanted.tobytes(), others[0].tobytes())
    with sg.engine("reference"):
        graph.compile(np.float64).save(tmp_path / "forced")
    assert sg.Program.load(tmp_path / "forced").alone


def test_operators_of_users_are_read_where_their_classes_are_given():
    graph = sg.trace(own_operators.EnergyPool((2,), factor=3), (4,))
    text = graph.to_json()
    with pytest.raises(ModelError, match=r"node 1='EnergyPool': is not an operator that is known here; give its class"):
        sg.Graph.from_json(text)
    assert str(sg.Graph.from_json(text, operators=[own_operators.EnergyPool])) == str(graph)
    cube = sg.pointwise("cube", lambda S, x: x * x * x, lambda S, x: 3 * x * x)
    with pytest.raises(ArgumentError, match="which no document holds; use classes of operators with plain parameters"):
        sg.trace(cube, (2,)).to_json()


def spoilt(graph, change):
    found = json.loads(graph.to_json())
    change(found)
    return json.dumps(found)


def node(place, **changes):
    return lambda d: d["nodes"][place].update(changes)


HOSTILE = {
    "not JSON": (lambda d: None, "is not JSON"),
    "another form": (lambda d: d.update(format="x"), "is not a document of the form specgrad.graph"),
    "a later version": (lambda d: d.update(version=2), "version=2: is of another version than 1, which is read here"),
    "no nodes": (lambda d: d.pop("nodes"), "nodes=None: must be a list"),
    "outputs that are no nodes": (lambda d: d.update(outputs=[99]), "outputs=99: is not one of the 10 nodes"),
    "no outputs": (lambda d: d.update(outputs=[]), "a graph needs an output"),
    "a loop": (node(2, operands=[5]), "operands of node 2=5: is not one of the 2 nodes before it"),
    "a negative operand": (node(2, operands=[-1]), "is not one of the 2 nodes"),
    "truth as a place": (node(2, operands=[True]), "is not one of the 2 nodes"),
    "an unknown operator": (
        node(2, operator={"operator": "os.system", "parameters": {}}),
        "'os.system': is not an operator",
    ),
    "a parameter too many": (
        node(2, operator={"operator": "Relu", "parameters": {"x": 1}}),
        "'x': is not a parameter of Relu",
    ),
    "a wrong parameter": (
        node(2, operator={"operator": "MaxPool", "parameters": {"kernel_size": [0]}}),
        "must be at least 1",
    ),
    "a missing parameter": (node(2, operator={"operator": "MaxPool", "parameters": {}}), "missing 1 required"),
    "an object": (node(2, operator={"operator": "Scale", "parameters": {"factor": {"fraction": [1, 0]}}}), "node 2"),
    "a wrong shape": (node(2, shape=[7]), "has the shape (2, 2)"),
    "too few bytes": (node(7, shape=[2**39]), "is not the length of 549755813888 cells of float32 in base64"),
    "odd bytes": (node(7, constant={"dtype": "float32", "bytes": "!" * 32}), "is not base64"),
    "another dtype": (node(7, constant={"dtype": "O", "bytes": ""}), "is not an array of a known dtype"),
    "a word": (node(4, constant="1"), "is not a number or an array"),
    "an open length": (node(0, shape=[-1, 3]), "has an open length"),
    "a name twice": (node(1, name="x"), "is not a name of its own"),
    "a node that is none": (lambda d: d["nodes"].__setitem__(0, 3), "must have a name and a shape"),
    "labels with derivative": (node(1, differentiable=True), "must be integers"),
    "a flag that is none": (node(0, differentiable="yes"), "must be a bool"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_in_words(name, graph):
    change, words = HOSTILE[name]
    text = "{" if name == "not JSON" else spoilt(graph, change)
    with pytest.raises(sg.SpecgradError) as caught:
        sg.Graph.from_json(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', "", "null", "3", None, b"\xff\xfe\x00"])
def test_what_is_no_document_is_refused(text, tmp_path):
    with pytest.raises(ModelError):
        sg.Graph.from_json(text)
    if isinstance(text, str | bytes):
        path = tmp_path / "p"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ModelError):
            sg.Program.load(path)


def test_a_program_of_an_unknown_dtype_or_engine_is_refused(graph, tmp_path):
    path = tmp_path / "p"
    graph.compile(np.float32).save(path)
    for changes in ({"dtype": "S4"}, {"engine": "os"}, {"alone": 1}, {"graph": []}, {"version": 0}):
        path2 = tmp_path / "q"
        path2.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        with pytest.raises(sg.SpecgradError):
            sg.Program.load(path2)


def test_drawings_have_every_node_and_every_edge_and_escape_what_they_show(graph):
    dot, svg = graph.to_dot(), ElementTree.fromstring(graph._repr_svg_())
    edges = [(a, node.index) for node in graph.nodes for a in node.operands]
    assert all(f"  n{a} -> n{b};" in dot for a, b in edges)
    assert dot.count("->") == len(edges)
    assert dot.count("[label=") == len(graph.nodes)
    space = "{http://www.w3.org/2000/svg}"
    assert len(svg.findall(f"{space}line")) == len(edges)
    assert len(svg.findall(f"{space}rect")) == len(graph.nodes)
    odd = sg.Graph()
    odd.output(sg.relu(odd.input('a"<b>\\', (2,))))
    assert 'a\\"<b>\\\\' in odd.to_dot()
    assert any(text.text == 'a"<b>\\' for text in ElementTree.fromstring(odd._repr_svg_()).iter(f"{space}text"))
    assert sg.Graph()._repr_svg_().startswith("<svg")


def test_shapes_end_the_ambiguity_of_lists():
    nest = sg.trace(lambda p: p[0].sum() + p[1].sum(), [sg.Shape(2), sg.Shape(3)])
    assert [n.shape for n in nest.inputs] == [(2,), (3,)]
    assert [n.shape for n in sg.trace(sg.relu, sg.Shape()).inputs] == [()]
    assert repr(sg.Shape(2, differentiable=False)) == "Shape(2, differentiable=False)"
    labels = sg.trace(lambda x, t: sg.cross_entropy(x, t), sg.Shape(2, 3), sg.Shape(2, differentiable=False))
    assert [n.differentiable for n in labels.inputs] == [True, False]
    with pytest.raises(ArgumentError, match="shape"):
        sg.Shape(1.5)


def test_a_derivative_of_another_number_of_operands_is_refused():
    moved = json.loads(transform.jvp(sg.trace(lambda x: sg.sum(sg.relu(x)), (3,))).to_json())
    derived = next(n for n in moved["nodes"] if (n.get("operator") or {}).get("operator") == "JVPOf")
    derived["operator"]["parameters"]["along"] = [[True, True]]
    with pytest.raises(sg.SpecgradError, match="node"):
        sg.Graph.from_json(json.dumps(moved))
