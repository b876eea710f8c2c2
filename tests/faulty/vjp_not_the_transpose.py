"""The VJP is right but for a factor: it is not the transpose of the JVP."""

from right import Right


class Faulty(Right):
    name = "vjp not the transpose"

    def vjp(self, op, inputs, cotangent):
        return tuple(2 * p for p in super().vjp(op, inputs, cotangent))


subject = Faulty()
