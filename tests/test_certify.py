"""Certificates hold in exact rationals; changed certificates, and those from unsound bounds, are
refused."""

import base64
import functools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from bounded_networks import Network
from kinds import effort
from test_bounds import FAULTS, UNSOUND_CHOICES, exactly

import specgrad as sg
from specgrad import ArgumentError, CertificateError, ShapeError
from specgrad.bounds import joint, open_cells, parts, rewrite, search
from specgrad.bounds.affine import Box
from specgrad.bounds.analysis import Analysis, Late, Split
from specgrad.bounds.certificate import Certificate

SEEDS = [seed for seed in range(effort(22, 44)) if Network(seed).exact]


def margins(network, seed, depth):
    """The graph of rows·network - bounds, with bounds between reached values (depth 0) and interval
    bounds (depth 1); and its values at inputs."""
    random = np.random.default_rng(seed)
    shape = (1, *network.shape)
    values = network(network.samples(200)).reshape(200, -1)
    rows = random.integers(-2, 3, (2, values.shape[1])).astype(float)
    reached = (values @ rows.T).min(axis=0)
    least = sg.bounds(network, (network.lower, network.upper), of=rows, method="ibp").lower
    bounds = np.round((reached + depth * (least - reached)) * 64 - 1) / 64
    weight = sg.trace(lambda x: shifted(network, rows, bounds, x), shape[1:])
    return weight, values @ rows.T - bounds


def shifted(network, rows, bounds, x):
    return sg.sub(sg.linear(sg.reshape(network(x), (-1,)), rows), bounds)


class Enough(Exception):
    """A search needs many parts."""


def few_parts(done, count):
    if count > 2:
        raise Enough


def certified(seed, depth):
    """A certificate, or None if it needs many parts; and the values that inputs reach."""
    network = Network(seed)
    graph, values = margins(network, seed, depth)
    try:
        found = sg.certify(graph, (network.lower, network.upper), np.eye(2), timeout=600, progress=few_parts)
    except Enough:
        found = None
    return found, values


@pytest.mark.parametrize("part", range(2))
def test_certificates_replay_exactly(part):
    """Every answer on random networks, with all windows, follows in rationals, also after writing
    and reading JSON."""
    found = []
    for seed in SEEDS[part::2]:
        for depth in (-0.2, 0.3):
            certificate, values = certified(seed, depth)
            if certificate is None:
                continue
            found.append(certificate.status)
            if certificate.status == "holds":
                assert (values > 0).all(), seed
            Certificate.from_json(certificate.to_json()).check()
    assert found.count("holds") > 2
    assert "violated" in found


CELLS = np.array([[-1.0, -2.0], [-3.0, -4.0]])
PAIR = np.array([-1.0, 0.0]), np.array([2.0, 1.5])
TOGETHER = {"kernel_size": (2, 2), "stride": 2, "padding": 1}
FOOLED = {
    # a fault of the bounds -> a network and a box for which it proves something false
    "padding_is_zero": (lambda x: 0.5 - sg.relu(0 - sg.max_pool(x, **TOGETHER)), (CELLS - 0.1, CELLS + 0.1)),
    "plane_is_unpadded": (
        lambda x: sg.max_pool(x, **TOGETHER) + 2,
        (np.array([[4.0, 4.0], [4.0, -4.0]]), np.array([[5.0, 5.0], [5.0, -3.0]])),
    ),
    "average_counts_padding": (
        lambda x: sg.avg_pool(x, **TOGETHER, count_include_pad=False) + 1.5,
        (CELLS - 0.1, CELLS + 0.1),
    ),
    "slope_of_the_wrong_tap": (lambda x: sg.slice(x, slice(0, 1)) - sg.max_pool(x, (2,)) + 1, PAIR),
    "relu_without_constant": (lambda x: 0.7 - sg.relu(x), (-np.ones(1), np.ones(1))),
    "bias_is_forgotten": (lambda x: sg.linear(x, np.eye(1), np.array([-5.0])), (np.ones(1), 2 * np.ones(1))),
    "forms_are_swapped": (lambda x: sg.max_pool(x, (2,)) - 1, PAIR),
}


def no_attack(patch):
    patch.setattr(search, "ATTACK", 0)
    patch.setattr(search, "FEW_STEPS", 0)
    patch.setattr(search.Search, "_hit", lambda *given: (None, -1))


@pytest.mark.parametrize("fault", FAULTS)
def test_what_unsound_relaxations_find_is_refused(fault, monkeypatch):
    function, box = FOOLED[fault.__name__]
    no_attack(monkeypatch)
    cells = np.eye(function(box[0]).size)
    with pytest.raises(Enough):
        sg.certify(function, box, cells, timeout=600, progress=few_parts)
    fault(monkeypatch)
    certificate = sg.certify(function, box, cells, timeout=600, progress=few_parts)
    assert certificate.holds
    with pytest.raises(CertificateError):
        certificate.check()


def chosen(x):
    """At least 0, where fixed forms prove -1 at most: its forms must be optimised."""
    y = sg.relu(x)
    return sg.reshape(sg.sum(y) - sg.sum(sg.max_pool(y, (3,))), (1,)) + np.array([0.0625])


CUBE = -np.ones(3), np.ones(3)


def test_chosen_forms_are_certified(monkeypatch):
    monkeypatch.setattr(search, "FEW", 0)
    certificate = sg.certify(chosen, CUBE, np.eye(1), progress=few_parts)
    document = certificate.to_json()
    Certificate.from_json(document).check()
    for place in (0, 1):  # weights that are no mean; and a plane with another floor, which proves nothing
        made = json.loads(document)
        pools = proof(made)[0]["proved"][0]["pools"]
        (held,) = pools.values()
        part = held[place]
        array = np.frombuffer(base64.b64decode(part["data"]), part["dtype"]).copy()
        array[:] = array + array.dtype.type(1)
        part["data"] = base64.b64encode(array.tobytes()).decode()
        with pytest.raises(CertificateError):
            Certificate.from_json(json.dumps(made)).check()


LESS = {
    "floor_without_its_cells": lambda x: sg.slice(x, slice(0, 1)) - sg.max_pool(x, (3,)) + 0.5,
    "weights_of_more_than_a_mean": lambda x: sg.sum(sg.max_pool(x, (3,))) - sg.sum(x) * 0.375 + np.array([0.0625]),
}


@pytest.mark.parametrize("fault", UNSOUND_CHOICES)
def test_what_unsound_choices_find_is_refused(fault, monkeypatch):
    monkeypatch.setattr(search, "FEW", 0)
    no_attack(monkeypatch)
    fault(monkeypatch)
    box = CUBE if fault.__name__.startswith("floor") else (np.ones(3), 2 * np.ones(3))
    certificate = sg.certify(LESS[fault.__name__], box, np.eye(1), progress=few_parts)
    assert certificate.holds
    with pytest.raises(CertificateError):
        certificate.check()


def two_relus(least):
    """least - relu(a + b) - relu(a - b): on a square at least least - 2, by chords least - 3."""
    weights = np.array([[[1.0, 1.0]], [[1.0, -1.0]]])
    return lambda x: sg.linear(sg.reshape(sg.relu(sg.conv(x, weights)), (2,)), -np.ones((1, 2))) + least


def test_relus_that_read_the_same_inputs_are_bounded_together(monkeypatch):
    monkeypatch.setattr(search, "FEW", 0)
    square = -np.ones((1, 1, 2)), np.ones((1, 1, 2))
    certificate = sg.certify(two_relus(2.1), square, np.eye(1), progress=few_parts)
    (step,) = steps(certificate)
    assert step.proved[0].joint
    Certificate.from_json(certificate.to_json()).check()
    no_attack(monkeypatch)
    sound = joint.Joint.lowest

    def too_high(self, negative, a):
        least, corner = sound(self, negative, a)
        return least + 1, corner

    monkeypatch.setattr(joint.Joint, "lowest", too_high)
    certificate = sg.certify(two_relus(1.5), square, np.eye(1), progress=few_parts)
    assert certificate.holds
    with pytest.raises(CertificateError):
        certificate.check()


def test_unsound_parts_are_refused(monkeypatch):
    """Inputs are split with many parts at once, which compute relu's lines themselves."""
    sound = parts.relu
    no_attack(monkeypatch)

    def lines(box):
        low, high = sound(box)
        return low, high._replace(constant=0 * high.constant)

    monkeypatch.setattr(parts, "relu", lines)
    function = lambda x: sg.reshape(1.25 - sg.sum(sg.relu(x)), (1,))  # noqa: E731
    certificate = sg.certify(function, (-np.ones(2), np.ones(2)), np.eye(1), timeout=5)
    assert certificate.holds
    with pytest.raises(CertificateError):
        certificate.check()


def test_a_wrong_rule_of_rewriting_is_refused(monkeypatch):
    """The replay uses the rewriting of `rewrite` too, so it checks whether the function is the
    same."""
    no_attack(monkeypatch)
    monkeypatch.setitem(rewrite.RULES, sg.Larger, lambda graph, op, x, y: sg.Relu()(x))
    certificate = sg.certify(lambda x: sg.maximum(x, 0.5 * x) + 0.2, (-np.ones(1), np.full(1, -0.5)), np.eye(1))
    assert certificate.holds
    with pytest.raises(CertificateError, match="is not the function that the steps are about"):
        certificate.check()


WEIGHTS = [np.random.default_rng(3).integers(-8, 9, s) / 8 for s in ((6, 4), (6,), (2, 6), (2,))]


def small(x):
    """Two rows whose margins need branching on the box [-1, 1]."""
    h = sg.relu(sg.linear(x, WEIGHTS[0], WEIGHTS[1]))
    return sg.linear(h, WEIGHTS[2], WEIGHTS[3])


def tight(function, lower, upper, room):
    """The function minus its least values on a fine grid, plus some room."""
    axes = [np.linspace(a, b, 9) for a, b in zip(lower, upper, strict=True)]
    points = np.stack(np.meshgrid(*axes), -1).reshape(-1, len(lower))
    least = np.round((function(points).min(axis=0) - room) * 1024) / 1024
    return lambda x: sg.sub(function(x), least)


BOX = -np.ones(4), np.ones(4)


@functools.cache
def branched():
    """The JSON text of a certificate with splits."""
    return sg.certify(tight(small, *BOX, 0.7), BOX, np.eye(2)).to_json()


def test_branching_closes_what_bounds_leave_open(monkeypatch):
    """Few varying inputs are split; otherwise relus are."""
    function = tight(small, *BOX, 0.7)
    assert sg.bounds(function, BOX, method="alpha").lower.min() < 0
    parts = []
    for few in (16, 0):
        monkeypatch.setattr(search, "FEW", few)
        parts.clear()
        certificate = sg.certify(function, BOX, np.eye(2), progress=lambda *done: parts.append(done), timeout=600)
        assert certificate.status == "holds"
        assert parts[-1][0] == 1.0
        assert parts[-1][1] > 2
        certificate.check()


def test_networks_too_large_for_choices_are_split(monkeypatch):
    monkeypatch.setattr(search, "FEW", 0)
    monkeypatch.setattr(open_cells, "MOST", 0)
    certificate = sg.certify(tight(small, *BOX, 0.7), BOX, np.eye(2), timeout=600)
    assert certificate.status == "holds"
    assert certificate.problems[0].proof.parts
    certificate.check()


def test_maxima_are_split_too(monkeypatch):
    monkeypatch.setattr(search, "FEW", 0)

    def pooled(x):
        y = sg.max_pool(sg.linear(x, WEIGHTS[0]), (3,), stride=3)
        return sg.linear(y, np.array([[1.0, -1.0], [-1.0, 1.0]]))

    certificate = sg.certify(tight(pooled, *BOX, 0.3), BOX, np.eye(2), timeout=600)
    assert certificate.status == "holds"
    splits = [step for step in steps(certificate) if step.split]
    assert splits
    certificate.check()


def steps(certificate):
    found = [certificate.problems[0].proof]
    for step in found:
        found.extend(step.parts)
    return found


def test_counterexamples_are_exact_and_inside():
    function = tight(small, *BOX, -0.2)
    certificate = sg.certify(function, BOX, np.eye(2))
    assert certificate.status == "violated"
    assert not certificate.holds
    x = certificate.counterexample
    assert all(isinstance(n, Fraction) and -1 <= n <= 1 for n in x)
    assert min(certificate.graph().forward(x)) <= 0
    certificate.check()


def test_floats_are_covered():
    """A margin that holds over reals, but possibly not in float32, is not certified for float32."""
    weight = np.full((1, 64), 0.1, np.float32)
    x = np.full(64, 0.3, np.float32)
    exact = sum(Fraction(float(w)) * Fraction(float(v)) for w, v in zip(weight[0], x, strict=True))
    for distance, wanted in ((1e-3, "holds"), (1e-7, "unknown")):
        bound = float(exact) - distance
        function = lambda x: sg.sub(sg.linear(x, weight), np.array([bound]))  # noqa: B023, E731
        assert sg.certify(function, (x, x), [[1.0]]).status == "holds"
        certificate = sg.certify(function, (x, x), [[1.0]], covers="float32", timeout=600)
        assert certificate.status == wanted
    zero = lambda x: sg.relu(sg.relu(x - 2) * 0.5) + 1  # noqa: E731
    for function, rows in ((tight(small, *BOX, 1.5), np.eye(2)), (zero, np.eye(4))):
        certificate = sg.certify(function, BOX, rows, covers="float32")
        assert certificate.status == "holds"
        certificate.check()


@pytest.mark.parametrize("kind", ["minimum", "array", "padding"])
def test_constants_of_float32_networks_are_covered(kind):
    """0.3 is less than the float32 next to it."""
    single = float(np.float32(0.3))
    moved = {
        "minimum": lambda x: sg.minimum(x, 0.3),
        "array": lambda x: -sg.maximum(-x, np.array([-0.3])),
        "padding": lambda x: sg.pad(x, ((1, 0),), value=0.3)[:1],
    }[kind]
    for limit, status in [(single, "unknown"), (float(np.nextafter(np.float32(0.3), np.float32(1))), "holds")]:
        function = lambda x: sg.concatenate([moved(x), np.array([limit])])  # noqa: B023, E731
        real, narrow = (
            sg.certify(function, ([1.0], [2.0]), [[-1, 1]], covers=c, timeout=1) for c in ("real", "float32")
        )
        assert (real.status, narrow.status) == ("holds", status)
        real.check()
        forged = Certificate.from_json(real.to_json().replace('"covers": "real"', '"covers": "float32"'))
        if status == "unknown":
            with pytest.raises(CertificateError, match="which is not above 0"):
                forged.check()
        else:
            forged.check()


def test_a_number_that_wins_in_some_cells_is_replayed():
    """The number is one cell; the lines of the other cells are in the operand."""
    box = np.array([-1.0, 0, 1]), np.array([1.0, 1, 2])
    for number in (0.4, np.array([0.4])):
        for function in (sg.maximum, lambda x, c: -sg.minimum(-x, -c)):
            certificate = sg.certify(lambda x: sg.relu(function(x, number)) - 0.35, box, np.eye(3))  # noqa: B023
            assert certificate.status == "holds"
            certificate.check()


HUGE = {
    # a claim that holds for real numbers, and not in float32
    "cancelled": lambda x: 3e10 - sg.relu(x * 1e30) * 1e-30,
    "nan": lambda x: 1 - sg.relu(x * 1e30) * 1e-50,
    "sum of an average": lambda x: 1 + sg.avg_pool(sg.concatenate([x * 3e27] * 9), (18,)) * 1e-30,
    "constant": lambda x: sg.maximum(x, np.full(2, -1e39)),
    "weight": lambda x: sg.relu(x * 1e-20) * 1e39 + 1,
    "divisor": lambda x: x / 1e39 + 1,
    "input": sg.relu,
}


@pytest.mark.parametrize("name", HUGE)
def test_overflow_is_not_certified(name):
    """Certificates of a proof without overflow do not pass as covering float32."""
    box = [np.full(2, end) for end in ((1e38, 2e39) if name == "input" else (1e10, 2e10))]
    rows = np.eye(HUGE[name](box[0]).size)
    certificate = sg.certify(HUGE[name], box, rows)
    assert certificate.status == "holds"
    certificate.check()
    assert sg.certify(HUGE[name], box, rows, covers="float64").status == "holds"
    assert sg.certify(HUGE[name], box, rows, covers="float32").status == "unknown"
    forged = Certificate.from_json(certificate.to_json().replace('"covers": "real"', '"covers": "float32"'))
    with pytest.raises(CertificateError, match="beyond the greatest float32"):
        forged.check()
    # what is violated in rationals stays violated
    assert sg.certify(lambda x: HUGE[name](x) * -1, box, rows, covers="float32").status == "violated"


def changed(document, change):
    made = json.loads(document)
    change(made)
    return json.dumps(made)


def proof(document):
    return document["problems"][0]["proof"]


def widen(document):
    document["problems"][0]["upper"][0]["fractions"][0] = "20"


def other_row(document):
    document["problems"][0]["claims"][0][0]["row"] = ["-1", "0"]


def higher(document):
    document["problems"][0]["claims"][0][0]["above"] = "3"


def forget(document):
    for step in proof(document):
        step["proved"] = []


def no_split(document):
    for step in proof(document):
        step["parts"] = []
        step.pop("split", None)


def covers_more(document):
    document["problems"][0]["claims"].append([{"row": ["1", "0"], "above": "1000"}])


def float_boxes(document):
    """Boxes tighter than those that can be derived."""
    for step in proof(document):
        for ends in step["boxes"].values():
            ends[1] = ends[0]


def other_model(document):
    document["model"] = "AAAA"


def claims_nothing(document):
    document["problems"][0]["claims"][0][0]["row"] = ["1"]


@pytest.mark.parametrize(
    "change", [widen, other_row, higher, forget, no_split, covers_more, float_boxes, other_model, claims_nothing]
)
def test_changed_certificates_are_refused(change):
    document = branched()
    with pytest.raises(sg.SpecgradError):
        Certificate.from_json(changed(document, change)).check()


def test_malformed_certificates_are_refused():
    document = branched()
    for text in (
        "",
        "{}",
        "[]",
        "5",
        '{"format": "other"}',
        document[:1000],
        document.replace('"version": 1', '"version": 2'),
    ):
        with pytest.raises(CertificateError, match="certificate: "):
            Certificate.from_json(text)
    random = np.random.default_rng(0)
    for _ in range(60):
        place = int(random.integers(len(document)))
        text = document[:place] + random.choice(list('"[]{}0a-,')) + document[place + 1 :]
        try:
            Certificate.from_json(text).check()
        except sg.SpecgradError:
            continue


def test_what_cannot_be_certified_says_so():
    box = np.zeros(2), np.ones(2)
    with pytest.raises(CertificateError, match="nothing is shown"):
        sg.certify(lambda x: sg.sub(x, 0.5), box, np.eye(2), timeout=0).check()
    with pytest.raises(ArgumentError, match="no float64 is"):
        sg.certify(lambda x: sg.scale(x, Fraction(1, 3)), box, np.eye(2))
    with pytest.raises(ShapeError, match="2 columns"):
        sg.certify(lambda x: x, box, np.eye(3))
    with pytest.raises(CertificateError, match="operator='exp'"):
        sg.certify(lambda x: sg.exp(x), box, np.eye(2)).check()
    # a counterexample cannot be confirmed: sigmoid has no rational values
    assert sg.certify(lambda x: sg.sigmoid(x) - 0.75, box, np.eye(2), timeout=0.2).status == "unknown"


def test_a_part_takes_over_what_comes_before_its_split():
    """The boxes before a split are the same, the others are not wider; a deadline ends the analysis
    at any point."""
    for seed in SEEDS[:6]:
        network = Network(seed)
        graph = rewrite.rewritten(sg.trace(network, network.shape))
        boxes = [Box(network.lower, network.upper)]
        whole = Analysis(graph, boxes)
        for place in sorted(whole.read):
            cell = int((whole.boxes[place].upper - whole.boxes[place].lower).argmax())
            middle = sum(float(end.reshape(-1)[cell]) for end in whole.boxes[place]) / 2
            for side in (-1, 1):
                splits = (Split(place, cell, -1, middle, side),)
                part, again = Analysis(graph, boxes, splits=splits, whole=whole), Analysis(graph, boxes, splits=splits)
                pairs = list(zip(part.boxes, again.boxes, strict=True))
                assert all(np.array_equal(a, b) for a, b in pairs[: place + 1])
                for held, wide in zip(part.boxes[place + 1 :], whole.boxes[place + 1 :], strict=True):
                    assert (held.lower >= wide.lower).all() and (held.upper <= wide.upper).all()  # noqa: PT018
        whole.deadline = 0.0
        with pytest.raises(Late):
            whole.lower(graph.outputs[0], np.eye(math.prod(graph.nodes[graph.outputs[0]].shape)))


def test_weights_that_underflow_are_covered():
    """In single parts, and in whole proofs."""
    graph = sg.trace(lambda x: sg.relu(x * 1e-200) * 1e-200, (1,))
    low, high = np.array([1e307]), np.array([1.1e307])
    whole = Analysis(graph, [Box(low, high)])
    boxes = {node.index: Box(*(end.reshape(1, -1) for end in whole.boxes[node.index])) for node in graph.nodes}
    least, minus_most = parts.Parts(whole).lower(graph.outputs[0], np.array([[1.0], [-1.0]]), boxes)[0][0]
    assert least <= graph.forward(low)
    assert graph.forward(high) <= -minus_most
    for limit, status in [(1e-94, "violated"), (2e-93, "holds")]:
        found = sg.certify(lambda x, limit=limit: (limit - graph(x)) * 1e94, (-high, high), [[1]])
        assert found.status == status
        found.check()


def test_exact_points_agree_with_the_graph():
    """The checker's boxes of a point are the network's values, in rationals."""
    from specgrad.bounds.exact import Box, Exact
    from specgrad.bounds.exact import Network as Exactly
    from specgrad.bounds.replay import Part
    from specgrad.bounds.rewrite import rewritten

    for seed in SEEDS[:15]:
        network = Network(seed)
        graph = rewritten(sg.trace(network, network.shape))
        x = exactly(network.samples(1)[0])
        point = Exact.of(x.reshape(-1))
        part = Part(Exactly(graph, "real"), [Box(point, point)], {}, [])
        wanted = graph.forward(x).reshape(-1).tolist()
        assert part.boxes[graph.outputs[0]].lower.fractions() == wanted
        assert part.boxes[graph.outputs[0]].upper.fractions() == wanted
