"""The number of the winning tap is kept in one byte."""

from right import Right

from specgrad.ops.pool import Maximum


class Faulty(Right):
    name = "winner in a byte"

    def row(self, op, x, position, taps):
        value, slopes = super().row(op, x, position, taps)
        if isinstance(op, Maximum):
            slopes = [(taps[taps.index(tap) % 256], slope) for tap, slope in slopes]
        return value, slopes


subject = Faulty()
