"""Layouts of results, and errors of a second backward: as torch's own, also for views of
channels_last tensors."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from specgrad.torch import functional  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")

KINDS = {"max_pool": (3, 2, 1), "avg_pool": (3, 2, 1), "adaptive_max_pool": (4,), "adaptive_avg_pool": (4,)}
FORMS = {2: torch.channels_last, 3: torch.channels_last_3d}


def operands(rank):
    """Tensors of one shape with different layouts."""
    shape, form = (2, 4, *(6,) * rank), FORMS[rank]
    wide = torch.randn(2, 8, *(12,) * rank)
    last = wide.contiguous(memory_format=form)
    some = (slice(None), slice(None, None, 2), *(slice(3, 9),) * rank)
    yield "contiguous", wide[some].contiguous()
    yield "a view", wide[some]
    yield "channels_last", last[some].contiguous(memory_format=form)
    yield "a view of channels_last", last[some]
    yield "every other row of channels_last", last[:, ::2, ..., ::2, 3:9] if rank == 2 else last[:, ::2, ::2, ::2, ::2]
    yield "one channel", last[:, :1, ..., 3:9]
    yield "one image", last[:1, :4]
    yield "broadcast", last[:, :4].mean(1, keepdim=True).expand(-1, 4, *(-1,) * rank)
    yield "transposed", torch.randn(shape).transpose(-1, -2)


def layouts(function, x, arguments):
    """The strides of the value and of the gradient, for cotangents of both layouts, without axes of
    length 1."""
    found = []
    for form in (torch.contiguous_format, FORMS[x.ndim - 2]):
        leaf = x.detach().requires_grad_()
        y = function(leaf, *arguments)
        y = y[0] if isinstance(y, tuple) else y
        (gx,) = torch.autograd.grad(y, leaf, torch.ones(y.shape).contiguous(memory_format=form))
        found += [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (y, gx)]
    return found


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_results_lie_as_torchs_do(kind, rank):
    name = f"{kind}{rank}d"
    for label, x in operands(rank):
        got = layouts(getattr(functional, name), x, KINDS[kind])
        if rank == 2 or kind == "max_pool":
            assert got == layouts(getattr(F, name), x, KINDS[kind]), label
        else:  # torch has no kernels for channels_last_3d here, and drops the layout
            twin = functional.max_pool3d if kind == "avg_pool" else functional.adaptive_max_pool3d
            assert got == layouts(twin, x, KINDS[kind]), label


def test_places_and_unbatched_volumes_lie_as_torchs_do():
    volume = torch.randn(1, 3, 5, 6, 7).contiguous(memory_format=torch.channels_last_3d)[0]
    for x in (volume, volume.contiguous(), volume.detach().requires_grad_()):
        for ours, theirs in zip(
            *(f(x, 2, return_indices=True) for f in (functional.max_pool3d, F.max_pool3d)), strict=True
        ):
            assert ours.stride() == theirs.stride()
            assert torch.equal(ours, theirs)
    image = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    value, places = functional.max_pool2d(image, 2, return_indices=True)
    assert places.is_contiguous(memory_format=torch.channels_last)
    assert functional.max_unpool2d(value, places, 2).stride() == F.max_unpool2d(value, places, 2).stride()


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_backward_raises_as_torchs_does(kind):
    for rank, kept in itertools.product((1, 2, 3), (True, False)):
        x = torch.randn(2, 3, *(6,) * rank, requires_grad=True)
        y = getattr(functional, f"{kind}{rank}d")(x, *KINDS[kind]).sum()
        y.backward(retain_graph=kept)
        if kept:
            y.backward()
        else:
            with pytest.raises(RuntimeError, match="second time"):
                y.backward()


@pytest.mark.parametrize("kind", ["max_pool", "adaptive_max_pool"])
def test_indices_that_were_written_to_end_the_backward(kind):
    for rank in (1, 2, 3):
        x = torch.randn(2, 3, *(6,) * rank, requires_grad=True)
        y, places = getattr(functional, f"{kind}{rank}d")(x, *KINDS[kind], return_indices=True)
        places.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
