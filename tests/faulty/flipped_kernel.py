"""Convolution instead of cross-correlation."""

import numpy as np
from right import Right


class Faulty(Right):
    name = "flipped kernel"

    def convolve(self, op, operands, moved, g):
        x, w, *bias = operands
        dx, dw, *dbias = moved
        turn = (slice(None), slice(None), *(slice(None, None, -1),) * len(op.kernel_size))
        value, pushed, pulled = super().convolve(op, (x, w[turn], *bias), (dx, dw[turn], *dbias), g)
        pulled[1] = np.ascontiguousarray(pulled[1][turn])
        return value, pushed, pulled


subject = Faulty()
