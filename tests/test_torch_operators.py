"""Every operator on torch tensors gives its results on NumPy arrays, by the CPU engine and by the
specification composed of aten."""

from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from kinds import examples, share  # noqa: E402

import specgrad as sg  # noqa: E402
import specgrad.torch  # noqa: E402
from specgrad.conformance import bounds  # noqa: E402
from specgrad.conformance.cases import STRATEGIES  # noqa: E402
from specgrad.conformance.golden import FIXED  # noqa: E402
from specgrad.engines import reference  # noqa: E402
from specgrad.ops import OPERATORS  # noqa: E402
from specgrad.ops.pointwise import Pointwise  # noqa: E402
from specgrad.ops.pool import Maximum, Pool  # noqa: E402
from specgrad.torch import apply, kernels  # noqa: E402
from specgrad.torch.operators import FAMILIES, encoded  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")

UNIT = 2.0**-53
ROUNDED = [sg.LogSoftmax, sg.Softmax, sg.CrossEntropy, sg.MseLoss]
SLACK = 32 * (2 * 8 + 3 + 8) * UNIT
"""For exponentials of integers from -4 to 4, at most 3 per window: the bound E for both sides,
times cotangents up to 4 summed over 4 cells. A mean of squares, with one rounding per term, is far
below."""
FUNCTION = 10 * 4 * 55 * 4 * UNIT
"""For at most ten operations, each within 4 units of numbers up to e⁴, and a cotangent up to 4."""
QUOTIENTS = 27 * (4 + 27) * 16 * UNIT
"""For sums of at most 27 terms, each of four operations on numbers up to 4·4."""
NORMS = 64 * 4 * (64 + 16) * UNIT
"""For roots of sums of at most 64 powers, up to 64·4; and of 64 slopes up to 1, times cotangents up
to 4."""


def tensors(arrays):
    return tuple(a if a is None else torch.from_numpy(np.array(a)) for a in arrays)


def same(got, wanted, slack=0.0):
    if wanted is None:
        return got is None
    assert isinstance(got, torch.Tensor)
    assert tuple(got.shape) == np.shape(wanted)
    return np.allclose(got.detach().numpy(), wanted, rtol=0, atol=slack) if slack else np.array_equal(got, wanted)


STATED = {sg.Larger, sg.Smaller, sg.Compare, sg.Unfold, sg.Fold, sg.LpPool}
"""Operators without an aten call of the same ties and NaN, of masks as numbers, or of any rank:
these run by their specification, or on the CPU engine."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_norms_of_tensors_have_the_bits_of_those_of_arrays(dtype):
    op = sg.LpPool((3, 2), stride=2, padding=1, p=3)
    x = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    gy = torch.ones(op.output_shape(tuple(x.shape)), dtype=dtype)
    with sg.engine("cpu"):
        wanted = op(x.numpy()), op.vjp((x.numpy(),), gy.numpy())[0]
    y = op(x.requires_grad_())
    (gx,) = torch.autograd.grad(y, x, gy)
    assert all(np.array_equal(a.detach().numpy(), b) for a, b in zip((y, gx), wanted, strict=True))
    back = torch.autograd.grad(op(x), x, gy, create_graph=True)[0]  # by the row, for autograd
    assert back.requires_grad


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_complex_tensors_give_what_arrays_give(kind):
    """Cotangents are those of the plain transpose. torch's own are of its conjugate."""
    slack = QUOTIENTS if kind in (sg.Div, sg.Power, sg.MseLoss) else 0.0  # the last two have fewer, shorter terms

    @settings(max_examples=share(kind, 25))
    @given(STRATEGIES[kind])
    def check(case):
        whole = [slot.integer for slot in case.op.slots]
        *groups, arriving = case.over(lambda n: complex(n, n * n % 5 - 1))
        xs, dxs = (tuple(a if w else a.astype(complex) for a, w in zip(g, whole, strict=False)) for g in groups)
        gy = arriving.astype(complex)
        try:
            wanted = case.op.jvp(xs, dxs)
        except sg.ScalarError:
            with pytest.raises(sg.ScalarError):
                case.op(*tensors(xs))
            return
        given_, (cotangent,) = tensors(xs), tensors((gy,))
        found = case.op.jvp(given_, tensors(dxs))
        pulled = case.op.vjp(given_, cotangent)
        for got, array in zip((*found, *pulled), (*wanted, *case.op.vjp(xs, gy)), strict=True):
            assert same(got, array, slack)
        leaves = [x.requires_grad_(x.is_complex()) for x in given_]
        value = case.op(*leaves)
        if value.requires_grad:
            reached = [x for x in leaves if x.requires_grad]
            theirs = torch.autograd.grad(value, reached, cotangent.conj(), allow_unused=True)
            for got, ours in zip(
                theirs, (p for p, x in zip(pulled, leaves, strict=True) if x.requires_grad), strict=True
            ):
                assert got is None or torch.allclose(got.conj(), ours, rtol=0, atol=slack)

    check()


def test_every_operator_is_one_of_torchs():
    assert set(FAMILIES) | set(apply.BY_ATEN) | STATED == set(OPERATORS)


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_tensors_give_what_arrays_give(kind):
    """Pooling runs the same kernels, so all bits agree; other operators sum small integers, exact
    in any order."""
    slack = SLACK if kind in ROUNDED else QUOTIENTS if kind is sg.Div else 0.0
    slack = NORMS if kind is sg.LpPool else slack
    slack = FUNCTION if issubclass(kind, Pointwise) and "exp" in kind.needs else slack

    @settings(max_examples=share(kind, 25))
    @given(STRATEGIES[kind])
    def check(case):
        operands, tangents, cotangent = case.over(np.dtype(np.float64))
        given_, moved, (arriving,) = tensors(operands), tensors(tangents), tensors((cotangent,))
        assert same(case.op(*given_), case.op(*operands), slack)
        assert same(case.op.jvp(given_, moved)[1], case.op.jvp(operands, tangents)[1], slack)
        for got, wanted in zip(case.op.vjp(given_, arriving), case.op.vjp(operands, cotangent), strict=True):
            assert same(got, wanted, slack)
        leaves = [x.requires_grad_(x.is_floating_point()) for x in given_]
        value = case.op(*leaves)
        if value.requires_grad:
            reached = [x for x in leaves if x.requires_grad]
            pulled = torch.autograd.grad(value, reached, arriving, allow_unused=True)
            for got, wanted in zip(pulled, case.op.vjp(operands, cotangent), strict=False):
                assert got is None or same(got, wanted, slack)
        if isinstance(case.op, Maximum):
            place = sg.dispatch.with_indices(case.op, given_)[1]
            assert same(place, sg.dispatch.with_indices(case.op, operands)[1])

    check()


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda k: k.__name__)
def test_the_composed_specification_is_the_specification(kind, monkeypatch):
    """This runs on a device without an engine, in the reference's order of summation, with the same
    bits and codes."""
    monkeypatch.setattr(kernels, "engine", lambda op, x: kernels.Composed)

    @settings(max_examples=examples(15))
    @given(STRATEGIES[kind])
    def check(case):
        op, ((x,), (dx,), gy) = case.op, case.over(np.dtype(np.float32))
        (tx, tdx, tgy), made = tensors((x, dx, gy)), FAMILIES[kind]
        p = (0, *encoded(op, x.ndim))
        kept = reference.keep(op, (x,))[1]
        wanted = (
            reference.forward(op, (x,)),
            reference.push(op, (x,), kept, (dx,)),
            reference.pull(op, (x,), kept, gy)[0],
        )
        source = None if op.curvature == "none" else tx
        value = made.value(tx, *p)
        if kernels.reads_codes(op):
            value, source = made.keep(tx, *p)
            places = made.places(source, tx, list(x.shape), *p)
            assert np.array_equal(places, reference.indices(op, (x,))[1])
        got = (value, made.push(tdx, source, *p), made.pull(tgy, source, list(x.shape), *p))
        if isinstance(op, sg.SmoothMaxPool):
            judged = bounds.smooth(op, x, dx, gy)
            assert all(j.holds(g.numpy()) for j, g in zip(judged, got, strict=True))
        else:
            assert all(np.array_equal(g, w) for g, w in zip(got, wanted, strict=True))

    check()


@pytest.mark.parametrize(
    "fixed", [f for f in FIXED if f.digits is None and isinstance(f.op, Pool)], ids=lambda f: repr(f.op)
)
def test_fixed_answers(fixed):
    value = fixed.op(*tensors(fixed.operands))
    assert np.array_equal(value, fixed.value)
    if fixed.cotangent is not None:
        pulled = fixed.op.vjp(tensors(fixed.operands), torch.tensor(fixed.cotangent))
        assert all(np.array_equal(p, w) for p, w in zip(pulled, fixed.pulled, strict=True))


def test_convolution_of_rank_four_is_built_from_aten():
    random = np.random.default_rng(0)
    x, w, b = random.integers(-3, 4, (2, 2, 4, 3, 5, 4)), random.integers(-3, 4, (4, 1, 2, 2, 3, 1)), np.arange(4)
    x, w, b = (a.astype(np.float64) for a in (x, w, b))
    words = {"stride": (1, 2, 1, 2), "padding": ((1, 0), (0, 1), (1, 1), (0, 0)), "dilation": (2, 1, 1, 1), "groups": 2}
    assert np.array_equal(sg.conv(*tensors((x, w, b)), **words), sg.conv(x, w, b, **words))
    w = random.integers(-3, 4, (2, 2, 2, 2, 3, 1)).astype(np.float64)
    words = {"stride": (1, 2, 1, 2), "padding": ((1, 0), (0, 1), (1, 1), (0, 0)), "output_padding": (0, 1, 0, 1)}
    for pair in ((x, w), (x * (1 + 2j), w * (2 - 1j))):
        assert np.array_equal(sg.conv_transpose(*tensors(pair), **words), sg.conv_transpose(*pair, **words))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.uint8], ids=str)
def test_other_numbers(dtype):
    """Half floats are rounded once from float32; integers have maxima and no averages."""
    x = torch.randint(0, 100, (2, 3, 9, 9)).to(dtype)
    assert torch.equal(sg.max_pool(x, (3, 3), stride=2), torch.nn.functional.max_pool2d(x.float(), 3, 2).to(dtype))
    if dtype.is_floating_point:
        assert torch.equal(sg.avg_pool(x, (2, 2)), sg.avg_pool(x.float(), (2, 2)).to(dtype))
        assert torch.equal(
            sg.smooth_max_pool(x, (2, 2), beta=0.1), sg.smooth_max_pool(x.float(), (2, 2), beta=0.1).to(dtype)
        )
    else:
        with pytest.raises(sg.ScalarError, match="integers do not divide; cast first"):
            sg.avg_pool(x, (2, 2))


@pytest.mark.parametrize("op", [sg.MseLoss(), sg.CrossEntropy()], ids=lambda op: op.name)
def test_losses_of_half_floats_are_rounded_once(op):
    x = torch.linspace(-300, 300, 24).reshape(3, 8).half()  # squares overflow, their mean does not
    other = torch.tensor([1, 0, 5]) if op.name == "cross_entropy" else x * 0.1
    wide = tuple(t.float() if t.dtype is torch.float16 else t for t in (x, other))
    assert torch.equal(op(x, other), op(*wide).half())
    assert op(x, other).isfinite()
    one = torch.ones(())
    assert torch.equal(op.vjp((x, other), one.half())[0], op.vjp(wide, one)[0].half())


def test_integers_have_derivatives_and_numbers_meet_every_tensor():
    x = torch.arange(4)
    assert sg.grad(lambda t: sg.sum(sg.mul(t, t)))(x).tolist() == [0, 2, 4, 6]
    assert sg.Relu().jvp((x,), (x,))[1].tolist() == [0, 1, 2, 3]
    assert sg.scale(x, 2.0).dtype is torch.int64
    assert sg.scale(torch.tensor([0, 2.0**-10]).half(), 2.0**20).tolist() == [0, 1024]
    assert sg.add(torch.zeros(1), float("inf")).tolist() == [float("inf")]
    assert sg.scale(torch.tensor([4j]), Fraction(1, 2)).tolist() == [2j]


def test_convolution_to_no_channel_and_crops_that_reach_into_output_padding():
    x, none = torch.ones(2, 4, 5), torch.ones(0, 2, 3)
    assert sg.conv(x, none, groups=2).shape == (2, 0, 3)
    assert sg.Conv((3,), groups=2).vjp((x, none), torch.ones(2, 0, 3))[0].tolist() == torch.zeros(2, 4, 5).tolist()
    words = {"stride": 4, "padding": ((5, 0),), "output_padding": 3}
    x, w = np.ones((1, 1)), np.arange(1.0, 4).reshape(1, 1, 3)
    assert sg.conv_transpose(*tensors((x, w)), **words).tolist() == sg.conv_transpose(x, w, **words).tolist() == [[0]]


def test_without_ml_dtypes_bfloat16_is_composed(monkeypatch):
    x = torch.randn(2, 2, 6, 6).bfloat16().requires_grad_()
    results = []
    for here in (kernels.BFLOAT16, None):
        monkeypatch.setattr(kernels, "BFLOAT16", here)
        y = sg.max_pool(x, (3, 3), stride=1)
        results.append((y, *torch.autograd.grad(y.sum(), x), sg.avg_pool(x, (2, 2))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def nested(x):
    return torch.nested.nested_tensor([x, x], layout=torch.jagged)


MESSAGES = [
    (lambda x: sg.max_pool(x, (9, 9)),
     "max_pool: kernel_size=(9, 9) on axis 0: the kernel spans 9 cells but the padded input has 4"),
    (lambda x: sg.max_pool(x > 0, (2, 2)), "torch.bool is not a scalar specgrad takes; cast to a number first"),
    (lambda x: sg.max_pool(x.to_sparse(), (2, 2)),
     "the layout torch.sparse_coo is not taken; make it dense first: x.to_dense()"),
    (lambda x: sg.max_pool(x.to(torch.float8_e4m3fn), (2, 2)),
     "x=torch.float8_e4m3fn array of shape (4, 4): torch.float8_e4m3fn is not a scalar specgrad takes"),
    (lambda x: sg.sum(x > 0),
     "sum: x=torch.bool array of shape (4, 4): torch.bool is not a scalar specgrad takes; cast to a number first"),
    (lambda x: sg.mean(x.long()),
     "mean: x=torch.int64 array of shape (4, 4): integers do not divide; cast first, e.g. x.double()"),
    (lambda x: sg.max_pool(x.to(torch.uint16), (2, 2)),
     "max_pool: x=torch.uint16 array of shape (4, 4): torch.uint16 is not a scalar specgrad takes"),
    (lambda x: sg.relu(x + 0j), "relu: x=torch.complex64 array of shape (4, 4): complex numbers have no order"),
    (lambda x: sg.cross_entropy(x, torch.tensor([0, 1, 2, 4])),
     "cross_entropy: integer_labels=4: is not one of 4 classes; write labels from 0 to 3"),
    (lambda x: sg.cross_entropy(x, torch.tensor([0, 1, 2, -100])),
     "cross_entropy: integer_labels=-100: is not one of 4 classes"),
    (lambda x: sg.cross_entropy(x, x[0]),
     "cross_entropy: integer_labels=torch.float32 array of shape (4,): must hold integers; cast first, e.g. x.long()"),
    (lambda x: specgrad.torch.accelerate(x),
     "accelerate: model=torch.float32 array of shape (4, 4): must be a module of torch"),
    (lambda x: sg.max_pool(x, (2, 2), out=np.zeros((2, 2))),
     "must be a torch.float32 tensor of shape (2, 2) on cpu; allocate it"),
    (lambda x: sg.conv(x[None], np.ones((1, 1, 2, 2))), "ndarray does not mix with torch.float32 on cpu"),
    (lambda x: sg.conv(x[None], torch.ones(1, 2, 2, 2)), "the weight reads 2 channels, the input has 1"),
    (lambda x: sg.scale(x.long(), 2**70),
     "scale: factor=1180591620717411303424: the scalar that it meets does not hold this number"),
    (lambda x: sg.scale(x.to(torch.int8), 300), "scale: factor=300: the scalar that it meets does not hold"),
    (lambda x: sg.scale(x.byte(), -1), "scale: factor=-1: the scalar that it meets does not hold"),
    (lambda x: sg.scale(x + 0j, 10**50), "the scalar that it meets does not hold"),
    (lambda x: sg.mul(x, 1e300), "mul: y=1e+300: the scalar that it meets does not hold"),
    (lambda x: sg.mul(x.half(), 1e6), "mul: y=1000000.0: the scalar that it meets does not hold"),
    (lambda x: sg.add(x.to(torch.int8), 300), "add: y=300: the scalar that it meets does not hold"),
    (lambda x: sg.mul(sg.Dual(x, x), 1e300), "mul: y=1e+300: the scalar that it meets does not hold"),
    (lambda x: sg.conv(x[None], torch.ones(1, 1, 2, 2, device="meta")),
     "weight=torch.float32 array of shape (1, 1, 2, 2): torch.float32 on meta does not mix with torch.float32 on cpu"),
    (lambda x: sg.linear(x, x.double()),
     "linear: weight=torch.float64 array of shape (4, 4): torch.float64 on cpu does not mix with torch.float32 on cpu"),
    (lambda x: sg.mul(x, x.double()),
     "mul: y=torch.float64 array of shape (4, 4): torch.float64 on cpu does not mix with torch.float32 on cpu"),
    (lambda x: sg.MaxPool((1, 1)).vjp((x,), x.double()),
     "max_pool: cotangent=torch.float64 array of shape (4, 4): torch.float64 on cpu does not mix"),
    (lambda x: sg.Relu().jvp((x,), (x.numpy(),)),
     "relu: tangent of x=float32 array of shape (4, 4): ndarray does not mix with Tensor"),
    (lambda x: sg.MaxPool((1, 1)).vjp((x.numpy(),), x),
     "max_pool: cotangent=torch.float32 array of shape (4, 4): Tensor does not mix with float32"),
    (lambda x: sg.Relu().jvp((x.numpy(),), (x,)),
     "relu: tangent of x=torch.float32 array of shape (4, 4): Tensor does not mix with float32"),
    (lambda x: sg.sum(x.to_sparse_csr()),
     "sum: x=torch.float32 array of shape (4, 4): the layout torch.sparse_csr is not taken; make it dense first"),
    (lambda x: sg.sum(x.to(torch.complex32)),
     "sum: x=torch.complex32 array of shape (4, 4): torch.complex32 is not a scalar specgrad takes"),
    (lambda x: sg.relu([x, x.requires_grad_()]),
     "relu: x='list': is a list of tensors, not one; make one of them first: torch.stack(x)"),
    (lambda x: sg.relu(nested(x)),
     "relu: x='NestedTensor': a nested tensor has no one shape; give its tensors one by one: x.unbind()"),
    (lambda x: sg.max_pool(nested(x), (2, 2)), "max_pool: x='NestedTensor': a nested tensor has no one shape"),
    (lambda x: sg.MaxPool((2, 2)).vjp((nested(x),), x), "max_pool: x='NestedTensor': a nested tensor has no one shape"),
    (lambda x: sg.smooth_max_pool(x, (2, 2), beta=1e-60), "beta=1e-60: is 0 or infinite in the input's precision"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:Sparse CSR")
@pytest.mark.parametrize(("call", "words"), MESSAGES, ids=[words[:40] for _, words in MESSAGES])
def test_messages_are_those_of_specgrad(call, words):
    with pytest.raises(sg.SpecgradError) as refused:
        call(torch.zeros(4, 4))
    assert words in str(refused.value)


VIEWS = {
    "expanded": torch.tensor([[2.0], [3.0]]).expand(2, 3),
    "negated": torch._neg_view(torch.arange(1.0, 7).reshape(2, 3)),
    "negated part": torch.complex(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)).conj().imag,
    "conjugated": torch.complex(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)).conj(),
    "expanded and conjugated": torch.tensor([[1 + 2j], [3j]]).expand(2, 3).conj(),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("op", [sg.Mul(), sg.Linear(), sg.SumPool((2,)), sg.Unfold((2,))], ids=lambda op: op.name)
def test_derivatives_at_views_that_are_not_memory_of_their_own(op, view):
    x, gy = VIEWS[view], torch.ones(op.output_shape(*((2, 3),) * len(op.slots[:2])), dtype=VIEWS[view].dtype)
    viewed, own = ((t,) * len(op.slots[:2]) for t in (x, torch.tensor(x.tolist())))
    for tangents in (viewed, own):
        assert torch.equal(op.jvp(viewed, tangents)[1], op.jvp(own, own)[1])
    for got, wanted in zip(op.vjp(viewed, gy), op.vjp(own, gy), strict=True):
        assert torch.equal(got, wanted)
        assert not got.is_conj()


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("function", [sg.conv, sg.conv_transpose], ids=["conv", "conv_transpose"])
def test_a_bias_does_not_change_the_dtype_and_empty_batches_have_gradients(function, rank):
    x, w, b = torch.ones(0, 2, *[3] * rank), torch.ones(2, 2, *[2] * rank), torch.ones(2)
    with torch.autocast("cpu", torch.bfloat16):
        dtypes = {function(*(t.to(dtype) for t in (x, w, b))).dtype for dtype in (x.dtype, torch.bfloat16)}
        assert dtypes == {function(x, w).dtype} == {torch.bfloat16}
        full = torch.ones(1, *x.shape[1:])
        assert function(full, w).dtype is torch.bfloat16
        assert function(full.double(), w.double()).dtype is torch.float64
    leaves = [t.requires_grad_() for t in (x, w, b)]
    none = [x, torch.ones(0, 2, *[2] * rank, requires_grad=True)]  # no output channel either
    for operands in (leaves, leaves[:2], none if function is sg.conv else leaves):
        gradients = torch.autograd.grad(function(*operands).sum(), operands)
        assert all(g.shape == t.shape and not g.any() for g, t in zip(gradients, operands, strict=True))


def test_out_and_tapes_take_tensors():
    x = torch.arange(16.0).reshape(4, 4)
    out = torch.empty(2, 2)
    assert sg.max_pool(x, (2, 2), out=out) is out
    assert out.tolist() == [[5, 7], [13, 15]]
    assert torch.equal(sg.grad(lambda t: sg.sum(sg.avg_pool(t, (2, 2))))(x), torch.full((4, 4), 0.25))


def test_tensors_without_numbers_and_without_autograd():
    assert sg.max_pool(torch.empty(2, 3, 8, 8, device="meta"), (2, 2)).shape == (2, 3, 4, 4)
    x = torch.arange(16.0).reshape(4, 4)
    with torch.inference_mode():
        y = sg.max_pool(x, (2, 2))
    assert y.is_inference()
    assert y.tolist() == [[5, 7], [13, 15]]


def test_no_torch_without_tensors():
    import subprocess
    import sys

    code = (
        "import sys, numpy, specgrad; specgrad.max_pool(numpy.ones((4, 4)), (2, 2)); "
        "specgrad.max_pool([[1, 2], [3, 4]], (2, 2)); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("function", [sg.conv, sg.conv_transpose], ids=["conv", "conv_transpose"])
def test_convolution_of_rank_four_has_all_derivatives(function):
    torch.manual_seed(0)
    x, w = (
        torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in ((1, 1, 2, 3, 2, 2), (1, 1, 2, 2, 1, 2))
    )

    def call(x, w):
        return function(x, w, stride=(1, 2, 1, 1), padding=((1, 0), (0, 1), (0, 0), (0, 0)))

    assert torch.autograd.gradcheck(call, (x, w), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (x, w))
    stacked = torch.stack([x, 2 * x]).detach()
    mapped = torch.func.vmap(lambda t: call(t, w))(stacked)
    torch.testing.assert_close(mapped, torch.stack([call(x, w), call(2 * x, w)]), rtol=0, atol=32 * 8 * UNIT)
