"""Pooling as operators of torch: for every class in `engines.REDUCTIONS` a value, its winners, and
both of its derivatives.

    specgrad::max_pool(x, last, parameters) -> y              specgrad::max_pool_push(dx, source,
                                                              last, parameters) -> dy
    specgrad::max_pool_keep(x, last, parameters) -> y, codes  specgrad::max_pool_pull(gy, source,
                                                              shape, last, parameters) -> gx
    specgrad::max_pool_places(codes, like, shape, last, parameters) -> indices

`source` is the tensor from which the slopes are computed: the codes of a maximum with ties "first",
x for other maxima and for smooth maxima, None for averages. It is also all that is saved for
backward (`fast_path` may save more). Push is the JVP and pull the VJP; both are linear in their
tensor, and each is the adjoint of the other. How they change with x is stated by the operator
(`second_jvp`, `second_vjp`). So no rule is written here a second time, and derivatives of every
order follow.

Parameters come in the order of `FIELDS`: lengths as symbolic integers, padding as one list of all
pairs ("same" is an empty list), None as -1, and axes counted from the end, so that vmap can add
leading axes. `last` is the operand's number of axes if its channels are stored last, else 0. It
decides the layout of the results; the operand itself may have any layout.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engines import REDUCTIONS
from ..ops.pool import AdaptiveMaxPool, GlobalMaxPool, Pool
from . import kernels
from .register import Rules, define

TYPES = {
    "kernel_size": "SymInt[]",
    "stride": "SymInt[]",
    "padding": "SymInt[]",
    "dilation": "SymInt[]",
    "ceil_mode": "bool",
    "output_size": "SymInt[]",
    "rank": "int",
    "keepdims": "bool",
    "ties": "str",
    "count_include_pad": "bool",
    "divisor_override": "int?",
    "beta": "float",
    "pad": "str",
    "axes": "int[]",
}
"""The type of each parameter of a pooling operator in the schemas of torch's operators."""

FIELDS = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in REDUCTIONS}
"""The names of each operator's parameters, in the order in which torch's operators take them."""

HALVES = (torch.float16, torch.bfloat16)


def encoded(op: Any, ndim: int) -> list[Any]:
    """An operator's parameters, for an operand with this many axes."""
    values = {field: getattr(op, field) for field in FIELDS[type(op)]}
    if "padding" in values:
        values["padding"] = [] if values["padding"] == "same" else [p for pair in values["padding"] for p in pair]
    if "output_size" in values:
        values["output_size"] = [-1 if m is None else m for m in values["output_size"]]
    if "beta" in values:
        values["beta"] = float(values["beta"])
    rank = op.spatial_rank()
    named = values["axes"]
    if named is None:
        values["axes"] = list(range(-rank, 0))
    else:
        values["axes"] = [a - ndim if a >= 0 else a for a in named]
    return list(values.values())


def decoded(kind: type[Pool], parameters: Sequence[Any]) -> Any:
    """The operator with these parameters. With symbolic lengths its parameters are not checked, and
    only the shape of its result can be computed."""
    values = tuple(tuple(p) if isinstance(p, list | tuple) else p for p in parameters)
    if all(isinstance(v, int) for p in values if isinstance(p, tuple) for v in p):
        return _made(kind, values)
    made = object.__new__(kind)
    made._set(**_written(kind, values))
    return made


@functools.lru_cache(maxsize=1024)
def _made(kind: type[Pool], values: tuple[Any, ...]) -> Any:
    return kind(**_written(kind, values))


def _written(kind: type[Pool], values: tuple[Any, ...]) -> dict[str, Any]:
    written = dict(zip(FIELDS[kind], values, strict=True))
    if "padding" in written:
        flat = written["padding"]
        pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
        written["padding"] = pairs if len(pairs) == len(written["kernel_size"]) else "same"
    if "output_size" in written:
        written["output_size"] = tuple(None if isinstance(m, int) and m == -1 else m for m in written["output_size"])
    return written


class Family(NamedTuple):
    """The operators of torch that stand for one operator of ours."""

    value: Any
    push: Any
    pull: Any
    keep: Any = None
    places: Any = None


def family(kind: type[Pool]) -> Family:
    """Define the operators of torch for one class of ours."""
    name, parameters = kind.name, ", ".join(f"{TYPES[field]} {field}" for field in FIELDS[kind])
    one_winner = FIELDS[kind].index("ties") if REDUCTIONS[kind] == "max" else -1
    linear = REDUCTIONS[kind] == "mean"
    curved = kind.curvature == "any"

    def has_codes(p: tuple[Any, ...]) -> bool:
        return one_winner >= 0 and p[one_winner] == "first"

    # the kernels, and their forms for tensors that have a shape but no numbers

    def value(x: Tensor, last: int, *p: Any) -> Tensor:
        return kernels.forward(decoded(kind, p), x, last)

    def value_like(x: Tensor, last: int, *p: Any) -> Tensor:
        return kernels.empty(x, decoded(kind, p).result_shape(tuple(x.shape)), last)

    def code_type(p: Sequence[Any], x: Tensor) -> torch.dtype:
        if kind in (AdaptiveMaxPool, GlobalMaxPool):  # their windows grow with x, whose lengths may be symbolic
            return torch.int32
        return kernels.code_type(decoded(kind, p), tuple(x.shape), x.device.type)

    def keep(x: Tensor, last: int, *p: Any) -> tuple[Tensor, Tensor]:
        y, codes = kernels.keep(decoded(kind, p), x, last)
        return y, codes.to(code_type(p, x))

    def keep_like(x: Tensor, last: int, *p: Any) -> tuple[Tensor, Tensor]:
        y = value_like(x, last, *p)
        return y, kernels.empty(x, tuple(y.shape), last, code_type(p, x))

    def push(dx: Tensor, source: Tensor | None, last: int, *p: Any) -> Tensor:
        return kernels.push(decoded(kind, p), dx, source, last)

    def push_like(dx: Tensor, source: Tensor | None, last: int, *p: Any) -> Tensor:
        return value_like(dx, last, *p)

    def pull(gy: Tensor, source: Tensor | None, shape: Any, last: int, *p: Any) -> Tensor:
        return kernels.pull(decoded(kind, p), gy, source, tuple(shape), last)

    def pull_like(gy: Tensor, source: Tensor | None, shape: Any, last: int, *p: Any) -> Tensor:
        return kernels.empty(gy, tuple(shape), last)

    def places(codes: Tensor, like: Tensor, shape: Any, last: int, *p: Any) -> Tensor:
        return kernels.places(decoded(kind, p), codes, like, tuple(shape), last)

    def places_like(codes: Tensor, like: Tensor, shape: Any, last: int, *p: Any) -> Tensor:
        return kernels.empty(codes, tuple(codes.shape), last, torch.int64)

    # the rules of derivatives, which call these operators again

    def pushed(dx: Tensor, source: Tensor | None, last: int, p: Any) -> Tensor:
        moved: Tensor = made.value(dx, last, *p) if linear else made.push(dx, source, last, *p)
        return moved

    def saved_of_x(arguments: Any, results: Any) -> Any:
        x, last, *p = arguments
        source = results[1] if len(results) > 1 else None if linear else x
        return (source,), (tuple(x.shape), last, p)

    def pull_x(saved: Any, rest: Any, gy: Tensor, wanted: Any) -> Any:
        shape, last, p = rest
        return (made.pull(gy, saved[0], list(shape), last, *p),)

    def push_x(saved: Any, rest: Any, tangents: Any) -> Any:
        return None if tangents[0] is None else pushed(tangents[0], saved[0], *rest[1:])

    def saved_of_push(arguments: Any, results: Any) -> Any:
        dx, source, last, *p = arguments
        return (source, dx if curved else None), (tuple(dx.shape), last, p)

    def pull_push(saved: Any, rest: Any, g: Tensor, wanted: Any) -> Any:
        (source, dx), (shape, last, p) = saved, rest
        along_dx = made.pull(g, source, list(shape), last, *p) if wanted[0] else None
        return along_dx, second_vjp(p, source, g, dx) if curved and wanted[1] else None

    def push_push(saved: Any, rest: Any, tangents: Any) -> Any:
        (source, dx), (_, last, p), (ddx, dsource) = saved, rest, tangents
        straight = None if ddx is None else pushed(ddx, source, last, p)
        return added(straight, second_jvp(p, source, dx, dsource) if curved and dsource is not None else None)

    def saved_of_pull(arguments: Any, results: Any) -> Any:
        gy, source, shape, last, *p = arguments
        return (source, gy if curved else None), (tuple(shape), last, p)

    def pull_pull(saved: Any, rest: Any, v: Tensor, wanted: Any) -> Any:
        (source, gy), (_, last, p) = saved, rest
        along_gy = pushed(v, source, last, p) if wanted[0] else None
        return along_gy, second_vjp(p, source, gy, v) if curved and wanted[1] else None

    def push_pull(saved: Any, rest: Any, tangents: Any) -> Any:
        (source, gy), (shape, last, p), (dgy, dsource) = saved, rest, tangents
        straight = None if dgy is None else made.pull(dgy, source, list(shape), last, *p)
        return added(straight, second_vjp(p, source, gy, dsource) if curved and dsource is not None else None)

    def second_jvp(p: Any, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        wide = [t.float() if t.dtype in HALVES else t for t in (x, u, v)]  # half floats are rounded once, at the end
        moved: Tensor = decoded(kind, p).second_jvp((wide[0],), (wide[1],), (wide[2],))
        return moved.to(x.dtype)

    def second_vjp(p: Any, x: Tensor, g: Tensor, v: Tensor) -> Tensor:
        wide = [t.float() if t.dtype in HALVES else t for t in (x, g, v)]
        moved: Tensor = decoded(kind, p).second_vjp(0, (wide[0],), wide[1], (wide[2],))
        return moved.to(x.dtype)

    of_x = Rules(saved_of_x, pull_x, push_x)
    kept = found = None
    if one_winner >= 0:
        kept = define(
            f"{name}_keep(Tensor x, int last, {parameters}) -> (Tensor, Tensor)",
            kernel=keep,
            fake=keep_like,
            rules=of_x,
            tensors=1,
        )
        found = define(
            f"{name}_places(Tensor codes, Tensor like, SymInt[] shape, int last, {parameters}) -> Tensor",
            kernel=places,
            fake=places_like,
            rules=None,
            tensors=2,
            batched_shape=2,
        )
    made = Family(
        define(
            f"{name}(Tensor x, int last, {parameters}) -> Tensor",
            kernel=value,
            fake=value_like,
            rules=of_x,
            tensors=1,
            instead=lambda x, last, *p: kept(x, last, *p)[0] if kept and has_codes(p) else None,
        ),
        define(
            f"{name}_push(Tensor dx, Tensor? source, int last, {parameters}) -> Tensor",
            kernel=push,
            fake=push_like,
            rules=Rules(saved_of_push, pull_push, push_push),
            tensors=2,
        ),
        define(
            f"{name}_pull(Tensor gy, Tensor? source, SymInt[] shape, int last, {parameters}) -> Tensor",
            kernel=pull,
            fake=pull_like,
            rules=Rules(saved_of_pull, pull_pull, push_pull),
            tensors=2,
            batched_shape=2,
        ),
        kept,
        found,
    )
    return made


def added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


FAMILIES: dict[type[Pool], Family] = {kind: family(kind) for kind in REDUCTIONS}
