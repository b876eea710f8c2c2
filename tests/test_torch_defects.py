"""Torch's known defects: each is present as listed, on machines with its device, and specgrad.torch
never shows it.

On a machine with a CUDA device and without pytest: python tests/test_torch_defects.py
"""

import copy
import functools
import itertools
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import specgrad as sg
from specgrad import dispatch
from specgrad.torch import defects, functional, routing

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
HERE = [d for d in defects.LISTED if d.device in DEVICES and d in defects.listed(d.example[0], d.device)]


def operator(name, size, stride=None, padding=0, dilation=1):
    size = size if isinstance(size, tuple) else (size,) * int(name[-2])
    if name.startswith("adaptive"):
        return (sg.AdaptiveMaxPool if "max" in name else sg.AdaptiveAvgPool)(size)
    words = {"dilation": dilation} if "max" in name else {}
    return (sg.MaxPool if "max" in name else sg.AvgPool)(size, stride=stride, padding=padding, **words)


def answers(function, x, arguments, maximum, device):
    """The value without and with a gradient, the indices, if there are any, and the gradient of the
    sum of 1, 2, 3, … times the results."""
    x = x.to(device)
    leaf = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).copy_(x).requires_grad_()
    words = {"return_indices": True} if maximum else {}
    value, *places = function(leaf, *arguments, **words) if maximum else (function(leaf, *arguments),)
    ramp = torch.arange(1.0, value.numel() + 1, dtype=x.dtype, device=device).reshape(value.shape)
    (pulled,) = torch.autograd.grad(value, leaf, ramp)
    return [part.detach().cpu() for part in (function(x, *arguments), value, *places, pulled)]


def expected(name, x, arguments):
    """`answers` by the specification, with torch's value for windows without a real cell."""
    op, array = operator(name, *arguments), x.resolve_neg().numpy()
    with sg.engine("reference"):
        value = torch.from_numpy(op(array))
        ramp = torch.arange(1.0, value.numel() + 1, dtype=x.dtype).reshape(value.shape).numpy()
        places = [torch.from_numpy(dispatch.with_indices(op, (array,))[1])] if "max" in name else []
        for found in places:
            value = torch.where(found < 0, -torch.inf, value)
        return [value, value, *places, torch.from_numpy(op.vjp((array,), ramp)[0])]


def agree(got, wanted):
    return all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def show(index):
    """Whether torch's answer to a defect's example is wrong; run in another process, since it may
    break the device."""
    defect = HERE[index]
    name, make, arguments = defect.example
    x = make()
    got = answers(getattr(F, name), x, arguments, "max" in name, defect.device)
    return not agree(got, expected(name, x, arguments))


def shown(index):
    """The same for a test. Children of one server, which has imported torch and computed nothing,
    begin at once; a CUDA device needs a fresh process."""
    if HERE[index].device == "cpu" and "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["numpy", "pytest", "specgrad.torch"])
        child = context.Process(target=leave, args=(index,))
        child.start()
        child.join()
        return child.exitcode == 1, f"exit code {child.exitcode}"
    done = subprocess.run([sys.executable, __file__, str(index)], capture_output=True, text=True)
    return done.returncode == 1 or "misaligned address" in done.stderr, done.stderr


def leave(index):
    os._exit(show(index))


def never_reached(defect):
    """Our function answers the example rightly although it is small; torch's function, whose defect
    is listed, would not."""
    name, make, arguments = defect.example
    x = make()
    assert x.numel() < routing.SMALL
    assert defects.is_wrong(name, x.to(defect.device), operator(name, *arguments), True, True)
    getattr(functional, name)(torch.ones(x.shape, device=defect.device), *arguments)  # records what is small
    got = answers(getattr(functional, name), x, arguments, "max" in name, defect.device)
    assert agree(got, expected(name, x, arguments)), (defect.title, got, expected(name, x, arguments))


def test_each_defect_is_as_it_is_listed():
    for index, defect in enumerate(HERE):
        wrong, words = shown(index)
        assert wrong, (defect.title, words)


def test_no_defect_is_reached():
    for defect in HERE:
        never_reached(defect)


def test_maxima_of_magnitudes_reach_no_defect():
    """lp_pool*d with an infinite norm is a maximum."""
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for norm in (torch.inf, -torch.inf):
        assert torch.equal(functional.lp_pool3d(x, norm, 2), F.lp_pool3d(x.contiguous(), norm, 2))


def test_sound_neighbours_stay_torchs(monkeypatch):
    """Calls that no entry affects are still torch's: entries are no wider than their conditions."""
    asked = []
    monkeypatch.setattr(routing, "ours", lambda *arguments: asked.append(arguments) or arguments[1])
    x = torch.randn(2, 3, 6, 6)
    last = x.to(memory_format=torch.channels_last)
    volume = torch.randn(1, 2, 4, 4, 4)
    last_3d = volume.to(memory_format=torch.channels_last_3d)
    for call in (
        functools.partial(functional.max_pool2d, x, 2, 1, 1, 2),
        functools.partial(functional.max_pool2d, last.requires_grad_(), 3, 2, 1, return_indices=True),
        functools.partial(functional.max_pool2d, x, 1, 1, 0, 9),
        functools.partial(functional.max_pool3d, volume.requires_grad_(), 2),
        functools.partial(functional.max_pool3d, last_3d.detach(), 2),
        functools.partial(functional.avg_pool2d, last, 3, 2, 1),
    ):
        call()
    assert not asked
    functional.max_pool3d(last_3d, 2, return_indices=True)
    functional.max_pool3d(last_3d[:, :, ::2], 1, return_indices=True)
    torch.vmap(lambda t: functional.max_pool3d(t, 2, return_indices=True))(volume.detach())
    assert len(asked) == 3


def layouts(x):
    """x unchanged, channels_last, sliced and transposed."""
    yield x
    yield x.to(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
    yield x[..., ::2]
    yield x.transpose(-1, -2)
    yield x[:, :1].to(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
    yield x[:, :, :1, :1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_small_calls_that_ask_for_no_route_are_not_listed(monkeypatch, device):
    """A call that some entry of this device affects is never passed to torch unchecked; plain calls
    are."""
    routed, sound, right = [], 0, defects.is_right_throughout
    monkeypatch.setattr(routing, "is_right_throughout", lambda name, _, op: right(name, device, op))
    for name, padding in itertools.product(("max_pool2d", "max_pool3d", "avg_pool2d", "avg_pool3d"), (0, 1)):
        call = functools.partial(getattr(functional, name), kernel_size=1 + padding, stride=1, padding=padding)
        rank, answer = int(name[-2]), call.func.answer.__self__
        with monkeypatch.context() as patch:
            patch.setattr(answer, "small", {})
            patch.setattr(answer, "routes", {})
            call(torch.randn(2, 3, *(4,) * rank))  # records that the call is small
            for small in answer.small.values():
                small.call = lambda x, _: x
            patch.setattr(answer, "routed", lambda x, *given: routed.append(x) or x)
            for dtype, wanted in itertools.product((torch.float32, torch.float64), (False, True)):
                for x in map(torch.Tensor.detach, layouts(torch.randn(2, 3, *(4,) * rank, dtype=dtype))):
                    routed.clear()
                    call(x.requires_grad_(wanted))
                    if routed:
                        continue
                    sound += 1
                    op = operator(name, 1 + padding, 1, padding)
                    request = defects.Request(x, op, False, wanted)
                    affected = [d.title for d in defects.listed(name, device) if d.affects(request)]
                    assert not affected, (name, affected, x.shape, x.stride(), dtype, wanted)
            if name == "max_pool2d" and padding:
                last = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
                routed.clear()
                torch.func.jvp(call, (last,), (last,))
                torch.vmap(call)(last[None])
                assert len(routed) == (0 if device == "cpu" else 2)  # inside a transform, which may differentiate
    assert sound >= 140


def test_compiled_maxima_of_minus_infinity_pull_into_their_first_cell():
    """torch.compile's padded maxima lose cotangents of windows of -inf. The fault is planted here,
    and corrected by code compiled with them."""
    for rank in (1, 2, 3):
        pull_into_first_cells(rank)


def pull_into_first_cells(rank):
    pool, rng = getattr(F, f"max_pool{rank}d"), np.random.default_rng(rank)
    answer = copy.copy(getattr(functional, f"max_pool{rank}d").answer.__self__)

    def losing(x, arguments, indices):
        y = pool(x, *arguments)
        return torch.where(y == -torch.inf, y.detach(), y)

    answer.theirs, tried = losing, 0
    while tried < 40:
        kernel, stride, ceil_mode = int(rng.integers(2, 6)), [None, 1, 2, 3][rng.integers(4)], bool(rng.integers(2))
        arguments = (kernel, stride, int(rng.integers(1, kernel // 2 + 1)), 1, ceil_mode)
        array = rng.integers(-2, 3, (2, 2, *rng.integers(4, 9, rank))).astype(np.float64)
        array[rng.random(array.shape) < 0.7] = -np.inf
        x = torch.from_numpy(array).requires_grad_()
        right = pool(x, *arguments)
        cotangent = torch.from_numpy(rng.integers(-3, 4, right.shape).astype(np.float64))
        got = answer.compiled(x, arguments, False)
        assert torch.equal(got, right)
        pulled, wanted = (torch.autograd.grad(y, x, cotangent)[0] for y in (got, right))
        assert torch.equal(pulled, wanted), (arguments, array.shape)
        tried += bool((right == -torch.inf).any())


def test_small_calls_that_are_sound_ask_for_no_route(monkeypatch):
    x = torch.randn(1, 3, 8, 8)
    calls = {"max_pool2d": (2,), "avg_pool2d": (3, 2, 1), "adaptive_avg_pool2d": (1,)}
    for name, arguments in calls.items():
        getattr(functional, name)(x, *arguments)  # decided in the first call
    volume = torch.randn(1, 2, 4, 4, 4)
    functional.max_pool3d(volume, 2)
    asked = []
    monkeypatch.setattr(routing.Function, "routed", lambda self, *given: asked.append(self.name))
    for name, arguments in calls.items():
        for leaf in (x, x.clone().requires_grad_()):
            assert torch.equal(getattr(functional, name)(leaf, *arguments), getattr(F, name)(leaf, *arguments))
    assert not asked
    functional.max_pool2d(x, 2, return_indices=True)
    functional.max_pool3d(volume.to(memory_format=torch.channels_last_3d).requires_grad_(), 2)
    functional.max_pool2d(torch.randn(1, 64, 64, 64), 2)
    functional.max_pool2d(x, 2, 1, 1, 2)
    assert len(asked) == 4


def test_a_window_without_a_cell_has_torchs_value_no_winner_and_no_gradient():
    """In this call torch's index was outside of the plane, and its backward wrote out of bounds;
    also for integers."""
    x = torch.randn(2, 2, 2, 5, requires_grad=True)
    value, places = functional.max_pool2d(x, (2, 1), padding=(1, 0), dilation=3, return_indices=True)
    theirs = F.max_pool2d(x.detach(), (2, 1), padding=(1, 0), dilation=3)
    assert torch.equal(value, theirs)
    empty = theirs.isneginf()
    assert empty.any()
    assert (places[empty] == -1).all()
    assert (places[~empty] >= 0).all()
    (gx,) = torch.autograd.grad(value[~empty].sum() + 100 * value[empty].clamp(min=0).sum(), x)
    assert gx.sum() == (~empty).sum()
    for dtype in (torch.int64, torch.uint8):
        whole = torch.ones(1, 2, 2, 3, dtype=dtype)
        got, at = functional.max_pool2d(whole, 2, 1, 1, 3, return_indices=True)
        assert torch.equal(got, F.max_pool2d(whole, 2, 1, 1, 3))
        assert at.min() == -1
        assert at.max() < 6


def test_the_page_lists_every_defect():
    page = (Path(__file__).parent.parent / "docs" / "pytorch.md").read_text(encoding="utf-8")
    for defect in defects.LISTED:
        assert defect.title in page


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(show(int(sys.argv[1])))
    for check in (test_each_defect_is_as_it_is_listed, test_no_defect_is_reached):
        check()
    print(len(HERE), "defects as listed, none reached:", [d.title for d in HERE])
