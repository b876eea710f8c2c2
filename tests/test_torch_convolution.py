"""Gradients of torch's grouped convolutions by the CPU engine, in models that `accelerate`
changes."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.func import functional_call, grad, jvp, vmap  # noqa: E402

from specgrad.torch import accelerate, convolution  # noqa: E402

LAYERS = [
    (nn.Conv2d, (2, 6, 9, 7), (6, 6, 3), {"groups": 6, "padding": 1}),
    (nn.Conv2d, (3, 4, 8, 8), (4, 8, (5, 3)), {"groups": 4, "stride": (2, 1), "padding": (2, 0), "bias": False}),
    (nn.Conv2d, (2, 8, 6, 7), (8, 4, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    (nn.Conv1d, (3, 5, 30), (5, 5, 7), {"groups": 5, "padding": 3}),
    (nn.Conv3d, (2, 3, 5, 4, 6), (3, 3, 3), {"groups": 3, "padding": 1}),
]


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    monkeypatch.setattr(convolution, "LEAST", (1, 1))
    convolution.planned.cache_clear()
    yield
    convolution.planned.cache_clear()


@pytest.fixture
def pulls(monkeypatch):
    """Which gradients the engine was asked for, in each of its calls."""
    found, own = [], convolution.cpu.pull
    monkeypatch.setattr(convolution.cpu, "pull", lambda *given: found.append(given[4]) or own(*given))
    return found


def layer(kind, arguments, options, dtype=torch.float32):
    torch.manual_seed(0)
    return kind(*arguments, **options).to(dtype)


def accelerated(module):
    fast = nn.Sequential(copy.deepcopy(module))
    assert list(accelerate(fast, verbose=False).changed) == ["0"]
    return fast


def near(got, wanted):
    scale = float(wanted.abs().max())
    torch.testing.assert_close(got.double(), wanted.double(), rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize(("kind", "shape", "arguments", "options"), LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_have_torchs_bits_and_gradients_are_torchs(kind, shape, arguments, options, dtype, pulls):
    plain = layer(kind, arguments, options, dtype)
    fast, x = accelerated(plain), torch.randn(shape, dtype=dtype, requires_grad=True)
    y, wanted = fast(x), plain(x)
    assert torch.equal(y, wanted)
    assert torch.equal(fast(x.detach()), wanted)
    gy = torch.randn_like(y)
    exact = copy.deepcopy(plain).double()
    leaf = x.detach().double().requires_grad_()
    ours = torch.autograd.grad(y, (x, *fast.parameters()), gy)
    for got, want in zip(ours, torch.autograd.grad(exact(leaf), (leaf, *exact.parameters()), gy.double()), strict=True):
        assert got.dtype is dtype
        near(got, want)
    assert len(pulls) == 1


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # torch's conv3d of float64 gives contiguous tensors
def test_channels_last_tensors_and_cotangents(rank, dtype, pulls):
    kind, form = (nn.Conv2d, torch.channels_last) if rank == 2 else (nn.Conv3d, torch.channels_last_3d)
    plain = layer(kind, (6, 6, 5), {"groups": 6, "padding": 2}, dtype)
    fast = accelerated(plain)
    x = torch.randn(2, 6, *(7, 6, 5)[:rank], dtype=dtype).to(memory_format=form).requires_grad_()
    y, wanted = fast(x), plain(x)
    assert torch.equal(y, wanted)
    assert y.stride() == wanted.stride()
    for gy in (torch.randn_like(y), torch.randn(y.shape, dtype=dtype), torch.ones((), dtype=dtype).expand(y.shape)):
        ours, theirs = (
            torch.autograd.grad(one, (x, *net.parameters()), gy, retain_graph=True)
            for one, net in ((y, fast), (wanted, plain))
        )
        assert ours[0].stride() == theirs[0].stride()
        for got, want in zip(ours, theirs, strict=True):
            near(got, want)
    assert len(pulls) == 3


def test_only_wanted_gradients_are_computed(pulls):
    kind, shape, arguments, options = LAYERS[0]
    plain = layer(kind, arguments, options)
    fast, x = accelerated(plain), torch.randn(shape)
    fast[0].bias.requires_grad_(False)
    fast(x).square().sum().backward()
    plain(x).square().sum().backward()
    near(fast[0].weight.grad, plain.weight.grad)
    assert fast[0].bias.grad is None
    assert x.grad is None
    fast.requires_grad_(False)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    fast(leaf).sum().backward()  # a cotangent of one cell
    plain(other).sum().backward()
    near(leaf.grad, other.grad)
    assert pulls == [(False, True, False), (True, False, False)]


def test_second_derivatives_and_transforms_are_torchs():
    kind, _, arguments, options = LAYERS[1]
    plain = layer(kind, arguments, options, torch.float64)
    fast, x = accelerated(plain), torch.randn(1, 4, 6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fast, (x,))
    assert torch.autograd.gradgradcheck(fast, (x,))
    single, images = x.detach()[0], torch.randn(3, 4, 6, 5, dtype=torch.float64)
    parameters = dict(fast.named_parameters())

    def loss(parameters, one):
        return functional_call(fast, parameters, (one[None],)).square().sum()

    ours = vmap(grad(loss), (None, 0))(parameters, images)["0.weight"]
    theirs = torch.stack([torch.autograd.grad(plain(one[None]).square().sum(), plain.weight)[0] for one in images])
    torch.testing.assert_close(ours, theirs)
    got = jvp(lambda one: fast(one[None]), (single,), (images[0],))[1]
    torch.testing.assert_close(got, nn.functional.conv2d(images[:1], plain.weight, None, (2, 1), (2, 0), groups=4))
    y = fast(x)
    many = torch.randn(2, *y.shape, dtype=torch.float64)
    together = torch.autograd.grad(y, x, many, is_grads_batched=True, retain_graph=True)[0]
    torch.testing.assert_close(together[1], torch.autograd.grad(y, x, many[1])[0])


def test_other_calls_are_torchs(pulls):
    kind, shape, arguments, options = LAYERS[0]
    plain = layer(kind, arguments, options)
    fast, x = accelerated(plain), torch.randn(shape, requires_grad=True)
    last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
    y = fast(last)
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.sum().backward()
    fast(x[..., ::2]).sum().backward()
    fast(x[0]).sum().backward()
    fast(x[:0]).sum().backward()
    with torch.autocast("cpu"):
        assert fast(x).dtype is torch.bfloat16
    with torch.no_grad():
        assert not fast(x).requires_grad
    with pytest.raises(RuntimeError, match="channels"):
        fast(x[:, :5])
    fast.half()(x.half()).sum().backward()
    assert not pulls


def test_a_changed_operand_is_noticed():
    kind, shape, arguments, options = LAYERS[0]
    fast = accelerated(layer(kind, arguments, options))
    y = fast(torch.randn(shape))
    with torch.no_grad():
        fast[0].weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_bias_may_change_before_backward(pulls):
    kind, shape, arguments, options = LAYERS[0]
    fast = accelerated(layer(kind, arguments, options))
    y = fast(torch.randn(shape))
    with torch.no_grad():
        fast[0].bias.zero_()
    y.sum().backward()
    torch.testing.assert_close(fast[0].bias.grad, torch.full((6,), 2.0 * 9 * 7))
    assert len(pulls) == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_are_compiled_scripted_traced_saved_and_undone():
    kind, shape, arguments, options = LAYERS[0]
    plain = layer(kind, arguments, options)
    fast, x = accelerated(plain), torch.randn(shape)
    wanted = plain(x)
    for other in (
        torch.compile(fast, backend="eager", fullgraph=True),
        torch.jit.script(fast),
        torch.jit.trace(fast, x),
        torch.fx.symbolic_trace(fast),
        torch.export.export(fast, (x,)).module(),
        pickle.loads(pickle.dumps(fast)),
        copy.deepcopy(fast),
    ):
        assert torch.equal(other(x), wanted)
    file = io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    nn.Sequential(layer(kind, arguments, options)).load_state_dict(torch.load(file))
    net = nn.Sequential(plain)
    done = accelerate(net, verbose=False)
    assert isinstance(net[0], nn.Conv2d)
    assert type(net[0]) is not nn.Conv2d
    assert str(done).startswith("specgrad runs")
    done.undo()
    assert type(net[0]) is nn.Conv2d


@pytest.mark.parametrize(
    "module",
    [nn.Conv2d(6, 6, 3), nn.Conv2d(16, 16, 3, groups=2), nn.ConvTranspose2d(6, 6, 3, groups=6), nn.LazyConv2d(4, 3)],
    ids=repr,
)
def test_other_convolutions_are_left_alone(module):
    assert not accelerate(nn.Sequential(module), verbose=False).changed


def test_padding_that_is_not_zeros_or_a_word_is_torchs(pulls):
    for options in ({"padding": 1, "padding_mode": "circular"}, {"padding": "same"}):
        plain = layer(nn.Conv2d, (6, 6, 3), {"groups": 6, **options})
        fast, x = accelerated(plain), torch.randn(2, 6, 5, 5)
        assert torch.equal(fast(x), plain(x))
        fast(x).sum().backward()
    assert not pulls
