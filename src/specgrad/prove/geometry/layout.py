"""Statements about memory order, van Herk's division of windows, and 64-bit overflow."""

from __future__ import annotations

from ...arguments import LARGEST
from ...geometry import Adaptive, Index, Sliding, coordinates, strides
from ..integers import assume, exact_in_64_bits, lemma
from .vocabulary import Claim, holds

LONG = 2**61  # cells of an axis: more than any memory holds


# Order


@holds("row-major: coordinates are recovered from the flat index of a volume")
def coordinates_invert_strides(n: Index, m: Index, k: Index, i: Index, j: Index, c: Index) -> Claim:
    assume(i < n, j < m, c < k)
    outer, inner, cell = strides((n, m, k))
    flat = i * outer + j * inner + c * cell
    lemma(flat // cell == flat)
    lemma((j * k + c >= 0) & (j * k + c < m * k))
    lemma(flat // outer == i)
    lemma(flat // inner == i * m + j)
    found = coordinates(flat, (n, m, k))
    return (found[0] == i) & (found[1] == j) & (found[2] == c)


@holds("row-major: every flat index has coordinates inside the volume, and equals their flat index")
def coordinates_are_inside(n: Index, m: Index, k: Index, t: Index) -> Claim:
    assume(t < n * (m * k))
    (outer, inner, cell), (i, j, c) = strides((n, m, k)), coordinates(t, (n, m, k))
    lemma(t // cell == t)
    lemma(t // outer < n)
    lemma(i == t // outer)
    lemma(t // inner == i * m + j)
    return (i >= 0) & (i < n) & (j < m) & (c < k) & (i * outer + j * inner + c * cell == t)


@holds("row-major: cells are in lexicographic order of their coordinates")
def cells_are_in_order(n: Index, m: Index, i: Index, j: Index, o: Index, c: Index) -> Claim:
    assume(i < n, o < n, j < m, c < m)
    outer, inner = strides((n, m))
    return (i * outer + j * inner < o * outer + c * inner) == ((i < o) | ((i == o) & (j < c)))


# Windows put together from parts that neighbours share


def exactly_once(window: Claim, one: Claim, other: Claim) -> Claim:
    """Whether a cell of the window is in exactly one of two parts, and any other cell in none."""
    return (window == (one | other)) & (window == (one != other))


@holds("van Herk: a window is a suffix of its block and a prefix of the next, each cell once")
def suffix_and_prefix(k: Index, i: Index, t: Index) -> Claim:
    border = (i // k + 1) * k
    return exactly_once((i <= t) & (t < i + k), (i <= t) & (t < border), (border <= t) & (t < i + k))


@holds("van Herk: suffix and prefix stay in one block each")
def blocks_hold_their_parts(k: Index, i: Index) -> Claim:
    border = (i // k + 1) * k
    return (border - k <= i) & (i < border) & (i + k <= border + k)


@holds("doubling: two adjacent spans of m cells are one span of 2m, each cell once")
def spans_double(m: Index, i: Index, t: Index) -> Claim:
    return exactly_once((i <= t) & (t < i + 2 * m), (i <= t) & (t < i + m), (i + m <= t) & (t < i + 2 * m))


@holds("doubling: a window of k cells is a span of m <= k and the k - m cells after it, each cell once")
def spans_append(m: Index, k: Index, i: Index, t: Index) -> Claim:
    assume(m <= k)
    return exactly_once((i <= t) & (t < i + k), (i <= t) & (t < i + m), (i + m <= t) & (t < i + k))


@holds(
    "doubling: a span of m <= k <= 2m cells is covered by its first and its last m (a maximum may read a cell twice)"
)
def spans_overlap(m: Index, k: Index, i: Index, t: Index) -> Claim:
    assume(m <= k, k <= 2 * m)
    one, other = (i <= t) & (t < i + m), (i + k - m <= t) & (t < i + k)
    return (one | other) == ((i <= t) & (t < i + k))


# 64 bits


def _is_within_limits(axis: Sliding) -> None:
    """Assume the limits that `arguments` sets for a window's parameters, on an axis of at most LONG
    cells."""
    for field in (axis.kernel, axis.stride, axis.before, axis.after, axis.dilation):
        assume(field <= LARGEST)
    assume(axis.size <= LONG)


@holds("no step of a tap's formula leaves 64 bits")
def taps_do_not_overflow(axis: Sliding, o: Index, j: Index) -> Claim:
    _is_within_limits(axis)
    assume(o < axis.length, j < axis.kernel)
    lemma(o * axis.stride <= axis.size + axis.before + axis.after + axis.stride)
    return exact_in_64_bits(axis.tap, o, j)


@holds("no step of a run's formula leaves 64 bits")
def runs_do_not_overflow(axis: Sliding, o: Index) -> Claim:
    _is_within_limits(axis)
    assume(o < axis.length)
    lemma(o * axis.stride <= axis.size + axis.before + axis.after + axis.stride)
    return exact_in_64_bits(axis.reads, o)


@holds("no step of the formula of readers leaves 64 bits")
def readers_do_not_overflow(axis: Sliding, c: Index) -> Claim:
    _is_within_limits(axis)
    assume(c < axis.size)
    return exact_in_64_bits(axis.readers, c)


@holds("no step of a bin's formula leaves 64 bits, however many cells the axis has")
def bins_do_not_overflow(bins: Adaptive, o: Index) -> Claim:
    assume(bins.size <= LONG, bins.length <= LARGEST, o < bins.length)
    return exact_in_64_bits(bins.reads, o)


@holds("no step of the formula of a cell's bins leaves 64 bits, where size * length < 2^62")
def turned_bins_do_not_overflow(bins: Adaptive, c: Index) -> Claim:
    assume(c < bins.size, bins.size * bins.length < 2**62)
    return exact_in_64_bits(bins.readers, c)


@holds("no flat index of an array of fewer than 2^63 cells leaves 64 bits")
def flat_indices_do_not_overflow(n: Index, m: Index, i: Index, j: Index) -> Claim:
    assume(i < n, j < m, n * m < 2**63)
    return exact_in_64_bits(lambda i, j: (i * strides((n, m))[0] + j,), i, j)
