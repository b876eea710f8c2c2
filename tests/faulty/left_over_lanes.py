"""Rows are processed eight cells at a time, and the remaining cells read the first tap only."""

from right import Right


class Faulty(Right):
    name = "left over lanes"

    def row(self, op, x, position, taps):
        length = op.output_shape(x.shape)[-1] if position else 0
        if length > 8 and position[-1] >= length - length % 8:
            taps = taps[:1]
        return super().row(op, x, position, taps)


subject = Faulty()
