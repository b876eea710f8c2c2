"""Random networks of all operators: tape, transforms, graph, program and plain calls agree exactly,
and PyTorch agrees in floats."""

from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples
from networks import Torch, networks
from rounding import Rounded, allowed, long_numbers

import specgrad as sg
from specgrad.conformance.statements import inner
from specgrad.graph import transform


def half(n):
    return Fraction(n, 8)


def taped(net, arrays, seed=None):
    tape = sg.Tape()
    leaves = [tape.leaf(a) for a in arrays]
    y = net(*leaves)
    found = tape.backward(y, seed)
    return y.value, [found[leaf] if leaf in found else 0 * leaf.value for leaf in leaves]


def agree(some, others):
    assert len(some) == len(others)
    for a, b in zip(some, others, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.array_equal(np.asarray(a), np.asarray(b))


@given(networks(exact=True))
@settings(max_examples=examples(30))
def test_all_layers_agree_exactly_over_fractions(net):
    arrays = net.fill(half)
    tangents = net.fill(half, seed=1)
    everything = tuple(range(len(arrays)))
    value = net(*arrays)
    taped_value, gradients = taped(net, arrays)
    graph = sg.trace(net, *arrays)
    program = graph.compile(object, engine="reference")
    again, compiled = program.value_and_grad(*arrays)
    assert value == taped_value == graph.forward(*arrays) == program(*arrays) == again
    agree(gradients, sg.grad(net, everything)(*arrays))
    agree(gradients, graph.vjp(arrays, np.array(Fraction(1))))
    agree(gradients, compiled)
    y, dy = sg.jvp(net, arrays, tangents)
    assert y == value
    assert (y, dy) == graph.jvp(arrays, tangents)
    assert (y, dy) == transform.jvp(graph).compile(object, engine="reference")(*arrays, *tangents)
    assert dy == sum(map(inner, tangents, gradients))  # ⟨JVP(dx), 1⟩ = ⟨dx, VJP(1)⟩
    assert dy == net(*(sg.Dual(x, t) for x, t in zip(arrays, tangents, strict=True))).tangent


@given(networks(exact=True))
@settings(max_examples=examples(20))
def test_second_order_agrees_in_every_nesting_over_fractions(net):
    arrays, along = net.fill(half), net.fill(half, seed=1)
    everything = tuple(range(len(arrays)))
    gradient = sg.grad(net, everything)

    def paired(*xs):
        total = np.array(Fraction(0))
        for g, v in zip(gradient(*xs), along, strict=True):
            total = sg.add(total, sg.sum(sg.mul(g, v)))
        return total

    forward_over_reverse = sg.jvp(lambda *xs: gradient(*xs), arrays, along)[1]
    agree(forward_over_reverse, sg.grad(paired, everything)(*arrays))
    agree(forward_over_reverse, sg.grad(lambda *xs: sg.jvp(net, xs, along)[1], everything)(*arrays))
    agree(
        forward_over_reverse,
        [g.tangent for g in taped(net, [sg.Dual(x, v) for x, v in zip(arrays, along, strict=True)])[1]],
    )
    graph = sg.trace(net, *arrays)
    one = np.array(Fraction(1))
    twice = transform.vjp(transform.vjp(graph))
    agree(forward_over_reverse, twice.forward(*arrays, one, *along)[: len(arrays)])
    compiled = twice.compile(object, engine="reference")(*arrays, one, *along)[: len(arrays)]
    agree(forward_over_reverse, compiled)
    pushed = transform.jvp(transform.vjp(graph))
    for run in (pushed.forward, pushed.compile(object, engine="reference")):
        agree(forward_over_reverse, run(*arrays, one, *along, 0 * one)[len(arrays) :])
    curved = sg.jvp(lambda *xs: sg.jvp(net, xs, along)[1], arrays, along)[1]
    assert curved == sum(map(inner, along, forward_over_reverse))


def tensors(arrays):
    return [torch.tensor(np.asarray(a, dtype=float), dtype=torch.float64, requires_grad=True) for a in arrays]


def rounded(arrays):
    return [np.frompyfunc(lambda x: Rounded(float(x)), 1, 1)(a) for a in arrays]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=12), st.floats(-1e3, 1e3), st.randoms())
def test_the_bound_holds_for_every_order_and_grouping_and_is_no_larger_than_it_must_be(terms, factor, random):
    terms = [t / 3 for t in terms]
    with long_numbers():
        bound = sum(map(Rounded, terms), Rounded(0)) * factor
        random.shuffle(terms)
        assert bound.allows(sum(terms) * factor)
        assert bound.allows(sum(t * factor for t in terms))
        size = sum(abs(t * factor) for t in terms)
        assert bound.closed().e <= (len(terms) + 5) * 2**-53 * size * (1 + 1e-9)
        assert size < 1e-290 or not bound.allows(sum(terms) * factor + (2 * len(terms) + 10) * 2**-53 * size)


@given(networks(exact=False))
@settings(max_examples=examples(30))
def test_gradients_equal_pytorch_within_the_derived_bound(net):
    """The network runs over numbers that carry the error bound of any order of float64 operations:
    see `rounding`."""
    arrays = net.fill(lambda n: n / 16 + n % 3 * 1e-3)
    with long_numbers():
        bound, bounds = taped(net, rounded(arrays))
        value, gradients = taped(net, arrays)
        inputs = tensors(arrays)
        loss = net.run(Torch, *inputs)
        expected = torch.autograd.grad(loss, inputs, allow_unused=True)
        allowed(bound, value, loss.detach())
        for b, got, wanted in zip(bounds, gradients, expected, strict=True):
            allowed(b, got, wanted)
    graph, along = sg.trace(net, *arrays), net.fill(lambda n: n / 40, seed=1)
    _, compiled = graph.compile(np.float64).value_and_grad(*arrays)
    agree(gradients, compiled)
    agree(sg.jvp(net, arrays, along), transform.jvp(graph).compile(np.float64)(*arrays, *along))


@given(networks(exact=False))
@settings(max_examples=examples(25))
def test_hessian_vector_products_equal_pytorch_within_the_derived_bound(net):
    """Magnitudes ignore cancellation, so the bound of forward over reverse also holds for reverse
    over reverse."""
    arrays = net.fill(lambda n: n / 16 + n % 3 * 1e-3)
    along = net.fill(lambda n: n / 40, seed=1)
    everything = tuple(range(len(arrays)))

    def product(xs, vs):
        return sg.jvp(lambda *xs: sg.grad(net, everything)(*xs), xs, vs)[1]

    inputs = tensors(arrays)
    gradients = torch.autograd.grad(net.run(Torch, *inputs), inputs, create_graph=True, allow_unused=True)
    pairs = [(g, torch.tensor(v)) for g, v in zip(gradients, along, strict=True) if g is not None and g.requires_grad]
    total = sum((g * v).sum() for g, v in pairs) if pairs else None
    expected = [None] * len(inputs) if total is None else torch.autograd.grad(total, inputs, allow_unused=True)
    graph = sg.trace(sg.grad(net, everything), *arrays)
    _, pushed = graph.jvp(arrays, along)
    got = product(arrays, along)
    with long_numbers():
        bounds = product(rounded(arrays), rounded(along))
        for b, h, again, wanted in zip(bounds, got, pushed if len(everything) > 1 else [pushed], expected, strict=True):
            allowed(b, h, again, wanted)
