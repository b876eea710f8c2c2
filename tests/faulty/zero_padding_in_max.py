"""Padding takes part in a maximum as the value 0."""

from right import Right

from specgrad.ops.pool import Extremum


class Faulty(Right):
    name = "zero padding in max"

    def row(self, op, x, position, taps):
        value, slopes = super().row(op, x, position, taps)
        if isinstance(op, Extremum) and None in taps and not value > 0 and value == value:
            return x.dtype.type(0), []
        return value, slopes


subject = Faulty()
