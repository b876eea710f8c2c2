"""An argmax loop that compares with the best cell at the start of the window's row."""

from right import Right


class Faulty(Right):
    name = "row start winner"

    def winner(self, op, x, real):
        start = best = real[0]
        for tap in real[1:]:
            if len(tap) > 1 and tap[-2] != start[-2] and tap[-1] == real[0][-1]:
                start = best
            if self.beats(x[tap], x[start]):
                best = tap
        return best


subject = Faulty()
