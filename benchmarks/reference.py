"""Times of the reference engine: value and VJP of each operator on (1, 3, 64, 64) float64, in
milliseconds.

Run with `make bench`. The reference is the specification; the times show that it is usable, not
fast.
"""

import time

import numpy as np

import specgrad as sg

x = np.random.default_rng(0).normal(size=(1, 3, 64, 64))
weight = np.random.default_rng(1).normal(size=(8, 3, 3, 3))

CALLS = [
    (sg.MaxPool((3, 3), stride=1, padding=1), (x,)),
    (sg.AvgPool((3, 3), stride=1, padding=1), (x,)),
    (sg.SmoothMaxPool((3, 3), stride=1, padding=1, beta=1.0), (x,)),
    (sg.AdaptiveMaxPool((7, 7)), (x,)),
    (sg.AdaptiveAvgPool((7, 7)), (x,)),
    (sg.GlobalMaxPool(2), (x,)),
    (sg.GlobalAvgPool(2), (x,)),
    (sg.Conv((3, 3), padding=1), (x, weight)),
    (sg.ConvTranspose((3, 3), stride=2), (x, weight.transpose(1, 0, 2, 3))),
]


def best_of(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


if __name__ == "__main__":
    print(f"{'operator':60} {'value':>9} {'VJP':>9}   ms, best of 5")
    with sg.engine("reference"):
        for op, operands in CALLS:
            g = op(*operands)
            value, pulled = best_of(lambda: op(*operands)), best_of(lambda: op.vjp(operands, g))  # noqa: B023
            print(f"{op!r:60} {value:9.1f} {pulled:9.1f}")
