"""Every emitter of pools, interpreted on random geometries: no access out of range, independent
tasks, results exactly the specification's."""

import numpy as np
import pytest
from codegen_pools import Emitted, Planned, emitted, faults
from kinds import effort

import specgrad as sg
from specgrad.engines import reference
from specgrad.engines.cpu.codegen.values import CELLS
from specgrad.errors import SpecgradError
from specgrad.prove.interpreter.domains import Floats

SEEDS, CASES = range(effort(2, 5)), effort(8, 20)
FLOATS = ["float32", "float32", "float64", "float16", "bfloat16"]
WHOLE = {sg.AdaptiveMaxPool: sg.GlobalMaxPool, sg.AdaptiveAvgPool: sg.GlobalAvgPool}
INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64"]


# geometries


def sliding(random, kind, rank=None, inner=False):
    """An operator with sliding windows, and a shape that it takes: kernels large and small, padded,
    dilated, cut by ceil_mode."""
    while True:
        rank_here = rank or int(random.choice([1, 2, 2, 2, 3]))
        kernel = [int(random.integers(1, 5)) for _ in range(rank_here)]
        if random.random() < 0.2:
            kernel[int(random.integers(rank_here))] = int(random.integers(9, 24))
        stride = [int(random.integers(1, 5)) if random.random() < 0.5 else 1 for _ in kernel]
        dilation = [int(random.integers(1, 4)) if random.random() < 0.3 else 1 for _ in kernel]
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        padding = [tuple(map(int, random.integers(0, e + 1, 2))) if random.random() < 0.5 else (0, 0) for e in extent]
        room = [[(30,), (7, 30), (3, 5, 20)], [(20,), (5, 9), (3, 4, 5)]][inner][rank_here - 1]
        size = [max(1, e - sum(p)) + int(random.integers(0, r)) for e, p, r in zip(extent, padding, room, strict=True)]
        how = {"stride": tuple(stride), "dilation": tuple(dilation), "padding": tuple(padding)}
        how["ceil_mode"] = bool(random.random() < 0.3)
        if kind is sg.AvgPool:
            how["count_include_pad"] = bool(random.random() < 0.6)
            how["divisor_override"] = int(random.integers(1, 9)) if random.random() < 0.2 else None
        try:
            return placed(random, kind, tuple(kernel), how, size, inner)
        except SpecgradError:
            continue


def placed(random, kind, window, how, size, inner):
    """The operator over the last axes of an array, or over axes followed by a channel axis."""
    batch = (int(random.integers(1, 4 - inner)),)
    shape = (*batch, *size, int(random.integers(1, 20))) if inner else (*batch, *size)
    how = how | ({"axes": tuple(range(1, 1 + len(size)))} if inner else {})
    op = kind(window, **how)
    op.output_shape(shape)
    return op, shape


def adaptive(random, kind, inner=False):
    """An operator with adaptive bins, or of whole planes."""
    rank = int(random.choice([1, 2, 2, 3]))
    size = [int(random.integers(1, n)) for n in [(40,), (9, 40), (4, 6, 25)][rank - 1]]
    if random.random() < 0.2:
        return placed(
            random, sg.GlobalMaxPool if kind is sg.AdaptiveMaxPool else sg.GlobalAvgPool, rank, {}, size, inner
        )
    out = tuple(int(random.integers(1, n + 3)) for n in size)
    return placed(random, kind, out, {}, size, inner)


# operators


def maximum(random, op, shape, dtype, walk=None, with_codes=None):
    """Check the maximum, or the argmax and its uses: scattered cotangents, gathered tangents,
    indices. Nothing runs if the case does not take the given walk."""
    case = Planned(random, op, shape, dtype)
    pool, x = case.pool, case.draw(shape)
    x[random.random(shape) < 0.05] = 0
    exact, with_codes = bool(random.random() < 0.4), with_codes or bool(random.random() < 0.3)
    chain = pool.fold("argmax" if with_codes else "max", exact)
    if walk and not takes(walk, *chain.steps) and not (with_codes and takes(walk, *moves(case))):
        return case
    given = {"x": (case.cell, case.operand(x))}
    wanted = {"y": (case.cell, pool.lengths)} | ({"codes": (pool.codes, pool.lengths)} if with_codes else {})
    made = case.run(chain, given, wanted)
    if made is None:  # a window has the number that stands for padding: the exact chain must run
        assert not exact
        assert pool.blanks or (case.dtype.kind == "u" and x.min() == 0)
        return case
    y, *codes = made
    pool.blank(y, 0)
    case.same(case.as_result(y), case.specified(lambda: op(x)))
    if with_codes:
        pool.blank(codes[0], pool.none)
        derivatives(case, x, codes[0])
    return case


def takes(walk, *steps):
    return any(step is not None and step.walk == walk for step in steps)


def moves(case):
    """The kernels that move cotangents to winners."""
    has_some = case.cell.is_float and case.op.ties == "first"
    return (case.pool.winners("scatter"), case.pool.gathers) if has_some else ()


def derivatives(case, x, codes):
    """Check cotangents scattered by codes, tangents gathered, and indices: the tangent at an index
    equals the gathered one."""
    pool, op, kind = case.pool, case.op, case.cell
    if not moves(case):
        return
    given = {"codes": (pool.codes, codes)}
    dx, gy = case.draw(case.shape), case.draw(pool.shape)
    sources = {"scatter": case.output(gy), "gather": case.operand(dx)}
    (gx,) = case.run(
        pool.winners("scatter"), given | {"source": (kind, sources["scatter"])}, {"target": (kind, pool.layout.shape)}
    )
    as_floats = case.dtype if kind.name == "bfloat16" else np.float64  # sums of small integers are exact
    x, dx, gy = (array.astype(as_floats) for array in (x, dx, gy))
    expected = case.specified(lambda: op.vjp((x,), gy)[0])
    case.same(case.as_operand(gx), expected)
    if pool.gathers is not None:
        (gx,) = case.run(
            pool.gathers, given | {"source": (kind, sources["scatter"])}, {"target": (kind, pool.layout.shape)}
        )
        case.same(case.as_operand(gx), expected)
    (dy,) = case.run(
        pool.winners("gather"), given | {"source": (kind, sources["gather"])}, {"target": (kind, pool.lengths)}
    )
    case.same(case.as_result(dy), case.specified(lambda: op.jvp((x,), (dx,))[1]))
    (index,) = case.run(pool.winners("index"), given, {"target": (CELLS["int64"], pool.lengths)})
    assert (case.as_result(index) == case.specified(lambda: indices(op, x))).all(), case.words()


def indices(op, x):
    """The indices of winners, by the specification."""
    return reference.indices(op, (x,))[1]


def average(random, op, shape, dtype, walk=None):
    """Check the average, or its adjoint. Nothing runs if the case does not take the given walk."""
    case = Planned(random, op, shape, dtype)
    pool, kind = case.pool, case.cell
    what = "average" if random.random() < 0.5 or dtype == "bfloat16" else "spread"
    if walk and not takes(walk, *pool.fold(what).steps):
        return case
    if what == "average":  # the adjoint of bfloat16 rounds before it sums
        x = case.draw(shape)
        (y,) = case.run(pool.fold("average"), {"x": (kind, case.operand(x))}, {"y": (kind, pool.lengths)})
        case.same(case.as_result(y), case.specified(lambda: op(case.numbers(x))))
        return case
    gy = case.draw(pool.shape)
    arriving = case.output(gy)
    if pool.divisors.columns is not None:
        pool = pool.in_single
        (arriving,) = case.run(pool.fold("shares"), {"x": (pool.cell, arriving)}, {"y": (pool.cell, pool.lengths)})
    kind = pool.cell
    (gx,) = case.run(pool.fold("spread"), {"x": (kind, arriving)}, {"y": (kind, pool.layout.shape)})
    zeros = np.zeros(shape, int)
    case.same(case.as_operand(gx), case.specified(lambda: op.vjp((case.numbers(zeros),), case.numbers(gy))[0]))
    return case


def winners(random, op, shape, dtype, walk=None):
    """Check the argmax and its uses."""
    return maximum(random, op, shape, dtype, walk, with_codes=True)


def special(random, op, shape, dtype):
    """Check the argmax of NaN, infinities and signed zeros, over floats: the bits and the index of
    the first greatest cell, or of the last NaN."""
    case = Planned(random, op, shape, dtype)
    case.domain, pool = Floats(), case.pool
    x = random.choice(
        [1.0, 0.0, -0.0, np.inf, -np.inf, np.nan], shape, p=random.dirichlet([1, 2, 2, 1, 2, 0.3])
    ).astype(dtype)
    given, wanted = (
        {"x": (case.cell, case.operand(x))},
        {"y": (case.cell, pool.lengths), "codes": (pool.codes, pool.lengths)},
    )
    y, codes = case.run(pool.fold("argmax"), given, wanted) or case.run(pool.fold("argmax", True), given, wanted)
    pool.blank(y, 0)
    pool.blank(codes, pool.none)
    bits = np.dtype(f"uint{8 * case.cell.size}")
    assert (case.as_result(y).view(bits) == case.specified(lambda: op(x)).view(bits)).all(), case.words()
    value, *_ = case.run(pool.fold("max"), given, {"y": wanted["y"]}) or case.run(
        pool.fold("max", True), given, {"y": wanted["y"]}
    )
    pool.blank(value, 0)
    assert (value.view(bits) == y.view(bits)).all(), case.words()
    (index,) = case.run(
        pool.winners("index"), {"codes": (pool.codes, codes)}, {"target": (CELLS["int64"], pool.lengths)}
    )
    assert op.ties != "first" or (case.as_result(index) == case.specified(lambda: indices(op, x))).all(), case.words()
    return case


MAXIMA, SUMS = (sg.MaxPool, maximum), (sg.AvgPool, average)
BINS = (sg.AdaptiveMaxPool, maximum), (sg.AdaptiveAvgPool, average)


def extreme(random):
    return (sg.MaxPool, sg.MinPool)[int(random.integers(2))]


def drawn(random, walk):
    """A check, and an operator and shape that are likely to take a walk."""
    kind, run = [*(BINS if walk == "bins" else (MAXIMA, SUMS))][int(random.integers(2))]
    kind = extreme(random) if kind is sg.MaxPool else kind
    if walk == "bins":
        return run, *adaptive(random, kind, inner=bool(random.integers(2)))
    if walk == "flat":
        return winners, *sliding(random, extreme(random), inner=bool(random.integers(2)))
    if walk == "runs":
        return average, *adaptive(random, sg.AdaptiveAvgPool)
    if walk in ("phases", "channels") and run is maximum:
        run = winners
    if walk == "channels":
        return run, *sliding(random, kind, rank=2, inner=True)
    if walk == "winners":
        is_sliding = random.random() < 0.7
        inner = bool(random.integers(2))
        found = (
            sliding(random, extreme(random), 2, inner) if is_sliding else adaptive(random, sg.AdaptiveMaxPool, inner)
        )
        return winners, *found
    return run, *sliding(random, kind, inner=walk == "along")


def flat_or_not(walk):
    """Constants for which small planes are always, or never, gathered as a whole."""
    return {"FLAT": 99, "FULL": 9} if walk == "flat" else {"FLAT": 0, "PLACES": 20}


WALKS = ["direct", "tiles", "along", "channels", "bins", "winners", "phases", "flat", "runs"]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_walk_is_exact_on_random_geometries(seed, walk):
    random = np.random.default_rng([seed, *walk.encode()])
    vector, least = int(random.choice([16, 32, 64])), int(random.choice([1, 64]))
    done = 0
    small = 1 if walk == "tiles" else 50
    # small arrays have several tiles and tasks, and cells of short rows gather
    constants = {"LINES": 1 << 10, "TILE": 24, "SMALL": small, "TOTALS": int(random.choice([1, 9])), "DENSE": 99}
    constants |= flat_or_not(walk)
    with emitted(VECTOR=vector, LEAST=least, **constants):
        while done < CASES:
            run, op, shape = drawn(random, walk)
            floats = run is not maximum or random.random() < 0.7
            done += walk in run(random, op, shape, str(random.choice(FLOATS if floats else INTEGERS)), walk).walks


@pytest.mark.parametrize("walk", ["direct", "tiles", "along", "bins"])
@pytest.mark.parametrize("seed", range(2))
def test_special_numbers_win_as_specified(seed, walk):
    random = np.random.default_rng([seed, *walk.encode()])
    unrolled, small = int(random.choice([6, 256])), 1 if walk == "tiles" else 50
    with emitted(VECTOR=int(random.choice([16, 32, 64])), LEAST=1, UNROLLED=unrolled, SMALL=small):
        for _ in range(effort(8, 12)):
            found = (
                adaptive(random, sg.AdaptiveMaxPool, inner=bool(random.integers(2)))
                if walk == "bins"
                else sliding(random, extreme(random), inner=walk == "along")
            )
            special(random, *found, str(random.choice(["float32", "float64", "float16"])))


# codes of no winner, tables read by whole vectors, flags of lanes after the last window, codes of
# bins next to padding
PINNED = [
    (winners, sg.MaxPool((270,), stride=40, padding=30), (1, 400)),
    (winners, sg.MaxPool((4,), stride=2, padding=((7, 4),), dilation=2), (3, 4)),
    (average, sg.AvgPool((3, 3), stride=1, padding=1, count_include_pad=False), (2, 5, 3)),
    (average, sg.AvgPool((2,), axes=(1,), padding=((1, 0),), ceil_mode=True), (2, 16, 9)),
    (average, sg.AvgPool((3,), stride=1, axes=(1,), padding=1, count_include_pad=False), (2, 9, 3)),  # few channels
    (winners, sg.MinPool((3,), stride=9), (2, 40)),
    (maximum, sg.MinPool((2, 6), stride=7), (2, 9, 40)),
    (winners, sg.MaxPool((3, 3), stride=1, padding=1), (2, 7, 7)),
    (winners, sg.MaxPool((3, 3), stride=2, padding=1), (2, 14, 14)),
    (average, sg.AvgPool((1, 2, 4), stride=1, padding=((1, 1), (0, 1), (0, 2))), (2, 1, 6, 30)),  # windows of padding
]


@pytest.mark.parametrize("case", PINNED)
def test_what_was_wrong_once(case):
    run, op, shape = case
    with emitted():
        for seed in range(4):
            run(np.random.default_rng(seed), op, shape, "float32")


PLANTED = {
    "direct": (maximum, sg.MaxPool((3, 2), stride=1, padding=1), (2, 6, 9)),
    "tiles": (maximum, sg.MaxPool((3, 9), stride=1, padding=1), (2, 6, 9)),
    "phases": (winners, sg.MaxPool((3, 2), stride=1, padding=1), (2, 6, 9)),
    "runs": (average, sg.AdaptiveAvgPool((3, 4)), (2, 7, 9)),
    "channels": (winners, sg.MaxPool((2, 2), axes=(1, 2)), (2, 6, 8, 9)),
    "along": (winners, sg.MaxPool((3,), stride=2, axes=(1,), padding=1), (2, 9, 5)),
    "bins": (average, sg.AdaptiveAvgPool((3, 4)), (2, 7, 9)),
    "winners": (winners, sg.MaxPool((2, 2)), (2, 6, 8)),
    "flat": (winners, sg.MaxPool((3, 2), stride=1, padding=1), (2, 6, 9)),
}


@pytest.mark.parametrize("walk", PLANTED)
def test_an_access_one_cell_off_is_found_in_every_emitter(walk):
    run, op, shape = PLANTED[walk]

    def spoilt(n, spoil):
        stand_in, constants = (
            lambda kernel: (spoil if kernel.module.name == walk else Emitted)(kernel),
            flat_or_not(walk),
        )
        with emitted(stand_in, VECTOR=16, LEAST=1, **constants):
            run(np.random.default_rng(n), op, shape, "float32")

    assert faults(spoilt) >= 3
