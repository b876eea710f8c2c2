"""The examples run, and do what they say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest


def test_the_digits_example_takes_the_same_steps_both_ways():
    for library in ("sklearn", "rich", "matplotlib"):
        pytest.importorskip(library)
    path = Path(__file__).parent.parent / "examples" / "train_digits.py"
    spec = importlib.util.spec_from_file_location("train_digits", path)
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
