"""The tape: its rules, the gradients that it keeps, and refused calls, which leave it unchanged."""

import copy
import gc
import pickle
import weakref
from fractions import Fraction

import numpy as np
import pytest

import specgrad as sg
from specgrad import ArgumentError, Dual, ScalarError, ShapeError


def test_gradients_of_every_reached_value_and_of_nothing_else():
    tape = sg.Tape()
    x, w, idle = (
        tape.leaf(np.array(a), name) for a, name in (([1.0, -2.0], "x"), ([3.0, 4.0], "w"), ([1.0, 1.0], "idle"))
    )
    constant = tape.leaf(np.array([10.0, 10.0]), "constant", requires_grad=False)
    product = x * w
    unused = sg.relu(product)
    loss = sg.sum(product + constant)
    found = tape.backward(loss)
    assert {var.name for var in found} == {"x", "w", product.name, "add_6", loss.name}
    assert found[loss] == 1
    assert found[product].tolist() == [1, 1]
    assert (found[x].tolist(), found[w].tolist()) == ([3, 4], [1, -2])
    assert unused not in found
    assert idle not in found


def test_requires_grad_is_inherited_and_what_needs_none_is_skipped():
    tape = sg.Tape()
    x = tape.leaf(np.ones(2), requires_grad=False)
    w = tape.leaf(np.ones(2))
    assert not sg.relu(x).requires_grad
    assert (x * w).requires_grad
    assert not sg.detach(w).requires_grad
    assert tape.backward(sg.sum(x)) == {}
    assert list(tape.backward(sg.sum(x * w), np.array(2.0))[w]) == [2, 2]


def test_a_value_used_twice_accumulates_and_backward_can_be_repeated():
    tape = sg.Tape()
    x = tape.leaf(np.array([3.0]))
    y = x * x + x * x
    for _ in range(2):
        assert tape.backward(y)[x].tolist() == [12]
    assert tape.backward(y, np.array([0.5]))[x].tolist() == [6]


def test_backward_from_the_middle_sees_only_what_came_before():
    tape = sg.Tape()
    x = tape.leaf(np.array([1.0, 2.0]))
    middle = x * x
    sg.sum(middle * middle)
    assert tape.backward(middle, np.array([1.0, 10.0]))[x].tolist() == [2, 40]
    assert tape.backward(x, np.array([5.0, 6.0])) == {x: pytest.approx([5, 6])}


def test_numbers_and_arrays_meet_vars_on_either_side():
    tape = sg.Tape()
    x = tape.leaf(np.array([1.0, 2.0], np.float32))
    array = np.array([3.0, 4.0], np.float32)
    for y, value, slope in (
        (x + 1, [2, 3], 1), (1 + x, [2, 3], 1), (x - 1, [0, 1], 1), (1 - x, [0, -1], -1), (2 * x, [2, 4], 2),
        (x * 2, [2, 4], 2),
        (-x, [-1, -2], -1), (array + x, [4, 6], 1), (array - x, [2, 2], -1), (x - array, [-2, -2], 1),
    ):  # fmt: skip
        assert y.value.dtype == np.float32
        assert y.value.tolist() == value
        assert tape.backward(sg.sum(y))[x].tolist() == [slope, slope]
    assert tape.backward(sg.sum(array * x))[x].tolist() == [3, 4]
    assert repr(x) == "Var('leaf_0', array([1., 2.], dtype=float32))"


def test_over_fractions_it_is_exact_and_over_duals_it_gives_hessian_vector_products():
    tape = sg.Tape()
    x = tape.leaf(np.array([Fraction(1, 3), Fraction(2, 7)]))
    assert tape.backward(sg.sum(x * x * x))[x].tolist() == [Fraction(1, 3), Fraction(12, 49)]
    tape = sg.Tape()
    z = tape.leaf(Dual(np.array([2.0, 3.0]), np.array([1.0, 0.0])))
    gradient = tape.backward(sg.sum(z * z * z))[z]
    assert (gradient.primal.tolist(), gradient.tangent.tolist()) == ([12, 27], [12, 0])


def test_indices_come_with_a_recorded_maximum():
    tape = sg.Tape()
    x = tape.leaf(np.array([1.0, 5.0, 2.0]))
    y, at = sg.max_pool(x, (3,), return_indices=True)
    assert at.tolist() == [1]
    assert tape.backward(y)[x].tolist() == [0, 1, 0]


def test_a_tape_inside_a_transform_is_differentiated_too():
    def gradient(x):
        tape = sg.Tape()
        inside = tape.leaf(x)
        return tape.backward(sg.sum(inside * inside * x))[inside]

    assert sg.grad(lambda x: sg.sum(gradient(x)))(np.array([3.0])).tolist() == [12]


def refusals():
    tape, other = sg.Tape(), sg.Tape()
    x, y = tape.leaf(np.ones(3), "x"), other.leaf(np.ones(3), "y")
    graph = sg.Graph()
    z = graph.input("z", (3,))
    fraction = np.array([Fraction(1)] * 3)
    return tape, [
        (lambda: x * y, ArgumentError,
         "mul: x=Var 'x' of shape (3,): is of another tape than the tape that is recording; use Vars of one tape, "
         "and arrays"),
        (lambda: x + z, ArgumentError,
         "add: x=Var 'x' of shape (3,): is of another tape than the graph that is recording; use Vars of one graph, "
         "and arrays"),
        (lambda: tape.backward(y), ArgumentError,
         "backward: var=Var 'y' of shape (3,): is not a Var of this tape; call backward on the tape that made it"),
        (lambda: tape.backward(np.ones(1)), ArgumentError,
         "backward: var=float64 array of shape (1,): is not a Var of this tape; call backward on the tape that made "
         "it"),
        (lambda: tape.backward(x), ShapeError,
         "backward: output=Var 'x' of shape (3,): is not one cell, so it needs a seed; give a seed of that shape, "
         "or sum the cells"),
        (lambda: tape.backward(x, np.ones(2)), ShapeError,
         "backward: seed=float64 array of shape (2,): must have shape (3,); reshape or broadcast it first"),
        (lambda: tape.backward(x, fraction), ScalarError,
         "backward: seed=object array of shape (3,): Fraction does not mix with float64; "
         "convert all operands to one scalar type first"),
        (lambda: tape.leaf(x), ArgumentError,
         "leaf: value=Var 'x' of shape (3,): is on this tape already; use the Var itself, or detach it"),
        (lambda: tape.leaf(y), ArgumentError,
         "leaf: value=Var 'y' of shape (3,): is of another tape than the tape that is recording; "
         "use Vars of one tape, and arrays"),
        (lambda: tape.leaf("abc"), ScalarError,
         "leaf: value='abc': str is not an array specgrad takes; give a NumPy array"),
        (lambda: tape.leaf(np.ones(2), name=3), ArgumentError,
         "leaf: name=3: is not a word; write a string, or leave it out"),
        (lambda: tape.leaf(np.ones(2), requires_grad="yes"), ArgumentError,
         "leaf: requires_grad='yes': must be a bool; write True or False"),
        (lambda: x * np.ones(4), ShapeError,
         "mul: y=array of shape (4,): does not broadcast with x of shape (3,); make each pair of lengths, "
         "counted from the last axis, equal or 1"),
        (lambda: x * fraction, ScalarError,
         "mul: y=object array of shape (3,): Fraction does not mix with float64; convert all operands to one scalar "
         "type first"),
        (lambda: sg.max_pool(x, (4,)), ShapeError,
         "max_pool: kernel_size=(4,) on axis 0: the kernel spans 4 cells but the padded input has 3; "
         "use a smaller kernel or dilation, or more padding"),
        (lambda: sg.smooth_max_pool(x, (2,), beta=float("inf")), ArgumentError,
         "smooth_max_pool: beta=inf: must be a finite real number other than 0; write a positive number for a smooth "
         "maximum, a negative one for a smooth minimum"),
        (lambda: sg.max_pool(x, (2,), out=np.zeros(1)), ArgumentError,
         "max_pool: out=float64 array of shape (1,): a recorded value is not written into an array; leave it out"),
        (lambda: bool(x), ArgumentError,
         "Var: name='x': a recorded value has no truth value; select with where(x > y, …), or compare its value"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(refusals()[1])))
def test_bad_calls_say_so_and_leave_the_tape_as_it_was(number):
    tape, cases = refusals()
    call, kind, text = cases[number]
    before = list(tape.nodes)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert tape.nodes == before
    x = before[0].var()
    assert tape.backward(sg.sum(x * x))[x].tolist() == [2, 2, 2]


def test_numpy_does_not_take_a_var_apart():
    x = sg.Tape().leaf(np.ones(3))
    for call in (list, tuple, np.asarray, np.array):
        with pytest.raises(ArgumentError, match=r"recorded value|not an array of NumPy"):
            call(x)
    assert len(x) == 3
    with pytest.raises(TypeError, match="without an axis"):
        len(sg.sum(x))


def test_contributions_that_overflow_are_infinite_without_a_word():
    x = np.full(2, 1e308)
    assert sg.grad(lambda z: sg.sum(z * x + z * x))(x).tolist() == [np.inf, np.inf]


def test_tapes_and_levels_are_freed_without_a_search_for_cycles():
    levels = []

    def loss(x):
        levels.append(weakref.ref(x.level))
        return sg.sum(sg.relu(x) * x)

    gc.collect()
    gc.disable()
    try:
        tape = sg.Tape()
        x = tape.leaf(np.ones(3))
        tape.backward(loss(x))
        del tape, x
        sg.grad(loss)(np.ones(3))
        sg.jvp(loss, (np.ones(3),), (np.ones(3),))
        sg.grad(lambda x: sg.sum(sg.grad(loss)(x)))(np.ones(3))
        assert [level() for level in levels] == [None] * 4
    finally:
        gc.enable()


def test_gradients_of_values_that_nobody_holds_are_among_the_results():
    tape = sg.Tape()
    found = tape.backward(sg.sum(sg.relu(tape.leaf(np.array([1.0, -2.0]), name="x"))))
    assert {var.name: gradient.tolist() for var, gradient in found.items()} == {
        "x": [1.0, 0.0],
        "relu_1": [1.0, 1.0],
        "sum_2": 1.0,
    }


def test_a_copy_of_a_recorded_value_is_recorded():
    x = np.array([1.0, 2.0])
    for copied in (copy.copy, copy.deepcopy):
        assert sg.grad(lambda p, copied=copied: sg.sum(copied(p)["w"] ** 2))({"w": x})["w"].tolist() == [2.0, 4.0]
        assert sg.jvp(lambda p, copied=copied: copied(p) ** 2, (x,), (x,))[1].tolist() == [2.0, 8.0]
        assert sg.trace(lambda p, copied=copied: copied(p) * 2, x)(x).tolist() == [2.0, 4.0]
    with pytest.raises(sg.SpecgradError, match="a recorded value is not pickled"):
        sg.grad(lambda p: sg.sum(pickle.loads(pickle.dumps(p))))(x)
