"""The GPU engine without a GPU: Triton's interpreter against the specification, and Triton's
compiler for sm_90.

`gpu_cases.py`, `gpu_faults.py` and `gpu_front.py` run in one process (`gpu_parts.py`), and
`gpu_compile.py` in another, because Triton decides on import whether it interprets. With a CUDA
device, run `python tests/gpu_cases.py`, part by part, and `python tests/gpu_front.py`: both then
use the device, and have more parts.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kinds import effort

from specgrad import SlowPathWarning

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
        timeout=effort(900, 3600),
    )
    return done.returncode, done.stdout[-6000:] + done.stderr[-2000:]


KINDS = effort(("MaxPool", "SmoothMaxPool"), ("MaxPool", "AvgPool", "SmoothMaxPool", "AdaptiveAvgPool"))
PARTS = [
    ("gpu_cases.py", "--part", "claims", "--every", effort("360", "60"), "--kinds", *KINDS),
    # every n-th: alternating precisions, layouts, awkward and other numbers, maxima and averages
    ("gpu_cases.py", "--part", "windows", *effort(("--every", "29", "--one"), ("--every", "7"))),
    ("gpu_faults.py", "--every", effort("6", "1")),
    ("gpu_front.py", "--every", effort("4", "1")),  # prepared calls
]


def test_agrees_with_the_specification():
    parts = [word for part in PARTS for word in (*part, "--")]
    code, words = run("gpu_parts.py", *parts, TRITON_INTERPRET="1")
    assert code == 0, words
    assert words.count("differences: 0") == len(PARTS)
    for script, *_ in PARTS:
        assert script in words


def test_every_kernel_compiles_for_sm_90(tmp_path):
    code, words = run("gpu_compile.py", *effort(("--kinds",), ()), TRITON_CACHE_DIR=str(tmp_path))
    assert code == 0, words


class Compiled:
    """A compiled kernel of Triton, with a launcher that counts launches and takes arguments in the
    form of Triton 3.6 or 3.9, or in another form."""

    def __init__(self, form):
        self.form, self.launched, self.run = form, [], self
        if form != "no launcher":
            self.launch = lambda *given: self.launched.append(given)

    def begin(self, grid, stream, hooks, args):
        told = type("LazyDict", (), {})()
        if self.form == "3.6":
            self.launch(grid, 1, 1, stream, "function", False, None, None, "metadata", told, *hooks, *args)
        elif self.form == "3.9":
            self.launch(grid, 1, 1, stream, "function", False, "metadata", told, *hooks, None, "signature", args)
        elif self.form == "stream last":
            self.launch(grid, 1, 1, "function", *args, stream)
        elif self.form == "addresses":
            self.launch(grid, 1, 1, stream, "function", *(getattr(arg, "place", arg) for arg in args))
        elif self.form == "apart":
            self.launch(grid, 1, 1, stream, "function", args[0], "metadata", *args[1:])


class Kernel:
    """A kernel with the interface that a `Call` uses; counts the calls through Triton."""

    def __init__(self, form, hooks):
        self.asked, self.compiled, self.hooks = [], Compiled(form), hooks

    def __getitem__(self, grid):
        def ask(*args, **words):
            self.asked.append(args)
            self.compiled.begin(grid[0], "stream", self.hooks, (*args, words["tile"]))
            return self.compiled

        return ask


class Tensor:
    """A tensor with the attributes that a program uses."""

    device = type("Device", (), {"type": "cuda", "index": 0})()

    def __init__(self, place):
        self.place = place

    def data_ptr(self):
        return self.place

    def stride(self):
        return ()


@pytest.fixture
def calls(monkeypatch):
    pytest.importorskip("torch")
    from specgrad.engines.gpu import calls

    monkeypatch.setattr(calls, "NVIDIA", True)
    monkeypatch.setattr(calls.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(calls.torch_private, "raw_stream", lambda index: "stream")
    monkeypatch.setattr(calls.torch_private, "current_device", lambda: 0)
    for cache in (calls.watches, calls.warn):
        cache.cache_clear()
    yield calls
    for cache in (calls.watches, calls.warn):
        cache.cache_clear()


SIZES = (5, 1)


def run_five_times(calls, form):
    """Run a program of one kernel on two tensors five times; the fourth run's tensors are not
    aligned."""
    from specgrad.engines.gpu.program import Program

    runtime = calls.triton.knobs.runtime
    kernel = Kernel(form, (runtime.launch_enter_hook, runtime.launch_exit_hook))
    program = Program(Tensor.device)
    x, y = program.operand("float32"), program.operand("uint8")
    program.launch(calls.Call(kernel, 7, SIZES, (64,), 4, tables=(Tensor(48), None)), x, y)
    program.ready()
    tensors = [(Tensor(place), Tensor(place + 8 * 16)) for place in (32, 64, 96, 72, 128)]
    for pair in tensors:
        program(*pair)
    return kernel, tensors


@pytest.mark.parametrize("form", ["3.6", "3.9"])
def test_launches_do_what_triton_was_seen_to_do(calls, form):
    kernel, tensors = run_five_times(calls, form)
    asked = [tensors[0], tensors[1], tensors[3]]
    assert [(*args[:2], args[3]) for args in kernel.asked] == [(*pair, SIZES) for pair in asked]
    given, rest = (7, 1, 1, "stream", "function", False), ((48, None), SIZES, (64,))
    if form == "3.6":
        straight = [(*given, None, None, "metadata", None, None, None, p, p + 128, *rest) for p in (96, 128)]
    else:
        straight = [(*given, "metadata", None, None, None, None, "signature", (p, p + 128, *rest)) for p in (96, 128)]
    assert [kernel.compiled.launched[i] for i in (2, 4)] == straight


@pytest.mark.parametrize("form", ["no launcher", "stream last", "addresses", "apart"])
def test_what_is_not_recognised_goes_through_triton_in_words(calls, form):
    with pytest.warns(SlowPathWarning, match=r"launches kernels in a way that specgrad does not know \(.*\): they run"):
        kernel, tensors = run_five_times(calls, form)
    assert [args[:2] for args in kernel.asked] == tensors


@pytest.mark.parametrize("how", ["launch_enter_hook", "launch_exit_hook"])
def test_whoever_listens_to_launches_hears_all_of_them(calls, monkeypatch, how):
    monkeypatch.setattr(getattr(calls.triton.knobs.runtime, how), "calls", [print])
    kernel, tensors = run_five_times(calls, "3.6")
    assert [args[:2] for args in kernel.asked] == tensors


def test_devices_that_are_not_nvidias_go_through_triton(calls, monkeypatch):
    monkeypatch.setattr(calls, "NVIDIA", False)
    kernel, tensors = run_five_times(calls, "3.6")
    assert [args[:2] for args in kernel.asked] == tensors
