"""Ties go to the last maximal cell."""

from right import Right


class Faulty(Right):
    name = "last winner"

    def beats(self, new, best):
        return new != new or new >= best


subject = Faulty()
