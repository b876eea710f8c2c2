"""VNN-LIB properties: both versions, with exact numbers; and refusals."""

from fractions import Fraction

import pytest

from specgrad import ModelError
from specgrad.bounds import vnnlib

FIRST = """; a comment (with parentheses
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (<= X_0 0.1))
(assert (>= X_0 -1e-2))
(assert (and (<= X_1 3) (>= X_1 .5)))
(assert (or (and (>= Y_0 Y_1)) (and (< (+ (* 2 Y_0) (- Y_1) 1) 4) (<= X_0 Y_1))))
"""

SECOND = """(vnnlib-version <2.0>)
(declare-network acc
  (declare-input X Real [1, 2])
  (declare-output Y Real [2]))
(assert (<= X[0,0] 0.1)) (assert (>= X [0,0] -1e-2))
(assert (<= X[0,1] 3)) (assert (>= X[0,1] .5))
(assert (or (>= Y[0] Y[1]) (and (< (+ (* 2 Y[0]) (- Y[1]) 1) 4) (<= X[0,0] Y[1]))))
"""


@pytest.mark.parametrize("text", [FIRST, SECOND])
def test_both_versions(text):
    found = vnnlib.parse(text)
    assert (found.inputs, found.outputs) == (2, 2)
    one, other = found.alternatives
    assert one.lower == other.lower == (Fraction(-1, 100), Fraction(1, 2))
    assert one.upper == (Fraction(1, 10), Fraction(3))
    assert one.constraints == (vnnlib.Constraint({("Y", 1): 1, ("Y", 0): -1}, Fraction(0)),)
    assert other.constraints[0] == vnnlib.Constraint({("Y", 0): 2, ("Y", 1): -1}, Fraction(3), True)
    assert other.constraints[1] == vnnlib.Constraint({("X", 0): 1, ("Y", 1): -1}, Fraction(0))
    x, y = (Fraction(1, 10), Fraction(1)), (Fraction(2), Fraction(1))
    assert not other.constraints[0].holds(x, y)  # 2·2 - 1 = 3 is not < 3
    assert other.constraints[1].holds(x, y)


def test_boxes_that_are_alternatives():
    text = FIRST.replace(
        "(assert (<= X_0 0.1))", "(assert (or (and (<= X_0 0.1)) (and (<= X_0 -0.005)) (and (<= X_0 -5))))"
    )
    found = vnnlib.parse(text)
    assert [a.upper[0] for a in found.alternatives] == [Fraction(1, 10)] * 2 + [Fraction(-1, 200)] * 2  # one is empty


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(assert", "never closed"),
        ("(assert))", "closes nothing"),
        ("assert", "is not a list"),
        ("(check-sat)", "is not a statement"),
        ("(declare-const Z_0 Real)", "is not X_i or Y_i"),
        (FIRST.replace("(assert (>= X_0 -1e-2))", ""), "X_0.*has no lower bound"),
        (FIRST.replace("(declare-const X_1 Real)", ""), "X_1.*is not declared"),
        (FIRST.replace("X_1", "X_7"), "do not number all X"),
        (FIRST.replace("(* 2 Y_0)", "(* Y_1 Y_0)"), "multiplies variables"),
        (FIRST.replace("(* 2 Y_0)", "(sin Y_0)"), "is not a linear expression"),
        (FIRST.replace("(<= X_0 0.1)", "(not (<= X_0 0.1))"), "is not and, or, or a comparison"),
        (SECOND.replace("X[0,1] 3", "X[0,2] 3"), "is not in X of shape"),
        ("(" * 200, "is nested deeper"),
        (FIRST + "(assert (or (<= Y_0 1) (<= Y_1 1)))" * 30, "have more than"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(ModelError, match=f"^vnnlib: .*{words}"):
        vnnlib.parse(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        vnnlib.read(tmp_path / "nothing.vnnlib")
