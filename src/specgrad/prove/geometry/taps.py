"""Statements about the cells that the taps of a sliding axis read, one by one and as runs, and
about the readers of a cell."""

from __future__ import annotations

import numpy as np

from ...geometry import Index, Sliding
from ..integers import assume, implies, lemma
from .vocabulary import Claim, holds


@holds("every tap's cell is inside the axis, real or not")
def taps_are_in_bounds(axis: Sliding, o: Index, j: Index) -> Claim:
    cell = axis.tap(o, j).cell
    return (cell >= 0) & (cell < axis.size)


@holds("a real tap's cell is o·stride - before + j·dilation")
def real_taps_read_their_cell(axis: Sliding, o: Index, j: Index) -> Claim:
    tap = axis.tap(o, j)
    return implies(tap.real, tap.cell == o * axis.stride - axis.before + j * axis.dilation)


@holds("a real tap exists")
def real_taps_exist(axis: Sliding, o: Index, j: Index) -> Claim:
    tap = axis.tap(o, j)
    return implies(tap.real, tap.exists)


@holds("floor: every tap of every window exists")
def floor_taps_exist(floor: Sliding, o: Index, j: Index) -> Claim:
    assume(o < floor.length, j < floor.kernel)
    return floor.tap(o, j).exists


@holds("without padding every tap of a floor window is real")
def unpadded_taps_are_real(floor: Sliding, o: Index, j: Index) -> Claim:
    assume(floor.before == 0, floor.after == 0, o < floor.length, j < floor.kernel)
    return floor.tap(o, j).real


@holds("an output reads no cell by two taps, and later taps read later cells")
def taps_ascend(axis: Sliding, o: Index, i: Index, j: Index) -> Claim:
    one, other = axis.tap(o, i), axis.tap(o, j)
    return implies(one.real & other.real, (i < j) == (one.cell < other.cell))


@holds("a tap is real exactly if its cell is in its output's run")
def runs_are_the_taps(axis: Sliding, o: Index, j: Index) -> Claim:
    assume(j < axis.kernel)
    start, first, count, _, step = axis.reads(o)
    cell = start + j * step
    return axis.tap(o, j).real == ((first <= cell) & (cell <= first + (count - 1) * step))


@holds("every cell of a run is read by a tap")
def runs_are_read(axis: Sliding, o: Index, i: Index) -> Claim:
    start, first, count, _, step = axis.reads(o)
    assume(i < count)
    tap = (first - start) // step + i
    return (tap < axis.kernel) & axis.tap(o, tap).real & (axis.tap(o, tap).cell == first + i * step)


@holds("a tap exists exactly if it is one of the first `existing`")
def existing_taps_are_the_first(axis: Sliding, o: Index, j: Index) -> Claim:
    assume(j < axis.kernel)
    return axis.tap(o, j).exists == (j < axis.reads(o).existing)


@holds("0 <= count <= existing <= kernel")
def counts_are_ordered(axis: Sliding, o: Index) -> Claim:
    _, _, count, existing, _ = axis.reads(o)
    return (count >= 0) & (count <= existing) & (existing <= axis.kernel)


@holds("floor: all taps exist, so an average that counts padding divides by the kernel")
def floor_windows_have_all_taps(floor: Sliding, o: Index) -> Claim:
    assume(o < floor.length)
    return floor.reads(o).existing == floor.kernel


def _phases(axis: Sliding, c: Index) -> tuple[Index, ...]:
    """The parts of the formula of a cell's readers: o*stride + j*dilation = c + before, over the
    gcd."""
    shared, step, inverse = axis.phase
    stride = axis.stride // shared
    place = c + axis.before
    low = np.maximum(-((axis.extent - 1 - place) // axis.stride), 0)
    right = place // shared
    return shared, step, inverse, stride, (inverse * stride - 1) // step, place, right, low


@holds("every reader of a cell reads it, by the tap in the transposed table")
def readers_read(axis: Sliding, c: Index, i: Index) -> Claim:
    assume(c < axis.size)
    shared, step, inverse, stride, turns, place, right, low = _phases(axis, c)
    _, first, count, _, _ = axis.readers(c)
    assume(i < count)
    output = first + i * step
    further = i - (right % step * inverse - low) // step
    tap = right // step - right % step * turns - stride * further
    lemma(place == shared * right)
    lemma(output == right % step * inverse + step * further)
    lemma(inverse * stride == turns * step + 1)
    lemma(output * stride == right % step * (turns * step + 1) + stride * step * further)
    lemma(right - output * stride == step * tap)
    lemma(c - axis.start(output) == axis.dilation * tap)
    lemma((output <= place // axis.stride) & (output >= low))
    lemma(output * axis.stride <= place)
    lemma(place - output * axis.stride <= axis.dilation * (axis.kernel - 1))
    lemma((tap >= 0) & (tap <= axis.kernel - 1))
    lemma((c - axis.start(output)) // axis.dilation == tap)
    reading = axis.tap(output, (c - axis.start(output)) // axis.dilation)
    return (output >= 0) & (output < axis.length) & (tap < axis.kernel) & reading.real & (reading.cell == c)


@holds("every output that reads a cell is among its readers")
def readers_are_all(axis: Sliding, c: Index, o: Index, j: Index) -> Claim:
    assume(o < axis.length, j < axis.kernel, c < axis.size, axis.start(o) + j * axis.dilation == c)
    shared, step, inverse, stride, turns, place, right, low = _phases(axis, c)
    _, first, count, _, _ = axis.readers(c)
    lemma(place == shared * (o * stride + j * step))
    lemma((right == o * stride + j * step) & (place % shared == 0))
    further = inverse * (right // step) - o * turns - inverse * j
    lemma(inverse * stride == turns * step + 1)
    lemma(o * (inverse * stride) == o * (turns * step + 1))
    lemma(o == right % step * inverse + step * further)
    lemma(o - first == step * (further + (right % step * inverse - low) // step))
    reader = (o - first) // step
    lemma(reader * step == o - first)
    lemma(place - o * axis.stride <= axis.extent - 1)
    lemma((o >= low) & (o <= place // axis.stride))
    lemma(o - first > -step)
    lemma(reader >= 0)
    lemma(reader <= (np.minimum(place // axis.stride, axis.length - 1) - first) // step)
    return (reader >= 0) & (reader < count) & (first + reader * step == o)


@holds("restricted to the first n outputs, the readers of a cell are its readers below n")
def restricted_readers(axis: Sliding, c: Index, m: Index) -> Claim:
    assume(c < axis.size, m <= axis.length)
    _, first, count, _, step = axis.readers(c)
    _, same, fewer, _, _ = axis.readers(c, m)
    alike = (same == first) & (fewer >= 0) & (fewer <= count)
    below, others = (
        implies(fewer >= 1, first + (fewer - 1) * step < m),
        implies(fewer < count, first + fewer * step >= m),
    )
    return alike & below & others
