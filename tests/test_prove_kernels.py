"""`specgrad prove kernels`: the emitted kernels are proved; kernels with planted faults and mutants
are not."""

import contextlib
import functools
import itertools
import math
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from kinds import effort
from llvmlite import ir
from typer.testing import CliRunner

import specgrad as sg
from specgrad.cli import app
from specgrad.engines.cpu import gemm, matmul, steps, weight_gradient
from specgrad.engines.cpu.codegen.combine import ArgMax, Max, Sum
from specgrad.engines.cpu.emitters.gemm import Gemm, Packing
from specgrad.engines.cpu.emitters.matmul import Matmul
from specgrad.engines.cpu.emitters.weight_gradient import WeightGradient
from specgrad.prove import kernels, runner
from specgrad.prove.interpreter import program
from specgrad.prove.interpreter.domains import Infinity, Rationals
from specgrad.prove.interpreter.memory import Fault, Memory, Undecided
from specgrad.prove.kernels import compare, convolutions, pooling, products, weights
from specgrad.prove.kernels.cases import Case
from specgrad.prove.kernels.domain import Symbols
from specgrad.prove.kernels.forms import Form
from specgrad.prove.kernels.plans import Emitted, Execution, uncompiled
from specgrad.prove.kernels.symbols import Lead, Order, Table

TASKS = [kernels.Task(emitter, number) for emitter in kernels.EMITTERS for number in range(1, 4)]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_sample_is_proved(task):
    (found,) = kernels.run(task, math.inf)
    assert found.verdict.status == "proved", (found.case, found.verdict.reason)


def case(emitter, op, shape, dtype="float32", **constants):
    return Case(emitter, op, shape, dtype, tuple(range(len(shape))), tuple(constants.items()))


@pytest.fixture(autouse=True)
def _whatever_is_planned(request, monkeypatch):
    """Except for the sample, statements are about all planned kernels, whichever emitter they
    have."""
    if "task" not in request.fixturenames:
        for module in (pooling, weights):
            monkeypatch.setattr(module, "expect", lambda *given: None)


def verdict(name, one, make=Emitted):
    """The status of a claim about a case, with kernels changed by `make`."""
    with uncompiled(dict(one.constants), make):
        try:
            kernels.BY_NAME[name].claim(one)
        except Undecided:
            return "undecided"
        except (compare.Differs, Fault):
            return "refuted"
        except (IndexError, TypeError, AttributeError):  # an invalid code; an error is no proof, as in the command
            return "undecided"
    return "proved"


def test_windows_a_lane_apart_read_no_cell_beside_their_own():
    """A kernel of weights once read up to a stride beyond the array, if windows have fewer cells
    than their stride."""
    assert verdict("weighted_sum", case("weights", sg.MaxPool((1, 2), stride=3, ties="all"), (1, 2, 5))) == "proved"


def test_divisors_by_row_are_those_of_the_first_axis():
    """With three axes reduced at once, divisors of rows were once read with another row's index,
    out of bounds."""
    op = sg.AvgPool((2, 4, 3), stride=(3, 1, 1), padding=((0, 0), (0, 3), (0, 0)), count_include_pad=False)
    assert verdict("average", case("along", op, (1, 3, 2, 10))) == "proved"


def flags(how):
    """The features of a convolution's kernel."""
    had = {name for name in ("is_turned", "skips", "cuts") if getattr(how, name, False)}
    had |= {"apart"} if getattr(how, "apart", 1) > 1 else set()
    had |= {"rows"} if any(getattr(how, "row", ())) else set()
    had |= {"ends"} if getattr(how, "met", ()) else set()
    had |= {"beside"} if getattr(how, "is_beside", False) else set()
    return frozenset(had | ({"squares"} if getattr(how, "side", 1) > 1 else set()))


def test_every_variant_of_the_kernels_of_convolution_is_among_the_cases(monkeypatch):
    seen = {Gemm: set(), WeightGradient: set(), Packing: set()}

    def noted(emit, how):
        seen[type(how)].add(flags(how))
        return SimpleNamespace(scratch=0, parameters=())

    monkeypatch.setattr(steps, "compiled", noted)
    for emitter, number in itertools.product(("gemm", "weight_gradient"), range(kernels.GEOMETRIES)):
        name, one = kernels.draw(np.random.default_rng([number, *emitter.encode()]), kernels.Task(emitter, number))
        with uncompiled(dict(one.constants)), contextlib.suppress(compare.Unplanned):
            planned = convolutions.Planned(one)
            if emitter == "gemm":
                gemm.product(planned.plan, name == "convolution", planned.dtype, planned.skips)
            else:
                weight_gradient.gradient(planned.plan, planned.dtype, planned.skips)
    for kernel, others in ((Gemm, ("apart", "cuts", "rows")), (WeightGradient, ("rows",))):
        for kind in (set(), {"is_turned"}, {"skips"}):
            own = [had for had in seen[kernel] if had & {"is_turned", "skips"} == kind]
            needed = {True} if kind == {"skips"} else {False, True}
            assert all(needed <= {flag in had for had in own} for flag in others), (kernel, kind)
    assert all(
        {"is_turned", "ends", *cuts} in [had - {"apart", "rows"} for had in seen[Gemm]] for cuts in ({"cuts"}, ())
    )
    assert {frozenset(), frozenset({"squares"}), frozenset({"beside"})} <= seen[Packing]


def test_every_variant_of_the_kernels_of_products_is_among_the_cases(monkeypatch):
    seen, plans, own = set(), set(), matmul.planned

    def noted(emit, how):
        if isinstance(how, Matmul):
            seen.add((how.is_across, how.is_down, how.side > 1, how.is_direct, how.vectors > 1))
        return SimpleNamespace(scratch=0, parameters=())

    def watched(*given):
        found = own(*given)
        plans.add((found.parts > 1, found.step.call.sizes.get("panels", 1) > 1))
        raise compare.Unplanned

    monkeypatch.setattr(steps, "compiled", noted)
    monkeypatch.setattr(matmul, "planned", watched)
    for emitter, number in itertools.product(("matmul", "dots"), range(kernels.GEOMETRIES)):
        name, one = kernels.draw(np.random.default_rng([number, *emitter.encode()]), kernels.Task(emitter, number))
        with uncompiled(dict(one.constants)), contextlib.suppress(compare.Unplanned):
            kernels.BY_NAME[name].claim(one)
    linear = {
        (True, *rest)
        for rest in [(True, True, False), (True, False, False), (False, False, False), (False, False, True)]
    }
    transposed = {(False, False, False, False), (False, False, False, True)}
    assert {had[:4] for had in seen} == linear | transposed
    assert {had[4] for had in seen if had[1]} == {had[4] for had in seen if not had[1]} == {False, True}
    assert plans == set(itertools.product((False, True), (False, True)))


# planted faults

FAULTS = {
    "the last winner": (ArgMax, "wins", lambda self, k, one, two: two[0] >= one[0], "argmax"),
    "the least": (Max, "wins", lambda self, k, one, two: two[0] < one[0], "maximum"),
    "the earlier part alone": (Sum, "join", lambda self, k, one, two, shift=0: one, "average"),
    "the later part twice": (Sum, "join", lambda self, k, one, two, shift=0: [one[0] + two[0] + two[0]], "average"),
    "codes that do not move": (ArgMax, "shifted", lambda self, k, code, shift: code, "argmax"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("walk", ["tiles", "along"])
def test_planted_fault_is_refuted(fault, walk, monkeypatch):
    kind, name, planted, claim = FAULTS[fault]
    pool = sg.AvgPool if claim == "average" else sg.MaxPool
    op = pool((2, 3), stride=1, padding=1) if walk == "tiles" else pool((2, 3), stride=1, padding=1, axes=(1, 2))
    one = case(walk, op, (1, 4, 6) if walk == "tiles" else (1, 4, 6, 5))
    assert verdict(claim, one) == "proved"
    monkeypatch.setattr(kind, name, planted)
    assert verdict(claim, one) == "refuted"


def test_the_command_fails_when_a_fault_is_in_a_kernel(monkeypatch):
    """The first tasks of a sample detect the fault; they run in this process, which has the
    fault."""

    def sample(todo, budget, scheduler):
        return ((family, runner.decide((family, task))) for family, task in todo[:66] if family == "kernels")

    monkeypatch.setattr(runner, "run", sample)
    assert CliRunner().invoke(app, ["prove", "--budget", "20"]).exit_code == 0
    monkeypatch.setattr(Max, "wins", lambda self, k, one, two: two[0] >= one[0])
    found = CliRunner().invoke(app, ["prove", "--budget", "20"])
    assert found.exit_code == 1
    assert "REFUTED" in found.output
    assert "from specgrad.prove.kernels import Task, run" in found.output


# mutants

BASES = [
    ("maximum", case("tiles", sg.MaxPool((2, 2), stride=1, padding=1), (1, 3, 4), VECTOR=16)),
    ("argmax", case("tiles", sg.MaxPool((2, 3), stride=2, padding=1), (1, 4, 5), VECTOR=16)),
    ("exact_argmax", case("along", sg.MaxPool((2,), stride=1, padding=1, axes=(1,)), (1, 4, 3), VECTOR=16)),
    ("average", case("along", sg.AvgPool((3,), stride=2, axes=(1,), padding=1), (1, 5, 3), VECTOR=16)),
    ("argmax", case("bins", sg.AdaptiveMaxPool((2, 2)), (1, 3, 5), VECTOR=16)),
    ("average", case("bins", sg.AdaptiveAvgPool((2, 3)), (1, 3, 5), VECTOR=16)),
    ("average_vjp", case("phases", sg.AvgPool((2, 2), stride=2, padding=1), (1, 3, 5), VECTOR=16)),
    ("argmax_vjp", case("phases", sg.MaxPool((2, 2), stride=1), (1, 3, 4), VECTOR=16)),
    ("average_vjp", case("runs", sg.AdaptiveAvgPool((2, 3)), (1, 3, 5), VECTOR=16)),
    ("argmax_vjp", case("winners", sg.MaxPool((2, 2), stride=1), (1, 3, 4), VECTOR=16)),
    ("argmax_jvp", case("winners", sg.MaxPool((2,), stride=1, padding=1), (1, 4), VECTOR=16)),
    ("log_sum_exp", case("tiles", sg.SmoothMaxPool((3,), stride=1, beta=2.0), (1, 6), VECTOR=16)),
    ("convolution", case("gemm", sg.Conv((2, 2), padding=1), ((1, 1, 2, 3), (1, 1, 2, 2)))),
    ("convolution_vjp", case("gemm", sg.Conv((2,), stride=2), ((1, 1, 5), (1, 1, 2)))),
    ("weighted_sum", case("weights", sg.MaxPool((2, 2), stride=1, ties="all"), (1, 3, 4), VECTOR=16)),
    ("product", case("matmul", sg.Linear(), ((3, 5), (6, 5), (6,)), PANEL=16, DOTS=0, ADDED=99, FORMATS={})),
    ("product_vjp", case("matmul", sg.Linear(), ((3, 5), (6, 5)), DIRECT=2, FORMATS={})),
    ("product", case("dots", sg.Linear(), ((2, 6), (3, 6), (3,)), FORMATS={})),
]
EACH = effort(3, 16)  # mutants of a kernel
PREDICATES = {"icmp": ("eq", "ne", "slt", "sle", "sgt", "sge"), "fcmp": ("oeq", "ogt", "oge", "olt", "ole", "une")}
OTHERS = {
    "add": "sub",
    "sub": "add",
    "mul": "add",
    "fadd": "fsub",
    "fsub": "fadd",
    "and": "or",
    "or": "and",
    "udiv": "urem",
}


def mutations(kernel):
    """(instruction, function) pairs; each function changes this instruction."""
    for block in kernel.function.blocks:
        for one in block.instructions:
            if one.opname in PREDICATES:
                for other in PREDICATES[one.opname]:
                    if other != one.op:
                        yield one, lambda one=one, other=other: setattr(one, "op", other)
            elif one.opname in OTHERS:
                yield one, lambda one=one: setattr(one, "opname", OTHERS[one.opname])
            elif one.opname == "select":
                yield one, lambda one=one: setattr(one, "operands", (one.operands[0], *one.operands[:0:-1]))
            for place, operand in enumerate(one.operands if one.opname not in ("br", "shufflevector") else ()):
                if (
                    isinstance(operand, ir.Constant)
                    and isinstance(operand.constant, int)
                    and operand.type != ir.IntType(1)
                ):
                    changed = list(one.operands)
                    changed[place] = ir.Constant(operand.type, operand.constant + 1)
                    yield one, lambda one=one, changed=changed: setattr(one, "operands", tuple(changed))


class Mutated(Emitted):
    """A kernel with one instruction changed."""

    def __init__(self, kernel, number):
        found = list(mutations(kernel))
        found[number % len(found)][1]()
        super().__init__(kernel)


def numbers(random, array):
    """Small numbers for cells, some equal, and one possible code for each window."""
    values = {}

    def number(symbol):
        if isinstance(symbol, Lead):
            return values.setdefault(symbol.cells[0], int(random.integers(-2, 3)))
        if isinstance(symbol, Form):
            return sum(
                c * math.prod(number(Lead((atom,))) for atom in atoms) for atoms, c in symbol.coefficients.items()
            )
        if isinstance(symbol, Table):
            return symbol.values[int(random.integers(len(symbol.values)))]
        return symbol

    return np.array([number(symbol) for symbol in array.ravel()], object).reshape(array.shape)


class Numbers(Rationals):
    """Exact numbers, with powers of 2 for exponentials."""

    def exp(self, a):
        return 0 if isinstance(a, Infinity) else Fraction(2) ** int(a)


def results(plan, given, wanted, names, seed):
    """The arrays of a plan on exact numbers, or the fault."""
    random, run = np.random.default_rng(seed), Execution(Numbers(), Memory)
    for name, (cell, array) in given.items():
        run.give(name, cell, list(numbers(random, array).ravel()))
    for name, (cell, shape) in wanted.items():
        run.take(name, cell, math.prod(shape))
    try:
        flags = run.step(plan, names) if names else run.chain(plan)
        return flags or [list(run.cells(name)) for name in wanted]
    except Fault as fault:
        return type(fault).__name__


def outcomes(name, one, make, monkeypatch):
    """The arrays that a claim's plans leave, on some numbers."""
    left = []

    def instead(plan, given, wanted, *names):
        found = [results(plan, given, wanted, names, seed) for seed in range(4)]
        if not all(isinstance(one, int) for one in found):  # flags: the exact kernels run next
            left.append(found)
        return ran(plan, given, wanted, *names)

    ran = compare.ran
    with monkeypatch.context() as patched:
        for module in (pooling, weights, convolutions, products):
            patched.setattr(module, "ran", instead)
        return verdict(name, one, make), left


def test_no_mutant_is_wrongly_proved(monkeypatch):
    """Kernels with one changed instruction: those that are proved give the right kernels' results
    on numbers."""
    monkeypatch.setattr(program, "BLOCKS", 5000)
    tally = Counter()
    random = np.random.default_rng(0)
    for name, one in BASES:
        status, right = outcomes(name, one, Emitted, monkeypatch)
        assert status == "proved"
        for number in map(int, random.integers(0, 1 << 30, EACH)):
            make = functools.partial(Mutated, number=number)
            status, left = outcomes(name, one, make, monkeypatch)
            assert status != "proved" or left == right, (name, str(one), number)
            tally[status] += 1
    assert tally["refuted"] > 6 * EACH, tally


# symbols


def test_the_first_of_equal_cells_leads():
    domain = Symbols()
    a, b, c = (Lead((name,)) for name in "abc")
    above = domain.comparison("ogt")
    both = domain.select(above(b, a), b, a)
    assert both.cells == ("a", "b")
    assert domain.select(domain.comparison("oge")(b, a), b, a).cells == ("b", "a")
    assert domain.select(above(c, both), c, both).cells == ("a", "b", "c")
    codes = domain.select(above(b, a), 7, 5)
    assert (codes.pick.cells, codes.values) == (("a", "b"), (5, 7))
    assert domain.select(above(c, both), 9, codes + 1).values == (6, 8, 9)
    with pytest.raises(Undecided):
        domain.select(above(c, a), c, b)
    with pytest.raises(Undecided):
        domain.select(above(c, a), 9, codes)
    with pytest.raises(Undecided):
        domain.decide(above(a, b))


def test_roundings_are_counted():
    domain = Symbols()
    a, b, c = (Lead((name,)) for name in "abc")
    total = domain.add(domain.add(a, b), c)
    assert (total.depth, total.coefficients) == (2, {("a",): 1, ("b",): 1, ("c",): 1})
    assert domain.add(total, 0).depth == 2
    assert domain.mul(total, (0.5).as_integer_ratio()[0]).depth == 2
    assert domain.div(total, 4).depth == 2
    assert domain.div(total, 3).depth == 3
    assert domain.fma(a, b, c).depth == 1
    assert domain.fma(a, b, 0).depth == 1
    assert domain.add(domain.mul(a, b), c).depth == 2
    running = domain.sub(domain.add(total, Lead(("d",))), a)
    with pytest.raises(compare.Differs, match="subtracted again"):
        compare.same_form(running, domain.add(domain.add(b, c), Lead(("d",))), False, "here")
    with pytest.raises(compare.Differs, match="4 roundings of a sum of 2 terms"):
        compare.same_form(Form({("a",): (1, 4), ("b",): (1, 0)}), domain.add(a, b), False, "here")


def test_orders_of_other_cells_do_not_join():
    above = Symbols().comparison("ogt")
    a, b, c = (Lead((name,)) for name in "abc")
    assert isinstance(above(a, b) | above(b, a), Order)
    assert (above(a, b) | Symbols().comparison("ole")(a, b)) is True
    with pytest.raises(Undecided):
        Symbols().select(above(a, b) & above(b, c), a, b)
