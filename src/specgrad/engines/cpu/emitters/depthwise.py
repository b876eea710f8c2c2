"""Convolution of one wide channel at a time, by vectors along narrow rows: depthwise layers and filters of single images.

A wide plane is laid out first: each row as `stride` lines, line q of the columns q, q + stride, …, with zeros around them, and one row
of zeros behind all. So the cells that a tap reads for neighbouring windows lie side by side: those of outer tap o of narrow row r from
lines[r, o] on, and in it those of tap j from places[j] on. Zeros that stand for padding are multiplied: what they meet must be finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import WORD, Cell, Kernel, Number, Pointer, Value
from ..codegen.vector_math import fma
from .columns import each_cell, strided

UNROLLED = 32  # taps without a loop, at most
TOGETHER = 8  # taps of a row whose weights are summed at once, at most


@dataclass(frozen=True)
class Depthwise:
    """A kernel that makes the narrow cells ("correlate") or the weights' cotangent ("weigh")."""

    what: str
    cell: Cell
    outer: int
    taps: int
    stride: int
    lanes: int
    """Of narrow cells, at most a row of them where these are written."""
    copy_lanes: int


def emit(how: Depthwise, vector: int) -> Kernel:
    """args: wide, narrow, weight, [bias], lines, places, sizes; an item is a plane, or a group of which all weights are summed."""
    return _Depthwise(how, vector).kernel


class _Depthwise:
    def __init__(self, how: Depthwise, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("depthwise", vector)
        self.wide, self.narrow, self.weight = (k.array(name, how.cell) for name in ("wide", "narrow", "weight"))
        if how.what == "correlate":
            self.bias = k.array("bias", how.cell)
        self.lines, self.places = k.array("lines", WORD), k.array("places", WORD)
        names = "images groups channels height width height_out length room left cells pitch"
        self.n = k.sizes(*names.split())
        self.laid = k.room(0, how.cell)  # as much as sizes say, behind all other scratch
        self.arriving = self.laid + self.n.cells
        self.zero = k.number(how.cell, 0, how.lanes)
        rest = self.n.height_out * self.n.pitch if how.what == "weigh" else 0
        with k.loop(0, self.n.cells + rest, how.lanes) as along:
            k.store(self.zero, self.laid, along.index)
        with k.loop(k.begin, k.end) as item:
            (self._correlate if how.what == "correlate" else self._weigh)(item.index)
        k.finish()

    def _lay_out(self, plane: Value) -> None:
        k, n, stride = self.kernel, self.n, self.how.stride
        with k.loop(0, n.height) as row:
            source = self.wide + (plane * n.height + row.index) * n.width
            target = self.laid + (row.index * stride * n.room + n.left)
            for q in range(stride):
                self._copy(source + q, stride, target + q * n.room, (n.width + (stride - 1 - q)) // stride)

    def _copy(self, source: Pointer, stride: int, target: Pointer, count: Value) -> None:
        k = self.kernel
        made = lambda at, lanes, is_end: strided(k, source, at, stride, lanes, is_end)  # noqa: E731
        each_cell(k, count, self.how.copy_lanes, made, lambda cells, at: k.store(cells, target, at))

    def _correlate(self, plane: Value) -> None:
        """narrow[plane, n] = Σ over taps of wide[plane]·weight[group, n] + bias[group, n]."""
        k, how, n = self.kernel, self.how, self.n
        self._lay_out(plane)
        unrolled = how.outer * how.taps <= UNROLLED
        with k.loop(0, n.channels) as channel:
            which = plane % n.groups * n.channels + channel.index
            factors = self.weight + which * (how.outer * how.taps)
            added = k.splat(k.load(self.bias, which), how.lanes)
            factor = self._table(unrolled, factors, how.outer * how.taps, how.lanes)
            place = self._table(unrolled, self.places, how.taps)
            with k.loop(0, n.height_out) as row:
                target = self.narrow + ((plane * n.channels + channel.index) * n.height_out + row.index) * n.length
                line = self._table(unrolled, self.lines + row.index * how.outer, how.outer)

                def cells(column: Number, carried: Any) -> None:
                    def tap(o: Number, j: Number, total: Value) -> Value:
                        met = k.load(self.laid, line(o) + place(j) + column, how.lanes)
                        return fma(k, factor(o * how.taps + j), met, total)

                    k.store(self._over_taps(unrolled, tap, added), target, column)

                k.vectors(n.length, how.lanes, cells)

    def _table(self, unrolled: bool, source: Pointer, count: int, lanes: int = 0) -> Callable[[Number], Value]:
        """Numbers by their places, in every lane: all loaded now if places are known while the kernel is emitted."""
        k = self.kernel

        def number(place: Number) -> Value:
            return k.splat(k.load(source, place), lanes) if lanes else k.load(source, place)

        return [number(place) for place in range(count)].__getitem__ if unrolled else number

    def _over_taps(self, unrolled: bool, tap: Callable[..., Value], total: Value) -> Value:
        k, how = self.kernel, self.how
        if unrolled:
            for o in range(how.outer):
                for j in range(how.taps):
                    total = tap(o, j, total)
            return total
        with k.loop(0, how.outer, carried=[total]) as down:
            with k.loop(0, how.taps, carried=down.values) as across:
                across.next = [tap(down.index, across.index, across.values[0])]
            down.next = across.result
        return down.result[0]

    def _weigh(self, group: Value) -> None:
        """weight[group, n] = Σ over images and cells of narrow·wide."""
        k, how, n = self.kernel, self.how, self.n
        every = how.outer * how.taps
        own = self.weight + group * n.channels * every
        zero = k.number(how.cell, 0)
        with k.loop(0, n.channels * every) as one:
            k.store(zero, own, one.index)
        with k.loop(0, n.images) as image:
            plane = image.index * n.groups + group
            self._lay_out(plane)
            with k.loop(0, n.channels) as channel:
                source = self.narrow + (plane * n.channels + channel.index) * n.height_out * n.length
                with k.loop(0, n.height_out) as row:
                    self._copy(source + row.index * n.length, 1, self.arriving + row.index * n.pitch, n.length)
                with k.loop(0, how.outer) as o:
                    self._weigh_taps(own + (channel.index * how.outer + o.index) * how.taps, o.index)

    def _weigh_taps(self, target: Pointer, o: Value) -> None:
        """Add to the weights of one outer tap, some at a time."""
        k, how, n = self.kernel, self.how, self.n
        some = how.taps if how.taps <= TOGETHER else 1
        with k.loop(0, how.taps, some) as j:
            places = [k.load(self.places, j.index + i) for i in range(some)]
            with k.loop(0, n.height_out, carried=[self.zero] * some) as row:
                line = self.laid + k.load(self.lines, row.index * how.outer + o)
                with k.loop(0, n.length, how.lanes, carried=row.values) as along:
                    arriving = k.load(self.arriving, row.index * n.pitch + along.index, how.lanes)
                    met = [k.load(line, place + along.index, how.lanes) for place in places]
                    along.next = [fma(k, arriving, m, t) for m, t in zip(met, along.values, strict=True)]
                row.next = along.result
            for i, total in enumerate(row.result):
                place = target + (j.index + i)
                k.store(k.load(place) + summed(k, total), place)


def summed(k: Kernel, vector: Value) -> Value:
    """The sum of all lanes, by halves."""
    while vector.lanes > 1:
        half = vector.lanes // 2
        vector = k.shuffle(vector, vector, range(half)) + k.shuffle(vector, vector, range(half, 2 * half))
    return k.lane(vector, 0)
