"""Bounds: no input exceeds them; unsound relaxations are detected; refusals."""

from fractions import Fraction

import numpy as np
import pytest
from bounded_networks import Network
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import effort, examples

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError
from specgrad.bounds import curves, linear, maximum, relax
from specgrad.bounds.affine import Affine, Box, Relaxation
from specgrad.conformance.cases import STRATEGIES

NETWORKS, SAMPLES = effort(50, 304), effort(1000, 3300)  # a million inputs if tests are thorough


def exactly(x):
    return np.array([*map(Fraction, np.ravel(x).tolist()), None], object)[:-1].reshape(np.shape(x))


def outside(form, x, y, sign):
    """Whether an affine form is on the wrong side of the values y at inputs x, by more than the
    form's rounding error."""
    rows, inputs = form.coefficients[0].reshape(len(form.constant), -1), x.reshape(len(x), -1)
    cost = (inputs.shape[1] + 3) * 2.0**-53 * 1.01 * (np.abs(inputs) @ np.abs(rows.T) + np.abs(form.constant))
    return (sign * (inputs @ rows.T + form.constant - y.reshape(len(x), -1)) > cost + 1e-300).any()


def broken(network, samples=SAMPLES, methods=("crown", "ibp")):
    """The methods whose bounds some input of this network exceeds: in floats by more than rounding,
    in rationals at all."""
    x = network.samples(samples)
    values, found = network(x), set()
    for method in methods:
        held = sg.bounds(network, (network.lower, network.upper), method=method, covers="float64")
        if not ((held.lower <= values) & (values <= held.upper)).all():
            found.add(method)
        if held.below is not None and (outside(held.below, x, values, 1) or outside(held.above, x, values, -1)):
            found.add("forms")
    if network.exact:
        corners = exactly(network.samples(4))
        exact = sg.trace(network, corners.shape).forward(corners)
        for method in ("crown", "ibp", "zonotope"):
            held = sg.bounds(network, (network.lower, network.upper), method=method)
            if not ((exactly(held.lower) <= exact) & (exact <= exactly(held.upper))).all():
                found.add(method)
    return found


@pytest.mark.parametrize("part", range(2))
def test_no_input_breaks_a_bound(part):
    for seed in range(part, NETWORKS, 2):
        assert not broken(Network(seed)), seed


def test_no_input_breaks_a_bound_whose_forms_are_chosen():
    for seed in range(NETWORKS, NETWORKS + effort(10, 40)):
        assert not broken(Network(seed), 1000, ("alpha",)), seed


def without_the_greatest(x):
    return sg.sum(x) - sg.sum(sg.max_pool(x, (3,)))


CHOSEN = {
    # a function on the box [-1, 1] -> its least value, and the bound by fixed forms
    "slopes of relus": (lambda x: sg.sum(sg.relu(x) - 0.5 * x), 0, -1.5),
    "means of cells": (lambda x: sg.sum(sg.max_pool(x, (3,))) - sg.sum(x) * Fraction(1, 3), 0, -1.3),
    "floors of maxima": (without_the_greatest, -2, -3),
    "floors behind relus": (lambda x: without_the_greatest(sg.relu(x)), 0, -1),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_forms_are_closer(name):
    """Optimised forms are nearly exact here, unlike any fixed form."""
    function, least, fixed = CHOSEN[name]
    box = -np.ones(3), np.ones(3)
    crown, alpha = (sg.bounds(function, box, method=method).lower.item() for method in ("crown", "alpha"))
    assert crown <= fixed + 1e-9
    assert least - 0.05 < alpha <= least


def floor_without_its_cells(patch):
    """A plane above a maximum with a slope in one cell only."""
    sound = maximum.Pool.slopes

    def slopes(self, floor, without=False):
        slope, top = sound(self, floor, without)
        return slope * (np.arange(slope.shape[1])[:, None] == 0), top

    patch.setattr(maximum.Pool, "slopes", slopes)


def weights_of_more_than_a_mean(patch):
    sound = maximum.Pool.projected
    patch.setattr(maximum.Pool, "projected", lambda self, mean, grid: sound(self, mean, grid) * (1.25 if grid else 1))


UNSOUND_CHOICES = [floor_without_its_cells, weights_of_more_than_a_mean]


@pytest.mark.parametrize("fault", UNSOUND_CHOICES)
def test_unsound_choices_are_caught(fault, monkeypatch):
    fault(monkeypatch)
    assert any(broken(Network(seed), 200, ("alpha",)) for seed in range(60))


def padding_is_zero(patch):
    """A fault of another library: padding is a cell of value 0 in a maximum."""
    sound = maximum.relax

    def relaxed(taps, boxes):
        relaxation, image = sound(taps, boxes)
        padded = ~taps.real.all(axis=0)
        return relaxation, Box(np.where(padded, np.maximum(image.lower, 0), image.lower), image.upper)

    patch.setattr(maximum, "relax", relaxed)


def average_counts_padding(patch):
    """A fault of another library: count_include_pad=False is bounded as True."""
    sound = linear.linear

    def wrong(op, boxes, varying):
        if getattr(op, "count_include_pad", True) is False:
            op = sg.AvgPool(
                op.kernel_size, stride=op.stride, padding=op.padding, dilation=op.dilation, ceil_mode=op.ceil_mode
            )
        return sound(op, boxes, varying)

    patch.setattr(linear, "linear", wrong)


def slope_of_the_wrong_tap(patch):
    """The chord of a maximum is on the first tap instead of the tap with the greatest upper
    bound."""
    patch.setattr(maximum, "chord", lambda low, high, rest: (np.ones(low.shape), np.zeros(low.shape)))


def relu_without_constant(patch):
    sound = curves.relu

    def lines(box, alpha=None):
        low, high = sound(box, alpha)
        return curves.Lines(low, curves.Line(high.slope, 0 * high.constant))

    patch.setattr(curves, "relu", lines)


def bias_is_forgotten(patch):
    sound = linear.linear
    patch.setattr(linear, "linear", lambda *given: Affine(sound(*given).rows, 0 * sound(*given).constant))


def forms_are_swapped(patch):
    sound = maximum.relax

    def relaxed(taps, boxes):
        relaxation, image = sound(taps, boxes)
        return Relaxation(relaxation.above, relaxation.below), image

    patch.setattr(maximum, "relax", relaxed)


def plane_is_unpadded(patch):
    """A maximum reads the plane's first cell instead of padding."""
    sound = relax.window_taps
    patch.setattr(relax, "window_taps", lambda op, boxes, mask="exists": sound(op, boxes, "exists"))


FAULTS = [
    padding_is_zero,
    plane_is_unpadded,
    average_counts_padding,
    slope_of_the_wrong_tap,
    relu_without_constant,
    bias_is_forgotten,
    forms_are_swapped,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_unsound_relaxations_are_caught(fault, monkeypatch):
    fault(monkeypatch)
    assert any(broken(Network(seed), 200) for seed in range(60))


def test_both_faults_of_another_library():
    """Padded maxima, and averages that do not count padding, on inputs that show that library's
    faults."""
    x = np.array([[-1.0, -2.0], [-3.0, -4.0]])
    found = sg.bounds(lambda x: sg.max_pool(x, (2, 2), stride=2, padding=1), (x - 0.1, x + 0.1))
    assert (found.lower <= x).all()
    assert np.allclose(found.upper, x + 0.1, rtol=1e-15)
    found = sg.bounds(lambda x: sg.avg_pool(x, (2, 2), padding=1, count_include_pad=False), (x, x))
    assert np.array_equal(found.lower, x)


def test_single_operators_are_as_close_as_can_be():
    box = np.array([-1.0, 2.0, -3.0]), np.array([1.0, 3.0, -2.0])
    for method in ("crown", "ibp"):
        found = sg.bounds(sg.relu, box, method=method)
        assert np.allclose([found.lower, found.upper], [[0, 2, 0], [1, 3, 0]], atol=1e-15)
    found = sg.bounds(lambda x: sg.sub(x, x), box)  # shared parts of two branches are recognised
    assert np.allclose([found.lower, found.upper], 0, atol=1e-15)
    found = sg.bounds(lambda x: x * x, (np.array([1.0]), np.array([2.0])))
    assert np.allclose([found.lower, found.upper], [[1], [4]], atol=1e-14)
    found = sg.bounds(lambda x: 1 / (x * x + 1), (np.array([-3.0]), np.array([3.0])))
    assert np.allclose([found.lower, found.upper], [[0.1], [1]], atol=1e-14)


def test_rows_are_closer_than_cells():
    weight = np.array([[1.0, 1.0], [1.0, -1.0]])
    box = -np.ones(2), np.ones(2)
    network = lambda x: sg.linear(sg.relu(x), weight)  # noqa: E731
    cells, rows = sg.bounds(network, box), sg.bounds(network, box, of=[[1, 1]])
    assert rows.upper[0] < cells.upper.sum()
    assert rows.lower[0] > cells.lower.sum()


def test_several_inputs():
    found = sg.bounds(lambda x, y: x * y, ((np.array(-1.0), np.array(2.0)), (np.array(1.0), np.array(3.0))))
    assert np.allclose([found.lower, found.upper], [-3, 3], atol=1e-14)


def test_float32_costs_little_and_covers_every_order():
    """The float32 values of such sums depend on the order; the slack is a small part of the
    margin."""
    random = np.random.default_rng(0)
    weight = random.normal(size=(1, 200)).astype(np.float32)
    x = random.normal(size=200).astype(np.float32)
    found = sg.bounds(lambda x: sg.linear(x, weight), (x, x), covers="float32")
    products = weight[0] * x
    orders = [float(np.add.reduce(random.permutation(products))) for _ in range(50)]
    assert len(set(orders)) > 1
    assert found.lower <= min(orders)
    assert max(orders) <= found.upper
    assert found.upper - found.lower < 1e-2
    real = sg.bounds(lambda x: sg.linear(x, weight), (x, x))
    exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(weight[0], x, strict=True))
    assert Fraction(real.lower.item()) <= exact <= Fraction(real.upper.item())


def test_float32_covers_the_worst_order():
    """1 plus numbers that are each just too small to change it: all are lost, the largest possible
    error of n additions. The bound is not much larger."""
    for count in (9, 72, 1000):
        x = np.array([1.0, *[2.0**-24 * 0.999] * count], np.float32)
        weight = np.ones((1, x.size), np.float32)
        found = sg.bounds(lambda x, weight=weight: sg.linear(x, weight), (x, x), covers="float32")
        total = np.float32(0)
        for term in x:
            total = np.float32(total + term)
        assert total == 1
        exact = np.float64(x).sum()
        assert found.lower <= 1
        assert exact - found.lower < 1.02 * (exact - 1)
    # nearly equal cells: rounding does not select another row
    box = np.array([1.0, 1 + 1e-9, 0.0]), np.array([2.0, 2.0, 3.0 - 1e-9])
    found = sg.bounds(lambda x: sg.max_pool(x, (3,)), box)
    assert np.array_equal(found.below.coefficients[0], [[1, 0, 0]])
    # a weight that no float32 holds, times a large cell
    found = sg.bounds(lambda x: sg.scale(x, 1e-46), (np.full(1, 1e20), np.full(1, 1e20)), covers="float32")
    assert found.lower <= 0 <= 1e-26 <= found.upper


LARGE = {
    # a function, and the ends of a box on which some number of its float32 computation is infinite
    "cancelled": (lambda x: 3e10 - sg.relu(x * 1e30) * 1e-30, 1e10, 2e10),
    "nan": (lambda x: 1 - sg.relu(x * 1e30) * 1e-50, 1e10, 2e10),
    "sum of an average": (lambda x: sg.avg_pool(sg.concatenate([x] * 6), (18,)), 4e37, 5e37),
    "partial sum": (lambda x: sg.linear(x, np.array([[1.0, 1.0, -1.0]])), 3e38, 3.3e38),
    "product": (lambda x: x * sg.relu(x), 1e18, 2e19),
    "products": (lambda x: sg.linear(sg.concatenate([x, -x]), sg.reshape(sg.concatenate([x, x]), (1, 6))), 1e19, 1e19),
    "exp": (sg.exp, 99, 100),
    "cube": (lambda x: sg.gelu(x, approximate="tanh"), 1e13, 1e13),
    "beta": (lambda x: sg.smooth_max_pool(x, (3,), beta=1e39), 0, 1e-30),
    "over beta": (lambda x: sg.smooth_max_pool(x, (1,), beta=1e-39), 0, 1e-30),
    "difference": (lambda x: sg.smooth_max_pool(x, (3,), beta=1e-37), -2e38, 2e38),
    "difference of logits": (sg.log_softmax, -3e38, 3e38),
    "input": (sg.relu, 0, 3.5e38),
    "constant": (lambda x: sg.maximum(x, np.full(3, -1e39)), 0, 1),
    "weight": (lambda x: x * 1e39, 0, 1e-20),
    "divisor 0": (lambda x: x / 1e-50, 1e-30, 1e-30),
    "divisor not normal": (lambda x: x / np.full(3, 5e-39), 1e-9, 1e-9),
    "divisor infinite": (lambda x: x / 1e39, 1e30, 1e30),
}
FINITE = {
    "far sums": (lambda x: sg.avg_pool(x, (2,)), 2e37, 2.1e37),
    "largest": (lambda x: 0 - sg.relu(sg.abs(x)), -3.4e38, 3.4e38),
    "scaled": (lambda x: x * 1e-20, 1e30, 2e30),
    "large exp": (sg.exp, 87, 88),
    "logistic": (sg.sigmoid, -89, -89),  # 0, since the exponential is infinite
    "silu": (sg.silu, -120, -89),
}


@pytest.mark.parametrize("name", [*LARGE, *FINITE])
@pytest.mark.filterwarnings("error")
def test_float32_covers_overflow(name):
    """Where a number may overflow nothing is bounded; elsewhere float32 results are inside of
    finite bounds, up to the greatest numbers."""
    function, low, high = {**LARGE, **FINITE}[name]
    box = np.full(3, float(low)), np.full(3, float(high))
    rows = np.ones((1, sg.trace(function, (3,)).forward(np.ones(3)).size))
    for method in ("crown", "ibp", "alpha"):
        for of in (None, rows):
            found = sg.bounds(function, box, method=method, of=of, covers="float32")
            if name in LARGE:
                assert (found.lower == -np.inf).all(), method
                assert (found.upper == np.inf).all(), method
            else:
                assert np.isfinite([found.lower, found.upper]).all(), method
    if name in FINITE:
        found = sg.bounds(function, box, covers="float32")
        for end in box:
            with np.errstate(over="ignore"):
                value = function(np.float32(end))
            assert value.dtype == np.float32
            assert ((found.lower <= value) & (value <= found.upper)).all()


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_floats_are_unbounded():
    """Also where the function of real numbers is finite: never NaN, and without warnings."""
    box = np.array([1e10]), np.array([2e10])
    for function in (lambda x: x * 1e300 * 1e-300, lambda x: sg.exp(x) - sg.exp(x), lambda x: 0 * (x * 1e300 * x)):
        for method in ("crown", "alpha", "ibp", "zonotope"):
            for of in (None, [[2.0]]):
                found = sg.bounds(function, box, method=method, of=of)
                assert np.array_equal([found.lower, found.upper], [[-np.inf], [np.inf]])
        assert sg.bounds(function, box, covers="float64").upper == np.inf
    # no value is beyond floats, but a sum of rows is; and a product of weights, found backwards
    for method in ("crown", "alpha", "ibp", "zonotope"):
        found = sg.bounds(lambda x: x * 1e290, box, method=method, of=[[1e10]])
        assert (found.lower, found.upper) == (-np.inf, np.inf), method
        found = sg.bounds(lambda x: (x * 1e-300) * 1e200 * 1e200, box, method=method)
        assert found.lower <= 1e110
        assert found.upper >= 2e110
    assert sg.lipschitz(lambda x: x * 1e300 * 1e-300, box) == np.inf


def moved_quotient(x, c):
    """x / (c, c), where an operator of the graph concatenates both."""
    constant = x.level.constant if hasattr(x, "level") else np.asarray
    return x / sg.concatenate([constant(np.array([c])), constant(np.array([c]))])


MOVED = {
    "maximum": lambda x, c: sg.maximum(x, c),
    "minimum of an array": lambda x, c: sg.minimum(x, np.array([c, c])),
    "padding": lambda x, c: sg.pad(x, ((1, 1),), value=c),
    "concatenation": lambda x, c: sg.max_pool(sg.concatenate([x, np.array([c])]), (2,), stride=1),
    "selection": lambda x, c: sg.where(x > c, x, c),
    "selection of constants": lambda x, c: sg.where(np.array([True, False]), x, c),
    "quotient": lambda x, c: sg.maximum(x, c) / np.array([c]),
    "quotient by moved constants": moved_quotient,
}
"""Functions of a constant c that is moved, or compared, without arithmetic."""


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("c", [0.1, 0.3, -0.7, 1e-50])
def test_constants_that_are_moved_are_covered_as_written_and_in_float32(name, c):
    if c == 1e-50 and "quotient" in name:
        return  # by 0, in float32
    graph, narrow = (sg.trace(lambda x, held=held: MOVED[name](x, held), (2,)) for held in (c, np.float32(c)))
    for x in np.float32([[c, c], [-0.8, -0.8], [0.4, 0.4]]):
        single, exact = narrow.compile(np.float32), exactly(x)
        for method in ("ibp", "crown", "alpha"):
            held = sg.bounds(graph, (x - 1e-8, x + 1e-8), method=method, covers="float32")
            for value in (graph.forward(exact), exactly(single(x))):
                assert ((exactly(held.lower) <= value) & (value <= exactly(held.upper))).all(), method
            assert (held.upper - held.lower < 1e-4).all()


def test_a_padding_that_no_float_is():
    for method in ("ibp", "crown", "zonotope"):
        held = sg.bounds(lambda x: sg.pad(x, ((0, 1),), value=Fraction(1, 3)), (np.ones(1), np.ones(1)), method=method)
        assert Fraction(held.lower[1]) < Fraction(1, 3) < Fraction(held.upper[1])


SHRINK = 1e-200
SHRUNK = {
    "weights": lambda x: x * SHRINK * SHRINK,
    "matrices": lambda x: sg.matmul(sg.matmul(x, SHRINK * np.ones((2, 1))), SHRINK * np.ones((1, 2))),
    "relus": lambda x: sg.relu(sg.relu(x * SHRINK) * SHRINK - sg.relu(-x * SHRINK) * SHRINK) * 1e100,
    "maxima": lambda x: sg.max_pool(sg.max_pool(x * SHRINK, (2,), padding=1) * SHRINK, (2,), stride=1),
    "a factor": lambda x: sg.scale(x, Fraction(1, 3) / 2**1072),
    "a factor of 0": lambda x: sg.scale(x, Fraction(1, 2**1080)),
    "a divisor": lambda x: x / np.array([1.7e308, 1.3e308]),
    "slopes": lambda x: (x * 1e-147) ** -1,
}
"""Functions whose weights underflow in floats, where values do not."""


@pytest.mark.parametrize("name", SHRUNK)
def test_weights_that_underflow_are_bounded(name):
    function = SHRUNK[name]
    for low, high in [(1e307, 1e307), (1e307, 1.00001e307), (-1.1e307, -1e307), (-1e307, 1.5e307)]:
        if name == "slopes" and low < 0 < high:
            continue
        ends = np.array([low, low]), np.array([high, high])
        graph = sg.trace(function, (2,))
        x = exactly(ends[0]) + (exactly(ends[1]) - exactly(ends[0])) * np.array([[Fraction(k, 7)] for k in range(8)])
        y = np.array([graph.forward(cells) for cells in x])
        for method in ("ibp", "zonotope", "crown", "alpha"):
            held = sg.bounds(graph, ends, method=method)
            assert ((exactly(held.lower) <= y) & (y <= exactly(held.upper))).all(), method


@pytest.mark.parametrize(
    ("box", "options", "kind", "text"),
    [
        (([0.0], [1.0]), {"method": "lp"}, ArgumentError, "method='lp'"),
        (([0.0], [1.0]), {"covers": "float32", "method": "zonotope"}, ArgumentError, "by crown, alpha and ibp"),
        (([0.0], [1.0]), {"covers": "float16"}, ArgumentError, "covers='float16'"),
        (([0.0],), {}, ArgumentError, "must be a pair"),
        (([2.0], [1.0]), {}, ArgumentError, "lies below `lower` at"),
        (([0.0], [np.inf]), {}, ArgumentError, "must be finite"),
        (([0.0], [np.nan]), {}, ArgumentError, "must be finite"),
        (([0.0], ["a"]), {}, ScalarError, "must be real numbers"),
        (([0.0], [1.0, 2.0]), {}, ShapeError, "must have shape"),
        (([0.0], [1.0]), {"of": [[1.0, 2.0]]}, ShapeError, "with 1 columns"),
        (([0.0], [1.0]), {"of": [[np.nan]]}, ArgumentError, "must be finite"),
        (([0.0], [1.0]), {"of": []}, ShapeError, "with 1 columns"),
        ((([0.0], [0.0]), ([1.0], [1.0])), {}, ShapeError, "has 1 inputs"),
    ],
)
def test_refusals(box, options, kind, text):
    graph = sg.trace(sg.relu, (1,))
    with pytest.raises(kind, match=r"^bounds: ") as error:
        sg.bounds(graph, tuple(np.array(b) if isinstance(b, list) else tuple(map(np.array, b)) for b in box), **options)
    assert text in str(error.value)


def test_boxes_of_rationals_are_rounded_outward():
    third = Fraction(1, 3)
    found = sg.bounds(lambda x: x, (np.array([third]), np.array([third])))
    assert Fraction(found.lower[0]) < third < Fraction(found.upper[0])


def test_operators_without_a_relaxation_say_so():
    own = sg.pointwise("wave", lambda S, x: x * x, lambda S, x: 2 * x)
    with pytest.raises(ArgumentError, match="operator='wave': has no relaxation"):
        sg.bounds(own, (np.zeros(1), np.ones(1)))
    with pytest.raises(ArgumentError, match="is not inside of its domain"):
        sg.bounds(sg.log, (np.zeros(1), np.ones(1)))
    graph = sg.trace(sg.cross_entropy, np.zeros((1, 3)), np.array([1]))
    with pytest.raises(ArgumentError, match="must be constants of the graph"):
        sg.bounds(graph, ((np.zeros((1, 3)), np.array([1])), (np.ones((1, 3)), np.array([1]))))


@pytest.mark.parametrize("kind", sg.OPERATORS, ids=lambda kind: kind.name)
def test_every_operator_lies_within_its_bounds(kind):
    """Each operand varies or is constant; inputs are inside of the box and at its corners, for
    every method."""

    @settings(max_examples=examples(25), deadline=None, database=None, derandomize=True)
    @given(STRATEGIES[kind], st.randoms(use_true_random=False))
    def hold(case, random):
        slots = case.op.slots[: len(case.operands)]
        varies = [not slot.integer and random.random() < 0.7 for slot in slots]
        radius = [
            np.array([random.choice([0, 0.125, 0.25]) for _ in range(x.size)]).reshape(x.shape) for x in case.operands
        ]
        moving = [place for place, moves in enumerate(varies) if moves]
        if not moving or any(x.size == 0 for x in case.operands):
            return

        def function(*xs):
            operands = [x if slot.integer else x.astype(float) for slot, x in zip(slots, case.operands, strict=True)]
            for place, x in zip(moving, xs, strict=True):
                operands[place] = x
            return case.op(*operands)

        lower, upper = (tuple(case.operands[p].astype(float) + sign * radius[p] for p in moving) for sign in (-1, 1))
        for method in ("crown", "ibp", "zonotope"):
            covers = "real" if method == "zonotope" else "float64"
            found = sg.bounds(function, (lower, upper), method=method, covers=covers)
            for _ in range(6):
                share = [random.choice([0.0, 1.0, random.random()]) for _ in moving]
                xs = [low + s * (high - low) for s, low, high in zip(share, lower, upper, strict=True)]
                y = function(*xs)
                cost = 1e-12 * np.abs(y) if method == "zonotope" else 0  # zonotopes do not cover floats
                assert (found.lower <= y + cost).all(), method
                assert (y - cost <= found.upper).all(), method

    hold()


def test_lipschitz_constants_hold():
    """Inputs of random networks satisfy the Lipschitz bound; for affine networks it is the
    least."""
    for seed in range(effort(24, 120)):
        network = Network(seed)
        x = network.samples(60)
        constant = sg.lipschitz(network, (network.lower, network.upper))
        near = np.clip(x + network.random.normal(size=x.shape) / 64, network.lower, network.upper)
        for one, other in ((x[::2], x[1::2]), (x, near)):
            moved = np.abs(network(one) - network(other)).reshape(len(one), -1).max(axis=1)
            far = np.abs(one - other).reshape(len(one), -1).max(axis=1)
            assert (moved <= constant * far + 1e-12 * (1 + np.abs(network(x)).max())).all(), seed
    weight = np.array([[1.0, -2.0], [0.5, 0.25]])
    box = -np.ones(2), np.ones(2)
    assert sg.lipschitz(lambda x: sg.linear(x, weight), box) == pytest.approx(3, rel=1e-6)
    assert sg.lipschitz(lambda x: sg.linear(x, weight), box, of=[[0, 1]]) == pytest.approx(0.75, rel=1e-6)
    for function, least in ((sg.tanh, 1), (sg.sigmoid, 0.25), (sg.abs, 1), (lambda x: sg.exp(x), np.e)):
        assert sg.lipschitz(function, box) == pytest.approx(least, rel=1e-6)
    assert sg.lipschitz(sg.relu, (-np.ones(2), -np.ones(2) / 2)) == 0
    with pytest.raises(ArgumentError, match="lipschitz: operator='log_softmax'"):
        sg.lipschitz(sg.log_softmax, box)


def test_an_unsound_lipschitz_constant_is_caught(monkeypatch):
    from specgrad.bounds import lipschitz

    monkeypatch.setitem(lipschitz.CURVES, sg.Relu, lambda box: (0 * box.lower, 0.5 * (box.upper > 0)))
    with pytest.raises(AssertionError):
        test_lipschitz_constants_hold()
