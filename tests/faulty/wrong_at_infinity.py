"""A maximum that starts from the lowest finite number, so that -inf is lost."""

import numpy as np
from right import Right

from specgrad.ops.pool import Maximum


class Faulty(Right):
    name = "wrong at infinity"

    def row(self, op, x, position, taps):
        value, slopes = super().row(op, x, position, taps)
        if isinstance(op, Maximum) and value == -np.inf:
            return np.finfo(x.dtype).min, slopes
        return value, slopes


subject = Faulty()
