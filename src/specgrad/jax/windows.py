"""The windows of a pooling operator over JAX arrays: a tap is a strided slice of the operand,
padded where the tap is padding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..geometry import Shape, Step
from ..ops.window import Pool


class AxisTap(NamedTuple):
    """One tap of all outputs along one axis: cells `first`, `first + step` … for `outputs` outputs
    after `before` others.

    `index` has the cells instead where they are not evenly spaced. The masks are those of
    `geometry.Taps`.
    """

    axis: int
    first: int
    step: int
    outputs: int
    before: int
    after: int
    index: Any
    real: Any
    exists: Any


class Slices:
    """The cells that one tap reads, for all output cells: 0 where the tap is padding."""

    def __init__(self, taps: tuple[AxisTap, ...]) -> None:
        self.taps = taps

    def of(self, x: Any) -> Any:
        starts, stops, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
        around = [(0, 0, 0)] * x.ndim
        for tap in self.taps:
            if tap.index is not None:
                x = jnp.take(x, tap.index, axis=tap.axis, mode="clip")
                stops[tap.axis] = len(tap.index)
                continue
            starts[tap.axis], steps[tap.axis] = tap.first, tap.step
            stops[tap.axis] = tap.first + (tap.outputs - 1) * tap.step + 1 if tap.outputs else tap.first
            around[tap.axis] = (tap.before, tap.after, 0)
        return lax.pad(lax.slice(x, starts, stops, steps), np.zeros((), x.dtype), around)


class Sliced:
    """What `operator.Window` needs of a block, for all output cells at once: batch axes have length
    1 in masks and counts."""

    def __init__(self, op: Pool, shape: Shape) -> None:
        positions = op.positions(shape)
        axes = op.spatial(tuple(shape[p] for p in positions))
        self._axes = [_axis_taps(p, len(shape), axis.taps()) for p, axis in zip(positions, axes, strict=True)]
        lengths = {p: axis.length for p, axis in zip(positions, axes, strict=True)}
        self.size: Any = tuple(lengths.get(p, 1) for p in range(len(shape)))
        self.taps = math.prod(map(len, self._axes))

    def steps(self) -> Iterator[Step]:
        """Tap by tap, row-major."""
        everywhere = np.ones((1,) * len(self.size), np.bool_)
        for taps in itertools.product(*self._axes):
            real, exists = everywhere, everywhere
            for tap in taps:
                real, exists = real & tap.real, exists & tap.exists
            place: Any = (Slices(taps),)
            yield Step(place, real, exists)

    def count(self, mask: str) -> Any:
        """How many taps of each window are `real`, or how many `exists`: a product over the
        axes."""
        total = np.ones((1,) * len(self.size), np.intp)
        for taps in self._axes:
            total = total * sum(getattr(tap, mask).astype(np.intp) for tap in taps)
        return total


def _axis_taps(position: int, ndim: int, tables: Any) -> list[AxisTap]:
    """The taps of one axis, from its tables."""
    cell, real, exists = tables
    form = [1] * ndim
    form[position] = -1
    found = []
    for tap in range(cell.shape[1]):
        masks = real[:, tap].reshape(form), exists[:, tap].reshape(form)
        own = np.flatnonzero(real[:, tap])
        cells = cell[own, tap]
        steps = np.unique(np.diff(cells))
        even = len(steps) < 2 and (not len(steps) or steps[0] > 0) and (np.diff(own) == 1).all()
        if even:
            before = int(own[0]) if len(own) else len(cell)
            first, step = (int(cells[0]) if len(own) else 0), (int(steps[0]) if len(steps) else 1)
            after = len(cell) - before - len(own)
            found.append(AxisTap(position, first, step, len(own), before, after, None, *masks))
        else:
            found.append(AxisTap(position, 0, 1, 0, 0, 0, np.where(real[:, tap], cell[:, tap], 0), *masks))
    return found
