"""ONNX models: read as graphs that run over every scalar; malformed, truncated and hostile files
are refused with a message."""

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import specgrad as sg
import specgrad.onnx
from specgrad import ModelError, SpecgradError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs=("y",), weights=(), opset=18, **parts):
    """A model of these nodes; inputs are name -> shape, weights name -> array."""
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    ends = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    stored = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", values, ends, stored, **parts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "w": RANDOM.normal(size=(4, 1, 3, 3)).astype(np.float32),
    "b": RANDOM.normal(size=4).astype(np.float32),
}


def network(**options):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["r"], "second"),
        helper.make_node("MaxPool", ["r"], ["p"], "third", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["y"], "fourth"),
    ]
    return model(nodes, {"x": [2, 1, 6, 6]}, weights=WEIGHTS, **options)


def test_a_model_runs_over_floats_rationals_and_duals():
    graph = specgrad.onnx.load(network())
    x = RANDOM.normal(size=(2, 1, 6, 6)).astype(np.float32)
    (runtime,) = onnxruntime.InferenceSession(network().SerializeToString()).run(None, {"x": x})
    exact = graph.forward(np.array([*map(Fraction, x.reshape(-1).tolist())]).reshape(x.shape))
    found = sg.bounds(graph, (x, x), covers="float32")
    assert ((found.lower <= runtime) & (runtime <= found.upper)).all()
    assert (np.vectorize(Fraction)(found.lower) <= exact).all()
    assert np.abs(graph.forward(x) - runtime).max() <= (found.upper - found.lower).max()
    (pulled,) = graph.vjp((x,), np.ones((2, 36), np.float32))
    moved = graph.forward(sg.Dual(x, np.ones_like(x))).tangent
    assert np.isclose(moved.sum(), pulled.sum(), rtol=1e-4)


def test_weights_are_constants_or_inputs():
    graph, parameters = specgrad.onnx.load_parameters(network())
    assert [node.name for node in graph.inputs] == ["x", *parameters]
    assert list(parameters) == ["w", "b"]
    x = RANDOM.normal(size=(2, 1, 6, 6)).astype(np.float32)
    fixed = specgrad.onnx.load(network())
    assert [node.name for node in fixed.inputs] == ["x"]
    assert np.array_equal(graph.forward(x, *parameters.values()), fixed.forward(x))
    assert graph.vjp((x, *parameters.values()), np.ones((2, 36), np.float32))[1].shape == (4, 1, 3, 3)


def test_open_lengths_are_given():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    open_model = model(nodes, {"x": ["batch", 3]})
    with pytest.raises(ModelError, match=r"onnx.load: input='x': has the open shape .*; write load"):
        specgrad.onnx.load(open_model)
    assert specgrad.onnx.load(open_model, shapes={"x": (5, 3)}).inputs[0].shape == (5, 3)
    for wrong in ((5, 4), (5,), (5, 3, 1), (-1, 3), ("a", 3)):
        with pytest.raises(ModelError):
            specgrad.onnx.load(open_model, shapes={"x": wrong})
    with pytest.raises(ModelError, match="is not an input of the model; choose from x"):
        specgrad.onnx.load(open_model, shapes={"z": (5, 3)})
    both = model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": ["n"], "z": ["n"]})
    with pytest.raises(ModelError, match="the model has"):
        specgrad.onnx.load(both, shapes={"x": (2,), "z": (3,)})


def test_shapes_are_computed_while_the_model_is_read():
    """Shape, and arithmetic on shapes, are constants: a reshape by them needs no input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Mul", ["s", "two"], ["t"]),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    made = model(nodes, {"x": [2, 2]}, weights={"two": np.array([2])})
    graph = specgrad.onnx.load(made)
    assert graph.nodes[graph.outputs[0]].shape == (4,)
    assert len(graph.nodes) == 2


def only(op, inputs=("x",), outputs=("y",), opset=18, weights=(), shape=(1, 1, 4, 4), **attributes):
    return model([helper.make_node(op, inputs, outputs, "it", **attributes)], {"x": shape}, outputs, weights, opset)


def tensor(name="w", dims=(2,), **fields):
    return TensorProto(name=name, dims=dims, **{"data_type": FLOAT, **fields})


def with_tensor(proto):
    made = only("Add", ["x", "w"])
    made.graph.initializer.append(proto)
    return made


MALFORMED = {
    "no graph": (onnx.ModelProto(), "holds no graph"),
    "opset": (only("Relu", opset=5), "opset=5"),
    "unknown operator": (only("Unheard"), r"node 0 'it' \(Unheard\): domain='': is not an operator of ONNX's opset 18"),
    "unread operator": (only("Det"), "operator='Det': is not read"),
    "custom domain": (only("Relu", domain="mine"), "domain='mine'"),
    "unknown attribute": (only("Relu", gain=2.0), "attribute='gain': is not an attribute of Relu"),
    "attribute of another type": (only("Flatten", axis=1.5), "must be of type INT"),
    "missing attribute": (only("MaxPool"), "attribute='kernel_shape': is missing"),
    "too few inputs": (only("Conv", ["x"]), "from 2 to 3 inputs"),
    "too many inputs": (only("Relu", ["x", "x"]), "from 1 to 1 inputs"),
    "name of nothing": (only("Relu", ["z"]), "input='z': is computed by no node before this one"),
    "name given twice": (only("Relu", ["x"], ["x"]), "name='x': is given to two values"),
    "output of nothing": (
        model([helper.make_node("Relu", ["x"], ["z"])], {"x": [1]}),
        "output='y': is computed by no node",
    ),
    "reads an index": (
        model(
            [
                helper.make_node("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 2]),
                helper.make_node("Relu", ["i"], ["y"]),
            ],
            {"x": [1, 1, 4, 4]},
        ),
        "input='i': is output 1 or later of MaxPool",
    ),
    "kernel that does not fit": (only("MaxPool", kernel_shape=[9, 9]), "node 0 'it'.*kernel_size=.9, 9. on axis 0"),
    "kernel of another rank": (only("MaxPool", kernel_shape=[2]), "must have 2 entries"),
    "no spatial axis": (only("MaxPool", shape=(3,), kernel_shape=[2]), "has 1 axes"),
    "endless stride": (only("MaxPool", kernel_shape=[2, 2], strides=[2**62, 1]), "strid|stride"),
    "windows of padding": (
        only("MaxPool", kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
        "a window along spatial axis 0 reads padding alone",
    ),
    "endless padding": (only("MaxPool", kernel_shape=[2, 2], pads=[0, 0, 2**60, 0]), "padding alone"),
    "padding of no kind": (only("MaxPool", kernel_shape=[2, 2], auto_pad="SOME"), "is not a padding of ONNX"),
    "endless tensor": (with_tensor(tensor(dims=(2**40, 2**40))), "but 0 elements"),
    "negative tensor": (with_tensor(tensor(dims=(-1,), float_data=[1])), "has shape"),
    "short tensor": (with_tensor(tensor(raw_data=b"1234")), "but 4 bytes"),
    "tensor of strings": (with_tensor(tensor(data_type=TensorProto.STRING, string_data=[b"a", b"b"])), "type string"),
    "tensor of nothing": (with_tensor(tensor(data_type=99)), "type number 99"),
    "tensor of many axes": (with_tensor(tensor(dims=[1] * 70, float_data=[1])), "at most 32"),
    "external without a folder": (with_tensor(tensor(data_location=TensorProto.EXTERNAL)), "bytes have no folder"),
    "integers as input": (
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Relu", ["x"], ["y"])],
                "g",
                [helper.make_tensor_value_info("x", INT64, [1])],
                [helper.make_tensor_value_info("y", INT64, None)],
            ),
            opset_imports=[helper.make_opsetid("", 18)],
        ),
        "input='x': holds int64, not floats",
    ),
    "shape from an input": (
        model([helper.make_node("Reshape", ["x", "x"], ["y"])], {"x": [2]}),
        "depends on the model's inputs, and must be known",
    ),
}


def test_an_opset_may_be_named_twice():
    """Exporters that merge models repeat the opset; two different ones are refused."""
    proto = only("Relu")
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 18))
    assert specgrad.onnx.load(proto).nodes[-1].op.name == "relu"
    proto.opset_import[1].version = 17
    with pytest.raises(ModelError, match=r"opset=\[17, 18\]"):
        specgrad.onnx.load(proto)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_models_are_refused_in_words(case):
    made, text = MALFORMED[case]
    with pytest.raises(SpecgradError, match=text):
        specgrad.onnx.load(made)


def test_what_is_no_file_is_refused(tmp_path):
    for source, text in [
        (tmp_path / "nothing.onnx", "cannot be read"),
        (tmp_path, "cannot be read"),
        (5, "must be a path, bytes or a ModelProto, got int"),
        ("\0", "cannot be read"),
        (b"\xff" * 50, "is not a protocol buffer"),
    ]:
        with pytest.raises(ModelError, match=text):
            specgrad.onnx.load(source)


def test_cut_off_files_are_refused(tmp_path):
    whole = network().SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(SpecgradError, match=r"^onnx\.load: "):
            specgrad.onnx.load(path)


def test_changed_files_are_read_or_refused():
    """A file with changed bytes gives a graph or a refusal, fast and with little memory."""
    whole = network().SerializeToString()
    random, refused = np.random.default_rng(1), []
    for _ in range(600):
        data = bytearray(whole)
        for place in random.integers(len(data), size=random.integers(1, 4)):
            data[place] = random.choice([0, 1, 127, 128, 255, random.integers(256)])
        try:
            specgrad.onnx.load(bytes(data))
        except SpecgradError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert max(map(len, refused)) < 1000


def external(tmp_path, location, **entries):
    made = only("Add", ["x", "w"], shape=(2,))
    proto = tensor(data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        proto.external_data.add(key=key, value=str(value))
    made.graph.initializer.append(proto)
    path = tmp_path / "folder" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_lies_in_the_folder(tmp_path):
    path = external(tmp_path, "sub/weights", offset=4, length=8)
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "weights").write_bytes(np.array([9, 1, 2], "<f4").tobytes())
    graph = specgrad.onnx.load(path)
    assert graph.forward(np.zeros(2, np.float32)).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("location", "entries", "text"),
    [
        ("../secret", {}, "is not a file inside the model's folder"),
        ("/etc/hostname", {}, "is not a file inside the model's folder"),
        ("link", {}, "is not a file inside the model's folder"),
        ("loop", {}, "is not a file inside the model's folder"),
        (".", {}, "is not a file inside the model's folder"),
        ("", {}, "is not a file inside the model's folder"),
        ("a\0b", {}, "is not a file inside the model's folder"),
        ("absent", {}, "is not a file inside the model's folder"),
        ("weights", {"offset": 4}, "of a file of 8"),
        ("weights", {"offset": -4}, "of a file of 8"),
        ("weights", {"length": 4}, "needs 8 bytes, and names 4"),
        ("weights", {"length": "9" * 5000}, "needs 8 bytes"),
    ],
)
def test_external_data_elsewhere_is_refused(tmp_path, location, entries, text):
    path = external(tmp_path, location, **entries)
    (tmp_path / "secret").write_bytes(bytes(8))
    (path.parent / "weights").write_bytes(bytes(8))
    (path.parent / "link").symlink_to(tmp_path / "secret")
    (path.parent / "loop").symlink_to("loop")
    with pytest.raises(ModelError, match=text):
        specgrad.onnx.load(path)
