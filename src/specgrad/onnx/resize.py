"""Resize and Upsample: along each axis a selection of cells (nearest), or a linear map with known
weights (linear, cubic).

Where an output lies in the input is computed in rational numbers; the weights are those of ONNX's
specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import specgrad as sg

from .node import Node

HALF = Fraction(1, 2)
LONGEST = 2**16
COORDINATES: dict[str, Callable[..., Fraction]] = {  # of output o, for `scale`, n input and m = ⌊scale·n⌋ output cells
    "asymmetric": lambda o, scale, n, m: o / scale,
    "half_pixel": lambda o, scale, n, m: (o + HALF) / scale - HALF,
    "pytorch_half_pixel": lambda o, scale, n, m: (o + HALF) / scale - HALF if m > 1 else Fraction(0),
    "align_corners": lambda o, scale, n, m: o * (n - 1) / (scale * n - 1) if m > 1 else Fraction(0),
    "half_pixel_symmetric": lambda o, scale, n, m: (
        Fraction(n, 2) * (1 - Fraction(m) / (scale * n)) + (o + HALF) / scale - HALF
    ),
}
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
}


def linear_weights(rest: Fraction, _: Any) -> dict[int, Any]:
    """Of the cells at 0 and 1, for a place between them."""
    return {0: 1 - rest, 1: rest}


def cubic_weights(rest: Fraction, a: Fraction) -> dict[int, Any]:
    """Of the cells at -1, 0, 1 and 2, for a place from 0 to 1."""

    def weight(t: Fraction) -> Fraction:
        t = abs(t)
        if t <= 1:
            return (a + 2) * t**3 - (a + 3) * t**2 + 1
        return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a

    return {cell: weight(rest - cell) for cell in (-1, 0, 1, 2)}


WEIGHTS = {"linear": linear_weights, "cubic": cubic_weights}


def resize(node: Node) -> Any:
    x = node.var(0)
    rank = len(x.shape)
    early = "coordinate_transformation_mode" not in node.schema.attributes
    mode, how = node.attribute("mode"), "asymmetric" if early else node.attribute("coordinate_transformation_mode")
    rounding = "floor" if early else node.attribute("nearest_mode")
    axes = node.axes(node.attribute("axes") or tuple(range(rank)), rank)
    node.attribute("extrapolation_value")  # of a mode that is refused
    if how not in COORDINATES or mode not in ("nearest", *WEIGHTS) or rounding not in ROUNDINGS:
        rule = f"with mode={mode!r} and nearest_mode={rounding!r} is not read"
        raise node.refused("coordinate_transformation_mode", how, rule, "export with another mode")
    if node.attribute("antialias"):
        raise node.refused("antialias", 1, "is not read", "export without it")
    a = Fraction(node.attribute("cubic_coeff_a") or 0)
    outside = bool(node.attribute("exclude_outside"))
    for axis, (scale, length) in zip(axes, targets(node, [x.shape[p] for p in axes], early), strict=True):
        n = x.shape[axis]
        if length == n and scale == 1:
            continue
        if length > LONGEST:
            raise node.refused("sizes", length, f"is longer than {LONGEST} on axis {axis}", "use a smaller one")
        node.model.spend(length * (n if mode != "nearest" else 1), node)
        places = [COORDINATES[how](o, scale, n, length) for o in range(length)]
        if mode == "nearest":
            cells = [min(max(ROUNDINGS[rounding](place), 0), n - 1) for place in places]
            x = sg.take(x, np.array(cells, np.int64), axis)
        else:
            x = mapped(x, axis, matrix(places, n, mode, a, outside))
    return x


def targets(node: Node, lengths: list[int], early: bool) -> list[tuple[Fraction, int]]:
    """Scale and length of each axis: the length from the scale, or the scale from the length."""
    place = 1 if early else 2
    if "scales" in node.schema.attributes:
        scales: Any = node.attribute("scales")
    else:
        scales = node.known(place).reshape(-1).tolist() if node.has(place) and node.known(place).size else None
    sizes = node.integers(3, "sizes") if not early else None
    policy = node.attribute("keep_aspect_ratio_policy") or "stretch"
    if bool(scales) == bool(sizes) or len(scales or sizes or ()) != len(lengths) or 0 in lengths:
        rule = f"must be {len(lengths)} numbers, either scales or sizes, of axes that are not empty"
        raise node.refused("scales", scales, rule, "export the model again")
    if scales:
        if not all(math.isfinite(s) and 0 < s < 2**31 for s in scales):
            raise node.refused("scales", scales, "must be positive", "export the model again")
        exact = [Fraction(s) for s in scales]
        return [(s, math.floor(n * s)) for s, n in zip(exact, lengths, strict=True)]
    assert sizes is not None
    if any(m < 1 for m in sizes):
        raise node.refused("sizes", sizes, "must be lengths from 1 on", "export the model again")
    ratios = [Fraction(m, n) for m, n in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return list(zip(ratios, sizes, strict=True))
    if policy not in ("not_larger", "not_smaller"):
        raise node.refused("keep_aspect_ratio_policy", policy, "is not a policy of ONNX", "export the model again")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [(ratio, math.floor(ratio * n + HALF)) for n in lengths]


def matrix(places: list[Fraction], n: int, mode: str, a: Fraction, exclude: bool) -> Any:
    """The weights (outputs, cells) of an axis; a cell outside is the nearest one inside, or
    excluded."""
    made = np.zeros((len(places), n))
    for o, place in enumerate(places):
        first = math.floor(place)
        weights = {first + cell: w for cell, w in WEIGHTS[mode](place - first, a).items()}
        if exclude:
            inside = {cell: w for cell, w in weights.items() if 0 <= cell < n}
            whole = sum(inside.values())
            weights = {cell: w / whole for cell, w in inside.items()}
        for cell, w in weights.items():
            made[o, min(max(cell, 0), n - 1)] += float(w)
    return made


def mapped(x: Any, axis: int, weights: Any) -> Any:
    """A linear map along an axis."""
    rank = len(x.shape)
    order = [*(p for p in range(rank) if p != axis), axis]
    back = [order.index(p) for p in range(rank)]
    return sg.transpose(sg.linear(sg.transpose(x, order), weights), back)


TABLE: dict[str, Callable[[Node], Any]] = {"Resize": resize, "Upsample": resize}
