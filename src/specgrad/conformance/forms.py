"""A case restated in another rank, layout or float type with the same cells, for subjects that do
not offer the case itself.

A spatial axis of one cell with a kernel of 1 is added, or an axis is reduced to its first cell.
Leading axes are merged, added, or reduced to their first cell. Only operators with windows have
forms. A restated case keeps cells and tangents, but not the cotangent.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ..ops.conv import Bilinear
from ..ops.pool import Pool
from .cases import Case, cotangents

Array = np.ndarray[Any, Any]

UNIT: dict[str, Any] = {
    **dict.fromkeys(("kernel_size", "stride", "dilation", "output_size"), 1),
    "padding": (0, 0),
    "output_padding": 0,
}
"""The parameters that have one value per spatial axis, and their value on an axis of one cell."""


class Form(NamedTuple):
    """A number of spatial axes, a layout of the other axes, and a float type (None: the case's
    own)."""

    rank: int
    layout: str
    """"batch" (N, C, …), "channels" (C, …), "plane" (…), "channels last" (N, …, C)."""
    dtype: str | None = None

    def __str__(self) -> str:
        return f"rank {self.rank}, {self.layout}" + (f", {self.dtype}" if self.dtype else "")


LAYOUTS = ("batch", "channels", "plane", "channels last")

COMMON = (*(Form(rank, "batch") for rank in (1, 2, 3)), *(Form(2, layout) for layout in LAYOUTS[1:]))
"""The forms in which cases about NaN, infinities and ties are tried: every rank and every layout
once."""
FORMS = tuple(Form(rank, layout, dtype) for dtype in (None, "float64") for rank in (2, 1, 3, 0) for layout in LAYOUTS)
"""The forms that are tried in order, until one is offered, for a case that is not offered."""


def restated(case: Case, form: Form) -> Case | None:
    """The case in this form; None if it has no such form, or already has this form."""
    if form.dtype is not None and (case.operands[0].dtype.kind != "f" or case.operands[0].dtype == form.dtype):
        return None
    op: Any = case.op
    if isinstance(op, Pool):
        made = _pool(op, form, case)
    elif isinstance(op, Bilinear):
        made = _bilinear(op, form, case)
    else:
        return None
    if made is None:
        return None
    stated, groups = made
    if form.dtype is not None:
        groups = [tuple(a.astype(form.dtype) for a in group) for group in groups]
    operands, tangents = groups
    same = stated == op and [x.shape for x in operands] == [x.shape for x in case.operands]
    if same and form.dtype is None:
        return None
    return Case(stated, operands, tangents, cotangents(stated, operands))


def _pool(op: Any, form: Form, case: Case) -> tuple[Any, list[tuple[Array, ...]]] | None:
    (x,) = case.operands
    positions = op.positions(x.shape)
    lead = x.ndim - len(positions)
    if form.rank == 0 or (form.layout == "plane" and not x.size):
        return None
    axes = tuple(range(1, 1 + form.rank)) if form.layout == "channels last" else None
    stated = dataclasses.replace(op, **_parameters(op, len(positions), form.rank), axes=axes)

    def moved(a: Array) -> Array:
        last = np.moveaxis(a, positions, range(lead, x.ndim))
        return _led(_ranked(last, lead, form.rank), lead, form.layout)

    return stated, [tuple(map(moved, group)) for group in (case.operands, case.tangents)]


def _bilinear(op: Any, form: Form, case: Case) -> tuple[Any, list[tuple[Array, ...]]] | None:
    """A convolution in this form. A linear map, of rank 0, changes leading axes alone; channels are
    never last."""
    x, weight = case.operands[:2]
    own = weight.ndim - 2
    if form.layout not in ("batch", "channels") or (form.rank != own and not hasattr(op, "kernel_size")):
        return None
    lead = x.ndim - own - 1
    if form.layout == "channels" and 0 in x.shape[:lead]:
        return None
    stated = dataclasses.replace(op, **_parameters(op, own, form.rank))

    def moved(group: tuple[Array, ...]) -> tuple[Array, ...]:
        x, weight, *bias = group
        x = _ranked(x, lead + 1, form.rank)
        x = x[(0,) * lead] if form.layout == "channels" else x.reshape(math.prod(x.shape[:lead]), *x.shape[lead:])
        return (x, _ranked(weight, 2, form.rank), *bias)

    return stated, [moved(group) for group in (case.operands, case.tangents)]


def _parameters(op: Any, own: int, rank: int) -> dict[str, Any]:
    """The operator's parameters for `rank` axes: the last own axes, and before them axes of one
    cell."""
    words: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(op)):
        value = getattr(op, name)
        if name == "rank":
            words[name] = rank
        elif name in UNIT and not isinstance(value, str):
            words[name] = (*[UNIT[name]] * (rank - own), *value[max(own - rank, 0) :])
    return words


def _ranked(array: Array, lead: int, rank: int) -> Array:
    """The array with `rank` axes after the leading ones."""
    own = array.ndim - lead
    index: Any = (*[slice(None)] * lead, *[0] * (own - rank))
    array = array[index]
    return np.expand_dims(array, tuple(range(lead, lead + max(rank - own, 0))))


def _led(array: Array, lead: int, layout: str) -> Array:
    """The array with its leading axes in a layout's form; the layout may include channels."""
    shape, spatial = array.shape[:lead], array.shape[lead:]
    if layout == "plane":
        return np.asarray(array[(0,) * lead])
    if layout == "channels":
        return array.reshape(math.prod(shape), *spatial)
    batched = array.reshape(math.prod(shape[:-1]), *(shape[-1:] or (1,)), *spatial)
    return np.moveaxis(batched, 1, -1) if layout == "channels last" else batched
