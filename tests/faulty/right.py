"""A correct subject: pooling and convolution in plain loops. Each faulty subject changes one thing
in it.

It is written like a kernel author's first version: windows from the definition, one accumulator,
derivatives by its own slopes.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
import naive

from specgrad import Conv, SumPool
from specgrad.conformance import NotOffered
from specgrad.ops.pool import Average, Extremum


def wide(dtype):
    """The dtype of the computation: float32 for half types."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


class Right:
    name = "right"

    def windows(self, op, x):
        """Every output position with its taps: input positions, None for padding."""
        return naive.pool_windows(op, x.shape)

    def beats(self, new, best):
        return new != new or new > best

    def winner(self, op, x, real):
        best = real[0]
        for tap in real[1:]:
            if self.beats(x[tap], x[best]):
                best = tap
        return best

    def divisor(self, op, taps, real):
        if isinstance(op, SumPool):
            return 1
        if getattr(op, "divisor_override", None) is not None:
            return op.divisor_override
        return len(taps) if getattr(op, "count_include_pad", True) else max(len(real), 1)

    def row(self, op, x, position, taps):
        """The value of one window and its slopes: [(input position, slope), …]."""
        real = [tap for tap in taps if tap is not None]
        if isinstance(op, Average | SumPool):
            divisor = x.dtype.type(self.divisor(op, taps, real))
            total = x.dtype.type(0)
            for tap in real:
                total = total + x[tap]
            return total / divisor, [(tap, divisor) for tap in real]
        if not real:
            return x.dtype.type(0), []
        best = self.winner(op, x, real)
        if op.ties == "first":
            return x[best], [(best, 1)]
        tied = [t for t in real if x[t] == x[best] or (x[t] != x[t] and x[best] != x[best])]
        first = best if x[best] != x[best] else tied[0]
        return x[first], [(t, x.dtype.type(len(tied)) if op.ties == "split" else 1) for t in tied]

    def offered(self, op, x):
        if not isinstance(op, Extremum | Average | SumPool):
            raise NotOffered(op.name)
        if not isinstance(op, Extremum) and x.dtype.kind in "iu":
            raise NotOffered("integers")

    def rows(self, op, x):
        self.offered(op, x)
        op.output_shape(x.shape)
        x = x.astype(wide(x.dtype))
        if getattr(op, "lowest", False):  # a minimum is a maximum of the negative cells
            found = [(position, *self.row(op, -x, position, taps)) for position, taps in self.windows(op, x)]
            return [(position, -value if slopes else value, slopes) for position, value, slopes in found]
        return [(position, *self.row(op, x, position, taps)) for position, taps in self.windows(op, x)]

    def forward(self, op, inputs):
        if isinstance(op, Conv):
            return self.convolved(op, inputs)[0]
        x, *_ = inputs
        return np.array([value for _, value, _ in self.rows(op, x)]).astype(x.dtype).reshape(self.shape(op, x))

    def shape(self, op, x):
        return op.output_shape(x.shape)

    def jvp(self, op, inputs, tangents):
        if isinstance(op, Conv):
            return self.convolved(op, inputs, tangents)[1]
        (x, *_), (dx, *_) = inputs, tangents
        dx = dx.astype(wide(x.dtype))
        pushed = [sum((dx[t] / slope for t, slope in row), dx.dtype.type(0)) for _, _, row in self.rows(op, x)]
        return np.array(pushed).astype(x.dtype).reshape(self.shape(op, x))

    def vjp(self, op, inputs, cotangent):
        if isinstance(op, Conv):
            return tuple(self.convolved(op, inputs, None, cotangent)[2])
        x, *_ = inputs
        self.offered(op, x)
        pulled = np.zeros(x.shape, wide(x.dtype))
        for (_, _, row), g in zip(self.rows(op, x), cotangent.astype(wide(x.dtype)).reshape(-1), strict=True):
            for tap, slope in row:
                pulled[tap] += g / slope
        return (pulled.astype(x.dtype),)

    def convolved(self, op, inputs, tangents=None, cotangent=None):
        shape = op.output_shape(*(a.shape for a in inputs))
        dtype = inputs[0].dtype
        computed = wide(dtype)
        operands = tuple(a.astype(computed) for a in inputs)
        moved = (
            tuple(np.zeros_like(a) for a in operands)
            if tangents is None
            else tuple(t.astype(computed) for t in tangents)
        )
        g = np.zeros(shape, computed) if cotangent is None else cotangent.astype(computed)
        value, pushed, pulled = self.convolve(op, operands, moved, g)
        return (
            np.array(value).astype(dtype).reshape(shape),
            np.array(pushed).astype(dtype).reshape(shape),
            [p.astype(dtype) for p in pulled],
        )

    def convolve(self, op, operands, moved, g):
        return naive.conv(op, operands, moved, g)


subject = Right()
