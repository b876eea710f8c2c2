"""Several processes: workers of a DataLoader, forked and spawned, and trainers that share
gradients."""

import os
import socket
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import specgrad as sg  # noqa: E402
import specgrad.torch as st  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # forking a process with threads is the purpose here


class Pooled(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = torch.arange(3 * 64 * 64, dtype=torch.float32).reshape(3, 64, 64).sin() * (index + 1)
        leaf = x.clone().requires_grad_()
        y = sg.max_pool(leaf, (3, 3), stride=2, padding=1)
        (gx,) = torch.autograd.grad(y.sum(), leaf)
        return y.detach(), gx, sg.avg_pool(x, (2, 2))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader(method):
    wanted = [Pooled()[i] for i in range(4)]  # also runs the parent's threads before the fork
    workers = 2 if method == "fork" else 1  # each spawned worker imports torch
    loader = DataLoader(Pooled(), batch_size=None, num_workers=workers, multiprocessing_context=method)
    got = list(loader)
    assert len(got) == 4
    for ours, theirs in zip(got, wanted, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


ON_TORCHS_THREADS = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
import torch, specgrad as sg, specgrad.torch
from specgrad.engines.cpu.codegen import thread_pool
from specgrad.torch.functional import max_pool2d

def ours():
    return {one.name for one in threading.enumerate() if one.name.startswith("specgrad")}

torch.set_num_threads(2)
sg.set_num_threads(4)
x = torch.randn(4, 32, 64, 64, requires_grad=True)
torch.relu(x)  # starts torch's threads
before = set(os.listdir("/proc/self/task"))
wanted = torch.nn.functional.max_pool2d(x, 3, 2, 1)
gy = torch.randn_like(wanted)

def check(_=None):
    y = max_pool2d(x, 3, 2, 1)
    assert torch.equal(y, wanted)
    (theirs,), (gx,) = (torch.autograd.grad(one, x, gy, retain_graph=True) for one in (wanted, y))
    torch.testing.assert_close(gx, theirs)

for _ in range(20):
    check()
assert thread_pool._team is not None and set(os.listdir("/proc/self/task")) == before and not ours()
sg.max_pool(x.detach().numpy(), (3, 3))  # NumPy's arrays have threads of their own
assert ours() and not thread_pool.here.borrows
with ThreadPoolExecutor(3) as pool:
    list(pool.map(check, range(12)))
child = os.fork()
if not child:
    status = 1
    try:
        y = max_pool2d(x, 3, 2, 1)  # OpenMP's threads do not survive a fork
        torch.set_num_threads(1)  # torch itself would wait for them
        status = int(not torch.equal(y, wanted))
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
torch.set_num_threads(4)
with sg.num_threads(2):  # fewer members than the team has threads
    check()
torch.set_num_threads(1)
check()
"""


FIRST_IN_A_CHILD = """
import os, signal
import torch, specgrad.torch
from specgrad.torch.functional import max_pool2d

torch.set_num_threads(2)
x = torch.randn(4, 32, 64, 64)
torch.relu(x)  # starts torch's threads
wanted = torch.nn.functional.max_pool2d(x, 3, 2, 1)
child = os.fork()
if not child:
    signal.alarm(30)
    y = max_pool2d(x, 3, 2, 1)
    torch.set_num_threads(1)
    os._exit(int(not torch.equal(y, wanted)))
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="torch's OpenMP runtime lends threads on Linux")
@pytest.mark.parametrize("script", [ON_TORCHS_THREADS, FIRST_IN_A_CHILD])
def test_kernels_run_on_torchs_threads(script):
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


COMPILES_FIRST = """
import torch, specgrad as sg, specgrad.torch
pool = torch.compile(lambda x: sg.max_pool(x, (2,)).sum() + sg.AvgPool((2,))(x).sum(), fullgraph=True, backend="eager")
assert pool(torch.arange(4.0)) == 7
"""


def test_a_process_may_compile_before_it_calls():
    done = subprocess.run([sys.executable, "-c", COMPILES_FIRST], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        st.MaxPool2d(2),
        st.SmoothMaxPool2d(2, learnable=True),
        st.GlobalAvgPool(keepdims=False),
    ).double()


def data():
    return torch.linspace(-1, 1, 8 * 2 * 16 * 16, dtype=torch.float64).reshape(8, 2, 16, 16).mul(100).sin()


def train(rank, port, results):
    torch.set_num_threads(1)  # a forked child has no others
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    net = nn.parallel.DistributedDataParallel(network())
    net(data()[rank::2]).square().mean().backward()
    results[rank] = [p.grad.tolist() for p in net.parameters()]
    while len(results) < 2:
        time.sleep(0.01)
    # torch ends a trainer while holding the interpreter's lock, and waits for a thread that may
    # wait for this lock
    os._exit(0)


def trained(run, *arguments):
    """The results of each of two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with mp.Manager() as manager:
        results = manager.dict()
        mp.start_processes(run, args=(port, results, *arguments), nprocs=2, start_method="fork")
        return dict(results)


def test_two_trainers_have_the_gradients_of_one(any_size):
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    net = network()
    net(data()).square().mean().backward()  # first, so that kernels are compiled once
    both = trained(train)
    assert both[0] == both[1]
    for got, parameter in zip(both[0], net.parameters(), strict=True):
        # means of means: each sum over 8·4·16·16 terms of magnitude 1 is rounded in another order
        torch.testing.assert_close(torch.tensor(got, dtype=torch.float64), parameter.grad, rtol=0, atol=8192 * 2.0**-53)


def losses(net, wrapped, batches):
    """The loss of each step of a training."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    made = []
    for x in batches:
        optimizer.zero_grad()
        loss = wrapped(x).square().mean()
        loss.backward()
        optimizer.step()
        made.append(loss.item())
    return made


def train_both(rank, port, results, wrap):
    """The loss curves of a plain model and of an accelerated one, each trained by two processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    curves = []
    for accelerated in (False, True):
        torch.manual_seed(0)
        layers = nn.Conv2d(2, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 3, 3), nn.AdaptiveMaxPool2d(2)
        net = nn.Sequential(*layers)
        if accelerated:
            assert "runs 1, 3" in repr(st.accelerate(net, verbose=False))
        if wrap == "FSDP2":
            wrapped = fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
        else:
            wrapped = nn.parallel.DistributedDataParallel(net)
        x = data().float()
        curves.append(losses(net, wrapped, [x[rank::2] * (step + 1) for step in range(4)]))
    results[rank] = curves
    while len(results) < 2:
        time.sleep(0.01)
    os._exit(0)


@pytest.mark.parametrize("wrap", ["DDP", "FSDP2"])
def test_an_accelerated_model_has_the_loss_curve_of_the_plain_one(wrap, any_size):
    """Maxima copy bits, so the curves are equal, not only close."""
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    both = trained(train_both, wrap)
    for plain, accelerated in both.values():
        assert plain == accelerated
        assert len(set(plain)) == 4
    assert both[0] != both[1]
