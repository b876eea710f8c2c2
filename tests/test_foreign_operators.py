"""Operators of users, in every engine and every layer: results must follow from their own value and
row.

The numbers are small integers, exact in every layer and in floats. So results are compared by ==
with the specification's over Fractions. Values are compared with NumPy, and rows with Dual numbers.
"""

import ast
import pickle
import re
from dataclasses import KW_ONLY, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import foreign
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import specgrad as sg
from specgrad import arguments, dispatch
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines import cpu, reference
from specgrad.graph import transform
from specgrad.operator import HINTS, Operator, operator, parameter
from specgrad.ops.window import SlidingWindow

SOURCE = Path(sg.__file__).parent


def windows(x, kernel, stride):
    rank = len(kernel)
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(-rank, 0)))
    return seen[(..., *[slice(None, None, stride)] * rank, *[slice(None)] * rank)]


def convolved(x, w, b):
    return (windows(x, w.shape[2:], 1) * w[0, :, None, None]).sum((1, -1, -2))[:, None] + b


CASES = {
    "sum": (foreign.SumPool((2, 3), stride=1), [(2, 4, 5)], lambda x: windows(x, (2, 3), 1).sum((-1, -2))),
    "padded sum": (
        foreign.SumPool((2,), padding=1),
        [(2, 4)],
        lambda x: windows(np.pad(x, [(0, 0), (1, 1)]), (2,), 2).sum(-1),
    ),
    "min": (foreign.MinPool((2, 2), stride=1), [(2, 4, 4)], lambda x: windows(x, (2, 2), 1).min((-1, -2))),
    "min, all": (foreign.MinPool((3,), stride=1, ties="all"), [(2, 7)], lambda x: windows(x, (3,), 1).min(-1)),
    "min, split": (foreign.MinPool((2,), ties="split"), [(3, 6)], lambda x: windows(x, (2,), 2).min(-1)),
    "max²": (foreign.SquaredMax((2, 2)), [(2, 4, 4)], lambda x: windows(x, (2, 2), 2).max((-1, -2)) ** 2),
    "max², all": (foreign.SquaredMax((3,), stride=1, ties="all"), [(2, 7)], lambda x: windows(x, (3,), 1).max(-1) ** 2),
    "2 conv": (foreign.TwiceConv((2, 2)), [(2, 1, 4, 3), (1, 1, 2, 2), (1,)], lambda x, w, b: 2 * convolved(x, w, b)),
    "conv²": (foreign.SquaredConv((2, 2)), [(1, 1, 3, 3), (1, 1, 2, 2), (1,)], lambda x, w, b: convolved(x, w, b) ** 2),
    "cube": (foreign.Cube(note="mine"), [(2, 3)], lambda x: x**3),
    "rolled": (foreign.Rolled(), [(2, 5)], lambda x: np.roll(x, 1, -1)),
    "(xy)³": (foreign.CubedProduct(), [(2, 3), (3,)], lambda x, y: (x * y) ** 3),
}
TIED = {"min", "min, all", "min, split", "max²", "max², all"}  # Dual numbers only differentiate ties="first" here

each_case = pytest.mark.parametrize("name", CASES)


def drawn(name):
    """Operator, operands, tangents and a cotangent: small integers, many of them equal."""
    op, shapes, plain = CASES[name]
    random = np.random.default_rng(len(name))
    whole = [random.integers(-2, 3, shape) for shape in (*shapes, *shapes, op.output_shape(*shapes))]
    exact = [array * np.array(Fraction(1)) for array in whole]
    n = len(shapes)
    return op, tuple(exact[:n]), tuple(exact[n : 2 * n]), exact[-1], plain


class Expected:
    """Value, tangent, cotangents and their tangents, by the specification over Fractions."""

    def __init__(self, op, xs, dxs, gy):
        self.value, self.tangent = op.jvp(xs, dxs)
        self.cotangents = op.vjp(xs, gy)
        moved = op.vjp(tuple(map(sg.Dual, xs, dxs)), sg.Dual(gy, gy * 0))
        self.curved = [g.tangent for g in moved]

    def holds(self, value=None, tangent=None, cotangents=None, curved=None):
        pairs = [(value, self.value), (tangent, self.tangent)]
        pairs += zip(cotangents or (), self.cotangents, strict=bool(cotangents))
        pairs += zip(curved or (), self.curved, strict=bool(curved))
        for found, wanted in pairs:
            if found is not None:
                assert found.shape == wanted.shape
                assert np.array_equal(np.asarray(found, object), wanted), (found, wanted)


def floats(arrays, dtype):
    return tuple(array.astype(dtype) for array in arrays)


@each_case
def test_the_specification_over_fractions_is_right(name):
    op, xs, dxs, gy, plain = drawn(name)
    expected = Expected(op, xs, dxs, gy)
    assert np.array_equal(expected.value, plain(*xs))
    inner = sum((g * dx).sum() for g, dx in zip(expected.cotangents, dxs, strict=True))
    assert inner == (expected.tangent * gy).sum()
    if name not in TIED:
        assert np.array_equal(op(*map(sg.Dual, xs, dxs)).tangent, expected.tangent)


@each_case
@pytest.mark.parametrize("dtype", [object, np.float64, np.float32, np.float16], ids=lambda d: np.dtype(d).name)
def test_arrays(name, dtype):
    op, *exact, _ = drawn(name)
    expected = Expected(op, *exact)
    xs, dxs, gy = (floats(exact[0], dtype), floats(exact[1], dtype), exact[2].astype(dtype))

    def curved(x, v):
        return sg.vjp(op, *x)[1](v)

    out = np.empty(expected.value.shape, dtype)
    assert op(*xs, out=out) is out
    expected.holds(out, *op.jvp(xs, dxs)[1:], op.vjp(xs, gy))
    tape = sg.Tape()
    leaves = [tape.leaf(x) for x in xs]
    recorded = op(*leaves)
    found = tape.backward(recorded, gy)
    expected.holds(recorded.value, None, [found[leaf] for leaf in leaves])
    value, pullback = sg.vjp(op, *xs)
    n = range(len(xs))
    forward = sg.jvp(lambda *x: curved(x, gy), xs, dxs)[1]
    back = sg.grad(lambda x: sum(map(sg.sum, map(sg.mul, curved(x, gy), dxs))))(xs)
    expected.holds(value, sg.jvp(op, xs, dxs)[1], pullback(gy), [forward[i] for i in n])
    expected.holds(curved=[back[i] for i in n])
    graph = sg.trace(op, *[x.shape for x in xs])
    pulled = transform.vjp(graph)
    twice = transform.jvp(pulled)
    for run in (lambda g: g.forward, *(lambda g, e=e: g.compile(dtype, engine=e) for e in ("cpu", "reference"))):
        both = run(transform.jvp(graph))(*xs, *dxs)
        gradients = run(pulled)(*xs, gy)
        moved = run(twice)(*xs, gy, *dxs, gy * 0)
        expected.holds(run(graph)(*xs), both[1], list(gradients) if len(xs) > 1 else [gradients], moved[len(xs) :])


def test_a_program_computes_no_foreign_operator_in_place():
    x = np.arange(5.0)
    graph = sg.trace(lambda x: foreign.Rolled()(foreign.Rolled()(sg.scale(x, 2))), x.shape)
    for engine in ("cpu", "reference"):
        assert np.array_equal(graph.compile(np.float64, engine=engine)(x), np.roll(2 * x, 2))


@each_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_tensors(name, dtype):
    op, *exact, _ = drawn(name)
    expected = Expected(op, *exact)
    xs, dxs, (gy,) = (
        tuple(torch.tensor(a.astype(float), dtype=dtype) for a in group) for group in (*exact[:2], exact[2:])
    )

    def shown(*tensors):
        return [None if t is None else t.detach().double().numpy() for t in tensors]

    out = torch.empty(expected.value.shape, dtype=dtype)
    value, tangent = op.jvp(xs, dxs)
    expected.holds(*shown(op(*xs, out=out), tangent), shown(*op.vjp(xs, gy)))
    expected.holds(*shown(value), cotangents=shown(*sg.vjp(op, *xs)[1](gy)))
    expected.holds(curved=shown(*sg.jvp(lambda *x: sg.vjp(op, *x)[1](gy), xs, dxs)[1]))
    leaves = [x.clone().requires_grad_() for x in xs]
    gradients = torch.autograd.grad(op(*leaves), leaves, gy, create_graph=True)
    expected.holds(cotangents=shown(*gradients))
    if name != "max², all":  # its slopes at a tie are no derivative, so second derivatives are not symmetric
        along = sum((g * dx).sum() for g, dx in zip(gradients, dxs, strict=True)) + 0 * sum(x.sum() for x in leaves)
        expected.holds(curved=shown(*torch.autograd.grad(along, leaves)))
    value, tangent = torch.func.jvp(op, xs, dxs)
    _, back = torch.func.vjp(op, *xs)
    _, moved = torch.func.jvp(lambda *x: torch.func.vjp(op, *x)[1](gy), xs, dxs)
    expected.holds(*shown(value, tangent), shown(*back(gy)), shown(*moved))
    lanes = torch.func.vmap(lambda *x: (op(*x), *torch.func.vjp(op, *x)[1](gy)))(*(torch.stack([x, -x, x]) for x in xs))
    expected.holds(*shown(lanes[0][2]), cotangents=shown(*(g[2] for g in lanes[1:])))


@pytest.mark.parametrize("name", ["sum", "min, all", "2 conv", "cube"])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch asks it of itself
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")  # of the engines, once
def test_compiled_tensors(name):
    op, xs, _, gy, _ = drawn(name)
    expected = Expected(op, xs, xs, gy)

    def function(*xs):
        return op(*(x + 0 for x in xs)) + 0

    leaves = [torch.tensor(x.astype(float)).requires_grad_() for x in xs]
    value = torch.compile(function, backend="aot_eager")(*leaves)
    gradients = torch.autograd.grad(value, leaves, torch.tensor(gy.astype(float)))
    expected.holds(value.detach().numpy(), None, [g.numpy() for g in gradients])


@pytest.mark.parametrize("kind", sg.OPERATORS, ids=lambda k: k.__name__)
def test_a_subclass_that_changes_nothing_runs_on_the_specification(kind):
    """The subclass has the reference engine's bits, although the class may run on another
    engine."""
    heir = foreign.declared(type("Heir", (kind,), {}))
    assert all(getattr(heir, hint) is getattr(kind, hint) for hint in HINTS)

    @given(STRATEGIES[kind])
    @settings(max_examples=8)
    def check(case):
        op = heir(**{field.name: getattr(case.op, field.name) for field in fields(kind)})
        assert op != case.op
        xs, dxs, gy = case.over(lambda n: np.float32(n) / np.float32(3))
        xs, dxs, gy = (
            tuple(x if s.integer else x.astype(np.float32) for s, x in zip(op.slots, xs, strict=False)),
            tuple(t if t is None else t.astype(np.float32) for t in dxs),
            gy.astype(np.float32),
        )
        assert cpu.refuses(op, xs) == "it does not run Heir"
        with pytest.raises(sg.SpecgradError, match=r"does not run Heir"), sg.engine("cpu"):
            op(*xs)
        with sg.engine("reference"):
            wanted = (*case.op.jvp(xs, dxs), *case.op.vjp(xs, gy))
        for found, bits in zip((*op.jvp(xs, dxs), *op.vjp(xs, gy)), wanted, strict=True):
            assert found is bits is None or found.tobytes() == bits.tobytes()
        tensors = tuple(map(torch.tensor, xs))
        value, kept = reference.keep(op, tensors)
        pulled = reference.pull(op, tensors, kept, torch.tensor(gy))
        for found, bits in zip((op(*tensors), *op.vjp(tensors, torch.tensor(gy))), (value, *pulled), strict=True):
            assert found is bits is None or found.numpy().tobytes() == bits.numpy().tobytes()

    check()


def test_engines_declare_exact_classes():
    """No code that runs operators uses isinstance with an operator class."""
    for path in (p for part in ("engines", "torch", "graph", "autograd") for p in (SOURCE / part).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and "ops" in (n.module or "").split(".")]
        classes = {alias.asname or alias.name for n in imports for alias in n.names}
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                asked = {getattr(n, "id", None) or ast.unparse(n) for n in ast.walk(node.args[1])}
                assert not asked & classes, (path, node.lineno)
                assert not any(name.startswith("ops.") for name in asked), (path, node.lineno)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor], ids=["array", "tensor"])
def test_a_large_call_says_that_it_is_slow(kind, monkeypatch):
    monkeypatch.setattr(dispatch, "LARGE", 10)
    for op in (foreign.SumPool((2,)), foreign.declared(type("Heir", (sg.AvgPool,), {}))((2,))):
        with pytest.warns(sg.SlowPathWarning, match=f"it (does not run|has no kernel for) {type(op).__name__}") as told:
            op(kind(np.ones(12)))
        assert {warning.filename for warning in told} == {__file__}
    with pytest.warns(sg.SlowPathWarning, match=r"does not run SumPool"):
        sg.trace(foreign.SumPool((2,)), (12,)).compile(np.float64)


def test_hints_do_not_outlive_the_statement_they_were_about():
    assert foreign.SquaredMax.curvature == foreign.SquaredConv.curvature == foreign.CubedProduct.curvature == "any"
    assert foreign.MinPool.curvature == "any"
    assert foreign.SquaredConv.keeps
    assert foreign.SquaredConv.factors == ()
    assert not foreign.Rolled.pointwise
    assert foreign.Rolled.curvature == "none"  # declared next to its geometry
    assert foreign.Cube.pointwise  # Pointwise states no function that Cube could have changed
    assert not foreign.CubedProduct.pointwise
    changed = type("Changed", (sg.SmoothMaxPool,), {"value": foreign.SumPool.value})
    assert changed.second_vjp is Operator.second_vjp
    assert not type("Moved", (sg.Reshape,), {"value": foreign.SumPool.value}).alias


def test_a_class_that_is_not_complete_says_what_is_missing():
    class Nameless(SlidingWindow):
        value, row = foreign.SumPool.value, foreign.SumPool.row

    class Slotless(Operator):
        name: ClassVar = "slotless"
        value, row = foreign.SumPool.value, foreign.SumPool.row
        output_shape, geometry = foreign.SumPool.output_shape, foreign.SumPool.geometry

    class Undecorated(foreign.SumPool):
        factor: int = 2

    class Heir(Undecorated):
        pass

    with pytest.raises(sg.SpecgradError, match=r'^Nameless: name=None: .*; write `name: ClassVar = "my_operator"`'):
        Nameless((2,))
    with pytest.raises(sg.SpecgradError, match=r"^Slotless: slots=None: .* must declare it; write `slots: ClassVar"):
        Slotless()(np.ones(3))
    for kind in (Undecorated, Heir):
        with pytest.raises(
            sg.SpecgradError, match=r"factor='Undecorated': .* not a dataclass; write @dataclass.*Undecorated"
        ):
            kind((2,), factor=3)
    with pytest.raises(TypeError, match=r"row"):
        type("Rowless", (SlidingWindow,), {"name": "rowless", "value": foreign.SumPool.value})((2,))


def test_whatever_an_operator_stores_tells_it_from_others():
    """A hand-written __init__ must keep operators distinct in caches."""

    class Power(foreign.Cube):
        def __init__(self, factor):
            super().__init__()
            self._set(factor=factor)

        def value(self, S, window):
            (tap,) = window
            return S.constant(self.factor) * tap.cells(0), None

    assert Power(2) != Power(3)
    assert Power(2) == Power(2)
    graph = sg.trace(lambda x: Power(2)(x) + Power(3)(x), (1,))
    assert graph.forward(np.ones(1)).tolist() == [5.0]
    assert foreign.Cube(note="a") != foreign.Cube(note="b")
    assert pickle.loads(pickle.dumps(foreign.Cube(note="a"))) == foreign.Cube(note="a")
    with pytest.raises(sg.SpecgradError, match=r"cube: note='ndarray': .*must be hashable"):
        foreign.Cube(note=np.ones(2))(np.ones(2))


@foreign.declared
class Factor:
    """A mixin that is no operator."""

    _: KW_ONLY
    factor: int = parameter(arguments.integer, 1, default=1)


@operator
class Weighted(Factor, foreign.SumPool):
    name: ClassVar = "weighted"

    _: KW_ONLY
    offset: tuple[int, ...] | None = parameter(arguments.per_axis, 0, spatial=True, default=None)

    def __post_init__(self):
        super().__post_init__()
        if self.offset == (9, 9):
            raise ValueError("an offset of its own to refuse")


@foreign.declared
class Heavy(Weighted):
    _: KW_ONLY
    ceil_mode: bool = True
    factor: int = parameter(arguments.integer, 5, default=5)


@pytest.mark.parametrize("kind", [Weighted, Heavy], ids=lambda k: k.__name__)
def test_a_parameter_says_how_it_is_stored(kind):
    op = kind([2, np.int64(3)], factor=np.int8(7), offset=1)
    assert (op.kernel_size, op.stride, op.factor, op.offset, op.axes) == ((2, 3), (2, 3), 7, (1, 1), None)
    assert [type(op.factor), *map(type, op.kernel_size)] == [int, int, int]
    assert op == pickle.loads(pickle.dumps(op)) == replace(op) != replace(op, factor=8)
    assert hash(op) == hash(kind((2, 3), factor=7, offset=(1, 1)))
    assert repr(op) == f"{kind.__name__}((2, 3), factor=7, offset=(1, 1))"
    assert kind((2, 2)).offset is None
    assert kind((2, 2)).ceil_mode is (kind is Heavy)
    # the order of checks: arguments of the bases in order, then of the class
    wrong = {"factor": 0, "kernel_size": (0, 0), "ceil_mode": 3, "axes": 1, "offset": -1}
    for name, value in wrong.items():
        with pytest.raises(sg.SpecgradError, match=rf"^weighted: {name}={re.escape(repr(value))}"):
            kind(**wrong)
        wrong[name] = {"factor": 6, "kernel_size": (2, 2), "ceil_mode": True, "axes": None, "offset": 9}[name]
    with pytest.raises(ValueError, match=r"its own"):
        kind(**wrong)
    assert kind is Weighted or Heavy((2, 2)).factor == 5
    with pytest.raises(sg.SpecgradError, match=r"weighted: factor=4: must be at least 5"):
        Heavy((2, 2), factor=4)


def test_the_gpu_engine_declares_exact_classes():
    pytest.importorskip("triton")
    from specgrad.engines import gpu

    for op in (foreign.SumPool((2,)), foreign.MinPool((2,)), foreign.SquaredMax((2,))):
        assert gpu.refuses(op, (torch.ones(4),)) == f"it does not run {type(op).__name__}"


def test_gradients_of_complex_cells_are_torchs():
    x = torch.tensor([1 + 1j, 2 - 3j], requires_grad=True)
    y = x.detach().clone().requires_grad_()
    g = torch.tensor([1j, 2 + 0j])
    foreign.Cube()(x).backward(g)
    (y**3).backward(g)
    assert torch.equal(x.grad, y.grad)
