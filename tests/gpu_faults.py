"""Planted faults: faulty kernels are detected, right ones are not. Runs in Triton's interpreter, in
which a kernel's helper can be exchanged.

    TRITON_INTERPRET=1 python tests/gpu_faults.py [--every N]

Prints what is judged wrongly, and exits with 1.
"""

import argparse
import sys
import warnings

import numpy as np
import triton
import triton.language as tl
from gpu_cases import differences, numbers

import specgrad as sg
from specgrad.engines.gpu import passes
from specgrad.engines.gpu.kernels import common, folds, halving, narrow, planes, rows, stream, volume


@triton.jit
def later_equal(old, new):
    return (new >= old) | (new != new)


@triton.jit
def first_nan(old, new):
    return (new > old) | ((new != new) & (old == old))


@triton.jit
def later_lead(best, code, other, other_code, KIND: tl.constexpr):
    better = other >= best
    return tl.where(better, other, best), tl.where(better, other_code, code)


@triton.jit
def one_before(key):
    number, code = unpacked(key)
    return number, tl.maximum(code - 1, 0)


@triton.jit
def one_less(at, columns, LEAD: tl.constexpr, CELLS: tl.constexpr, W: tl.constexpr):
    real = ()
    for n in tl.static_range((LEAD + CELLS + W - 1) // W):
        real = real + ((at + n * W >= 0) & (at + n * W < columns - W),)  # noqa: RUF005 - Triton has no other
    return real


@triton.jit
def later_row(carried, carried_codes, new, codes, TAPS: tl.constexpr, STEP: tl.constexpr, KIND: tl.constexpr):
    _ends, _won, next_carried, next_codes = advance(carried, carried_codes, new, codes, TAPS, STEP, KIND)
    return new, codes, next_carried, next_codes


@triton.jit
def cell_before(arriving, taps, lows, i: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
                LOW: tl.constexpr):  # fmt: skip
    return match(arriving, taps, lows, i, LENGTH, TAPS, BEFORE + 1, LOW)


@triton.jit
def window_before(levels, level_codes, o: tl.constexpr, SIZE: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
                  KIND: tl.constexpr):  # fmt: skip
    return window(levels, level_codes, o, SIZE, TAPS, max(BEFORE, 1) - 1, KIND)


@triton.jit
def column_before(shares, words, group, groups, BEFORE: tl.constexpr, tile: tl.constexpr):
    return cross(shares, words, group, groups, BEFORE - 1, tile)


@triton.jit
def no_neighbour(shares, words, group, groups, BEFORE: tl.constexpr, tile: tl.constexpr):
    return cross(shares, words, group, group + 1, BEFORE, tile)


@triton.jit
def other_half(shares, codes, waiting, waiting_codes, TAPS: tl.constexpr, LOW_TAPS: tl.constexpr, V: tl.constexpr,
               PAIRED: tl.constexpr):  # fmt: skip
    return descend(shares, codes, waiting, waiting_codes, TAPS, LOW_TAPS + 1, V, PAIRED)


@triton.jit
def second_late(share, other, waiting, other_waiting, codes, BELOW: tl.constexpr):
    return handed(share, other, waiting, other_waiting, codes & 0xFFFF, BELOW)


@triton.jit
def one_cell(share, total, other, taps, TAP: tl.constexpr, OTHER: tl.constexpr):
    return given(share, total, other, taps, TAP, 255)


@triton.jit
def nobody(taps, TAPS: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr):
    return won_by_some(taps, 0, V, BLOCK)


@triton.jit
def one_short(bests, codes, COUNT: tl.constexpr, TAPS: tl.constexpr, KIND: tl.constexpr):
    return slide_shared(bests, codes, COUNT, TAPS - 1, KIND)


@triton.jit
def tap_before(totals, share, tap, FIRST: tl.constexpr, TAPS: tl.constexpr, BASE: tl.constexpr, V: tl.constexpr,
               PAIRED: tl.constexpr, MIXED: tl.constexpr):  # fmt: skip
    return added(totals, share, tap, FIRST - 1, TAPS, BASE, V, PAIRED, MIXED)


@triton.jit
def no_run(ring, begin, shares, won, sums, last, row, tile: tl.constexpr):
    return add_up(ring, begin, shares, won, shares, won, row, tile)


@triton.jit
def never_cleared(ring, begin, row, NONE: tl.constexpr, tile: tl.constexpr):
    return complete(ring, begin, row, 0, tile)


def all_won(one, other):
    """Replaces `hand_on`: every cell of one plan counts as a winner."""


@triton.jit
def lane_before(found, index, N: tl.constexpr, BLOCK: tl.constexpr):
    return told(found, (index - 1) & (BLOCK - 1), N, BLOCK)


advance, cross, descend, won_by_some = stream.advance, halving.cross, halving.descend, halving.won_by_some
handed, given = halving.handed, halving.given
add_up, complete = halving.advance, halving.complete
unpacked, slide_shared = folds.unpacked, folds.slide_shared
match, window, added, told = planes.match, planes.window, halving.added, narrow.told


def faults(every):
    """The number of kernels judged wrongly, of every n-th."""
    missed = 0
    small, tall, held, large, largest, deep, odd, short, handed, high = (
        (sg.MaxPool((2, 3), stride=1, padding=1), (1, 6, 17)),
        (sg.MaxPool((6, 3), stride=1, padding=1), (1, 6, 17)),
        (sg.MaxPool((4, 3), stride=1, padding=1), (3, 7, 6)),
        (sg.MaxPool((7, 7), stride=1, padding=3), (1, 3, 20)),
        (sg.MaxPool((9, 13), stride=1, padding=(4, 6)), (1, 3, 20)),
        (sg.MaxPool((2, 2, 2), stride=1), (2, 3, 4, 17)),
        (sg.MaxPool((2, 5), stride=1, padding=1), (1, 3, 17)),
        (sg.MaxPool((3, 3), stride=1, padding=1), (2, 4, 20)),
        (sg.MaxPool((3, 7, 7), stride=1, padding=(1, 3, 3)), (1, 3, 3, 20)),
        (sg.MaxPool((5, 5), stride=1, padding=2), (1, 32, 4)),
    )
    planted = (
        (folds, "argmax_fold", later_lead, small),
        (rows, "unpacked", one_before, tall),
        (rows, "took_lead", later_equal, small),
        (rows, "took_lead", first_nan, small),
        (rows, "edges", one_less, small),
        (stream, "advance", later_row, tall),
        (stream, "edges", one_less, tall),
        (planes, "match", cell_before, held),
        (planes, "window", window_before, held),
        (halving, "cross", column_before, large),
        (halving, "cross", no_neighbour, large),
        (halving, "descend", other_half, large),
        (halving, "handed", second_late, large),
        (halving, "given", one_cell, large),
        (halving, "won_by_some", nobody, largest),
        (halving, "advance", no_run, high),
        (halving, "complete", never_cleared, high),
        (rows, "slide_shared", one_short, odd),
        (volume, "added", tap_before, deep),
        (passes, "hand_on", all_won, handed),
        (narrow, "told", lane_before, short),
        (narrow, "slide_shared", one_short, short),
        (rows, "took_lead", common.took_lead, small),
        (rows, "unpacked", unpacked, tall),
        (stream, "advance", advance, tall),
        (planes, "window", window, held),
        (halving, "cross", cross, large),
        (halving, "won_by_some", won_by_some, largest),
        (volume, "added", added, deep),
        (narrow, "told", told, short),
    )
    for home, name, helper, (op, shape) in planted[::every]:
        right = getattr(home, name)
        setattr(home, name, helper)
        rng = np.random.default_rng(1)
        dtype = np.float16 if name == "unpacked" or shape == high[1] else np.float32
        found = next((w for awkward in (0, 1) for w in differences(op, shape, dtype, "contiguous",
                                                                   numbers(rng, op, shape, dtype, awkward), rng)),
                                                                   "")  # fmt: skip
        setattr(home, name, right)
        if bool(found) == (helper is right):
            missed += 1
            print(getattr(helper, "fn", helper).__name__, "in", home.__name__, "is judged wrongly:", found)
    return missed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    missed = faults(parser.parse_args().every)
    print("differences:", missed)
    sys.exit(bool(missed))
