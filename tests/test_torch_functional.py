"""specgrad.torch.functional against torch.nn.functional: torch's own samples and error inputs, and
calls from Hypothesis."""

import inspect
import math
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch.nn.functional as F  # noqa: E402
from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from kinds import effort  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

from specgrad.ops import AdaptiveAvgPool  # noqa: E402
from specgrad.torch import functional, routing  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")

NAMES = [
    f"{kind}{rank}d"
    for kind in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")
    for rank in (1, 2, 3)
]
OTHERS = [f"{kind}{rank}d" for kind in ("lp_pool", "max_unpool") for rank in (1, 2, 3)]
UNIT = 2.0**-53


def known_to_torch(name):
    """The entries of torch's OpInfo for a function, in all variants; imported on demand, since the
    import takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [info for info in op_db if info.name == f"nn.functional.{name}"]


@pytest.fixture
def answered(monkeypatch):
    """The calls that our own operators answered."""
    calls = []
    found = routing.ours

    def counted(*arguments):
        result = found(*arguments)
        calls.append(arguments[0].kind)
        return result

    monkeypatch.setattr(routing, "ours", counted)
    return calls


def tuples(result):
    return result if isinstance(result, tuple) else (result,)


def agree(got, wanted, terms=0):
    """Equality up to the rounding of sums of `terms` terms of magnitude 10."""
    for ours, theirs in zip(tuples(got), tuples(wanted), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        unit = torch.finfo(ours.dtype).eps / 2 if ours.is_floating_point() else 0.0
        slack = terms * 2 * unit
        torch.testing.assert_close(ours, theirs, rtol=slack, atol=10 * slack, equal_nan=True)


def derivatives(function, x, arguments, words):
    """The value(s), the VJP of a ramp of numbers, and the JVP of another."""
    leaf = x.detach().clone().requires_grad_()
    value = function(leaf, *arguments, **words)
    y = tuples(value)[0]
    ramp = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)
    (pulled,) = torch.autograd.grad(y, leaf, ramp)
    with forward_ad.dual_level():
        moved = forward_ad.make_dual(x.detach(), torch.linspace(-2, 1, x.numel(), dtype=x.dtype).reshape(x.shape))
        pushed = forward_ad.unpack_dual(tuples(function(moved, *arguments, **words))[0]).tangent
    return (*tuples(value), pulled, pushed)


@pytest.mark.parametrize("name", [n for n in [*NAMES, *OTHERS] if "lp_pool" not in n])
def test_torchs_own_samples(name, answered):
    ours = getattr(functional, name)
    torch.manual_seed(0)
    made = [
        (info, s) for info in known_to_torch(name) for s in info.sample_inputs_func(info, "cpu", torch.float64, False)
    ]
    samples = [(info, sample) for info, sample in made if sample.input.numel()]
    samples = samples[:: effort(len(samples) // 6 + 1, 1)]
    assert samples
    for info, sample in samples:
        if (
            name.startswith("max_unpool") and not info.variant_test_name
        ):  # repeated cells: torch's own tangents are a race
            agree(
                ours(sample.input, *sample.args, **sample.kwargs), info.op(sample.input, *sample.args, **sample.kwargs)
            )
            continue
        terms = max(sample.input.numel(), 1)
        got = derivatives(ours, sample.input, sample.args, sample.kwargs)
        agree(got, derivatives(info.op, sample.input, sample.args, sample.kwargs), terms)
        if "max_pool" in name:
            agree(
                ours(sample.input, *sample.args, **sample.kwargs), info.op(sample.input, *sample.args, **sample.kwargs)
            )
    assert name.startswith("max_unpool") or len(answered) >= 2 * len(samples)


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_torchs_own_error_inputs_raise_torchs_errors(name):
    count = 0
    for info in known_to_torch(name):
        if info.error_inputs_func is not None:
            for wrong in info.error_inputs("cpu"):
                sample = wrong.sample_input
                with pytest.raises(wrong.error_type) as raised:
                    getattr(functional, name)(sample.input, *sample.args, **sample.kwargs)
                assert re.search(wrong.error_regex, str(raised.value))
                count += 1
    assert count or name.startswith("lp_pool")


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_signatures_are_torchs(name):
    own = inspect.signature(getattr(functional, name)).parameters.values()
    theirs = getattr(F, f"_{name}", None) or getattr(F, f"{name}_with_indices", None) or getattr(F, name)
    if inspect.isfunction(theirs):
        wanted = inspect.signature(theirs).parameters.values()
    else:
        words = re.match(rf"\s*{name}\((.*?)\)", inspect.getdoc(theirs)).group(1)
        wanted = inspect.signature(eval(f"lambda {words}: None")).parameters.values()
    assert [(p.name, p.default) for p in own] == [(p.name, p.default) for p in wanted]


CELLS = st.sampled_from([-math.inf, math.nan, -0.0, 0.0, 0.0, 1.0, 1.0, 2.0, -3.0, 0.1])
FINITE = st.sampled_from([0.0, 1.0, 1.0, -3.0, 0.1, 1e3])


@st.composite
def inputs(draw, rank, cells):
    shape = [
        *draw(st.lists(st.integers(1, 2), min_size=1, max_size=2)),
        *(draw(st.integers(1, 8)) for _ in range(rank)),
    ]
    size = math.prod(shape)
    some = draw(st.lists(cells, min_size=1, max_size=12))
    order = draw(st.randoms(use_true_random=False))
    x = torch.tensor(
        [order.choice(some) for _ in range(size)], dtype=draw(st.sampled_from([torch.float64, torch.float32]))
    )
    x = x.reshape(shape)
    form = {2: torch.channels_last, 3: torch.channels_last_3d}.get(rank) if x.ndim == rank + 2 else None
    if rank == 3 and x.isneginf().any():  # see test_what_is_ours_to_answer_better
        form = None
    return x.to(memory_format=form) if form and draw(st.booleans()) else x


@st.composite
def numbers(draw, rank, values):
    """A number or sequence, in each form that torch accepts."""
    one = draw(values)
    return draw(st.sampled_from([one, [one] * rank, (one,), tuple(draw(values) for _ in range(rank))]))


@st.composite
def calls(draw, name):
    rank, kind = int(name[-2]), name[:-2]
    x = draw(inputs(rank, CELLS if "max" in kind else FINITE))
    if kind.startswith("adaptive"):
        size = draw(
            st.integers(1, 9) | st.tuples(*[st.integers(1, 9) | (st.none() if rank > 1 else st.nothing())] * rank)
        )
        words = {"return_indices": draw(st.booleans())} if "max" in kind else {}
        return x, (size,), words
    words = {
        "stride": draw(st.none() | numbers(rank, st.integers(1, 3))),
        "ceil_mode": draw(st.booleans()),
    }
    kernel = draw(numbers(rank, st.integers(1, 8 - rank)))
    if kind == "lp_pool":
        return x.abs(), (draw(st.sampled_from([1.0, 2, 3.5, math.inf])), kernel), words
    words["padding"] = draw(numbers(rank, st.integers(0, 4 - rank)))
    if kind == "max_pool":
        words |= {"dilation": draw(numbers(rank, st.integers(1, 3))), "return_indices": draw(st.booleans())}
    else:
        words["count_include_pad"] = draw(st.booleans())
        if rank > 1:
            words["divisor_override"] = draw(st.none() | st.sampled_from([1, 5, -3, 0]))
    return x, (kernel,), words


@pytest.mark.parametrize("name", [n for n in [*NAMES, *OTHERS] if "unpool" not in n])
def test_calls_beyond_torchs_samples(name, answered):
    """Ties, NaN, infinities, signed zeros, kernels larger than the input, ceil_mode with divisors:
    the same value or the same error."""

    @settings(max_examples=effort(14, 100))
    @given(calls(name))
    def check(call):
        x, arguments, words = call
        theirs, ours = getattr(F, name), getattr(functional, name)
        refused = None
        try:
            wanted = theirs(x, *arguments, **words)
        except Exception as error:
            refused = error
        if refused is not None:
            with pytest.raises(type(refused), match=f"^{re.escape(str(refused))}$"):
                ours(x, *arguments, **words)
            return
        got = ours(x, *arguments, **words)
        if words.get("return_indices"):  # torch's indices are outside of the plane if a window has no real cell
            wanted = wanted[0], torch.where(got[1] < 0, -1, wanted[1])
        terms = 0 if "max" in name else 64 * x.numel()
        agree(got, wanted, terms)
        if "max" in name:
            assert torch.equal(torch.signbit(tuples(got)[0]), torch.signbit(tuples(wanted)[0]))
        if "lp" not in name and tuples(wanted)[0].isfinite().all():
            agree(derivatives(ours, x, arguments, words), derivatives(theirs, x, arguments, words), 64 * x.numel())

    check()
    assert len(answered) > effort(3, 25)


@example(norm=2.0)
@settings(max_examples=5)
@given(norm=st.sampled_from([1.0, 2.0, 3.0, math.inf]))
def test_lp_pool_has_torchs_derivatives(norm):
    x = torch.rand(2, 3, 7, 6, dtype=torch.float64) + 0.1
    agree(
        derivatives(functional.lp_pool2d, x, (norm, (3, 2)), {}), derivatives(F.lp_pool2d, x, (norm, (3, 2)), {}), 256
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_powers_of_half_floats_do_not_overflow(rank):
    """Torch rounds each power and each sum, and refuses volumes."""
    x = torch.full((1, 1, *(2,) * rank), 300.0).half()
    name, root = f"lp_pool{rank}d", 2 ** (rank / 2)
    assert getattr(functional, name)(x, 2, 2).item() == torch.tensor(300 * root).half()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert getattr(functional, name)(x, 2, 2).dtype == getattr(F, name)(x, 2, 2).dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_floats_agree_to_their_last_bit_or_two(dtype, answered):
    """Both sum in float32 and round once. If the sums differ in a bit, the rounding may differ too:
    at most two units of the largest."""
    x = torch.randn(2, 4, 12, 12).to(dtype)
    for name in NAMES:
        if name.endswith("2d"):
            arguments = (5,) if "adaptive" in name else (3, 2, 1)
            agree(getattr(functional, name)(x, *arguments), getattr(F, name)(x, *arguments), 0 if "max" in name else 2)
    assert len(answered) == 4


def test_what_is_torchs_to_answer(answered, monkeypatch):
    integers = torch.arange(16).reshape(1, 4, 4)
    assert torch.equal(functional.max_pool2d(integers, 2), F.max_pool2d(integers, 2))
    one = torch.ones(1, 1, 1)  # a dilated window that misses the input: torch's value, -inf, not 0
    assert functional.max_pool1d(one, 2, 1, 1, 2).item() == F.max_pool1d(one, 2, 1, 1, 2).item() == -math.inf
    with warnings.catch_warnings(action="ignore"), pytest.raises(NotImplementedError, match="NestedTensor"):
        functional.max_pool2d(torch.nested.nested_tensor([one, one]), 2)
    empty = torch.ones(0, 2, 4, 4)
    assert functional.max_pool2d(empty, 2).shape == (0, 2, 2, 2)
    monkeypatch.setattr(routing, "SMALL", 100)
    assert functional.avg_pool2d(torch.ones(1, 4, 4), 2).tolist() == [[[1, 1], [1, 1]]]
    assert len(answered) <= 1
    planes = torch.randn(2, 3, 9, 9)
    assert torch.equal(functional.adaptive_avg_pool2d(planes, 1), F.adaptive_avg_pool2d(planes, 1))
    assert len(answered) <= 1
    functional.adaptive_avg_pool2d(planes.to(memory_format=torch.channels_last), (1, 1))
    functional.adaptive_avg_pool2d(torch.randn(3, 9, 9, requires_grad=True), 1)
    functional.adaptive_avg_pool2d(torch.randn(1, 1, 16, 16), 1)
    functional.adaptive_avg_pool2d(planes, (1, 2))
    assert answered[-4:] == [AdaptiveAvgPool] * 4
    threads = torch.get_num_threads()
    for shape in (
        (1, 1, 700, 700),
        (2, 1, 700, 700),
    ):  # on both routes the bits do not depend on the number of threads
        large, found = torch.randn(shape), []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(functional.adaptive_avg_pool2d(large, 1))
        torch.set_num_threads(threads)
        assert torch.equal(*found)


def test_what_is_ours_to_answer_better():
    """Intended differences, listed in docs/pytorch.md: a window of -inf has a winner in every
    layout, and every layout is accepted."""
    x = torch.full((1, 1, 2, 2, 2), -math.inf).to(memory_format=torch.channels_last_3d)
    x = torch.cat([x, x], 1).to(memory_format=torch.channels_last_3d)
    at = torch.arange(8).reshape(1, 1, 2, 2, 2).expand(1, 2, 2, 2, 2)
    assert torch.equal(functional.max_pool3d(x, 1, return_indices=True)[1], at)
    assert not torch.equal(F.max_pool3d(x, 1, return_indices=True)[1], at)
    unbatched = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert torch.equal(functional.max_pool3d(unbatched, 2), F.max_pool3d(unbatched.contiguous(), 2))
    with pytest.raises(RuntimeError, match="Unsupported memory format"):
        F.max_pool3d(unbatched, 2)
