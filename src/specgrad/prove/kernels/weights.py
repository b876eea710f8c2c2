"""Claims about weighted sums over windows: smooth maxima, and maxima with shared ties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engines.cpu import weighted
from ..interpreter.domains import Infinity
from .cases import Case, dtype_of
from .compare import DOMAIN, Unplanned, each, expect, ran, same_form, same_lead
from .domain import cells
from .forms import Form, form
from .symbols import Lead


def planned(case: Case) -> Any:
    """The engine's plan of an operator."""
    how = weighted.weighted_of(case.op, case.shape, dtype_of(case))
    if how is None or not how.planes:
        raise Unplanned
    return how


def window_cells(index: Any, axes: Any, folded: Any) -> Any:
    """For each window over the axes `folded`, the indices of the cells that it reads, all inside
    the array."""
    for place in folded:
        axis = axes[place]
        taps = np.arange(axis.length)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation
        index = np.moveaxis(np.take(index, taps, axis=place + 1), place + 2, -1)
    return index.reshape(-1, math.prod(axes[place].kernel for place in folded))


def stages(case: Case) -> list[tuple[Any, Any, Any, Any]]:
    """The stages of a plan, each with the shape of its cells and the cells that each window
    reads."""
    how, found = planned(case), []
    sizes = [axis.size for axis in how.axes]
    for turn, stage in enumerate(how.stages):
        folded = range(len(sizes)) if len(how.stages) == 1 else [len(sizes) - 1 - turn]
        index = np.arange(how.planes * math.prod(sizes)).reshape(how.planes, *sizes)
        found.append((how, stage, index.shape, window_cells(index, how.axes, folded)))
        sizes = list(stage.windows[1:])
    return found


def weight_of(how: Any, x: Lead, value: Lead) -> Form:
    """The weight of a cell: 1 if it equals its window's value, else 0; of smooth maxima exp(beta
    (cell - value))."""
    if not how.is_smooth:
        return Form({(("=", *sorted((x.cells[0], value.cells[0]))),): (1, 0)})
    exponent = DOMAIN.mul(DOMAIN.sub(x, value), DOMAIN.constant(how.beta[0], None))
    return DOMAIN.exp(exponent)  # type: ignore[no-any-return]


def weighted_sum(case: Case) -> None:
    """The sum of tangents times weights over each window's cells."""
    for how, stage, shape, reads in stages(case):
        x, dx, values = cells("x", shape), cells("d", shape), cells("v", stage.windows)
        expected = np.zeros(values.size, object)
        for window, value in enumerate(values.ravel()):
            for place in reads[window]:
                term = form(dx.ravel()[place]).times(weight_of(how, x.ravel()[place], value))
                expected[window] = DOMAIN.add(expected[window], term)
        given = {"x": (how.cell, x), "dx": (how.cell, dx), "values": (how.cell, values)}
        (dy,) = ran(stage.forward, given, {"dy": (how.cell, values.shape)}, *given, "dy")
        each(dy, expected.reshape(values.shape), same_form, False)


def weighted_sum_vjp(case: Case) -> None:
    """The sum of cotangents times weights over the windows that read a cell."""
    for how, stage, shape, reads in stages(case):
        x, values, g = cells("x", shape), cells("v", stage.windows), cells("g", stage.windows)
        expected = np.zeros(x.size, object)
        for window, (value, arriving) in enumerate(zip(values.ravel(), g.ravel(), strict=True)):
            for place in reads[window]:
                term = form(arriving).times(weight_of(how, x.ravel()[place], value))
                expected[place] = DOMAIN.add(expected[place], term)
        given = {"g": (how.cell, g), "values": (how.cell, values), "x": (how.cell, x)}
        (gx,) = ran(stage.back, given, {"gx": (how.cell, shape)}, *given, "gx")
        each(gx, expected.reshape(shape), same_form, False)


def log_sum_exp(case: Case) -> None:
    """The greatest (or least) cell m of each window, and the sum of exp(beta (cell - m)) over its
    cells."""
    how = planned(case)
    pairs = how.smooth("pairs")
    expect(case, pairs)
    exists = how.cells_of(np.ones(case.shape, how.pool.dtype), 1 if case.op.pad == "zero" else 0, 0) != 0
    x = cells("x", exists.shape)
    x[~exists] = Infinity(1 if case.op.beta < 0 else -1)
    lengths = (how.planes, *(axis.length for axis in how.axes))
    beta, sign = DOMAIN.constant(how.beta[0], None), -1 if case.op.beta < 0 else 1
    extremes, sums = ran(pairs, {"x": (how.cell, x)}, dict.fromkeys(("y", "codes"), (how.cell, lengths)))
    windows = window_cells(np.arange(x.size).reshape(x.shape), how.axes, range(len(how.axes)))
    for found, total, reads in zip(extremes.ravel(), sums.ravel(), windows, strict=True):
        taken = [one for one in x.ravel()[reads] if isinstance(one, Lead)]
        if not taken:
            continue
        lead = Lead(tuple(one.cells[0] for one in taken), sign)
        same_lead(found, lead, False, f"window {reads}")
        expected: Any = 0
        for one in taken:
            expected = DOMAIN.add(expected, DOMAIN.exp(DOMAIN.mul(DOMAIN.sub(form(one), form(lead)), beta)))
        same_form(total, expected, False, f"window {reads}", least=3 * len(taken))
