"""Random networks of all operators: tape, transforms, graph, program and plain calls agree exactly, and PyTorch agrees in floats."""

from fractions import Fraction

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from networks import Torch, networks

import specgrad as sg
from specgrad.conformance.claims import inner
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
@settings(max_examples=50)
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
    assert dy == sum(map(inner, tangents, gradients))  # ⟨JVP(dx), 1⟩ = ⟨dx, VJP(1)⟩
    assert dy == net(*(sg.Dual(x, t) for x, t in zip(arrays, tangents, strict=True))).tangent


@given(networks(exact=True))
@settings(max_examples=30)
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
    agree(
        forward_over_reverse, transform.jvp(transform.vjp(graph)).forward(*arrays, one, *along, 0 * one)[len(arrays) :]
    )
    compiled = twice.compile(object, engine="reference")(*arrays, one, *along)[: len(arrays)]
    agree(forward_over_reverse, compiled)
    curved = sg.jvp(lambda *xs: sg.jvp(net, xs, along)[1], arrays, along)[1]
    assert curved == sum(map(inner, along, forward_over_reverse))


def tensors(arrays):
    return [torch.tensor(np.asarray(a, dtype=float), dtype=torch.float64, requires_grad=True) for a in arrays]


@given(networks(exact=False))
@settings(max_examples=50)
def test_gradients_equal_pytorch_within_the_enclosure_of_rounding(net):
    """Run over balls of 53 bits the tape encloses the exact gradient, and every rounding of the same operations.

    A ball's radius bounds the rounding errors of the stated order of summation; PyTorch's order, and that of a fast engine, may
    lose more, by no more than the number of terms: some 64 here.
    """
    arrays = net.fill(lambda n: n / 16 + n % 3 * 1e-3)
    balls = [np.frompyfunc(flint.arb, 1, 1)(a) for a in arrays]
    value, gradients = taped(net, arrays)
    enclosed = taped(net, balls)
    inputs = tensors(arrays)
    loss = net.run(Torch, *inputs)
    expected = torch.autograd.grad(loss, inputs, allow_unused=True)
    _, compiled = sg.trace(net, *arrays).compile(np.float64).value_and_grad(*arrays)
    results = [(value, enclosed[0], loss.detach()), *zip(gradients, enclosed[1], expected, strict=True)]
    for got, ball, wanted in results:
        wanted = np.zeros(np.shape(got)) if wanted is None else wanted.numpy()
        assert np.shape(got) == wanted.shape
        for g, b, w in zip(np.ravel(got), np.ravel(ball), wanted.ravel(), strict=True):
            middle, radius = float(b.mid()), float(b.rad())
            for result in (g, w):
                assert abs(result - middle) <= 64 * radius + 1e-300
    agree(gradients, compiled)


@given(networks(exact=False))
@settings(max_examples=40)
def test_hessian_vector_products_equal_pytorch(net):
    arrays = net.fill(lambda n: n / 16 + n % 3 * 1e-3)
    along = net.fill(lambda n: n / 40, seed=1)
    everything = tuple(range(len(arrays)))
    got = sg.jvp(lambda *xs: sg.grad(net, everything)(*xs), arrays, along)[1]
    inputs = tensors(arrays)
    gradients = torch.autograd.grad(net.run(Torch, *inputs), inputs, create_graph=True, allow_unused=True)
    pairs = [(g, torch.tensor(v)) for g, v in zip(gradients, along, strict=True) if g is not None and g.requires_grad]
    total = sum((g * v).sum() for g, v in pairs) if pairs else None
    expected = [None] * len(inputs) if total is None else torch.autograd.grad(total, inputs, allow_unused=True)
    scale = max([1.0, *(float(g.detach().abs().max()) for g in gradients if g is not None and g.numel())])
    for h, wanted in zip(got, expected, strict=True):
        wanted = np.zeros(h.shape) if wanted is None else wanted.numpy()
        largest = max(scale, float(np.abs(wanted).max(initial=0)))
        assert h == pytest.approx(wanted, rel=1e-9, abs=1e-11 * largest)
    graph = sg.trace(sg.grad(net, everything), *arrays)
    _, pushed = graph.jvp(arrays, along)
    for h, again in zip(got, pushed if len(everything) > 1 else [pushed], strict=True):
        assert h == pytest.approx(again, rel=1e-9, abs=1e-11 * scale)
