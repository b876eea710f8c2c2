"""The share of the gradient that padding should take goes to the first real cell."""

from right import Right

from specgrad.ops.pool import Average


class Faulty(Right):
    name = "gradient to padding"

    def vjp(self, op, inputs, cotangent):
        (pulled, *rest) = super().vjp(op, inputs, cotangent)
        if isinstance(op, Average) and pulled.size:
            (x,) = inputs
            for (_position, taps), g in zip(self.windows(op, x), cotangent.reshape(-1), strict=True):
                lost = sum(tap is None for tap in taps)
                pulled.reshape(-1)[0] += lost * g / x.dtype.type(len(taps)) if lost else 0
        return (pulled, *rest)


subject = Faulty()
