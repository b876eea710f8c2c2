"""The bins of an adaptive axis."""

from __future__ import annotations

from ...geometry import Adaptive, Index, Sliding
from ..integers import assume, lemma
from .vocabulary import Claim, holds


@holds("adaptive: a bin starts at floor(o * size / length)")
def bins_start_at_the_floor(bins: Adaptive, o: Index) -> Claim:
    start = bins.start(o)
    return (start * bins.length <= o * bins.size) & (o * bins.size < (start + 1) * bins.length)


@holds("adaptive: a bin stops at ceil((o + 1) * size / length)")
def bins_stop_at_the_ceiling(bins: Adaptive, o: Index) -> Claim:
    _, first, count, _, _ = bins.reads(o)
    stop, exact = first + count, (o + 1) * bins.size
    return (stop * bins.length >= exact) & (exact > (stop - 1) * bins.length)


@holds("adaptive: a bin is one or more adjacent cells inside the axis")
def bins_are_inside(bins: Adaptive, o: Index) -> Claim:
    assume(o < bins.length)
    _, first, count, existing, step = bins.reads(o)
    return (first >= 0) & (count >= 1) & (first + count <= bins.size) & (existing == count) & (step == 1)


@holds("adaptive: the first bin starts at 0, and the last stops at the size")
def bins_reach_both_ends(bins: Adaptive) -> Claim:
    _, first, count, _, _ = bins.reads(bins.length - 1)
    return (bins.start(0) == 0) & (first + count == bins.size)


@holds("adaptive: bins are in order, without a gap, and adjacent bins share at most one cell")
def bins_are_in_order(bins: Adaptive, o: Index) -> Claim:
    stop, following = bins.start(o) + bins.reads(o).count, bins.start(o + 1)
    return (bins.start(o) <= following) & (following <= stop) & (stop <= following + 1)


@holds("adaptive: every cell is in bin floor(cell * length / size)")
def bins_cover(bins: Adaptive, c: Index) -> Claim:
    assume(c < bins.size)
    output = c * bins.length // bins.size
    _, first, count, _, _ = bins.reads(output)
    return (output < bins.length) & (first <= c) & (c < first + count)


@holds("adaptive: a bin has floor(size / length) to floor(size / length) + 2 cells")
def bins_are_even(bins: Adaptive, o: Index) -> Claim:
    count, share = bins.reads(o).count, bins.size // bins.length
    return (count >= share) & (count <= share + 2)


@holds("adaptive: a cell is in a bin exactly if the bin is among the cell's readers")
def bins_turn_round(bins: Adaptive, o: Index, c: Index) -> Claim:
    assume(o < bins.length, c < bins.size)
    _, first, count, _, _ = bins.reads(o)
    _, low, readers, _, _ = bins.readers(c)
    return ((first <= c) & (c < first + count)) == ((low <= o) & (o < low + readers))


@holds("adaptive: where the length divides the size, bins are windows of stride = kernel = size / length")
def even_bins_slide(m: Index, k: Index, o: Index) -> Claim:
    assume(o < m)
    _, first, count, _, _ = Adaptive(m * k, m).reads(o)
    window = Sliding(m * k, k, k).reads(o)
    lemma((window.first == o * k) & (window.count == k))
    return (first == window.first) & (count == window.count)


@holds("adaptive: a single bin is the whole axis; with as many bins as cells each bin is one cell")
def bins_at_the_extremes(n: Index, o: Index) -> Claim:
    whole, each = Adaptive(n, 1).reads(0), Adaptive(n, n).reads(o)
    return (whole.first == 0) & (whole.count == n) & (each.first == o) & (each.count == 1)
