"""An average with an error of a few times its bound."""

from right import Right

from specgrad.ops.pool import Average, SumPool


class Faulty(Right):
    name = "off by a few bounds"

    def row(self, op, x, position, taps):
        value, slopes = super().row(op, x, position, taps)
        if isinstance(op, Average | SumPool) and x.dtype == "float32":
            return value * x.dtype.type(1 + 2e-5), slopes
        return value, slopes


subject = Faulty()
