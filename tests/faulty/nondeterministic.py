"""Equal calls differ in the last bit now and then."""

import numpy as np
from right import Right


class Faulty(Right):
    name = "nondeterministic"
    calls = 0

    def forward(self, op, inputs):
        y = super().forward(op, inputs)
        self.calls += 1
        if y.dtype.kind == "f" and self.calls % 2 and "avg" in op.name:
            y = np.nextafter(y, y.dtype.type(np.inf))
        return y


subject = Faulty()
