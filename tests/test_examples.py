"""The examples run, with the stated results."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import specgrad as sg
from specgrad import AvgPool, MaxPool
from specgrad.conformance import runner
from specgrad.conformance.subject import load

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_digits_example_takes_the_same_steps_both_ways():
    for library in ("sklearn", "rich", "matplotlib"):
        pytest.importorskip(library)
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLES / "train_digits.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    random = np.random.default_rng(0)
    images, labels = random.normal(size=(64, 1, 8, 8)).astype(np.float32), random.integers(0, 10, 64)
    both = [example.parameters(np.random.default_rng(0)) for _ in range(2)]
    program = example.compiled(both[0])
    optimizers = [example.Adam(example.leaves(p)) for p in both]
    losses = []
    for _ in range(3):
        for p, optimizer, step in zip(both, optimizers, (example.by_tape, program.value_and_grad), strict=True):
            value, gradients = step(p, images, labels)
            optimizer.step(gradients)
            losses.append(float(value))
    assert losses[0::2] == pytest.approx(losses[1::2], rel=1e-5)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("name", "kind"), [("check_numpy", MaxPool), ("check_c", AvgPool)])
def test_a_kernel_that_is_checked_holds(name, kind):
    if name == "check_c" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    session = runner.Session(runner.Effort(5, 0, 0.0))
    cells = session.one(load(f"{EXAMPLES / name}.py:subject"), kind, 5)
    assert {cell.status for cell in cells} <= {"holds", "not offered", "convention", ""}
    assert sum(cell.cases for cell in cells) > 40


def test_the_triton_kernel_holds_in_the_interpreter(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    session = runner.Session(runner.Effort(0, 0, 0.0, every=4), claims=("value", "nan", "shape"))
    cells = session.one(load(f"{EXAMPLES}/check_triton.py:subject"), MaxPool, 0)
    assert {cell.status for cell in cells} == {"holds"}


def test_the_exact_network_is_read_and_certified(tmp_path, monkeypatch, capsys):
    for library in ("sklearn", "matplotlib", "onnx", "scipy"):
        pytest.importorskip(library)
    spec = importlib.util.spec_from_file_location("exact_network", EXAMPLES / "exact_network.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    random = np.random.default_rng(0)
    kernel, matrix = random.normal(size=(2, 1, 3, 3)), random.normal(size=(10, 32))

    def network(x):
        h = sg.max_pool(sg.relu(sg.conv(x, kernel, padding=1)), (3, 3), stride=2, padding=1)
        return sg.linear(sg.reshape(h, (1, -1)), matrix)

    monkeypatch.chdir(tmp_path)
    wrong, certificate = example.main(sg.trace(network, (1, 1, 8, 8)).to_onnx().SerializeToString())
    assert wrong > 0  # two floats of one class boundary, at least
    assert certificate.status in ("holds", "violated")
    assert (tmp_path / "exact_network.png").stat().st_size > 1000
    assert "follows in exact rationals" in capsys.readouterr().out


def test_the_pyramid_is_that_of_the_image_in_memory(capsys):
    pytest.importorskip("dask")
    spec = importlib.util.spec_from_file_location("image_pyramid", EXAMPLES / "image_pyramid.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    top, curve = example.main(203, 24, 60)
    whole = example.image(203, 24).compute()
    assert len(np.unique(whole)) > 200
    for _ in range(2):
        whole = sg.max_pool(whole, (3, 3), stride=2, padding=1)
    np.testing.assert_array_equal(top, whole)
    run = {"gigapixels": 1, "seconds": 2, "MiB": curve.peaks()}
    assert example.picture([run, run]).count("<polyline") == 2
    assert "highest" in capsys.readouterr().out
    assert min(curve.samples) > 0
