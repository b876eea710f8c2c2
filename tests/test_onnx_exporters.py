"""Well-known networks exported by PyTorch are read, and agree with ONNX Runtime and torch within
derived bounds."""

import functools
import io
import logging
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from kinds import effort
from onnx_networks import NETWORKS, made

import specgrad as sg
import specgrad.onnx
from specgrad.bounds.affine import Box, gamma, own_rows
from specgrad.bounds.analysis import Analysis
from specgrad.bounds.rewrite import rewritten

X = np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)


@functools.cache
def exported(name, exporter, **options):
    """The bytes of a network from an exporter."""
    network, example = made(name), torch.from_numpy(X)
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings in the exporters' own code
        if exporter == "dynamo":
            return torch.onnx.export(network, (example,), dynamo=True, verbose=False).model_proto.SerializeToString()
        file = io.BytesIO()
        torch.onnx.export(network, (example,), file, dynamo=False, opset_version=17, **options)
        return file.getvalue()


def runtime(data):
    """ONNX Runtime's result, without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options)
    return session.run(None, {session.get_inputs()[0].name: X})[0]


EXPORTS = [(name, "torchscript") for name in NETWORKS]
EXPORTS += [(name, "dynamo") for name in effort(("vgg", "googlenet"), NETWORKS)]


@pytest.mark.parametrize(("name", "exporter"), EXPORTS)
def test_values_are_those_of_the_runtime(name, exporter):
    data = exported(name, exporter)
    graph = specgrad.onnx.load(data)
    found = sg.bounds(graph, (X, X), covers="float32")
    for y in (runtime(data), graph.forward(X), graph.compile(np.float32)(X)):
        assert (found.lower <= y).all()
        assert (y <= found.upper).all()
    assert (found.upper - found.lower).max() < 1e-4  # the bound is not trivial


def gradients(graph, xs, seed):
    """The gradients of seed·y in all inputs, and a bound of the error of a float64 computation in
    any order, cell by cell.

    Rows are propagated backwards at boxes that contain the float result of each value. Entries of a
    row that are values may be either end of a box. Maxima are decided at a point, except between
    copies of one cell, or between inactive relus.
    """
    graph = rewritten(graph)
    analysis = Analysis(graph, [Box(x, x) for x in xs], unit=2.0**-53)
    nothing = np.zeros((1, 1))
    arriving = {graph.outputs[0]: (seed.reshape(1, -1), np.zeros((1, seed.size)))}
    for node in reversed(graph.nodes):
        if node.op is None or not analysis.varying[node.index] or node.index not in arriving:
            continue
        row, error = arriving.pop(node.index)
        form, boxes = analysis.relaxations[node.index].below, [analysis.boxes[p] for p in node.operands]
        matrices = off = form.rows
        if node.op.curvature == "multilinear":
            matrices, off = (own_rows(node.op, [box[end] for box in boxes], form.rows) for end in (0, 1))
        for slot, matrix in matrices.items():
            off_by = abs(matrix - off[slot])
            size = abs(row) @ abs(matrix)
            cost = error @ (abs(matrix) + off_by) + abs(row) @ off_by + gamma(form.readers + 6) * size
            place = node.operands[slot]
            before = arriving.get(place, (nothing, nothing))
            arriving[place] = row @ matrix + before[0], cost + before[1] + gamma(3) * (size + abs(before[0]))
    return [tuple(part.reshape(node.shape) for part in arriving[node.index]) for node in graph.inputs]


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_torch(name):
    """Exported without folding normalisations into weights. Gradients in weights are compared too,
    if all weights enter by convolutions and products."""
    data = exported(name, "torchscript", training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    network = made(name).double()
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    y = network(x)
    seed = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)
    y.backward(seed)
    graph, parameters = specgrad.onnx.load(data), {}
    if name == "vgg":
        graph, parameters = specgrad.onnx.load_parameters(data)
        assert set(parameters) == set(network.state_dict())
    theirs = [x.grad, *(network.get_parameter(key).grad for key in parameters)]
    xs = [x.detach().numpy(), *(array.astype(np.float64) for array in parameters.values())]
    for found, torchs, (expected, error) in zip(
        graph.vjp(xs, seed.numpy()), theirs, gradients(graph, xs, seed.numpy()), strict=True
    ):
        assert error.max() < 1e-9 * np.abs(expected).max()
        assert (np.abs(found - expected) <= error).all()
        assert (np.abs(torchs.numpy() - expected) <= error).all()


def test_dynamic_batches_are_given_a_shape():
    network = made("vgg")
    dynamic = {"dynamic_axes": {"input": {0: "batch"}}, "input_names": ["input"]}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (torch.from_numpy(X),), file, dynamo=False, opset_version=13, **dynamic)
    with pytest.raises(sg.ModelError, match="has the open shape"):
        specgrad.onnx.load(file.getvalue())
    graph = specgrad.onnx.load(file.getvalue(), shapes={"input": (2, 3, 16, 16)})
    both = np.concatenate([X, X[..., ::-1]])
    with torch.no_grad():
        assert np.allclose(graph.forward(both), network(torch.from_numpy(both.copy())), atol=1e-5)


@pytest.mark.parametrize("opset", [11, 13, 15, 18])
def test_opsets(opset):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(made("unet"), (torch.from_numpy(X),), file, dynamo=False, opset_version=opset)
    graph = specgrad.onnx.load(file.getvalue())
    found = sg.bounds(graph, (X, X), covers="float32")
    y = runtime(file.getvalue())
    assert ((found.lower <= y) & (y <= found.upper)).all()


@pytest.mark.parametrize("version", range(19, 24))
def test_later_opsets(version):
    converted = onnx.version_converter.convert_version(onnx.load_model_from_string(exported("vgg", "dynamo")), version)
    graph = specgrad.onnx.load(converted)
    assert np.array_equal(graph.forward(X), specgrad.onnx.load(exported("vgg", "dynamo")).forward(X))
