"""The modules, `accelerate`, and their page in the docs."""

import copy
import pickle
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from test_house import blocks  # noqa: E402
from torch import nn  # noqa: E402

import specgrad as sg  # noqa: E402
import specgrad.torch as st  # noqa: E402
from specgrad.torch import functional, routing  # noqa: E402
from specgrad.torch.modules import REPLACES  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")

SMOOTH = (st.SmoothMaxPool1d, st.SmoothMaxPool2d, st.SmoothMaxPool3d)
ARGUMENTS = {
    "MaxPool": ((3, 2, 1), {"ceil_mode": True}),
    "AvgPool": ((3, 2, 1), {"count_include_pad": False}),
    "AdaptiveMaxPool": ((3,), {}),
    "AdaptiveAvgPool": ((3,), {}),
    "LPPool": ((2.0, 3), {"stride": 2}),
}
INPUTS = {1: (2, 3, 20), 2: (2, 3, 9, 11), 3: (2, 3, 5, 7, 6)}


@pytest.mark.parametrize("theirs", REPLACES, ids=lambda k: k.__name__)
def test_a_module_is_torchs_in_all_but_speed(theirs):
    ours = REPLACES[theirs]
    assert issubclass(ours, theirs)
    arguments, words = ARGUMENTS[theirs.__name__[:-2]]
    one, other = theirs(*arguments, **words), ours(*arguments, **words)
    assert repr(one) == repr(other)
    assert one.state_dict() == other.state_dict()
    other.load_state_dict(one.state_dict())
    x = torch.randn(INPUTS[int(theirs.__name__[-2])])
    if "LP" in theirs.__name__:
        x = x.abs()
    exact = 0.0 if "Max" in theirs.__name__ else 64 * 2.0**-24 * 8  # sums of at most 27 numbers below 8, and their root
    torch.testing.assert_close(other(x), one(x), rtol=0, atol=exact)
    assert type(pickle.loads(pickle.dumps(other))) is ours


def test_every_pooling_module_of_torch_has_its_own():
    pools = {n for n in dir(nn) if "Pool" in n and not n.startswith("Fractional") and "Unpool" not in n}
    assert {kind.__name__ for kind in REPLACES} == pools
    assert all(getattr(st, name).__bases__[1] is getattr(nn, name) for name in pools)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.pool = nn.MaxPool2d(3, 1, 1)

    def forward(self, x):
        return x + self.pool(torch.relu(self.norm(self.conv(x))))


def residual_network():
    torch.manual_seed(0)
    stem = nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1)
    net = nn.Sequential(*stem, Residual(8), nn.AvgPool2d(2), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return net.eval()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("small", [0, 1 << 17])
@pytest.mark.parametrize("record", [torch.jit.script, lambda net: torch.jit.trace(net, torch.randn(2, 3, 64, 64))])
def test_an_accelerated_model_is_recorded_by_torch_jit_and_stays_as_it_is(record, small, monkeypatch):
    monkeypatch.setattr(routing, "SMALL", small)
    net, x, heard = residual_network(), torch.randn(2, 3, 48, 48), []
    wanted = net(x)
    done = st.accelerate(net, verbose=False)
    modules = dict(net.named_modules())
    recorded = record(net)
    torch.testing.assert_close(recorded(x), wanted, rtol=0, atol=0)
    assert "specgrad::" not in str(recorded.inlined_graph)
    assert all(module is modules[name] for name, module in net.named_modules())
    net[1].register_forward_hook(lambda *_: heard.append(1))
    net(x)
    assert heard
    assert type(net[1]) is st.MaxPool2d
    done.undo()
    assert {type(m) for m in net.modules() if "Pool" in type(m).__name__} == {
        nn.MaxPool2d,
        nn.AvgPool2d,
        nn.AdaptiveAvgPool2d,
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error::torch.jit.TracerWarning")
def test_a_trace_of_a_model_that_has_run_gives_no_warning(monkeypatch):
    monkeypatch.setattr(routing, "SMALL", 1 << 17)
    net, x = nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1)), torch.randn(1, 3, 16, 16)
    st.accelerate(net, verbose=False)
    wanted = [net(x) for _ in range(2)]
    assert torch.equal(torch.jit.trace(net, x)(x), wanted[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("theirs", REPLACES, ids=lambda k: k.__name__)
def test_every_module_is_scripted_as_torchs_own(theirs):
    arguments, words = ARGUMENTS[theirs.__name__[:-2]]
    x = torch.rand(INPUTS[int(theirs.__name__[-2])])
    scripted = torch.jit.script(REPLACES[theirs](*arguments, **words))
    assert torch.equal(scripted(x), torch.jit.script(theirs(*arguments, **words))(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_recorded_to_run_without_us_is_torchs_own(monkeypatch):
    net = nn.Sequential(nn.MaxPool2d(2, return_indices=True)), nn.Sequential(nn.AdaptiveAvgPool2d((3, None)))
    x, y = torch.randn(2, 3, 8, 9), torch.randn(2, 3, 7, 5)
    wanted = [one(y) for one in net]
    for one in net:
        st.accelerate(one, verbose=False)
    traced = [torch.jit.trace(one, x) for one in net]
    torch.testing.assert_close([one(y) for one in traced], wanted, rtol=0, atol=0)
    monkeypatch.setattr("torch.onnx._internal.exporter._flags._is_onnx_exporting", True)
    exported = torch.export.export(net[1], (x,))
    assert not any("specgrad" in str(node.target) for node in exported.graph.nodes)


def test_modules_that_torch_has_not():
    x = torch.randn(2, 3, 6, 7)
    assert torch.equal(st.MaxPoolNd((2, 2, 2), ties="all")(x[None]), sg.max_pool(x[None], (2, 2, 2)))
    assert torch.equal(st.AvgPoolNd((2, 3))(x), sg.avg_pool(x, (2, 3)))
    assert st.GlobalAvgPool(keepdims=False)(x).shape == (2, 3)
    assert torch.equal(st.GlobalMaxPool(1)(x), x.amax(-1, keepdim=True))
    smooth = st.SmoothMaxPool2d(2, beta=3)
    assert torch.equal(smooth(x), sg.smooth_max_pool(x, (2, 2), beta=3))
    assert repr(smooth) == (
        "SmoothMaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False, pad='zero', beta=3)"
    )
    assert repr(st.GlobalMaxPool()) == "GlobalMaxPool(rank=2, ties='all', keepdims=True)"
    assert not smooth.state_dict()
    learnt = st.SmoothMaxPool1d(2, beta=3, learnable=True)
    assert list(learnt.state_dict()) == ["beta"]
    learnt(x).sum().backward()
    assert learnt.beta.grad.abs() > 0
    learnt = st.SmoothMaxPool1d(2, beta=100, learnable=True).half()  # beta·x exceeds the range of half floats
    assert torch.equal(learnt(1000 * x.half()), sg.smooth_max_pool(1000 * x.half(), (2,), beta=100))
    with pytest.raises(sg.ArgumentError, match="beta=0: must be a finite real number other than 0"):
        st.SmoothMaxPool1d(2, beta=0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(3, 1, 1))
        self.odd = torch.nn.AdaptiveAvgPool2d((4, None))

    def forward(self, x):
        x = self.odd(self.body(x))
        x, at = nn.functional.max_pool2d(x, 2, return_indices=True)
        return nn.functional.avg_pool2d(torch.max_pool2d(x, 2, ceil_mode=True), 1).flatten(1), at


@pytest.mark.parametrize(
    "module",
    [
        st.GlobalMaxPool(1),
        st.GlobalAvgPool(keepdims=False),
        st.MaxPoolNd((2, 3), padding=1, ties="all"),
        st.AvgPoolNd((2, 2), padding="same"),
        *(kind(2, beta=3, learnable=learnable) for kind in SMOOTH for learnable in (False, True)),
        st.MaxPool2d(2),
    ],
    ids=repr,
)
def test_torch_fx_records_every_module(module):
    traced = torch.fx.symbolic_trace(nn.Sequential(module))
    for shape in ((2, 3, 6, 4), (1, 5, 3, 6)):
        x = torch.rand(shape)
        assert torch.equal(traced(x), module(x))


@pytest.mark.parametrize("call", [sg.relu, lambda x: sg.add(x, 2.0), lambda x: sg.max_pool(x, (2,))])
def test_functions_refuse_what_torch_fx_records(call):
    with pytest.raises(sg.SpecgradError, match=r": x=Proxy.*: Proxy is not an array specgrad takes"):
        torch.fx.symbolic_trace(call)


def test_accelerate_changes_modules_and_back(capsys):
    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, 3, 32, 32)
    before, kept = net(x), copy.deepcopy(net.state_dict())
    heard = []
    net.body[2].register_forward_hook(lambda *_: heard.append(1))
    module = net.body[2]
    done = st.accelerate(net)
    assert capsys.readouterr().out.splitlines() == [
        "specgrad runs",
        "  body.2  MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        "  body.3  MaxPool2d(kernel_size=3, stride=1, padding=1, dilation=1, ceil_mode=False)",
        "  odd     AdaptiveAvgPool2d(output_size=(4, None))",
    ]
    assert net.body[2] is module
    assert type(module) is st.MaxPool2d
    torch.testing.assert_close(net(x), before, rtol=0, atol=2.0**-24 * 10 * 8)  # averages of at most 8 numbers below 8
    assert heard
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), kept.values(), strict=True))
    done.undo()
    assert type(module) is nn.MaxPool2d
    assert type(net.odd) is nn.AdaptiveAvgPool2d
    assert not done.changed


def test_accelerate_says_what_it_leaves_to_torch():
    class Mine(nn.MaxPool2d):
        pass

    net = nn.Sequential(nn.AvgPool1d(2), nn.FractionalMaxPool2d(2, 3), Mine(2), st.MaxPool2d(2), nn.ReLU())
    done = st.accelerate(net, verbose=False)
    assert str(done).splitlines() == [
        "specgrad runs",
        "  0  AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
        "specgrad leaves to torch",
        "  1  FractionalMaxPool2d()",
        "  2  Mine(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
    ]
    assert type(net[2]) is Mine
    assert (
        repr(done)
        == f"<accelerate(Sequential): runs {', '.join(done.changed)}; leaves to torch {', '.join(done.left)}>"
    )
    nothing = st.accelerate(net[4], verbose=False)
    assert str(nothing).startswith(
        "specgrad: no pooling module found; this model may call functions: use `with accelerate(model)`"
    )
    assert repr(nothing) == "<accelerate(ReLU): changed nothing>"
    again = st.accelerate(net[3], verbose=False)
    assert str(again) == "specgrad: the pooling modules of this model run by specgrad already"


class Functional(nn.Module):
    """A model that calls functions, and raises on request."""

    def forward(self, x, fails=False):
        y = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        if fails:
            raise ZeroDivisionError
        return y


def test_functional_calls_of_a_model_are_ours_for_good(monkeypatch):
    monkeypatch.setattr(routing, "SMALL", 0)
    net, x = Functional(), torch.randn(2, 3, 9, 9)
    done = st.accelerate(net, functions=True, verbose=False)
    assert repr(done) == "<accelerate(Functional): exchanges functional calls>"
    assert str(done) == "specgrad runs the pooling functions that this model calls"
    assert torch.equal(net(x), torch.nn.functional.max_pool2d(x, 3, 2, 1))
    with pytest.raises(ZeroDivisionError):
        net(x, fails=True)
    assert done.calls == {"max_pool2d": 2}
    assert torch._C._len_torch_function_stack() == 0
    twin = copy.deepcopy(net)
    assert torch.equal(twin(x), net(x))
    assert done.calls == {"max_pool2d": 3}
    done.undo()
    net(x)
    assert done.calls == {"max_pool2d": 3}
    with pytest.raises(sg.ArgumentError, match="accelerate: functions=True: needs a model"):
        st.accelerate(functions=True)


def test_a_model_whose_functional_calls_are_ours_is_copied_and_pickled():
    """The replaced functions are copied with the model, and count the copy's calls separately."""
    net, x = Functional(), torch.randn(2, 3, 8, 8)
    done = st.accelerate(net, functions=True, verbose=False)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), net(x))
    assert done.calls == {"max_pool2d": 2}
    assert "2 calls" in str(done)


def test_profiles_show_operators_under_their_names(monkeypatch):
    monkeypatch.setattr(routing, "SMALL", 0)
    x = torch.randn(1, 2, 8, 8, requires_grad=True)
    with torch.profiler.profile() as profile:
        st.functional.max_pool2d(x, 2).sum().backward()
        st.smooth_max_pool(x, (2, 2), beta=2).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {
        f"specgrad::{name}_{rule}" for name in ("max_pool", "smooth_max_pool") for rule in ("forward", "pull")
    } <= names


def test_accelerate_as_a_context_also_changes_functions(monkeypatch):
    net, x = Net(), torch.randn(2, 3, 32, 32)
    wanted = net(x)
    answered = []
    found = routing.ours
    monkeypatch.setattr(routing, "ours", lambda *a: (answered.append(a[0].kind.__name__), found(*a))[1])
    with st.accelerate(net, verbose=False) as done:
        got = net(x)
        assert done.calls == {"max_pool2d": 2, "avg_pool2d": 1}
        assert "max_pool2d()  2 calls" in str(done)
    assert sorted(answered) == ["AdaptiveAvgPool", "AvgPool", "MaxPool", "MaxPool", "MaxPool", "MaxPool"]
    torch.testing.assert_close(got, wanted, rtol=0, atol=2.0**-24 * 10 * 8)
    assert type(net.odd) is nn.AdaptiveAvgPool2d
    count = len(answered)
    net(x)
    assert len(answered) == count


@pytest.mark.parametrize(
    "name", [n for n in functional.__all__ if n[-1] == "d" and "smooth" not in n and "unpool" not in n]
)
def test_a_context_answers_every_functional_name(name):
    kind, rank = name[:-2], int(name[-2])
    x = torch.rand(INPUTS[rank])
    arguments = {"lp_pool": (2.0, 2), "adaptive_max_pool": (3,), "adaptive_avg_pool": (3,)}.get(kind, (2,))
    with st.accelerate() as done:
        getattr(nn.functional, name)(x, *arguments)
        if "max" in kind:
            getattr(nn.functional, name)(x, *arguments, return_indices=True)
            getattr(nn.functional, f"{name}_with_indices")(x, *arguments)
    assert done.calls == {name: 3 if "max" in kind else 1}


def test_accelerated_modules_compile():
    torch._dynamo.reset()
    net, x = (
        nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(3, 1, 1), st.SmoothMaxPool2d(2, learnable=True)),
        torch.randn(2, 3, 16, 16),
    )
    st.accelerate(net, verbose=False)
    torch.testing.assert_close(torch.compile(net, fullgraph=True, backend="aot_eager")(x), net(x), rtol=0, atol=0)


def test_the_page_runs():
    page = Path(__file__).parent.parent / "docs" / "pytorch.md"
    names = {}
    for block in blocks(page):
        exec(compile(block, "docs/pytorch.md", "exec"), names)
