"""count_include_pad means its opposite."""

from right import Right


class Faulty(Right):
    name = "count_include_pad flipped"

    def divisor(self, op, taps, real):
        if getattr(op, "divisor_override", None) is not None or not hasattr(op, "count_include_pad"):
            return super().divisor(op, taps, real)
        return max(len(real), 1) if op.count_include_pad else len(taps)


subject = Faulty()
