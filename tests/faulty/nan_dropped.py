"""A maximum by np.fmax, which drops NaN."""

import numpy as np
from right import Right

from specgrad.ops.pool import Maximum


class Faulty(Right):
    name = "NaN dropped"

    def row(self, op, x, position, taps):
        real = [tap for tap in taps if tap is not None]
        if not isinstance(op, Maximum) or not real:
            return super().row(op, x, position, taps)
        best = real[0]
        for tap in real[1:]:
            best = tap if np.fmax(x[best], x[tap]) != x[best] else best
        return x[best], [(best, 1)]


subject = Faulty()
