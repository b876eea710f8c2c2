"""Kernels write nothing outside of their results: the bytes after each result are checked after
every call."""

import math

import numpy as np
import pytest
from kinds import effort

import specgrad as sg
from specgrad import memory
from specgrad.dispatch import load
from specgrad.engines.cpu import operands, weighted

BEHIND, UNTOUCHED = 8192, 0xA5  # bytes


class Fence:
    """Allocated memory, with some bytes after each piece."""

    def __init__(self):
        self.pieces = []

    def piece(self, size):
        whole = np.empty(size + BEHIND + memory.LINE, np.uint8)
        start = -whole.ctypes.data % memory.LINE
        whole[start + size :] = UNTOUCHED
        self.pieces.append(whole[start + size :])
        return whole[start : start + size]

    def empty(self, shape, dtype):
        shape = shape if isinstance(shape, tuple) else (shape,)
        return self.piece(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)

    def holds(self):
        whole = all((piece == UNTOUCHED).all() for piece in self.pieces)
        self.pieces.clear()
        return whole


def drawn(random):
    """An operator and an operand's shape: windows of all sizes, in few or many planes, wide and
    narrow."""
    rank = int(random.choice([1, 2, 2, 2, 3]))
    kernel, stride, dilation = (tuple(map(int, random.integers(1, top, rank))) for top in ((13, 13, 6)[rank - 1], 4, 3))
    if random.random() < 0.6:
        stride = dilation = (1,) * rank
    padding = tuple(int(random.integers(0, k // 2 + 1)) for k in kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = tuple(r + int(random.integers(0, (200, 40, 12)[rank - 1])) for r in reach)
    planes = int(random.choice([1, 3, 40, 70]))
    kind = random.integers(4)
    if kind == 0:
        op = sg.AvgPool(kernel, stride=stride, padding=padding)
    elif kind == 1:
        op = sg.AdaptiveMaxPool(tuple(int(random.integers(1, n + 1)) for n in size))
    else:
        op = sg.MaxPool(kernel, stride=stride, padding=padding, dilation=dilation)
    return op, (planes, *size)


@pytest.mark.parametrize("seed", range(effort(2, 8)))
def test_nothing_is_written_beyond_results(seed, monkeypatch):
    fence, engine = Fence(), load("cpu")
    for owner in (memory, operands, weighted):
        monkeypatch.setattr(owner, "empty", fence.empty)
    random = np.random.default_rng(seed)
    for _ in range(effort(16, 60)):
        op, shape = drawn(random)
        x = random.standard_normal(shape).astype(np.float32)
        if random.random() < 0.2:
            x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
        op(x)
        assert fence.holds(), (op, shape, "forward")
        value, kept = engine.keep(op, (x,))
        assert fence.holds(), (op, shape, "keep")
        engine.pull(op, (x,), kept, value)
        assert fence.holds(), (op, shape, "pull")
        op.jvp((x,), (x,))
        assert fence.holds(), (op, shape, "jvp")
        op.vjp((x,), value)
        assert fence.holds(), (op, shape, "vjp")
