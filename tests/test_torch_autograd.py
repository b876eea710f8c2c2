"""All torch transforms of every pooling operator, compared with autograd through the specification
composed of aten calls."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from own_operators import EnergyPool  # noqa: E402
from torch import func  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch_pools import OPTIONS, bent, exactly, nearly, sample  # noqa: E402

import specgrad as sg  # noqa: E402
import specgrad.torch  # noqa: E402
from specgrad.conformance import bounds  # noqa: E402
from specgrad.ops.pool import Average  # noqa: E402
from specgrad.torch import eager, functional, kernels  # noqa: E402
from specgrad.torch.operators import FAMILIES, encoded  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")


every = pytest.mark.parametrize("op", OPTIONS, ids=repr)


def by_specification(op, x):
    with sg.engine("reference"):
        return op(x)


def test_every_option_is_listed():
    import dataclasses

    assert {type(op) for op in OPTIONS} == set(FAMILIES)
    for kind in FAMILIES:
        made = [op for op in OPTIONS if isinstance(op, kind)]
        for field in dataclasses.fields(kind):
            if field.name not in ("rank", "output_size", "kernel_size") and field.name != "keepdims":
                values = {
                    str(getattr(op, field.name)) for other in OPTIONS for op in [other] if hasattr(op, field.name)
                }
                assert made
                assert len(values) > 1, (kind, field.name)


@every
def test_gradcheck_of_both_modes_and_both_orders(op):
    x = sample(2, 4, 5).requires_grad_()
    assert torch.autograd.gradcheck(
        op, (x,), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(
        op, (x,), check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True
    )


@every
def test_transforms_are_those_of_the_specification(op):
    wanted = functools.partial(by_specification, op)
    x, dx = sample(2, 4, 5), sample(2, 4, 5, seed=1)
    nearly(func.jvp(op, (x,), (dx,)), func.jvp(wanted, (x,), (dx,)))
    value, back = func.vjp(op, x)
    gy = sample(*value.shape, seed=2)
    nearly(back(gy), func.vjp(wanted, x)[1](gy))
    nearly(func.jacrev(op)(x), func.jacrev(wanted)(x))
    nearly(func.jacfwd(op)(x), func.jacfwd(wanted)(x))
    hessian = func.hessian(bent(wanted))(x)
    assert hessian.abs().sum() > 0
    nearly(func.hessian(bent(op))(x), hessian)
    nearly(func.jacrev(func.jacfwd(bent(op)))(x), hessian)
    nearly(func.jacrev(func.jacrev(bent(op)))(x), hessian)

    def third(f):
        return func.grad(lambda a: (func.grad(lambda b: (func.grad(f)(b) * dx).sum())(a) * dx).sum())(x)

    nearly(third(bent(op)), third(bent(wanted)))


STATED = {
    "lp_pool": lambda x: sg.lp_pool(x + 1, (2, 2), p=3, stride=1),
    "unfold": lambda x: sg.unfold(x, (2, 2)),
    "fold": lambda x: sg.fold(sg.unfold(x, (2, 2)), (4, 5), (2, 2)),
    "maximum": lambda x: sg.maximum(x, x.square() - 1 / 3),
    "reflect": lambda x: sg.pad(x, ((0, 0), (1, 2), (1, 0)), mode="reflect"),
    "slice": lambda x: sg.slice(x, (slice(None), slice(None, None, -2))),
    "min_pool": lambda x: sg.min_pool(x, (1, 1), stride=2, padding=1),
    "own": EnergyPool((2, 2)),
}
"""Functions that `composed` runs."""


@pytest.mark.parametrize("function", [*OPTIONS, *STATED.values()], ids=[*map(repr, OPTIONS), *STATED])
def test_forward_mode_over_forward_mode(function):
    x, dx = sample(2, 4, 5), sample(2, 4, 5, seed=1)
    bends, wanted = bent(function), bent(functools.partial(by_specification, function))
    hessian = func.hessian(wanted)(x)
    assert hessian.abs().sum() > 0
    nearly(func.jacfwd(func.jacfwd(bends))(x), hessian)
    nearly(func.jacrev(func.jacfwd(bends))(x), hessian)
    nearly(func.hessian(bends)(x), hessian)

    def along(f):
        return lambda t: func.jvp(f, (t,), (dx,))[1]

    third = func.grad(along(along(wanted)))(x)
    for nested in (func.grad(along(along(bends))), func.jacfwd(along(along(bends))), along(along(func.grad(bends)))):
        nearly(nested(x), third)


@pytest.mark.parametrize("p", [2, 2.5, 3, 4])
@pytest.mark.parametrize("padding", [0, 2])
def test_third_derivatives_of_norms(p, padding):
    """Powers of padding, of zeros and of negative cells, against NumPy's nested transforms."""

    def norms(x):
        return sg.sum(sg.lp_pool(x, (3,), p=p, stride=2, padding=padding))

    def along(jvp, f, t):
        return lambda x: jvp(f, (x,), (t,))[1]

    x, dx = np.array([0, -2.0, 3, 0, 0, 0, 0, 1]), np.linspace(0.3, 0.9, 8)
    wanted = torch.tensor(sg.grad(along(sg.jvp, along(sg.jvp, norms, dx), dx))(x))
    x, dx = torch.tensor(x, requires_grad=True), torch.tensor(dx)
    found = [func.grad(along(func.jvp, along(func.jvp, norms, dx), dx))(x)]
    value = norms(x)
    for _ in range(3):
        found.append(torch.autograd.grad(value, x, create_graph=True)[0])
        value = (found[-1] * dx).sum()
    assert wanted.abs().sum() > 0
    nearly((found[0], found[-1]), (wanted, wanted))


@every
def test_vmap_in_any_place_of_the_axis_and_nested(op):
    x, other = sample(2, 4, 5), sample(2, 4, 5, seed=1)
    both = torch.stack([op(x), op(other)])
    nearly(func.vmap(op, in_dims=2)(torch.stack([x, other], 2)), both)
    nearly(func.vmap(op, in_dims=-1, out_dims=1)(torch.stack([x, other], -1)), both.movedim(0, 1))
    nearly(func.vmap(func.vmap(op))(torch.stack([x, other])[None]), both[None])
    nearly(
        func.vmap(func.grad(bent(op)))(torch.stack([x, other])),
        torch.stack([func.grad(bent(op))(t) for t in (x, other)]),
    )
    tangents = torch.stack([x, other])  # codes and x have no mapped axis, tangents do
    nearly(
        func.vmap(lambda t: func.jvp(op, (x,), (t,))[1])(tangents),
        torch.stack([op.jvp((x,), (t,))[1] for t in tangents]),
    )


@pytest.mark.parametrize(
    "op", [sg.MaxPool((2, 2)), sg.AvgPool((2, 2)), sg.SmoothMaxPool((2, 2), beta=2)], ids=lambda op: op.name
)
def test_vmap_over_batches_of_images_in_either_layout(op):
    images = sample(3, 2, 3, 4, 4)  # a mapped function sees four axes, and torch does not give their layout
    for x in (images, images.movedim(2, -1).contiguous().movedim(-1, 2)):
        nearly(func.vmap(op)(x), torch.stack([op(t) for t in images]))
        nearly(func.vmap(func.grad(bent(op)), in_dims=1)(x.movedim(0, 1)), func.grad(bent(op))(images))
        nearly(func.jacfwd(op)(x[0]), func.jacrev(op)(images[0]))


@every
def test_no_tangent_is_silently_zero(op):
    """By dual numbers, by torch.func, and by the operators that an exported program calls."""
    x, dx = sample(2, 4, 5), sample(2, 4, 5, seed=1)
    wanted = func.jvp(functools.partial(by_specification, op), (x,), (dx,))[1]
    assert wanted.abs().sum() > 0
    made, parameters = FAMILIES[type(op)], (0, *encoded(op, 3))
    for door in (op, lambda t: made.value(t, *parameters)):
        with forward_ad.dual_level():
            nearly(forward_ad.unpack_dual(door(forward_ad.make_dual(x, dx))).tangent, wanted)
        with torch.no_grad(), forward_ad.dual_level():
            nearly(forward_ad.unpack_dual(door(forward_ad.make_dual(x, dx))).tangent, wanted)
        nearly(func.jvp(door, (x,), (dx,))[1], wanted)


@pytest.mark.parametrize("mode", ["vmap", "fake", "inference", "dual"])
def test_what_is_plain_is_not_learnt_inside_a_mode(mode):
    from torch._subclasses.fake_tensor import FakeTensorMode

    eager.ordinary_keys.cache_clear()
    x = sample(2, 4, 4)
    if mode == "vmap":
        func.vmap(lambda t: sg.max_pool(t, (2, 2)))(x)
    elif mode == "fake":
        with FakeTensorMode() as fake:
            assert sg.max_pool(fake.from_tensor(x), (2, 2)).shape == (2, 2, 2)
    elif mode == "inference":
        with torch.inference_mode():
            sg.max_pool(x, (2, 2))
    else:
        with forward_ad.dual_level():
            sg.max_pool(forward_ad.make_dual(x, x), (2, 2))
    assert eager.is_plain(x)
    assert eager.is_plain(torch.nn.Parameter(x))
    assert not eager.is_plain(x.as_subclass(type("Mine", (torch.Tensor,), {})))
    assert not eager.is_plain(torch._neg_view(x))


def test_a_transform_without_a_rule_raises():
    with pytest.raises(RuntimeError, match="Functionalize rule"):
        func.functionalize(lambda x: sg.max_pool(x, (2, 2)))(sample(4, 4))
    value, indices = sg.max_pool(sample(4, 4).requires_grad_(), (2, 2), return_indices=True)
    assert value.requires_grad
    assert not indices.requires_grad


@every
def test_opcheck(op):
    made, x = FAMILIES[type(op)], sample(2, 4, 5).requires_grad_()
    parameters = (0, *encoded(op, 3))
    value, source = made.value(x.detach(), *parameters), None if isinstance(op, Average) else x
    calls = [(made.value, (x, *parameters))]
    if kernels.reads_codes(op):
        source = made.keep(x.detach(), *parameters)[1]
        calls.append((made.keep, (x, *parameters)))
        calls.append((made.places, (source, x.detach(), [2, 4, 5], *parameters)))
    calls.append((made.push, (sample(2, 4, 5, seed=1).requires_grad_(), source, *parameters)))
    calls.append((made.pull, (sample(*value.shape, seed=2).requires_grad_(), source, [2, 4, 5], *parameters)))
    for call, arguments in calls:
        assert set(torch.library.opcheck(call, arguments).values()) == {"SUCCESS"}, call


def saved_bytes(function, x):
    total = 0

    def count(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        function(x)
    return total


def test_bytes_are_kept_not_indices():
    x = torch.randn(2, 8, 64, 64, requires_grad=True)
    outputs = 2 * 8 * 32 * 32
    assert saved_bytes(lambda t: functional.max_pool2d(t, 2), x) == outputs
    assert saved_bytes(lambda t: torch.nn.functional.max_pool2d(t, 2), x) == 4 * x.numel() + 8 * outputs
    assert saved_bytes(lambda t: functional.avg_pool2d(t, 2), x) == 0
    assert saved_bytes(lambda t: functional.adaptive_max_pool2d(t, 16), x) == outputs // 4
    assert saved_bytes(lambda t: functional.adaptive_avg_pool2d(t, 16), x) == 0
    assert (
        saved_bytes(torch.compile(lambda t: sg.smooth_max_pool(t, (2, 2), beta=1), backend="aot_eager"), x)
        == 4 * x.numel()
    )
    assert saved_bytes(lambda t: sg.max_pool(t, (17, 17), stride=1), x) == 2 * 2 * 8 * 48 * 48  # more than 255 cells


@pytest.mark.parametrize(
    "op", [sg.SmoothMaxPool((3, 3), beta=2, stride=1), sg.MaxPool((3, 3), stride=1, ties="split")], ids=repr
)
def test_what_is_kept_is_seen_by_autograd(op):
    """Hooks may move saved tensors and return them in another layout; writing to x before backward
    is an error."""
    x = torch.randn(4, 40, 50).transpose(1, 2).requires_grad_()
    y = op(x)
    gy = torch.randn_like(y)
    wanted = op.vjp((x.detach(),), gy)
    exactly(torch.autograd.grad(y, x, gy), wanted)
    moved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (moved.append(t.shape), t.clone())[1], lambda t: t.contiguous()
    ):
        again = op(x)
    assert len(moved) > 1
    nearly_float = 2.0**-24 * 64 * 8  # another layout may sum in another order: 9 weights and cotangents below 8
    torch.testing.assert_close(torch.autograd.grad(again, x, gy), wanted, rtol=0, atol=nearly_float)
    leaf = x.detach().contiguous().requires_grad_()
    places = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (places.append(t.data_ptr()), t)[1], lambda t: t):
        op(leaf)
    assert places.count(leaf.data_ptr()) == 1  # the kept tensor is x itself
    copied = leaf * 1
    z = op(copied)
    copied.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


RESULTS = [
    sg.MaxPool((2, 2)),
    sg.MaxPool((2, 2), ties="split"),
    sg.GlobalMaxPool(2),
    sg.AvgPool((2, 2)),
    sg.SmoothMaxPool((2, 2), beta=2),
    sg.LpPool((2, 2), p=3),
]


@pytest.mark.parametrize("op", RESULTS, ids=repr)
def test_checkpoints_keep_nothing_and_results_may_be_written_to(op):
    """A checkpoint gives its saved tensors only once; views made by a Function must not be
    written to."""
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64).requires_grad_()
    (wanted,) = torch.autograd.grad(op(x).sum(), x)
    for reentrant in (False, True):
        y = torch.utils.checkpoint.checkpoint(op, x, use_reentrant=reentrant)
        if reentrant:
            y.sum().backward()
        assert torch.equal(x.grad if reentrant else torch.autograd.grad(y.sum(), x)[0], wanted)
    assert torch.equal(torch.autograd.grad(op(x).mul_(2).sum(), x)[0], 2 * wanted)


@pytest.mark.parametrize("rank", [2, 3])
def test_channels_last_in_and_out(rank):
    form = torch.channels_last if rank == 2 else torch.channels_last_3d
    plain = torch.randn(2, 5, *(9, 8, 7)[:rank])
    x = plain.to(memory_format=form).requires_grad_()
    for call in (
        lambda t: sg.max_pool(t, (3,) * rank, stride=2, padding=1),
        lambda t: sg.avg_pool(t, (2,) * rank),
        lambda t: sg.smooth_max_pool(t, (2,) * rank, beta=1),
        lambda t: sg.max_pool(t, (2,) * rank, return_indices=True)[1],
        lambda t: sg.adaptive_max_pool(t, (2,) * rank, ties="all"),
    ):
        y = call(x)
        assert y.is_contiguous(memory_format=form)
        bound = 2 * 28 * 2.0**-24 * 8  # sums of at most 27 numbers below 8, in another order
        torch.testing.assert_close(y, call(plain), rtol=0, atol=bound)
        if y.requires_grad:
            (gx,) = torch.autograd.grad(y.sum(), x)
            assert gx.is_contiguous(memory_format=form)


def test_strange_layouts():
    x = sample(3, 8, 8)
    for view in (x[:, ::2], x.transpose(0, 2), x[0].expand(3, 8, 8), torch.as_strided(x, (4, 5), (3, 1)), x[:0]):
        a, b = view.detach().requires_grad_(), view.detach().contiguous().requires_grad_()
        for call in (lambda t: sg.max_pool(t, (2, 2)), lambda t: sg.smooth_max_pool(t, (2, 2), beta=1)):
            exactly(call(a), call(b))
            exactly(torch.autograd.grad(call(a).sum(), a), torch.autograd.grad(call(b).sum(), b))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_floats_are_rounded_once_in_every_order(dtype):
    op = sg.SmoothMaxPool((2, 2), beta=2, stride=1)
    x, g, v = (sample(4, 4, seed=s).to(dtype) for s in (0, 1, 2))
    g = g[:3, :3].contiguous()

    def results(x, g, v):
        pulled = lambda t: func.vjp(op, t)[1](g)[0]  # noqa: E731
        return func.jvp(op, (x,), (v,)), pulled(x), func.jvp(pulled, (x,), (v,))[1]

    rounded = torch.utils._pytree.tree_map(lambda t: t.to(dtype), results(x.float(), g.float(), v.float()))
    exactly(results(x, g, v), rounded)


def test_autocast_casts_what_torch_casts():
    with torch.autocast("cpu"):
        for rank, x in ((1, torch.randn(2, 3, 8)), (2, torch.randn(2, 3, 8, 8)), (3, torch.randn(2, 3, 8, 8, 8))):
            for dtype in (torch.bfloat16, torch.float32):
                for kind in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool"):
                    name = f"{kind}{rank}d"
                    got, wanted = (getattr(place, name)(x.to(dtype), 2) for place in (functional, torch.nn.functional))
                    assert got.dtype == wanted.dtype, name
                y, at = getattr(torch.nn.functional, f"max_pool{rank}d")(x.to(dtype), 2, return_indices=True)
                name = f"max_unpool{rank}d"
                exactly(*(getattr(place, name)(y.to(dtype), at, 2) for place in (functional, torch.nn.functional)))


def test_deterministic_whatever_the_threads():
    x = torch.randn(4, 16, 64, 64, requires_grad=True)
    calls = [
        lambda: functional.max_pool2d(x, 3, 1, 1),
        lambda: functional.avg_pool2d(x, 5, 2, 2),
        lambda: sg.smooth_max_pool(x, (3, 3), beta=2, stride=1, padding=1),
        lambda: functional.adaptive_avg_pool2d(x, 7),
        lambda: functional.adaptive_max_pool2d(x, 7),
    ]
    before = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    try:
        for call in calls:
            bits = []
            for threads in (1, 2, 4, 2):
                torch.set_num_threads(threads)
                y = call()
                bits.append((y, *torch.autograd.grad(y.square().sum(), x)))
            for again in bits[1:]:
                exactly(again, bits[0])
        pooled, at = functional.max_pool2d(x, 2, return_indices=True)
        exactly(functional.max_unpool2d(pooled, at, 2).amax((2, 3)), x.amax((2, 3)))
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def test_learnable_beta_is_within_the_bound_of_a_product_first():
    pool = sg.torch.SmoothMaxPool1d(3, beta=-2.0, learnable=True, stride=1)
    x = sample(9).float()
    y = pool(x[None, None])[0, 0]
    op = sg.SmoothMaxPool((3,), beta=-2, stride=1)
    assert bounds.smooth(op, x.numpy(), x.numpy(), np.ones(7, np.float32), composed=True)[0].holds(y.detach().numpy())
    double = pool.double()
    assert torch.autograd.gradcheck(
        lambda t, beta: func.functional_call(double, {"beta": beta}, (t,)),
        (sample(1, 1, 9).requires_grad_(), torch.tensor(-2.0, dtype=torch.double, requires_grad=True)),
        check_forward_ad=True,
    )
