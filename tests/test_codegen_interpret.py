"""The interpreter of generated kernels: bit for bit equal to machine code, exact over rationals,
and open to other domains."""

from fractions import Fraction

import numpy as np
import pytest
from codegen_cases import FLOAT, Draw, both_ways, greater, interpreted, numbers, total, windows

from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.values import CELLS, F32, I32, Value
from specgrad.prove.interpreter.domains import Domain, Floats, Infinity, Rationals
from specgrad.prove.interpreter.instructions import CASTS, FLOATS, ORDERS, name_of
from specgrad.prove.interpreter.memory import Fault, Undecided

INTEGERS = "add", "sub", "mul", "udiv", "urem", "sdiv", "srem", "and", "or", "xor", "shl", "lshr", "ashr"
SEEDS = range(5)
LANES = [0, 2, 4, 8, 16]


# equal to machine code


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_instructions_are_as_machine_code_bit_for_bit(seed, lanes):
    drawn = Draw(np.random.default_rng([seed, lanes]), lanes)
    machine, checked = both_ways(drawn.kernel, drawn.cells, drawn.arrays(5), {}, 5, grain=2)
    assert machine == checked


def test_random_kernels_have_every_instruction():
    kernels = [Draw(np.random.default_rng([seed, lanes]), lanes).kernel for seed in SEEDS for lanes in LANES]
    every = [one for kernel in kernels for block in kernel.function.blocks for one in block.instructions]
    met = {name_of(one) for one in every} | {f"{one.opname} {one.op}" for one in every if hasattr(one, "op")}
    expected = set(FLOATS)
    expected |= {
        "icmp eq",
        "icmp ne",
        *(f"icmp {s}{order}" for s in "su" for order in ORDERS if order not in ("eq", "ne")),
    }
    expected |= {f"fcmp {s}{order}" for s in "ou" for order in ORDERS} | {"fcmp ord", "fcmp uno"}
    expected |= {*CASTS, *INTEGERS, "bitcast", "select"} - {"inttoptr", "ptrtoint"}
    expected |= {
        f"llvm.{n}" for n in ("smax", "smin", "umax", "umin", "uadd.sat", "usub.sat", "abs", "ctpop", "ctlz", "cttz")
    }
    assert expected <= met


def test_what_is_computed_twice_is_emitted_once_where_it_is_seen():
    k = Kernel("once")
    n, x = k.parameter("n"), k.load(k.array("x", FLOAT))
    with k.when(n > 3):
        inside = n * 5
    outside = n * 5
    with k.loop(0, n) as each:
        again, other = n * 5, each.index * 5
    assert again.value is outside.value
    assert len({id(one.value) for one in (inside, outside, other, n * 6, n + 5)}) == 5
    assert (x + 0.0).value is (x + 0.0).value is not (x + -0.0).value
    assert (x < x + 1).value is not (x <= x + 1).value
    assert k.load(k.array("y", FLOAT)).value is not k.load(k.array("z", FLOAT)).value
    y = k.array("y", FLOAT)
    assert k.load(y).value is not k.load(y).value  # it may have been written in between


@pytest.mark.parametrize("combine", [greater, total])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64"])
def test_loops_over_vectors_are_as_machine_code(name, combine):
    cell, random = CELLS[name], np.random.default_rng(1)
    arrays = {"x": numbers(random, cell, 3 * 13), "y": numbers(random, cell, 3 * 11)}
    machine, checked = both_ways(windows(combine, cell=cell), dict.fromkeys("xy", cell), arrays, {"n": 11}, 3, grain=2)
    assert machine == checked


def test_fused_products_are_rounded_once():
    k = Kernel("fma")
    for cell in (CELLS["float32"], CELLS["float64"]):
        a, b, c, y = (k.array(f"{word}{cell.size}", cell) for word in "abcy")
        with k.loop(k.begin, k.end) as each:
            numbers = [k.load(one, each.index) for one in (a, b, c)]
            k.store(k.call("llvm.fma.{}", numbers[0].type, *numbers), y, each.index)
    k.finish()
    random, count = np.random.default_rng(3), 1000
    arrays, cells = {}, {}
    for cell in (CELLS["float32"], CELLS["float64"]):
        a, b = (random.integers(1, 1 << 24, count) * np.exp2(random.integers(-40, 40, count)) for _ in range(2))
        c = -a * b * (1 + np.exp2(random.integers(-50, -20, count)) * random.integers(-2, 3, count))  # much cancels
        a[:2], b[:2], c[:2] = (
            97,
            172961 / 2**24,
            [2.0**-80, -(2.0**-80)],
        )  # 1 + 2**-24 +- 2**-80: next to a tie of float32
        drawn = dict(zip("abcy", (a, b, c, np.zeros(count)), strict=True))
        arrays |= {f"{word}{cell.size}": array.astype(cell.name) for word, array in drawn.items()}
        cells |= {f"{word}{cell.size}": cell for word in "abcy"}
    machine, checked = both_ways(k, cells, arrays, {}, count)
    assert machine == checked


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
def test_stores_of_cells_apart_leave_the_others_as_they_are(name):
    cell, random = CELLS[name], np.random.default_rng(1)
    k = Kernel("apart")
    x, y = k.array("x", cell), k.array("y", cell)
    with k.loop(k.begin, k.end) as each:
        k.store_strided(k.load(x, each.index * 4, 4), y, each.index * 12, 3)
    k.finish()
    arrays = {"x": numbers(random, cell, 8), "y": numbers(random, cell, 22)}  # the last cell is at offset 21
    machine, checked = both_ways(k, dict.fromkeys("xy", cell), arrays, {}, 2)
    assert machine == checked
    given = {n: (cell.stored, list(one)[:21], True) for n, one in arrays.items()}
    with pytest.raises(Fault, match="out of bounds"):
        interpreted(k, Floats(), given, {}, 2)


def test_integers_are_rounded_once():
    k = Kernel("rounded")
    x, y, z = k.array("x", CELLS["int64"]), k.array("y", FLOAT), k.array("z", FLOAT)
    with k.loop(k.begin, k.end) as each:
        one = k.load(x, each.index)
        k.store(k.cast(one, F32), y, each.index)
        k.store(k.cast(Value(k, one.value, signed=False), F32), z, each.index)
    beside = [2**60 + 2**36 + 1, 2**60 + 3 * 2**36 - 1, -(2**60) - 2**36 - 1, 3, -1, -(2**63)]  # near ties of float32
    arrays = {"x": np.array(beside), "y": np.zeros(6, "f4"), "z": np.zeros(6, "f4")}
    machine, checked = both_ways(
        k.finish(), dict(zip("xyz", (CELLS["int64"], FLOAT, FLOAT), strict=True)), arrays, {}, 6
    )
    assert machine == checked


def test_carried_values_change_all_at_once_and_indices_have_a_sign():
    k = Kernel("swapped")
    x, y = k.array("x", FLOAT), k.array("y", FLOAT)
    behind = k.builder.gep((x + 1).address, [I32(-1)], source_etype=F32)
    with k.loop(0, k.end, carried=[Value(k, k.builder.load(behind, typ=F32)), k.load(x, 1)]) as each:
        each.next = each.values[::-1]
    k.store(each.result[0] - 2.0 * each.result[1], y)
    k.finish()
    for turns in (2, 3):
        arrays = {"x": np.array([5.0, 7.0], "f4"), "y": np.zeros(1, "f4")}
        machine, checked = both_ways(k, dict.fromkeys("xy", FLOAT), arrays, {}, turns)
        assert machine == checked


# over other numbers


def test_sums_and_maxima_over_rationals_are_exact():
    random = np.random.default_rng(0)
    x = [
        Fraction(int(n), int(d)) for n, d in zip(random.integers(-99, 99, 26), random.integers(1, 99, 26), strict=True)
    ]
    for combine, fold in ((total, sum), (greater, max)):
        made, _ = interpreted(
            windows(combine), Rationals(), {"x": (F32, x, False), "y": (F32, 88, True)}, {"n": 11}, 2, 1
        )
        assert made["y"].cells(F32) == [fold(x[13 * r + i : 13 * r + i + 3]) for r in range(2) for i in range(11)]


def test_infinities_over_rationals_are_exact():
    up, down = Infinity(1), Infinity(-1)
    third = Fraction(1, 3)
    assert max([down, third, -5]) == third
    assert min([third, up, 10**400]) == third
    assert down < third < up
    assert not up < up
    assert up <= up
    assert up + third == third + up == up - third == up
    assert third - up == down == -up == up * -2
    assert Rationals().div(third, up) == 0
    assert Rationals().div(down, -2) == up
    for undefined in (
        lambda: up + down,
        lambda: up - up,
        lambda: up * 0,
        lambda: 0 * down,
        lambda: Rationals().div(up, up),
    ):
        with pytest.raises(Fault, match="have no"):
            undefined()


def from_identity(identity=-np.inf):
    """The maximum of n cells and an identity."""
    k = Kernel("identity")
    x, y, n = k.array("x", FLOAT), k.array("y", FLOAT), k.parameter("n")
    with k.loop(0, n, carried=[k.number(FLOAT, identity)]) as each:
        one = k.load(x, each.index)
        each.next = [k.call("llvm.maximum.{}", one.type, each.values[0], one)]
    k.store(each.result[0], y)
    return k.finish()


def test_infinity_is_the_identity_of_a_maximum_over_rationals():
    for cells, expected in (([Fraction(-7, 2), -4], Fraction(-7, 2)), ([], Infinity(-1))):
        arrays = {"x": (F32, cells, False), "y": (F32, 4, True)}
        made, _ = interpreted(from_identity(), Rationals(), arrays, {"n": len(cells)}, 1)
        assert made["y"].cells(F32) == [expected]


class Leaders(Domain):
    """Cells as sets of names, representing their maximum; comparisons of two sets are undecided."""

    def constant(self, number, kind):
        return number

    def comparison(self, predicate):
        return lambda a, b: (predicate, a, b)

    def select(self, condition, one, other):
        assert condition == ("ogt", one, other)
        return one | other


def test_a_domain_may_leave_comparisons_open():
    arrays = {"x": (F32, [frozenset([i]) for i in range(13)], False), "y": (F32, 44, True)}
    made, _ = interpreted(windows(greater), Leaders(), arrays, {"n": 11}, 1)
    assert made["y"].cells(F32) == [frozenset(range(i, i + 3)) for i in range(11)]
    without = type("Without", (Leaders,), {"select": Domain.select})()
    with pytest.raises(Undecided, match=r"a selection on \('ogt'"):
        interpreted(windows(greater), without, arrays, {"n": 11}, 1)
