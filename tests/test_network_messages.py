"""The messages of the network operators, by their exact text."""

from fractions import Fraction

import numpy as np
import pytest

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError

X = np.ones((2, 3))
MESSAGES = [
    (lambda: sg.add(X, np.ones(2)), ShapeError,
     "add: y=array of shape (2,): does not broadcast with x of shape (2, 3); make each pair of lengths, "
     "counted from the last axis, equal or 1"),
    (lambda: sg.mul(X, np.array([Fraction(1)] * 3)), ScalarError,
     "mul: y=object array of shape (3,): Fraction does not mix with float64; convert all operands to one scalar type "
     "first"),
    (lambda: sg.relu(X * 1j), ScalarError,
     "relu: x=complex128 array of shape (2, 3): complex numbers have no order; pool the real and imaginary parts "
     "apart"),
    (lambda: sg.scale(X, float("nan")), ArgumentError,
     "scale: factor=nan: must be a finite real number; write a number, or multiply by an array with mul"),
    (lambda: sg.scale(X, True), ArgumentError,
     "scale: factor=True: must be a finite real number; write a number, or multiply by an array with mul"),
    (lambda: sg.scale(np.array([1]), 0.5), ScalarError,
     "scale: x=int64 array of shape (1,): integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.reshape(X, (4, -1)), ArgumentError,
     "reshape: shape=(4, -1): has not the 6 cells of x of shape (2, 3); keep the number of cells"),
    (lambda: sg.reshape(X, (-1, -1)), ArgumentError,
     "reshape: shape=(-1, -1): has more than one -1; leave one length open at most"),
    (lambda: sg.reshape(X, (2, 1.5)), ArgumentError,
     "reshape: shape=(2, 1.5) on axis 1: must be an integer, got float; write whole numbers"),
    (lambda: sg.sum(X, axis=2), ArgumentError,
     "sum: axis=(2,): 2 is not an axis of an array with 2 axes; write integers from -2 to 1"),
    (lambda: sg.sum(X, axis=(0, -2)), ArgumentError, "sum: axis=(0, -2): names an axis twice; name each axis once"),
    (lambda: sg.mean(np.ones((2, 0)), axis=1), ShapeError,
     "mean: x=array of shape (2, 0) on axis 1: the mean of no cell is not a number; drop the empty input"),
    (lambda: sg.mean(np.array([1, 2])), ScalarError,
     "mean: x=int64 array of shape (2,): integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.log_softmax(np.array(1.0)), ShapeError,
     "log_softmax: x=array of shape (): has no last axis; give it an axis of classes"),
    (lambda: sg.log_softmax(np.array([Fraction(1)])), ScalarError,
     "log_softmax: x=object array of shape (1,): Fraction has no exp and no log; use float, Decimal, "
     "mpmath.mpf or flint.arb elements instead"),
    (lambda: sg.mse_loss(X, np.ones(3)), ShapeError,
     "mse_loss: target=array of shape (3,): must have shape (2, 3), as the prediction; reshape or broadcast it first"),
    (lambda: sg.mse_loss(X[:0], X[:0]), ShapeError,
     "mse_loss: prediction=array of shape (0, 3): the mean of no cell is not a number; drop the empty batch"),
    (lambda: sg.cross_entropy(X, np.array([0, 3])), ArgumentError,
     "cross_entropy: integer_labels=3: is not one of 3 classes; write labels from 0 to 2"),
    (lambda: sg.cross_entropy(X, np.array([0, -1])), ArgumentError,
     "cross_entropy: integer_labels=-1: is not one of 3 classes; write labels from 0 to 2"),
    (lambda: sg.cross_entropy(X, np.array([0.0, 1.0])), ScalarError,
     "cross_entropy: integer_labels=float64 array of shape (2,): must hold integers; cast first, e.g. "
     "x.astype(np.int64)"),
    (lambda: sg.cross_entropy(X, [0, 2**70]), ScalarError,
     "cross_entropy: integer_labels=[0, 1180591620717411303424]: holds an integer of more than 64 bits; "
     "write smaller ones"),
    (lambda: sg.cross_entropy(X, np.array([0])), ShapeError,
     "cross_entropy: integer_labels=array of shape (1,): must have shape (2,): one label per row of logits; "
     "give labels (*batch,)"),
    (lambda: sg.cross_entropy(np.array(1.0), np.array(0)), ShapeError,
     "cross_entropy: logits=array of shape (): has no axis of classes; give logits (*batch, classes)"),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(("call", "kind", "text"), MESSAGES, ids=[m[2][:50] for m in MESSAGES])
def test_message(call, kind, text, engine):
    """Messages are equal on all engines: the specification refuses calls that the CPU engine does
    not take."""
    order = {"cpu": ["cpu", "reference"], "reference": ["reference"]}[engine]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sg.dispatch, "ENGINES", {name: sg.dispatch.ENGINES[name] for name in order})
        with pytest.raises(kind) as caught:
            call()
    assert str(caught.value) == text


def test_sums_of_nothing_and_lists_of_labels():
    assert sg.sum(np.ones((0, 2))) == 0
    assert sg.sum(np.ones((0, 2)), 0).tolist() == [0, 0]
    assert sg.cross_entropy(X, [0, 2]) == pytest.approx(np.log(3))
    assert sg.cross_entropy(X, np.array([0, 2], np.uint8)) == pytest.approx(np.log(3))
    assert sg.cross_entropy(np.ones((2, 2, 3)), np.zeros((2, 2), int)) == pytest.approx(np.log(3))
