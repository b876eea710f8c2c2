"""Derivatives as operators, closed under further derivatives of any order.

For an operator f of operands x let F_k(x; v_1 … v_k) = D^k f(x)[v_1 … v_k], shaped as the output,
and let G_k(x, g; v_1 … v_k) be the part in one operand of the gradient of D^k <g, f(x)>[v_1 … v_k].
So F_0 = f, F_1 is the JVP and G_0 the VJP. Derivatives are symmetric, hence

    d F_k = F_{k+1}(x; v…, dx) + Σ_i F_k(… dv_i …)            F_k pulled back by g: G_k in x,
                                                              G_{k-1}(without v_i) in v_i
    d G_k = G_{k+1}(x, g; v…, dx) + G_k(x, dg; v…) + Σ_i G_k(… dv_i …)
    G_k pulled back by u: F_{k+1}(x; v…, u) in g, G_{k+1}(x, g; v…, u) in x, G_k(… u for v_i …) in
        v_i

and `JVPOf` (F, k ≥ 1) and `VJPOf` (G) are all that is ever needed; no operator has a rule of its
own. What the operator declares of its curvature makes terms vanish or fall back to first
derivatives by a formula, and only where nothing is declared are higher orders evaluated, by the
specification over Dual numbers. Zeros are None, and are never made, multiplied or added.

A formula composes several operators. Half floats would be rounded by each of them, but are computed
in float32 and rounded once: there the derivative stays one operator, which evaluates its formula in
float32. So it does in a graph, whose dtype is not known yet.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import dispatch
from .arithmetic import like, total
from .geometry import Geometry, Shape
from .operator import RULES, Entry, Operator, Slot, Window, operator, shape_of
from .scalars import as_operand, find_family, is_tensor
from .scalars.base import Cells, Family
from .scalars.dual import ConstantDual, Dual

Direction = Sequence[Any]  # one tangent per operand, None where it is zero


class ShapeOnly(NamedTuple):
    """An operand of which only the shape matters."""

    shape: Shape


@operator
class Derived(Operator):
    """A derivative of `base`. Operands: those of base whose numbers matter, then the cotangent,
    then the directions.

    `shapes` has, per operand of base, None where it is given and else its shape; `along` has, per
    direction, which operands move.
    """

    derived: ClassVar = True

    base: Operator
    _: KW_ONLY
    shapes: tuple[Shape | None, ...]
    along: tuple[tuple[bool, ...], ...] = ()

    def __post_init__(self) -> None:
        own = [slot for slot, shape in zip(self.base.slots, self.shapes, strict=False) if shape is None]
        moved = [
            Slot(f"tangent of {slot.name}")
            for mask in self.along
            for slot, moves in zip(self.base.slots, mask, strict=False)
            if moves
        ]
        slots = (*(slot._replace(optional=False) for slot in own), *self._seeds(), *moved)
        self._set(slots=slots, name=f"{type(self).__name__[:3].lower()}({self.base.name})", needs=self.base.needs)
        self._set(pointwise=self.base.pointwise)

    def _seeds(self) -> tuple[Slot, ...]:
        return ()

    def parts(self, operands: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], list[tuple[Any, ...]]]:
        """The operands of base (ShapeOnly where not given), the cotangent if there is one, and the
        directions."""
        rest = iter(operands)
        own = tuple(next(rest) if shape is None else ShapeOnly(shape) for shape in self.shapes)
        seeds = tuple(next(rest) for _ in self._seeds())
        return own, seeds, [tuple(next(rest) if moves else None for moves in mask) for mask in self.along]

    def base_shapes(self, shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        """The shapes of all operands of base."""
        return tuple(x.shape if isinstance(x, ShapeOnly) else x for x in self.parts(shapes)[0])

    def output_shape(self, *shapes: Shape) -> Shape:
        own, given = self.base_shapes(shapes), self.parts(shapes)
        result = self.base.output_shape(*own)
        for seed in given[1]:
            self._fits("cotangent", ShapeOnly(seed), result)
        for direction in given[2]:
            for slot, tangent, shape in zip(self.base.slots, direction, own, strict=False):
                if tangent is not None:
                    self._fits(f"tangent of {slot.name}", ShapeOnly(tangent), shape)
        return self._result(own, result)

    def _result(self, own: tuple[Shape, ...], result: Shape) -> Shape:
        return result

    def geometry(self, *shapes: Shape) -> Geometry:
        raise NotImplementedError("a derivative is evaluated through its operator")

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        raise NotImplementedError("a derivative is evaluated through its operator")

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        raise NotImplementedError("a derivative is evaluated through its operator")

    def evaluate(self, operands: Sequence[Any]) -> Any:
        """The value over arrays; that of a formula in the precision of the computation, rounded
        once."""
        if not self.is_first:
            S = _scalars(self._example(operands))
            numbers = [x if slot.integer else _wide(S, x) for slot, x in zip(self.slots, operands, strict=True)]
            found = self.formula(numbers)
            if found is not NotImplemented:
                return _narrow(S, found)
        own, memory = self.remember(operands)
        return self.finish(operands, own, memory)

    @property
    def is_first(self) -> bool:
        """Whether this is a plain JVP or VJP, which an engine gives from its operator."""
        raise NotImplementedError

    def formula(self, operands: Sequence[Any]) -> Any:
        """The value by first derivatives, of arrays or of Vars; NotImplemented if nobody wrote it
        down."""
        raise NotImplementedError

    def _example(self, operands: Sequence[Any]) -> Any:
        """An operand that holds numbers."""
        return next(_array(x) for slot, x in zip(self.slots, operands, strict=True) if not slot.integer)

    def remember(self, operands: Sequence[Any]) -> tuple[tuple[Any, ...], dispatch.Memory]:
        """The operands of base, moved along all directions that a first derivative does not take,
        and what is kept of them."""
        own, _, directions = self.parts(operands)
        example = self._example(operands)
        full = tuple(placeholder(x.shape, example) if isinstance(x, ShapeOnly) else x for x in own)
        for direction in self._nested(directions):
            full = tuple(
                x if slot.integer else ConstantDual(x) if v is None else Dual(_array(x), _array(v))
                for slot, x, v in zip(self.base.slots, full, direction, strict=False)
            )
        return full, dispatch.recall(self.base, full)

    def _nested(self, directions: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The directions along which the operands carry Dual numbers."""
        return directions

    def finish(self, operands: Sequence[Any], own: tuple[Any, ...], memory: dispatch.Memory) -> Any:
        """The value, once it is known what an engine keeps of base."""
        raise NotImplementedError

    def still(self, array: Any) -> Any:
        """An array that none of the nested directions moves."""
        for _ in self._nested([()] * len(self.along)):
            array = ConstantDual(array)
        return array

    def top(self, array: Any) -> Any:
        """The coefficient of all nested directions together."""
        for _ in self._nested([()] * len(self.along)):
            array = array.tangent
        return array


@operator
class JVPOf(Derived):
    """F_k: the k-th derivative of base along k directions; the JVP for k = 1."""

    @property
    def is_first(self) -> bool:
        return len(self.along) == 1

    def formula(self, operands: Sequence[Any]) -> Any:
        own, _, v = self.parts(operands)
        return _formula_of_push(self.base, own, v)

    def _nested(self, directions: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return directions[:-1]

    def finish(self, operands: Sequence[Any], own: tuple[Any, ...], memory: dispatch.Memory) -> Any:
        last = tuple(v if v is None else self.still(_array(v)) for v in self.parts(operands)[2][-1])
        return self.top(memory.engine.push(self.base, own, memory.kept, last))

    def tangent(self, operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
        own, _, v = self.parts(operands)
        d_own, _, dv = _parts_of_tangents(self, tangents)
        terms = [jvp_of(self.base, own, (*v, d_own))]
        terms += [jvp_of(self.base, own, (*v[:i], dv[i], *v[i + 1 :])) for i in range(len(v))]
        return functools.reduce(total, terms, None)

    def cotangent(self, slot: int, operands: Sequence[Any], cotangent: Any) -> Any:
        own, _, v = self.parts(operands)
        kind, at, s = _roles(self.shapes, 0, self.along)[slot]
        if kind == "own":
            return vjp_of(self.base, s, own, cotangent, v)
        return vjp_of(self.base, s, own, cotangent, (*v[:at], *v[at + 1 :]))


@operator
class VJPOf(Derived):
    """G_k: the part in operand `slot` of the gradient of the k-th derivative of <g, base>; the VJP
    for k = 0."""

    slot: int

    @property
    def is_first(self) -> bool:
        return not self.along

    def formula(self, operands: Sequence[Any]) -> Any:
        own, (g,), v = self.parts(operands)
        return self.base.second_vjp(self.slot, own, g, v[0]) if len(v) == 1 else NotImplemented

    def _seeds(self) -> tuple[Slot, ...]:
        return (Slot("cotangent"),)

    def _result(self, own: tuple[Shape, ...], result: Shape) -> Shape:
        return own[self.slot]

    def finish(self, operands: Sequence[Any], own: tuple[Any, ...], memory: dispatch.Memory) -> Any:
        (g,) = self.parts(operands)[1]
        wanted = tuple(s == self.slot for s in range(len(own)))
        return self.top(dispatch.pull(self.base, own, memory, self.still(_array(g)), wanted)[self.slot])

    def tangent(self, operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
        own, (g,), v = self.parts(operands)
        d_own, (dg,), dv = _parts_of_tangents(self, tangents)
        terms = [vjp_of(self.base, self.slot, own, g, (*v, d_own))]
        if dg is not None:
            terms.append(vjp_of(self.base, self.slot, own, dg, v))
        terms += [vjp_of(self.base, self.slot, own, g, (*v[:i], dv[i], *v[i + 1 :])) for i in range(len(v))]
        return functools.reduce(total, terms, None)

    def cotangent(self, slot: int, operands: Sequence[Any], cotangent: Any) -> Any:
        own, (g,), v = self.parts(operands)
        u = tuple(cotangent if s == self.slot else None for s in range(len(own)))
        kind, at, s = _roles(self.shapes, 1, self.along)[slot]
        if kind == "seed":
            return jvp_of(self.base, own, (*v, u))
        if kind == "own":
            return vjp_of(self.base, s, own, g, (*v, u))
        return vjp_of(self.base, s, own, g, (*v[:at], u, *v[at + 1 :]))


def jvp_of(op: Operator, operands: Sequence[Any], directions: Sequence[Direction]) -> Any:
    """F_k of op, applied; None where it is zero."""
    operands = tuple(operands)
    directions = _reached(op, directions)
    if any(all(v is None for v in direction) for direction in directions):
        return None
    if len(directions) > 1:
        if op.curvature in ("none", "piecewise_linear"):
            return None
        terms = len(list(_placements(op, operands, directions))) if op.curvature == "multilinear" else None
        if terms in (0, 1) or _composes(operands, *directions):
            found = _formula_of_push(op, operands, directions)
            if found is not NotImplemented:
                return found
    elif op.curvature == "none" and all(v is not None for v in directions[0]):
        return op(*directions[0])
    slots = {s for direction in directions for s, v in enumerate(direction) if v is not None}
    numbers = frozenset().union(*(op.reads(s) for s in slots))
    given, shapes = _given(op, operands, numbers)
    derivative = JVPOf(op, shapes=shapes, along=_masks(directions))
    return derivative(*given, *_flat(directions))


def vjp_of(op: Operator, slot: int, operands: Sequence[Any], cotangent: Any, directions: Sequence[Direction]) -> Any:
    """G_k of op in one slot, applied; None where it is zero."""
    operands = tuple(operands)
    directions = _reached(op, directions)
    if not op.slots[slot].differentiable or any(all(v is None for v in direction) for direction in directions):
        return None
    if directions:
        if op.curvature in ("none", "piecewise_linear"):
            return None
        if op.curvature == "multilinear":
            if slot not in op.factors:
                return None
            moved = _placements(op, operands, directions, slot)
            return functools.reduce(total, (vjp_of(op, slot, x, cotangent, ()) for x in moved), None)
        if len(directions) == 1 and _composes(operands, (cotangent,), *directions):
            bent = op.second_vjp(slot, operands, cotangent, directions[0])
            if bent is not NotImplemented:
                return bent
    given, shapes = _given(op, operands, op.reads(slot))
    if op.curvature == "none":
        simple = op.adjoint(slot, [shape or () for shape in shapes], cotangent)
        if simple is not NotImplemented:
            return simple
    derivative = VJPOf(op, shapes=shapes, along=_masks(directions), slot=slot)
    return derivative(*given, cotangent, *_flat(directions))


def _formula_of_push(op: Operator, operands: tuple[Any, ...], directions: Sequence[Direction]) -> Any:
    """F_k of op by first derivatives, for k > 1; NotImplemented if nobody wrote it down."""
    if op.curvature == "multilinear":
        return functools.reduce(total, (op(*moved) for moved in _placements(op, operands, directions)), None)
    return op.second_jvp(operands, *directions) if len(directions) == 2 else NotImplemented


def _composes(*groups: Sequence[Any]) -> bool:
    """Whether operators may be composed: these operands have a dtype, and one whose results are not
    rounded."""
    for operand in itertools.chain(*groups):
        while hasattr(operand, "value"):  # a Var, of however many levels
            operand = operand.value
        if dispatch.is_var(operand) or not (
            operand is None or isinstance(operand, ShapeOnly) or not _scalars(operand).rounds
        ):
            return False
    return True


def _reached(op: Operator, directions: Sequence[Direction]) -> tuple[tuple[Any, ...], ...]:
    """The directions without what falls on operands that have no derivative."""
    return tuple(
        tuple(v if slot.differentiable else None for slot, v in zip(op.slots, direction, strict=False))
        for direction in directions
    )


def _placements(
    op: Operator, operands: tuple[Any, ...], directions: Sequence[Direction], slot: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Every way to put each direction in a factor of its own (none in `slot`), without the operands
    that are only added."""
    free = [s for s in op.factors if s != slot]
    required = sum(not slot.optional for slot in op.slots)
    kept = len(operands) if slot is not None else required
    for chosen in itertools.permutations(free, len(directions)):
        moved = list(operands[:kept])
        for s, direction in zip(chosen, directions, strict=True):
            moved[s] = direction[s]
        if all(m is not None for m in moved):
            yield tuple(moved)


def _given(
    op: Operator, operands: tuple[Any, ...], numbers: frozenset[int]
) -> tuple[list[Any], tuple[Shape | None, ...]]:
    """The operands whose numbers matter, and the shapes of the others."""
    given = [x for s, x in enumerate(operands) if s in numbers]
    shapes = tuple(
        None if s in numbers else tuple(shape_of(op.name, op.slots[s].name, x)) for s, x in enumerate(operands)
    )
    return given, shapes


def _masks(directions: Sequence[Direction]) -> tuple[tuple[bool, ...], ...]:
    return tuple(tuple(v is not None for v in direction) for direction in directions)


def _flat(directions: Sequence[Direction]) -> list[Any]:
    return [v for direction in directions for v in direction if v is not None]


def _parts_of_tangents(op: Derived, tangents: Sequence[Any]) -> tuple[Any, Any, Any]:
    own, seeds, directions = op.parts(tangents)
    return tuple(None if isinstance(x, ShapeOnly) else x for x in own), seeds, directions


@functools.lru_cache(maxsize=256)
def _roles(
    shapes: tuple[Shape | None, ...], seeds: int, along: tuple[tuple[bool, ...], ...]
) -> tuple[tuple[str, int, int], ...]:
    """Per operand of a derivative: what it is, of which direction, and which operand of base it
    stands for."""
    own = [("own", -1, s) for s, shape in enumerate(shapes) if shape is None]
    moved = [("direction", i, s) for i, mask in enumerate(along) for s, moves in enumerate(mask) if moves]
    return (*own, *[("seed", -1, -1)] * seeds, *moved)


def _scalars(operand: Any) -> Family:
    """The scalars of an array, or of the arrays in a Dual."""
    while isinstance(operand, Dual):
        operand = operand.primal
    return find_family("derivative", ["operand"], [_array(operand)])


def _wide(S: Family, operand: Any) -> Any:
    """An operand in the precision in which its scalars are computed."""
    if not S.rounds:
        return operand
    if isinstance(operand, Dual):
        primal = _wide(S, operand.primal)
        return ConstantDual(primal) if isinstance(operand, ConstantDual) else Dual(primal, _wide(S, operand.tangent))
    return S.enter("derivative", "operand", _array(operand)).reshape(operand.shape)


def _narrow(S: Family, result: Any) -> Any:
    """What `_wide` undoes."""
    if not S.rounds:
        return result
    if isinstance(result, Dual):
        return Dual(_narrow(S, result.primal), _narrow(S, result.tangent))
    with S.computing():
        return S.leave(result.reshape(-1), result.shape)


def _array(value: Any) -> Any:
    return as_operand("derivative", "operand", value)


def placeholder(shape: Shape, example: Any) -> Any:
    """Zeros in the scalar of an example that take no memory, for an operand whose numbers do not
    matter."""
    while isinstance(example, Dual):
        example = example.primal
    zero = like(example, 0)
    return zero.expand(shape) if is_tensor(zero) else np.broadcast_to(zero, shape)


RULES.update(jvp=jvp_of, vjp=vjp_of)


DERIVED = (JVPOf, VJPOf)
"""The classes of derivatives."""
