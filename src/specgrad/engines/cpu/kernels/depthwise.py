"""Convolution of one channel at a time, by vectors: depthwise layers and filters of single images.

Geometry is that of `columns`: rows[r, o] is where the wide row begins that outer tap o of narrow row r reads (-1: padding). A wide plane is laid
out first, each row by the rest of its columns divided by the stride, with zeros around it, so that every tap of many outputs is one
vector; padding is multiplied here, so weights must be finite.
"""

from __future__ import annotations

from .access import at, get, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import copy, fill, lay_out
from .vectors import folded, multiply_add, splat


@inline
def stage(laid, room, left, plane, height, width, stride):
    """Lay out all rows of a plane; the cells around them are 0 already."""
    for row in range(height):
        lay_out(at(laid, row * stride * room), room, left, at(plane, row * width), width, stride)


@inline
def find_places(places, taps, stride, before, dilation, room, left):
    """Where in a row that is laid out the cells of each tap begin."""
    for j in range(taps):
        cell = j * dilation - before
        places[j] = cell % stride * room + left + cell // stride


@compiled
def correlate_planes(wide, weight, bias, narrow, rows, ints, tasks, counter, rooms, places_rooms, crew, turn):
    """narrow[image, group, n] = Σ over taps of wide[image, group]·weight[group, n] + bias[group, n], of the planes of the tasks it takes.

    Arrays are flat; `bias` may be empty.
    """
    groups, channels, length, width, height, taps = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    stride, before, dilation, room, left = ints[6], ints[7], ints[8], ints[9], ints[10]
    outer, step = rows.shape[1], lanes(rooms)
    scratch, places = part_of(rooms, turn), part_of(places_rooms, turn)
    laid = at(scratch, length + 2 * step)
    apart = at(scratch, 0)
    fill(laid, height * stride * room + 2 * step, 0)
    zero = laid[0]
    find_places(places, taps, stride, before, dilation, room, left)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for plane in range(tasks[t, 0], tasks[t, 1]):
            stage(laid, room, left, at(wide, plane * height * width), height, width, stride)
            for n in range(channels):
                which = plane % groups * channels + n
                factors = at(weight, which * outer * taps)
                added = bias[which] if bias.size > 0 else zero
                for r in range(rows.shape[0]):
                    whole = at(narrow, ((plane * channels + n) * rows.shape[0] + r) * length)
                    target = apart if length < step else whole
                    for start in range(0, length, step):
                        c = min(start, max(length - step, 0))
                        total = splat(added, get(laid, 0))
                        for o in range(outer):
                            if rows[r, o] >= 0:
                                line = at(laid, rows[r, o] // width * stride * room + c)
                                for j in range(taps):
                                    total = multiply_add(
                                        splat(factors[o * taps + j], total), get(line, places[j]), total
                                    )
                        put(target, c, total)
                    if length < step:
                        copy(whole, length, apart)
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def weigh_planes(wide, narrow, weight, images, rows, ints, tasks, counter, rooms, places_rooms, crew, turn):
    """weight[group, n] = Σ over images and cells of narrow·wide, of the groups of the tasks it takes."""
    groups, channels, length, width, height, taps = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    stride, before, dilation, room, left = ints[6], ints[7], ints[8], ints[9], ints[10]
    outer, step = rows.shape[1], lanes(rooms)
    scratch, places = part_of(rooms, turn), part_of(places_rooms, turn)
    even = length + -length % step
    arriving = at(scratch, 0)
    laid = at(scratch, rows.shape[0] * even)
    fill(scratch, rows.shape[0] * even + height * stride * room + 2 * step, 0)
    zero = scratch[0]
    find_places(places, taps, stride, before, dilation, room, left)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for group in range(tasks[t, 0], tasks[t, 1]):
            fill(at(weight, group * channels * outer * taps), channels * outer * taps, 0)
            for image in range(images):
                plane = image * groups + group
                stage(laid, room, left, at(wide, plane * height * width), height, width, stride)
                for n in range(channels):
                    source = at(narrow, (plane * channels + n) * rows.shape[0] * length)
                    for r in range(rows.shape[0]):
                        copy(at(arriving, r * even), length, at(source, r * length))
                    for o in range(outer):
                        for j in range(taps):
                            total = splat(zero, get(laid, 0))
                            for r in range(rows.shape[0]):
                                if rows[r, o] >= 0:
                                    line = at(laid, rows[r, o] // width * stride * room + places[j])
                                    own = at(arriving, r * even)
                                    for c in range(0, length, step):
                                        total = multiply_add(get(own, c), get(line, c), total)
                            weight[((group * channels + n) * outer + o) * taps + j] += folded(total, None)
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def spread_planes(narrow, weight, bias, wide, rows, ints, low, high, tasks, counter, crew, turn):
    """wide[image, group] = the adjoint of correlate_planes, Σ narrow[image, group, n]·weight[group, n], + bias[group]."""
    groups, channels, length, width, height, taps = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    stride, before, dilation = ints[6], ints[7], ints[8]
    outer = rows.shape[1]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for plane in range(tasks[t, 0], tasks[t, 1]):
            cells = at(wide, plane * height * width)
            if bias.size > 0:
                fill(cells, height * width, bias[plane % groups])
            else:
                fill(cells, height * width, 0)
            for n in range(channels):
                factors = at(weight, (plane % groups * channels + n) * outer * taps)
                for r in range(rows.shape[0]):
                    source = at(narrow, ((plane * channels + n) * rows.shape[0] + r) * length)
                    for o in range(outer):
                        if rows[r, o] >= 0:
                            for j in range(taps):
                                line, factor = at(cells, rows[r, o] + j * dilation - before), factors[o * taps + j]
                                for c in range(low[j], high[j]):
                                    line[c * stride] += factor * source[c]
        t = take(counter)
    disband(counter, crew, turn, False)
