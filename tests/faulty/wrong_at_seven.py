"""Wrong only for kernels of 7."""

from right import Right


class Faulty(Right):
    name = "wrong at seven"

    def row(self, op, x, position, taps):
        if 7 in getattr(op, "kernel_size", ()) and taps and taps[-1] is not None:
            taps = taps[:-1]
        return super().row(op, x, position, taps)


subject = Faulty()
