"""One case beyond 2^31 elements, for thorough runs: 32-bit indices overflow there, as they did in
PyTorch and Paddle.

The case is a maximum over 8-bit integers, 0 but for two cells, with one window per row of a million
cells. Few pages of the memory are touched, and the answer is known without a run of the
specification. Integers have no derivatives, so the case checks the value alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import MaxPool
from .cases import Case
from .compare import Outcome
from .trial import Reply, answered, handle

Array = np.ndarray[Any, Any]

LIMIT = 2**31
ROW = 2**20
NEEDED = 8 * 2**30
"""Bytes of free memory that the case needs: a subject may copy its input, and widen it."""
SECONDS = 600.0
"""The time limit of a subject: this input is much larger than any other."""
TITLE = "more than 2^31 elements"
OP = MaxPool((1, 2), stride=(1, ROW))

PYTHON = """import numpy as np
from specgrad import MaxPool
{finding}
x = np.zeros((1, 1, 4097, 2**20), np.int8)[:, :, 2048:]  # what lies before takes the reads of indices that overflow
x[..., 0, 1], x[..., -1, 1] = 5, 7
op = MaxPool((1, 2), stride=(1, 2**20))
y = subject.forward(op, (x,))
print(y.shape, y[0, 0, 0], y[0, 0, -1])  # expected: (1, 1, 2049, 1) [5] [7]"""


def problem(limit: int) -> Array:
    """The input, the second half of a larger array: indices that overflow then read zeros of the
    first half, and do not crash."""
    rows = limit // ROW
    x = np.zeros((1, 1, 2 * rows + 1, ROW), np.int8)[:, :, rows:]
    x[..., 0, 1], x[..., -1, 1] = 5, 7
    return x


def asked(subject: Any, limit: int) -> Reply:
    """The subject's reply to the input, which is not copied."""
    return answered(subject, "forward", OP, ((problem(limit),),))


def far(subject: Any, limit: int = LIMIT) -> Outcome:
    """Whether a subject answers this case correctly; raises NotOffered or Refused as the subject
    does."""
    got: Any = handle(subject).run(asked, limit, seconds=SECONDS).given("forward")
    rows = limit // ROW
    expected = np.zeros((1, 1, rows + 1, 1), np.int8)
    expected[..., 0, 0], expected[..., -1, 0] = 5, 7
    size = (rows + 1) * ROW
    if got.shape != expected.shape:
        words = f"the value of {size} cells has shape {got.shape}, not {expected.shape}"
        return Outcome(np.inf, words=words, part="beyond", expected=expected.shape, got=got.shape)
    wrong = np.flatnonzero(got != expected)
    if not wrong.size:
        return Outcome()
    at = int(wrong[0])
    words = f"the window at cell {at * ROW} of {size} is {got.flat[at]}, not {expected.flat[at]}"
    return Outcome(np.inf, words=words, part="beyond", expected=expected, got=got)


def placeholder() -> Case:
    """A case with the operator and without cells, for the report."""
    return Case(OP, (), (), np.zeros(0))
