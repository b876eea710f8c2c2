"""Columns of a convolution: cells of the wide side laid out so that one product of matrices makes many cells of the narrow side.

The wide side is what a convolution reads, the narrow side what it writes; a transposed convolution goes the other way. Cells of the
narrow side are counted row by row: cell t stands in row t // length of `rows` and column t % length. rows[r, o] is where the
wide row begins that outer tap o of row r reads (-1: padding); in it, tap j of column c reads c*stride - before + j*dilation,
which is real for low[j] <= c < high[j].
"""

from __future__ import annotations

from numba import njit

from .access import at
from .compiling import compiled
from .rows import copy, fill, into2


@njit(nogil=True, inline="always")
def run_of(rows, o, r, left, room, length, joined):
    """How many narrow cells from column `left` of row r on lie side by side in the wide plane as well, at most `room`."""
    cells = length - left
    while joined and cells < room and rows[r + 1, o] == rows[r, o] + length:
        r += 1
        cells += length
    return min(cells, room)


@njit(nogil=True, inline="always")
def clear_edges(line, start, stop, length, low, high):
    """Zero the cells of `line`, which stand for the narrow cells start to stop, whose tap is padding within its row."""
    t = start
    while t < stop:
        left = t % length
        right = min(length, left + stop - t)
        for c in range(left, min(right, low)):
            line[t - start + c - left] = 0
        for c in range(max(left, high), right):
            line[t - start + c - left] = 0
        t += right - left


@compiled
def pack(wide, base, apart, images, channels, size, columns, start, stop, rows, length, low, high, stride, before, dilation, joined):  # fmt: skip
    """columns[(channel, outer tap, tap), image, t - start] = the cell of `wide` that the tap of narrow cell t reads, 0 for padding.

    Images begin at `base` of the flat array and lie `apart`; they have channels of `size` cells. `joined` says that narrow rows are as long
    as wide ones and read side by side, so that many rows are one copy.
    """
    outer, taps = rows.shape[1], low.shape[0]
    for which in range(images * channels):
        image, channel = which // channels, which % channels
        cells = at(wide, base + image * apart + channel * size)
        for o in range(outer):
            for j in range(taps):
                row = ((channel * outer + o) * taps + j) * images + image
                line = at(columns, row * (stop - start))
                shift = j * dilation - before
                t = start
                while t < stop:
                    r, left = t // length, t % length
                    place = rows[r, o]
                    if place < 0:
                        run = min(length - left, stop - t)
                        fill(at(line, t - start), run, 0)
                    else:
                        run = run_of(rows, o, r, left, stop - t, length, joined)
                        if joined:
                            place += shift + left
                            first, last = max(0, -place), min(run, size - place)
                            copy(at(line, t - start + first), last - first, at(cells, place + first))
                        else:
                            first, last = max(left, low[j]), min(left + run, high[j])
                            to, source = at(line, t - start - left + first), at(cells, place + shift + first * stride)
                            if stride == 1:
                                copy(to, last - first, source)
                            else:
                                for c in range(last - first):
                                    to[c] = source[c * stride]
                    t += run
                if low[j] > 0 or high[j] < length:
                    clear_edges(line, start, stop, length, low[j], high[j])


@compiled
def unpack(columns, wide, base, apart, images, channels, size, start, stop, rows, length, low, high, stride, before, dilation, joined):  # fmt: skip
    """Add every column cell to the cell of `wide` that it was read from; cells of padding are dropped (and zeroed). As `pack` lays them out."""
    outer, taps = rows.shape[1], low.shape[0]
    for which in range(images * channels):
        image, channel = which // channels, which % channels
        cells = at(wide, base + image * apart + channel * size)
        for o in range(outer):
            for j in range(taps):
                row = ((channel * outer + o) * taps + j) * images + image
                line = at(columns, row * (stop - start))
                shift = j * dilation - before
                if joined and (low[j] > 0 or high[j] < length):
                    clear_edges(line, start, stop, length, low[j], high[j])
                t = start
                while t < stop:
                    r, left = t // length, t % length
                    place = rows[r, o]
                    if place < 0:
                        run = min(length - left, stop - t)
                    else:
                        run = run_of(rows, o, r, left, stop - t, length, joined)
                        if joined:
                            place += shift + left
                            first, last = max(0, -place), min(run, size - place)
                            into2(at(cells, place + first), last - first, at(line, t - start + first), None)
                        else:
                            first, last = max(left, low[j]), min(left + run, high[j])
                            to, source = at(cells, place + shift + first * stride), at(line, t - start - left + first)
                            if stride == 1:
                                into2(to, last - first, source, None)
                            else:
                                for c in range(last - first):
                                    to[c * stride] += source[c]
                    t += run


@njit(nogil=True)
def correlate(wide, weight, narrow, rows, length, low, high, stride, before, dilation, joined):
    """narrow[n, t] += Σ wide·weight[n] by direct loops: groups of one channel, or weights that are not finite."""
    outer, taps = rows.shape[1], low.shape[0]
    inside, outside = low[0], high[taps - 1]
    for n in range(narrow.shape[0]):
        for r in range(rows.shape[0]):
            target = narrow[n, r * length : (r + 1) * length]
            for channel in range(wide.shape[0]):
                o = 0
                while o < outer:
                    base = rows[r, o]
                    if base < 0:
                        o += 1
                        continue
                    cells, w = wide[channel, base:], weight[n, channel, o]
                    if taps == 3 and inside < outside:
                        together = 1
                        if o + 2 < outer and rows[r, o + 1] >= 0 and rows[r, o + 2] >= 0:
                            together = 3
                            v, u = weight[n, channel, o + 1], weight[n, channel, o + 2]
                            second, third = wide[channel, rows[r, o + 1] :], wide[channel, rows[r, o + 2] :]
                            for c in range(inside, outside):
                                a = c * stride - before
                                b = a + dilation
                                d = b + dilation
                                target[c] += (
                                    (w[0] * cells[a] + w[1] * cells[b] + w[2] * cells[d])
                                    + (v[0] * second[a] + v[1] * second[b] + v[2] * second[d])
                                    + (u[0] * third[a] + u[1] * third[b] + u[2] * third[d])
                                )
                        else:
                            for c in range(inside, outside):
                                a = c * stride - before
                                target[c] += (
                                    w[0] * cells[a] + w[1] * cells[a + dilation] + w[2] * cells[a + 2 * dilation]
                                )
                        for i in range(o, o + together):
                            edge = wide[channel, rows[r, i] :]
                            for j in range(3):
                                factor = weight[n, channel, i, j]
                                for c in range(low[j], min(inside, high[j])):
                                    target[c] += factor * edge[c * stride - before + j * dilation]
                                for c in range(max(outside, low[j]), high[j]):
                                    target[c] += factor * edge[c * stride - before + j * dilation]
                        o += together
                        continue
                    for j in range(taps):
                        shift, factor = j * dilation - before, w[j]
                        for c in range(low[j], high[j]):
                            target[c] += factor * cells[c * stride + shift]
                    o += 1


@njit(nogil=True, fastmath={"reassoc", "contract"})
def weigh(wide, narrow, weight, first, last, rows, length, low, high, stride, before, dilation, joined):
    """The adjoint of `correlate` in `weight`: weight[n, channel, o, j] += Σ narrow[n]·wide over the cells that meet, for channels first to last."""
    outer, taps = rows.shape[1], low.shape[0]
    for n in range(narrow.shape[0]):
        for channel in range(first, last):
            for o in range(outer):
                for j in range(taps):
                    shift, total = j * dilation - before, narrow.dtype.type(0)
                    for r in range(rows.shape[0]):
                        base = rows[r, o]
                        if base < 0:
                            continue
                        cells, source = wide[channel, base:], narrow[n, r * length : (r + 1) * length]
                        for c in range(low[j], high[j]):
                            total += source[c] * cells[c * stride + shift]
                    weight[n, channel, o, j] += total
