"""Graphs as ONNX models: read back as the same function, exactly; ONNX Runtime agrees within
derived bounds."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from kinds import examples

import specgrad as sg
import specgrad.onnx
from specgrad import ArgumentError, ModelError, ops
from specgrad.conformance.cases import STRATEGIES
from specgrad.graph import Graph
from specgrad.graph.transform import vjp
from specgrad.onnx.table import TABLE

NOT_READ = (ops.CrossEntropy,)  # written, but not read: labels are integers
NOT_WRITTEN = (ops.MaxUnpool,)
OPEN = "padding alone|whole p|no spatial axis"  # cases that ONNX cannot express


def graph_of(case):
    graph = Graph()
    slots = case.op.slots
    names = [graph.input(f"x{place}", x.shape, not slots[place].integer) for place, x in enumerate(case.operands)]
    return graph.output(graph.record(case.op, tuple(names)))


def is_exact(case):
    """Whether nothing is rounded: neither by the operator, nor when its numbers are written as
    floats."""
    numbers = [getattr(case.op, name, 0) for name in ("factor", "fill", "p", "exponent")]
    held = all(Fraction(float(n)) == n for n in numbers)
    return held and not {"exp", "root", "erf"} & set(case.op.needs) and all(x.size for x in case.operands)


def runtime(model, xs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {node.name: x for node, x in zip(session.get_inputs(), xs, strict=True)})


@pytest.mark.parametrize("kind", [op for op in ops.OPERATORS if op not in NOT_WRITTEN], ids=lambda op: op.name)
def test_what_is_written_is_read_as_the_same_function(kind):
    """Exactly over rationals; over float64 if something is rounded."""
    tried = []

    @settings(max_examples=examples(20), deadline=None, database=None)
    @given(STRATEGIES[kind])
    def check(case):
        graph = graph_of(case)
        try:
            model = graph.to_onnx(np.float64)
        except ModelError:
            with pytest.raises(ModelError, match=OPEN):
                graph.to_onnx()
            return
        onnx.checker.check_model(model, full_check=True)
        tried.append(1)
        if kind not in NOT_READ:
            exact = is_exact(case)
            xs, _, _ = case.over(Fraction if exact else np.dtype(np.float64))
            wanted, made = graph.forward(*xs), specgrad.onnx.load(model).forward(*xs)
            assert wanted.shape == np.shape(made)
            assert np.array_equal(wanted, made) if exact else np.allclose(wanted, made, rtol=1e-12, atol=1e-12)

    check()
    assert tried


@pytest.mark.parametrize("kind", [sg.MaxPool, sg.MinPool, sg.AvgPool, sg.SumPool, sg.LpPool], ids=lambda op: op.name)
def test_onnx_runtime_runs_windows_with_padding_wider_than_the_kernel(kind):
    """Its pooling nodes take narrower padding alone; others are written otherwise."""
    random, wide = np.random.default_rng(2), 0
    for _ in range(25):
        rank = int(random.integers(1, 3))
        kernel, stride, dilation = (tuple(map(int, random.integers(1, 4, rank))) for _ in range(3))
        padding = tuple((int(a), int(b)) for a, b in random.integers(0, 5, (rank, 2)))
        around = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": bool(random.integers(2))}
        op = kind(kernel, **around, **({"p": 2} if kind is sg.LpPool else {}))
        x = random.integers(-5, 6, (1, 2, *random.integers(5, 9, rank))).astype(np.float32)
        wide += any(max(pair) >= k for pair, k in zip(padding, kernel, strict=True))
        try:
            wanted = op(x)
        except sg.SpecgradError:
            continue
        (found,) = runtime(sg.trace(op, x.shape).to_onnx(), [x])
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert wide > 10


RANDOM = np.random.default_rng(5)
W1, W2, W3 = (RANDOM.normal(size=s) for s in ((4, 2, 3, 3), (4, 3, 2, 2), (5, 12)))


def classifier(x):
    """A network with pools that have a native form or not, and both convolutions."""
    h = sg.relu(sg.conv(x, W1, padding="same", stride=2))
    h = sg.max_pool(h, (3, 3), stride=2, padding=1, ceil_mode=True) + sg.avg_pool(
        h, (3, 3), stride=2, padding=1, ceil_mode=True
    )
    h = sg.smooth_max_pool(sg.conv_transpose(h, W2, stride=2), (2, 2), beta=2.0)
    h = sg.concatenate([sg.adaptive_avg_pool(h, (2, 2)), sg.minimum(sg.tanh(sg.adaptive_max_pool(h, (2, 2))), 0.5)], 1)
    return sg.log_softmax(sg.linear(sg.slice(sg.reshape(h, (2, -1)), (slice(None), slice(None, None, 2))), W3))


def test_the_runtime_computes_what_the_graph_does():
    graph = sg.trace(classifier, (2, 2, 7, 7))
    x = RANDOM.normal(size=(2, 2, 7, 7)).astype(np.float32)
    (y,) = runtime(graph.to_onnx(), [x])
    wide = graph.forward(x.astype(np.float64))
    found = sg.bounds(specgrad.onnx.load(graph.to_onnx()), (x, x), covers="float32")
    assert ((found.lower <= y) & (y <= found.upper)).all()
    assert ((found.lower <= wide) & (wide <= found.upper)).all()


def test_labels_and_several_outputs():
    graph = Graph()
    logits, labels = graph.input("logits", (3, 4)), graph.input("labels", (3,), differentiable=False)
    graph.output(sg.cross_entropy(logits, labels), logits, logits)
    x, classes = RANDOM.normal(size=(3, 4)).astype(np.float32), np.array([0, 3, 1])
    loss, first, second = runtime(graph.to_onnx(), [x, classes])
    assert np.isclose(loss, graph.forward(x.astype(np.float64), classes)[0], rtol=1e-5)
    assert np.array_equal(first, x)
    assert np.array_equal(second, x)


def test_what_is_not_written_is_refused():
    graph = sg.trace(lambda x: sg.sum(sg.max_pool(x, (2,))), (4,))
    with pytest.raises(ModelError, match=r"operator='.*is not written in ONNX; export the function itself"):
        vjp(graph).to_onnx()
    for wrong in (np.int32, "float128", "nonsense", None):
        with pytest.raises(ArgumentError, match=r"to_onnx: dtype=.*; choose from float16, float32, float64"):
            graph.to_onnx(wrong)
    with pytest.raises(ModelError, match="padding alone"):
        sg.trace(lambda x: sg.smooth_max_pool(x, (2,), beta=1, padding=2, pad="skip"), (4,)).to_onnx()


def test_the_page_runs_and_lists_what_is_read(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "onnx.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    assert "MaxPool((3, 3)" in capsys.readouterr().out
    listed = page.split("these operators:\n\n")[1].split(".\n\n")[0]
    assert listed.replace("`", "").replace("\n", " ").split(", ") == sorted(TABLE)
