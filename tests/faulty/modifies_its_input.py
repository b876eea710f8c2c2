"""Writes into its input."""

from right import Right


class Faulty(Right):
    name = "modifies its input"

    def forward(self, op, inputs):
        y = super().forward(op, inputs)
        inputs[0][...] = 0
        return y


subject = Faulty()
