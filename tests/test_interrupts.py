"""KeyboardInterrupt during an import, a first compilation or a call: the next call gives the right
result."""

import contextlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch, levels, threads

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")

CALLS = """
import random, signal, sys
signal.signal(signal.SIGALRM, signal.default_int_handler)

def interrupted(seconds, call):
    # whether the call was interrupted after so many seconds
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    except RuntimeError as error:  # into which Python 3.11 turns what interrupts __set_name__
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return True
    return False
"""

RANDOM = """
import numpy as np, specgrad as sg
x = np.arange(2 * 3 * 40 * 40.0).reshape(2, 3, 40, 40) % 17
w = np.arange(5 * 3 * 3 * 3.0).reshape(5, 3, 3, 3) % 5
ops = [sg.MaxPool((3, 3), stride=2, padding=1), sg.AvgPool((2, 2)), sg.AdaptiveMaxPool((7, 5)),
       sg.MaxPool((2, 2), ties="split")]
def made(turn):  # a new kernel every ten turns
    return sg.MaxPool((2, 2 + turn // 10 % 7), stride=(1, 1 + turn // 70)) if turn % 10 == 0 else ops[turn % 4]
def step(op):
    op.vjp((x,), np.ones(op.output_shape(x.shape)))
    sg.conv(x, w, padding=1)
    sg.grad(lambda v: sg.sum(op(v)))(x)
with sg.engine("reference"):
    expected = [op(x[:1, :1, :9, :9]) for op in ops]
draw, count, total = random.Random(0), 0, int(sys.argv[1])
for turn in range(total):
    op = made(turn)
    count += interrupted(draw.uniform(1e-5, 3e-3), lambda: [step(op) for _ in range(50)])
    if turn % 20 == 0:
        for op, right in zip(ops, expected):
            assert (op(x[:1, :1, :9, :9]) == right).all()
assert (sg.conv(x, w, padding=1) == sg.conv(x.astype(object), w.astype(object), padding=1)).all()
print(count)
"""

PROGRAM = """
import numpy as np, specgrad as sg
def pooled(x):
    return sg.max_pool(x, (2,), stride=1)
program = sg.trace(lambda x: sg.sum(pooled(sg.relu(x * 2) + x * x) * 3 + 1), (8,)).compile(np.float64)
x, ones, draw, count = np.arange(8.0), np.ones(7), random.Random(0), 0
program.value_and_grad(x)
def run():
    while True:
        program.value_and_grad(x)
for turn in range(int(sys.argv[1])):
    count += interrupted(draw.uniform(1e-5, 6e-4), run)
    _, pullback = sg.vjp(pooled, x)  # keeps who won, which neither the program nor the next pooling may change
    program.value_and_grad(x)
    sg.vjp(pooled, -x)
    assert pullback(ones)[0].tolist() == [0] + [1] * 7, pullback(ones)
print(count)
"""

IMPORT = """
import numpy  # which itself cannot be imported again once it was interrupted
def load():
    import specgrad as sg, numpy as np
    sg.max_pool(np.arange(6.0)[None], (2,))
was = interrupted(float(sys.argv[1]), load)
load()
import specgrad as sg, numpy as np
print(was, sg.max_pool(np.arange(6.0)[None], (2,)).tolist(), sg.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2))).tolist())
"""


def script(body, *words, **environment):
    done = subprocess.run(
        [sys.executable, "-c", CALLS + body, *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment or None,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_thousand_random_interrupts_leave_everything_working():
    assert int(script(RANDOM, "1000")) > 900


def test_an_interrupted_program_lends_nobody_else_its_memory():
    assert int(script(PROGRAM, "1500")) == 1500


def test_the_first_compilation_may_be_interrupted(tmp_path):
    """The cache is empty: kernels are compiled until the interrupt."""
    tmp_path.chmod(0o700)
    assert int(script(RANDOM, "30", **{**os.environ, "SPECGRAD_CACHE_DIR": str(tmp_path)})) > 25


@pytest.mark.parametrize("seconds", [0.01, 0.03, 0.07, 0.12, 0.2, 0.3])
def test_an_import_may_be_interrupted(seconds):
    assert script(IMPORT, str(seconds)).partition(" ")[2] == "[[1.0, 3.0, 5.0]] [[[2.0, 2.0]]]\n"


class Interrupting:
    """Interrupts the caller when a function of this object returns for the n-th time: that is where
    Python handles signals."""

    def __init__(self, watched, number):
        self.watched, self.left = watched, number

    def __getattr__(self, name):
        def called(*given):
            result = getattr(self.watched, name)(*given)
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return result

        return called


def within(block):
    with block:
        pass


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (levels, "_running", lambda: sg.grad(sg.sum)(np.ones(2))),
        (levels, "_running", lambda: sg.jvp(sg.sum, (np.ones(2),), (np.ones(2),))),
        (dispatch, "_forced", lambda: within(sg.engine("reference"))),
        (threads, "_here", lambda: within(sg.num_threads(1))),
    ],
    ids=["vjp", "jvp", "engine", "num_threads"],
)
def test_what_holds_for_a_block_ends_with_it(module, name, call, number, monkeypatch):
    variable = getattr(module, name)
    before = variable.get()
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(module, name, Interrupting(variable, number))
        call()
    assert variable.get() == before
