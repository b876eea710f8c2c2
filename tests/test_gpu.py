"""The GPU engine without a GPU: Triton's interpreter against the specification, and its compiler for sm_90.

`gpu_cases.py`, `gpu_faults.py` and `gpu_compile.py` run in processes of their own, because Triton decides on its import whether it interprets. On a machine
with a CUDA device run `python tests/gpu_cases.py` itself, part by part: it takes the device, and has parts of its own for it.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

HERE = Path(__file__).parent


def run(script, *words, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, HERE / script, *words],
        env={**clean, "TRITON_DEFAULT_FP_FUSION": "1", **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout[-6000:] + done.stderr[-2000:]


PARTS = {
    "claims": (
        "gpu_cases.py",
        "--part",
        "claims",
        "--every",
        "60",
        "--kinds",
        "MaxPool",
        "AvgPool",
        "SmoothMaxPool",
        "AdaptiveAvgPool",
    ),
    # every seventh: in turn of both precisions and all layouts, awkward numbers and others, maxima and averages
    "windows": ("gpu_cases.py", "--part", "windows", "--every", "7"),
    "planted faults": ("gpu_faults.py",),
}


@pytest.mark.parametrize("part", PARTS)
def test_agrees_with_the_specification(part):
    code, words = run(*PARTS[part], TRITON_INTERPRET="1")
    assert code == 0, words
    assert "differences: 0" in words


def test_every_kernel_compiles_for_sm_90(tmp_path):
    code, words = run("gpu_compile.py", TRITON_CACHE_DIR=str(tmp_path))
    assert code == 0, words


class Kernel:
    """A kernel as a `Call` sees one: it counts the calls through Triton, and what it compiled counts the launches."""

    arg_names = ("x", "n", "BLOCK")
    function, packed_metadata = "function", "metadata"

    def __init__(self):
        self.asked, self.launched = [], []

    def __getitem__(self, grid):
        def ask(*args, **words):
            self.asked.append((grid, args, words))
            return self

        return ask

    def run(self, *args):
        self.launched.append(args)


class Tensor:
    """As much of a tensor as a `Call` looks at."""

    device = type("Device", (), {"type": "cuda", "index": 0})()

    def __init__(self, place):
        self.place = place

    def get_device(self):
        return 0

    def data_ptr(self):
        return self.place


@pytest.fixture
def calls(monkeypatch):
    pytest.importorskip("torch")
    from specgrad.engines.gpu import calls

    monkeypatch.setattr(calls.triton, "__version__", "3.6.0")
    monkeypatch.setattr(calls.torch.version, "hip", None)
    monkeypatch.setattr(calls.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(calls.torch._C, "_cuda_getCurrentRawStream", lambda index: "stream", raising=False)
    calls.launches.cache_clear()
    yield calls
    calls.launches.cache_clear()


def call_four_times(calls):
    kernel = Kernel()
    call = calls.Call(kernel, 7, (5,), {"BLOCK": 64, "num_warps": 4})
    places = [Tensor(place) for place in (32, 64, 72, 96)]
    for place in places:
        call(place)
    return kernel, places


def test_a_known_launcher_is_called_without_triton_where_addresses_allow(calls):
    kernel, places = call_four_times(calls)
    assert [args for _, args, _ in kernel.asked] == [(places[0], 5), (places[2], 5)]
    given = (7, 1, 1, "stream", "function", "metadata", None, None, None)
    assert kernel.launched == [(*given, 64, 5, 64), (*given, 96, 5, 64)]


def unlike(calls, monkeypatch, how):
    if how.startswith("version"):
        monkeypatch.setattr(calls.triton, "__version__", how.split()[1])
    elif how == "hip":
        monkeypatch.setattr(calls.torch.version, "hip", "7.0")
    elif how == "no stream":
        monkeypatch.delattr(calls.torch._C, "_cuda_getCurrentRawStream")
    elif how == "no hooks":
        monkeypatch.setattr(calls.triton, "knobs", type("Knobs", (), {"runtime": object()})())
    elif how == "no knobs":
        monkeypatch.delattr(calls.triton, "knobs")
    elif how == "interpreted":
        monkeypatch.setattr(calls, "INTERPRETED", True)
    elif how == "no metadata":
        monkeypatch.delattr(Kernel, "packed_metadata")
    else:
        monkeypatch.setattr(getattr(calls.triton.knobs.runtime, how), "calls", [print])


@pytest.mark.parametrize(
    "how",
    [
        "version 3.4.0",
        "version 3.10.0",
        "version 4.6.0+git1",
        "hip",
        "no stream",
        "no hooks",
        "no knobs",
        "interpreted",
        "no metadata",
        "launch_enter_hook",
        "launch_exit_hook",
    ],
)
def test_every_other_call_goes_through_triton(calls, monkeypatch, how):
    unlike(calls, monkeypatch, how)
    kernel, places = call_four_times(calls)
    assert [(grid, args) for grid, args, _ in kernel.asked] == [((7,), (place, 5)) for place in places]
    assert not kernel.launched
