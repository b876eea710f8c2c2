"""Wrong only in channel 1 of an average."""

from right import Right

from specgrad.ops.pool import Average


class Faulty(Right):
    name = "wrong in one channel"

    def row(self, op, x, position, taps):
        value, slopes = super().row(op, x, position, taps)
        channel = len(x.shape) - op.spatial_rank() - 1
        if isinstance(op, Average) and op.axes is None and channel >= 0 and position[channel] == 1:
            return value + x.dtype.type(1), slopes
        return value, slopes


subject = Faulty()
