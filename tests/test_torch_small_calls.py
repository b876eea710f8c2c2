"""Small calls: torch's own kernels run torch's names and the equivalent operators, without any
other difference."""

import functools
import itertools

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import specgrad as sg  # noqa: E402
from specgrad.torch import at_once, fast_path, functional, routing  # noqa: E402

IMAGES, VOLUMES, SIGNALS = (torch.randint(-2, 3, (2, 3, *(6,) * rank)).float() for rank in (2, 3, 1))
CALLS = {
    "max_pool": (sg.max_pool, (IMAGES, (3, 3)), {"stride": 2, "padding": 1}),
    "indices": (sg.max_pool, (IMAGES, (2, 3)), {"return_indices": True, "ceil_mode": True}),
    "min_pool": (sg.min_pool, (IMAGES, (2, 2)), {"stride": 1}),
    "lowest indices": (sg.min_pool, (IMAGES, (2, 2)), {"return_indices": True}),
    "sum_pool": (sg.sum_pool, (IMAGES, (2, 2)), {"padding": 1}),
    "avg_pool": (sg.avg_pool, (IMAGES, (3, 3)), {"padding": (1, 0), "count_include_pad": False}),
    "adaptive_max_pool": (sg.adaptive_max_pool, (IMAGES, (4, 3)), {}),
    "adaptive_avg_pool": (sg.adaptive_avg_pool, (IMAGES, (4, 4)), {}),
    "global_max_pool": (sg.global_max_pool, (IMAGES, 2), {"ties": "first"}),
    "global_avg_pool": (sg.global_avg_pool, (IMAGES, 2), {"keepdims": False}),
    "volumes": (sg.max_pool, (VOLUMES, (2, 2, 2)), {}),
    "signals": (sg.avg_pool, (SIGNALS, (2,)), {"stride": 1}),
    "one image": (sg.max_pool, (IMAGES[0].double(), (2, 2)), {"axes": (1, 2)}),
    "half floats": (sg.avg_pool, (IMAGES.half(), (2, 2)), {}),
    "channels_last": (sg.max_pool, (IMAGES.to(memory_format=torch.channels_last), (2, 2)), {}),
}
OURS = {
    "half floats of several windows": (sg.avg_pool, (IMAGES.half(), (2, 2)), {"stride": 1}),
    "half floats of volumes": (sg.avg_pool, (VOLUMES.bfloat16(), (2, 2, 2)), {}),
    "ties": (sg.max_pool, (IMAGES, (2, 2)), {"ties": "split"}),
    "a window without a cell": (sg.max_pool, (IMAGES[..., :1], (2, 2)), {"padding": 1, "dilation": 2}),
    "pairs": (sg.max_pool, (IMAGES, (2, 2)), {"padding": ((0, 1), (0, 0))}),
    "wide padding": (sg.avg_pool, (IMAGES, (2, 2)), {"padding": 2}),
    "dilated averages": (sg.avg_pool, (IMAGES, (2, 2)), {"dilation": 2}),
    "sums of signals": (sg.sum_pool, (SIGNALS, (2,)), {}),
    "more batch axes": (sg.max_pool, (IMAGES[None], (2, 2)), {}),
    "other axes": (sg.max_pool, (IMAGES, (2, 2)), {"axes": (1, 2)}),
    "turned axes": (sg.max_pool, (IMAGES, (2, 2)), {"axes": (3, 2), "return_indices": True}),
    "signals that lie as (N, L, C)": (sg.max_pool, (SIGNALS.mT.contiguous().mT, (2,)), {}),
}


@pytest.fixture
def runs(monkeypatch):
    """The list of calls that our engines ran."""
    ran, run = [], fast_path.run
    monkeypatch.setattr(fast_path, "run", lambda *given, **words: ran.append(given[0]) or run(*given, **words))
    monkeypatch.setattr(at_once, "_routes", {})
    return ran


def results(call):
    """Value, indices and gradient, and their layouts."""
    function, (x, *arguments), options = call
    leaf = x.clone().requires_grad_()
    y = function(leaf, *arguments, **options)
    value, *where = y if isinstance(y, tuple) else (y,)
    cotangent = torch.arange(value.numel(), dtype=x.dtype).remainder(5).reshape(value.shape)
    return [value.detach(), *where, *torch.autograd.grad(value, leaf, cotangent)]


@pytest.mark.parametrize("name", CALLS | OURS)
def test_small_calls_of_operators_are_torchs_where_these_mean_the_same(name, runs, monkeypatch):
    call = (CALLS | OURS)[name]
    small = results(call)
    assert bool(runs) is (name in OURS)
    monkeypatch.setattr(routing, "SMALL", 0)
    for got, wanted in zip(small, results(call), strict=True):
        assert got.dtype == wanted.dtype
        assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-6)
        assert not got.any() or got.stride() == wanted.stride() or name.startswith("global_avg")
    assert runs


def test_a_small_call_without_a_gradient_has_no_ties(runs):
    y = sg.max_pool(IMAGES, (2, 2), ties="all")
    assert not runs
    assert torch.equal(y, F.max_pool2d(IMAGES, 2))


def test_a_view_of_negated_numbers_keeps_its_sign(runs):
    """torch's own max_pool1d loses it."""
    imaginary = torch.view_as_complex(torch.ones(1, 1, 1, 2)).conj().imag
    assert imaginary.is_neg()
    assert sg.max_pool(imaginary, (1,)).item() == -1
    assert sg.max_pool(-imaginary, (1,)).item() == 1


def test_small_calls_are_refused_as_large_ones_are(runs, monkeypatch):
    wrong = [
        lambda: sg.max_pool(IMAGES, (9, 9)),
        lambda: sg.max_pool(IMAGES, (2, 2), axes=(7, 8)),
        lambda: sg.max_pool(torch.ones(3), (2, 2)),
        lambda: sg.max_pool(torch.ones(1, 2, 0, 3), (2, 2)),
        lambda: sg.avg_pool(IMAGES.long(), (2, 2)),
        lambda: sg.max_pool(IMAGES.to_sparse(), (2, 2)),
        lambda: sg.global_max_pool(IMAGES.bool(), 2),
    ]
    for call in wrong:
        said = []
        for size in (1 << 17, 0):
            monkeypatch.setattr(routing, "SMALL", size)
            with pytest.raises(sg.SpecgradError) as caught:
                call()
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
    with sg.engine("cpu"), pytest.raises(sg.ArgumentError, match="NumPy arrays only"):
        sg.max_pool(IMAGES, (2, 2))


def test_a_number_of_another_kind_is_refused_whatever_was_called_before():
    """In a dict 2, 2.0 and True are equal keys."""
    for name, number, other in itertools.product(("max_pool2d", "avg_pool2d"), (1, 2), (1.0, 2.0, True)):
        function = functools.partial(getattr(functional, name), IMAGES)
        function(number)
        with pytest.raises(TypeError, match="must be tuple of ints"):
            function(other)
        with pytest.raises(TypeError, match="must be bool"):
            function(number, ceil_mode=0)
    functional.adaptive_avg_pool2d(IMAGES, 1)
    with pytest.raises(TypeError):
        functional.adaptive_avg_pool2d(IMAGES, True)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_mean_of_one_plane_has_the_same_bits_for_any_number_of_threads(rank):
    """torch shares the cells of a single plane among its threads."""
    threads, x = torch.get_num_threads(), torch.randn(1, 1, *(40,) * (rank - 1), 60_000 // 40 ** (rank - 1))
    means = []
    for count in (1, 2, 3, 4):
        torch.set_num_threads(count)
        named = getattr(functional, f"adaptive_avg_pool{rank}d")
        mapped = torch.vmap(named, (0, None))(x, 1)[0]
        means += [named(x, 1), named(x, (1,) * rank), sg.global_avg_pool(x, rank), mapped]
    torch.set_num_threads(threads)
    for k in range(4):
        assert len({float(mean) for mean in means[k::4]}) == 1
