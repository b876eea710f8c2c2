"""Adaptive bins end where the next one starts."""

from right import Right


class Faulty(Right):
    name = "disjoint adaptive bins"

    def windows(self, op, x):
        if not hasattr(op, "output_size"):
            yield from super().windows(op, x)
            return
        where = op.positions(x.shape)
        lengths = op.output_shape(x.shape)
        for position, taps in super().windows(op, x):
            yield (
                position,
                [
                    t
                    for t in taps
                    if all(
                        t[p]
                        < max((position[p] + 1) * x.shape[p] // lengths[p], position[p] * x.shape[p] // lengths[p] + 1)
                        for p in where
                    )
                ],
            )


subject = Faulty()
