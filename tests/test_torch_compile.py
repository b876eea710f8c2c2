"""Compiled, exported and traced torch programs: without graph breaks, with dynamic shapes and
derivatives."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from kinds import effort  # noqa: E402
from torch import func  # noqa: E402
from torch_pools import OPTIONS, bent, exactly, nearly, sample  # noqa: E402

import specgrad as sg  # noqa: E402
import specgrad.torch  # noqa: E402
from specgrad.torch import functional, routing  # noqa: E402

pytestmark = pytest.mark.usefixtures("any_size")

COMPILED = OPTIONS[0], OPTIONS[4], OPTIONS[8], OPTIONS[9], OPTIONS[10]


def network(x):
    """Many operators in sequence, with torch's functions between, and functions under
    torch.nn.functional's names."""
    pools = [op(x.sin()).sum() for op in COMPILED]
    named = functional.max_pool1d(x, 2).cos().sum() + functional.avg_pool1d(x, x.shape[-1]).sum()
    found = functional.adaptive_max_pool1d(x, 3, return_indices=True)
    return sum(pools) + named + found[0].sum(), sg.global_max_pool(x, 1), found[1], sg.max_pool2d(x, 2).exp()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compiles_without_a_break(dynamic):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for shape in ((2, 4, 6), (3, 5, 8), (4, 7, 9)) if dynamic else ((2, 4, 6),):
        a, b = sample(*shape).requires_grad_(), sample(*shape).requires_grad_()
        got, wanted = compiled(a), network(b)
        nearly(got, wanted)
        got[0].backward()
        wanted[0].backward()
        nearly(a.grad, b.grad)
    if dynamic:
        assert (
            torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
        )  # one more if a guard on a length requires it


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in inductor's own code
def test_compiles_with_inductor_and_dynamic_shapes():
    torch._dynamo.reset()

    def step(x):
        return sum(op(x.sin()).cos().sum() for op in COMPILED[: effort(1, 3)])

    compiled = torch.compile(step, fullgraph=True, dynamic=True)
    # without vectors, torch's own code compiles faster
    with torch._inductor.config.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        for shape in ((2, 4, 6), (3, 5, 8)):
            a, b = sample(*shape).requires_grad_(), sample(*shape).requires_grad_()
            compiled(a).backward()
            step(b).backward()
            nearly(a.grad, b.grad)


def test_compiles_transforms():
    op = OPTIONS[7]

    def along(f, dx):
        return lambda t: func.jvp(f, (t,), (dx,))[1]

    def all_of_them(x, dx):
        third = along(along(along(bent(op), dx), dx), dx)(x)
        return func.jvp(op, (x,), (dx,)), func.grad(bent(op))(x), func.vmap(op)(x), func.hessian(bent(op))(x), third

    x, dx = sample(2, 2, 3), sample(2, 2, 3, seed=1)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        nearly(torch.compile(all_of_them, fullgraph=True, backend=backend)(x, dx), all_of_them(x, dx))


def test_compiles_maps_over_channels_last_images():
    torch._dynamo.reset()
    words = {"norm_type": 2.0, "kernel_size": 2}  # the norm is not fixed in dynamic code
    mapped = func.vmap(lambda t: functional.lp_pool2d(t, **words) - sg.min_pool(t, (3, 3), stride=2, padding=1))
    x = torch.stack([sample(2, 3, 4, 4).to(memory_format=torch.channels_last)] * 2)
    nearly(torch.compile(mapped, fullgraph=True, backend="eager", dynamic=True)(x), mapped(x))


def test_replaced_functions_compile_without_a_warning():
    torch._dynamo.reset()
    x = sample(1, 1, 4, 4)
    with specgrad.torch.accelerate():
        compiled = torch.compile(lambda t: torch.nn.functional.max_pool2d(t, 2), fullgraph=True, backend="eager")
        exactly(compiled(x), sg.max_pool(x, (2, 2)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        x = x * self.factor  # needs a gradient, for which maxima keep codes
        return (
            sg.max_pool(x, (3, 3), stride=2, padding=1),
            sg.smooth_max_pool2d(x, 2, beta=2),
            functional.avg_pool2d(x, 3, 2),
            functional.adaptive_max_pool2d(x, 2),
            sg.global_max_pool(x, 2, ties="first"),
        )


@pytest.mark.parametrize("strict", [False, True], ids=["not strict", "strict"])
def test_exports_with_dynamic_shapes_and_trains(strict):
    dims = {"x": {0: torch.export.Dim("n", min=2, max=64), 2: torch.export.Dim("h", min=8, max=512)}}
    program = torch.export.export(Net(), (sample(2, 3, 8, 8),), dynamic_shapes=dims, strict=strict)
    assert sum("specgrad" in str(node.target) for node in program.graph.nodes) == 5
    x = sample(5, 3, 301, 8).requires_grad_()  # codes of this length do not fit into a byte
    nearly(program.module()(x), Net()(x))
    wanted = torch.autograd.grad(sum(y.sum() for y in Net()(x)), x)
    nearly(torch.autograd.grad(sum(y.sum() for y in program.module()(x)), x), wanted)


class There(torch.nn.Module):
    """Pooling and back, with the default size or the operand's."""

    def __init__(self, rank, sized):
        super().__init__()
        self.pool, self.unpool = (getattr(functional, f"max_{name}{rank}d") for name in ("pool", "unpool"))
        self.sized = sized

    def forward(self, x):
        pooled, at = self.pool(x, 2, return_indices=True)
        return self.unpool(pooled, at, 2, output_size=x.shape[2:] if self.sized else None)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_compiles_and_exports_with_dynamic_shapes(rank):
    for sized in (False, True):
        torch._dynamo.reset()
        net = There(rank, sized)
        compiled = torch.compile(net, fullgraph=True, backend="eager", dynamic=True)
        for length in (6, 8, 7 if sized else 10):
            x = sample(2, 3, *[length] * rank)
            exactly(compiled(x), net(x))
    long = {"x": {2: torch.export.Dim("h", min=4, max=100)}}
    for sized in (False, True):
        net = There(rank, sized)
        program = torch.export.export(net, (sample(2, 3, *[6] * rank),), dynamic_shapes=long).module()
        for length in (20, 21):
            x = sample(2, 3, length, *[6] * (rank - 1))
            exactly(program(x), net(x))


class Sized(torch.nn.Module):
    """A function of two tensors, the second of which only gives lengths."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, like):
        return self.function(x, like)


SIZED = {
    "unpooling": lambda x, like: sg.max_unpool(*sg.max_pool(x, (2,), return_indices=True), like.shape[-1:]),
    "torch's unpooling": lambda x, like: functional.max_unpool1d(
        *functional.max_pool1d(x, 2, return_indices=True), 2, output_size=like.shape[-1:]
    ),
    "adaptive average": lambda x, like: sg.adaptive_avg_pool(x, like.shape[-1:]),
    "adaptive maximum": lambda x, like: sg.adaptive_max_pool(x, like.shape[-1:]),
    "reshape": lambda x, like: sg.reshape(x, (2, x.shape[1] * x.shape[2])),
    "broadcast": lambda x, like: sg.broadcast_to(x[:, :, :1], like.shape),
}


@pytest.mark.parametrize("name", SIZED)
def test_exports_with_lengths_that_are_arguments(name):
    function, dims = (
        SIZED[name],
        ({2: torch.export.Dim("n", min=4, max=100)}, {2: torch.export.Dim("m", min=4, max=100)}),
    )
    program = torch.export.export(Sized(function), (sample(2, 3, 8), sample(2, 3, 9)), dynamic_shapes=dims).module()
    for lengths in ((20, 20), (20, 21), (11, 10)):
        operands = [sample(2, 3, length) for length in lengths]
        exactly(program(*operands), function(*operands))
    if name == "torch's unpooling":
        with pytest.raises(RuntimeError, match="less than a stride"):
            program(sample(2, 3, 8), sample(2, 3, 12))


def test_jit_traces_record_the_operator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda x: sg.max_pool(x, (2, 2)), (sample(4, 4),))
    x = sample(4, 4, seed=3)
    exactly(traced(x), sg.max_pool(x, (2, 2)))


def test_small_windows_on_a_gpu_are_the_compilers_but_for_what_aten_does_wrongly(monkeypatch):
    """Traced as on a GPU, which tracing does not need: the compiler's own kernels, and few more
    guards than torch's modules have."""
    monkeypatch.setattr(routing, "is_compiled_for_cuda", lambda x: True)
    net = torch.nn.Sequential(torch.nn.MaxPool2d(3, 2, 1), torch.nn.AvgPool2d(2), torch.nn.AdaptiveAvgPool2d(1))
    specgrad.torch.accelerate(net, verbose=False)
    graphs = []

    def backend(graph, _):
        graphs.append(sum("specgrad" in str(node.target) for node in graph.graph.nodes))
        return graph

    x = torch.randn(2, 3, 33, 34, dtype=torch.float64, requires_grad=True)
    turned = x.detach().to(memory_format=torch.channels_last)
    for dynamic in (False, True):
        torch._dynamo.reset()
        graphs.clear()
        compiled = torch.compile(net, backend=backend, fullgraph=True, dynamic=dynamic)
        for t in (x, turned, turned.clone().requires_grad_()):
            nearly(compiled(t), net(t))
        assert graphs == [0, 2, 2]
    for limit in ("COMPILED", "FUSED"):
        monkeypatch.setattr(routing, limit, 0)
    torch._dynamo.reset()
    graphs.clear()
    torch.compile(net, backend=backend, fullgraph=True)(x)
    assert graphs == [2]
