"""Boxes and lines of operators in exact rationals, computed by the operators' specifications, for
`replay`.

All numbers are integers over a common denominator. The search for certificates does not use this
code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np

from ..arithmetic import is_number
from ..errors import CertificateError, refusal
from ..graph import Graph
from ..graph.ir import Node
from ..operator import Operator, Window
from ..ops import Abs, AdaptiveMaxPool, Div, GlobalMaxPool, Larger, MaxPool, Relu, Smaller
from ..scalars import find_family

SLOPES = 2**32  # a slope of a chord is a multiple of 1/SLOPES
STEPS = 256  # a slope below a relu is a multiple of 1/STEPS
UNITS = {
    "real": (Fraction(0), Fraction(0)),
    "float32": (Fraction(2) ** -24, Fraction(2) ** -149),
    "float64": (Fraction(2) ** -53, Fraction(2) ** -1074),
}
GREATEST = {"float32": (2 - Fraction(2) ** -23) * 2**127, "float64": (2 - Fraction(2) ** -52) * 2**1023}
MOST = 2**20  # products at a time
NEAR = 1e-5  # relative to the greatest middle of a maximum's cells
Integers = Any
"""An array of Python integers."""


def objects(values: Sequence[Any], shape: tuple[int, ...] | None = None) -> Any:
    """An object array with these values."""
    made = np.empty(len(values), object)
    made[:] = values
    return made if shape is None else made.reshape(shape)


class Exact(NamedTuple):
    """numbers / over: an array of rationals."""

    numbers: Integers
    over: int

    @classmethod
    def of(cls, values: Any) -> Exact:
        """The exact rationals of floats, integers or Fractions."""
        array = np.asarray(values)
        ratios = [number.as_integer_ratio() for number in array.reshape(-1).tolist()]
        over = math.lcm(*{bottom for _, bottom in ratios}) if ratios else 1
        return cls(objects([top * (over // bottom) for top, bottom in ratios], array.shape), over)

    def scaled(self, over: int) -> Integers:
        """The numerators over a multiple of the denominator."""
        return self.numbers if over == self.over else self.numbers * (over // self.over)

    def __add__(self, other: Exact) -> Exact:  # type: ignore[override]
        over = math.lcm(self.over, other.over)
        return Exact(self.scaled(over) + other.scaled(over), over)

    def __neg__(self) -> Exact:
        return Exact(-self.numbers, self.over)

    def dot(self, other: Exact) -> list[Fraction]:
        """The rows of a matrix times a vector."""
        sums = self.numbers.dot(other.numbers.reshape(-1)) if other.numbers.size else [0] * len(self.numbers)
        return [Fraction(int(s), self.over * other.over) for s in sums]

    def part(self, sign: int) -> Exact:
        """The positive (sign 1) or negative (sign -1) entries, and 0 elsewhere."""
        return Exact(np.where(self.numbers * sign > 0, self.numbers, 0), self.over)

    def fractions(self) -> list[Fraction]:
        return [Fraction(n, self.over) for n in self.numbers.reshape(-1)]


class Box(NamedTuple):
    """All arrays between `lower` and `upper`, cell by cell."""

    lower: Exact
    upper: Exact

    def clipped(self, cell: int, at: float, side: int) -> Box:
        """The part in which a cell is at least (side 1) or at most (side -1) a number."""
        ends = [end.fractions() for end in self]
        place, pick = (0, max) if side > 0 else (1, min)
        ends[place][cell] = pick(ends[place][cell], Fraction(at))
        return Box(*(Exact.of(objects(end)) for end in ends))

    def within(self, other: Box) -> Box:
        """The intersection of both boxes."""
        over = math.lcm(*(end.over for end in (*self, *other)))
        (a, b), (c, d) = ([end.scaled(over) for end in box] for box in (self, other))
        return Box(Exact(np.maximum(a, c), over), Exact(np.minimum(b, d), over))

    @property
    def is_empty(self) -> bool:
        over = math.lcm(self.lower.over, self.upper.over)
        return bool((self.lower.scaled(over) > self.upper.scaled(over)).any())


class Linear(NamedTuple):
    """weights·x + constant: per slot the outputs, cells and weights of its entries, over a common
    denominator; and the largest sum of a row's absolute weights, each counted as at least 1."""

    entries: dict[int, tuple[Any, Any, Integers]]
    over: int
    constant: Exact
    slack: Exact
    widest: dict[int, Fraction]

    def pull(self, rows: Exact, slot: int, cells: int) -> Exact:
        """rows times the matrix of a slot."""
        out, place, weights = self.entries[slot]
        used = (rows.numbers != 0).any(axis=0)[out]
        out, place, weights = out[used], place[used], weights[used]
        pulled = np.zeros((len(rows.numbers), cells), object)
        step = max(MOST // max(len(out), 1), 1)
        for start in range(0, len(pulled), step):
            part = rows.numbers[start : start + step]
            np.add.at(pulled[start : start + step], cast(Any, (slice(None), place)), part[:, out] * weights)
        return Exact(pulled, rows.over * self.over)

    def image(self, boxes: Sequence[Box | None]) -> Box:
        """The image of boxes under the form."""
        low, high = self.constant + -self.slack, self.constant + self.slack
        for slot, (out, place, weights) in self.entries.items():
            box = boxes[slot]
            assert box is not None
            over = math.lcm(box.lower.over, box.upper.over)
            ends = [end.scaled(over)[place] for end in box]
            sums = [np.zeros(low.numbers.size, object) for _ in box]
            np.add.at(sums[0], out, np.where(weights > 0, ends[0], ends[1]) * weights)
            np.add.at(sums[1], out, np.where(weights > 0, ends[1], ends[0]) * weights)
            low, high = low + Exact(sums[0], over * self.over), high + Exact(sums[1], over * self.over)
        return Box(low, high)


class Line(NamedTuple):
    """For every output, a cell of an operand, a slope (over SLOPES) and an intercept."""

    slot: Any
    place: Any
    slope: Integers
    intercept: Exact


class Curve(NamedTuple):
    """A piecewise linear operator between two lines, and its image."""

    below: Line
    above: Line
    image: Box


def failed(step: str, rule: str) -> CertificateError:
    error = refusal(CertificateError, "certificate", "step", step, rule, "make the certificate again")
    assert isinstance(error, CertificateError)
    return error


class Network:
    """A graph with exact constants, and the matrices of its linear operators, made once."""

    def __init__(self, graph: Graph, covers: str) -> None:
        self.graph, (self.unit, self.least), self.covers = graph, UNITS[covers], covers
        self.varying: list[bool] = []
        self.constants: dict[int, Any] = {}
        self.linear: dict[int, Linear] = {}
        for node in graph.nodes:
            self.varying.append(node.is_input or any(self.varying[p] for p in node.operands))
            if node.op is None and not node.is_input:
                full = np.full(node.shape, node.constant, object) if is_number(node.constant) else node.constant
                self.constants[node.index] = objects([Fraction(n) for n in np.ravel(full).tolist()], node.shape)
            elif not self.varying[node.index]:
                known = [self.constants[p] for p in node.operands]
                self.constants[node.index] = node.op(*known)
                if self.unit:  # no number on the way exceeds the product of the sums of all operands
                    self.fits(node, 4 * math.prod(sum(max(abs(n), 1) for n in np.ravel(x)) for x in known))
            elif node.op is not None and self._is_linear(node):
                self.linear[node.index] = self._matrix(node)
            if self.unit and node.index in self.constants:
                self.fits(node, max(map(abs, np.ravel(self.constants[node.index])), default=0))

    def fits(self, node: Node, most: Any) -> None:
        """Raise if floats do not reach as far as a number: sums in floats may be infinite, or
        NaN."""
        if self.unit and most > GREATEST[self.covers]:
            raise failed(node.name, f"may compute numbers beyond the greatest {self.covers}")

    def rounded(self, number: Fraction) -> Fraction:
        """A number as a float of the type that is covered."""
        near = float(number)
        return Fraction(float(np.float32(near)) if self.covers == "float32" else near) if self.unit else number

    def held(self, place: int) -> Box:
        """The box of a constant as nonlinear operators read it: as it is written, and as a
        float."""
        exact = [Fraction(n) for n in np.ravel(self.constants[place]).tolist()]
        pairs = [(n, self.rounded(n)) for n in exact]
        return Box(*(Exact.of(objects([pick(pair) for pair in pairs])) for pick in (min, max)))

    def _is_linear(self, node: Node) -> bool:
        """Whether no slope in a varying operand depends on a varying operand."""
        slots = {slot for slot, p in enumerate(node.operands) if self.varying[p]}
        op: Operator = node.op
        reads = [{1} if type(op) is Div and slot == 0 else op.reads(slot) for slot in slots]
        return all(op.slots[slot].differentiable for slot in slots) and not any(slots & set(read) for read in reads)

    def _matrix(self, node: Node) -> Linear:
        """The operator's own row over Fractions."""
        op: Operator = node.op
        zero = [
            objects([Fraction(0)] * math.prod(shape), shape) if self.varying[p] else self.constants[p]
            for p in node.operands
            for shape in (self.graph.nodes[p].shape,)
        ]
        S = find_family(op.name, [slot.name for slot in op.slots[: len(zero)]], zero)
        geometry = op.geometry(*(x.shape for x in zero))
        cells = [S.enter(op.name, slot.name, x) for slot, x in zip(op.slots, zero, strict=False)]
        window = Window(S, geometry.block(0, geometry.outputs), cells)
        kept = op.value(S, window)[1] if op.keeps else None
        ones, outputs = objects([Fraction(1)] * geometry.outputs), np.arange(geometry.outputs)
        found: dict[int, list[Any]] = {slot: [] for slot, p in enumerate(node.operands) if self.varying[p]}
        for entry in op.row(S, window, kept):
            if entry.slot in found:
                slope = np.broadcast_to(entry.apply(S, ones), outputs.shape)
                held = slope != 0
                found[entry.slot].append(
                    (outputs[held], np.broadcast_to(entry.place, outputs.shape)[held], slope[held])
                )
        joined = {
            slot: [np.concatenate(column) for column in zip(*parts, strict=True)]
            for slot, parts in found.items()
            if any(len(part[0]) for part in parts)
        }
        weights = {slot: Exact.of(columns[2]) for slot, columns in joined.items()}
        over = math.lcm(*(w.over for w in weights.values())) if weights else 1
        entries = {slot: (c[0], c[1], weights[slot].scaled(over)) for slot, c in joined.items()}
        constant = Exact.of(np.asarray(op(*zero), object).reshape(-1))
        widest = {}
        for slot, (out, _, numbers) in entries.items():
            sums = np.zeros(geometry.outputs, object)
            np.add.at(sums, out, np.maximum(abs(numbers), over))
            widest[slot] = Fraction(int(sums.max()), over)
        return Linear(entries, over, constant, Exact(0 * constant.numbers, 1), widest)

    def with_slack(self, node: Node, boxes: Sequence[Box | None]) -> Linear:
        """A linear operator with the rounding error in floats of the unit, in any order of
        summation; raises if a sum may be too large for a float.

        A float computation sums terms, or cells before an average is divided, and reads weights and
        constants. The factor 4 covers the rounding of less than MOST terms, and refuses weights
        from 1/4 of the greatest float on: quotients by numbers that are not normal, or by 0.
        """
        made = self.linear[node.index]
        if not self.unit:
            return made
        count, unit = made.constant.numbers.size, self.unit
        terms, scaled = np.zeros(count, int), np.zeros(count, bool)
        signed = [[max(s * c, Fraction(0)) for c in made.constant.fractions()] for s in (1, -1)]
        size, cells, reach, peak = [Fraction(0)] * count, 0, Fraction(0), Fraction(0)
        for slot, (out, place, weights) in made.entries.items():
            box = boxes[slot]
            assert box is not None
            np.add.at(terms, out, 1)
            scaled[out[abs(weights) != made.over]] = True
            low, high = (end.fractions() for end in box)
            most = max([abs(end) for end in (*low, *high)])
            cells, reach, peak = cells + len(low), max(reach, most), peak + made.widest[slot] * max(most, Fraction(1))
            for o, p, w in zip(out, place, weights, strict=True):
                ends = w * low[p] / made.over, w * high[p] / made.over
                signed[0][o] += max(*ends, 0)
                signed[1][o] -= min(*ends, 0)
                size[o] += max(map(abs, ends))
        terms += made.constant.numbers != 0
        if terms.max(initial=0) >= MOST:
            raise failed(node.name, f"sums {terms.max()} terms, whose rounding is not bounded")
        constant = max(map(abs, made.constant.fractions()), default=Fraction(0))
        self.fits(node, 4 * (peak + constant) if terms.max(initial=0) > 1 or scaled.any() else constant)
        lost = self.least * (2 + cells) * (1 + reach)
        slack = [Fraction(0)] * count
        for o, (n, c, shift) in enumerate(zip(terms.tolist(), scaled, made.constant.fractions(), strict=True)):
            if n > 1 or c:  # errors of products, rounded weights, and additions: each at most all terms of one sign
                units = (2 * size[o] if c else 0) + abs(shift) + max(n - 1, 0) * max(signed[0][o], signed[1][o])
                slack[o] = unit / (1 - (n + 3) * unit) * units + lost if units else Fraction(0)  # sums of 0 are exact
            elif shift:  # a constant alone
                slack[o] = abs(self.rounded(shift) - shift)
        return made._replace(slack=Exact.of(objects(slack)))


def taps(op: Operator, shapes: Sequence[tuple[int, ...]], known: Any = ()) -> tuple[Any, Any, Any]:
    """For every tap and output: slot, cell, and whether the tap counts.

    `known`: pairs (more, less) of cells with more ≥ less; in windows that read both, `less` is left
    out.
    """
    geometry = op.geometry(*shapes)
    steps = list(geometry.block(0, geometry.outputs).steps())
    if len(shapes) == 1:
        place, real = np.stack([step.place[0] for step in steps]), np.stack([step.real for step in steps])
        for more, less in known:
            real = real & ~((place == less) & (real & (place == more)).any(axis=0))
        return 0 * place, place, real
    place = np.stack(steps[0].place)
    return np.arange(len(shapes))[:, None] + 0 * place, place, np.ones(place.shape, bool)


def chord(low: Fraction, high: Fraction, at_low: Fraction, at_high: Fraction) -> tuple[int, Fraction]:
    """The chord of a convex function with these values at the ends: a slope, and the least
    intercept of a line above the function."""
    slope = round((at_high - at_low) / (high - low) * SLOPES) if high > low else 0
    return slope, max(at_low - slope * low / SLOPES, at_high - slope * high / SLOPES)


def line(slot: Any, place: Any, pairs: Sequence[tuple[int, Fraction]]) -> Line:
    return Line(slot, place, objects([s for s, _ in pairs]), Exact.of(objects([c for _, c in pairs])))


def of_one(op: Operator, box: Box, floats: Any) -> Curve:
    """Lines of relu(x) or |x|: the chord above, a line through 0 below, chosen by the middle of the
    box."""
    low, high = (end.fractions() for end in box)
    value = (lambda x: max(x, 0)) if type(op) is Relu else abs
    steep = (SLOPES, 0) if type(op) is Relu else (SLOPES, -SLOPES)  # right and left of 0
    below: list[tuple[int, Fraction]] = []
    above: list[tuple[int, Fraction]] = []
    for a, b, (fa, fb) in zip(low, high, np.stack([f.reshape(-1) for f in floats], axis=1).tolist(), strict=True):
        right = a >= 0 or (b > 0 and fb > -fa)
        below.append((steep[0] if right else steep[1], Fraction(0)))
        decided = a >= 0 or b <= 0
        above.append((below[-1][0], Fraction(0)) if decided else chord(a, b, Fraction(value(a)), Fraction(value(b))))
    least = [Fraction(0) if a <= 0 <= b else min(value(a), value(b)) for a, b in zip(low, high, strict=True)]
    most = [max(value(a), value(b)) for a, b in zip(low, high, strict=True)]
    cells = np.arange(len(low))
    image = Box(Exact.of(objects(least)), Exact.of(objects(most)))
    return Curve(line(0 * cells, cells, below), line(0 * cells, cells, above), image)


def of_maximum(
    op: Operator, boxes: Sequence[Box], shapes: Sequence[tuple[int, ...]], floats: Sequence[Any], known: Any = ()
) -> Curve:
    """Lines of a maximum. Below: the first tap whose middle is nearly the greatest. Above: a chord
    in the tap with the greatest upper end."""
    slots, places, real = taps(op, shapes, known)
    ends = [[end.fractions() for end in box] for box in boxes]
    near = [[f.reshape(-1) for f in pair] for pair in floats]
    below: list[tuple[int, Fraction]] = []
    above: list[tuple[int, Fraction]] = []
    picked: list[tuple[int, int]] = []
    topmost: list[tuple[int, int]] = []
    image: list[tuple[Fraction, Fraction]] = []
    for output in range(places.shape[1]):
        some = [t for t in range(len(places)) if real[t, output]]
        if not some:
            for made in (below, above):
                made.append((0, Fraction(0)))
            for chosen in (picked, topmost):
                chosen.append((0, 0))
            image.append((Fraction(0), Fraction(0)))
            continue
        at = [(int(slots[t, output]), int(places[t, output])) for t in some]
        lows, highs = ([ends[s][side][p] for s, p in at] for side in (0, 1))
        middles = [near[s][0][p] + near[s][1][p] for s, p in at]
        enough = max(middles) - NEAR * abs(max(middles))
        first = next(t for t, middle in enumerate(middles) if middle >= enough)
        top = max(range(len(at)), key=highs.__getitem__)
        rest = max((h for t, h in enumerate(highs) if t != top), default=None)
        dominates = rest is None or lows[top] >= rest
        floor = lows[top] if rest is None else max(rest, lows[top])
        below.append((SLOPES, Fraction(0)))
        above.append((SLOPES, Fraction(0)) if dominates else chord(lows[top], highs[top], floor, highs[top]))
        picked.append(at[first])
        topmost.append(at[top])
        image.append((max(lows), highs[top]))
    low, high = (
        line(np.array([s for s, _ in chosen], int), np.array([p for _, p in chosen], int), pairs)
        for chosen, pairs in ((picked, below), (topmost, above))
    )
    return Curve(low, high, Box(*(Exact.of(objects([pair[side] for pair in image])) for side in (0, 1))))


def planes(places: Any, real: Any, box: Box, floor: Sequence[float]) -> tuple[Integers, Exact]:
    """Slopes (over SLOPES) and intercepts of a plane above each maximum over taps.

    max x - Σ s x is convex, so its maximum is at a corner. For slopes from 0 to 1 there is such a
    corner with one cell at its upper end and all others at their lower ends. The floors determine
    the slopes.
    """
    low, high = (end.fractions() for end in box)
    slope, intercept = np.zeros(places.shape, object), [Fraction(0)] * places.shape[1]
    for window, height in enumerate(map(Fraction, floor)):
        some = [(t, low[p], high[p]) for t, p in enumerate(places[:, window].tolist()) if real[t, window]]
        ends = []
        for t, a, b in some:
            slope[t, window] = min(max(round((b - height) / (b - a) * SLOPES), 0), SLOPES) if b > a else 0
            ends.append(b - Fraction(slope[t, window], SLOPES) * (b - a))
        intercept[window] = max(ends, default=Fraction(0)) - sum(
            (Fraction(slope[t, window], SLOPES) * a for t, a, _ in some), Fraction(0)
        )
    return slope, Exact.of(objects(intercept))


def turned(box: Box) -> Box:
    return Box(-box.upper, -box.lower)


def curve(
    node: Node, boxes: Sequence[Box], shapes: Sequence[tuple[int, ...]], floats: Sequence[Any], known: Any = ()
) -> Curve:
    """The lines of a nonlinear operator."""
    kind = type(node.op)
    if kind in (Relu, Abs):
        return of_one(node.op, boxes[0], floats[0])
    if kind in (MaxPool, AdaptiveMaxPool, GlobalMaxPool, Larger):
        return of_maximum(node.op, boxes, shapes, floats, known)
    if kind is Smaller:  # min x = -max(-x): the lines change sides
        found = of_maximum(node.op, [turned(box) for box in boxes], shapes, [(-f[1], -f[0]) for f in floats])
        low, high = (way._replace(intercept=-way.intercept) for way in (found.above, found.below))
        return Curve(low, high, turned(found.image))
    rule = "has no lines that rationals can check"
    raise refusal(CertificateError, "certificate", "operator", node.op.name, rule, "use bounds, which rounds outward")


def scatter(rows: Integers, place: Any, cells: int) -> Integers:
    """The columns, summed at their cells."""
    if len(place) == cells and np.array_equal(place, np.arange(cells)):
        return rows
    made, at = np.zeros((len(rows), cells), object), cast(Any, (slice(None), place))
    np.add.at(made, at, rows)
    return made
