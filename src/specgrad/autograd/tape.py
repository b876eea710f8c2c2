"""The tape: operators remembered in the order they ran, and swept backwards.

The tape knows operators only by what all of them offer. It runs over any array that an engine
takes, and over Vars of enclosing levels: then the sweep itself consists of operators that are
recorded there, and can be differentiated again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import arguments, dispatch
from ..arithmetic import like, total
from ..errors import ArgumentError, ShapeError, refusal
from ..levels import Level, Valued
from ..operator import shape_of
from ..scalars import as_operand, find_family


class TapeVar(Valued):
    """A value on a tape: `value`, `shape`, `name`, `requires_grad`."""

    __slots__ = ("__weakref__", "index", "requires_grad")

    def __init__(self, tape: Tape, index: int, value: Any, name: str, requires_grad: bool) -> None:
        super().__init__(tape, name, value)
        self.index = index
        self.requires_grad = requires_grad


class Node(NamedTuple):
    """What is remembered of a value and, of an operator's, the operator, its operands, where those
    are on the tape that need a gradient, and what was kept. A Var holds its tape; so a node holds
    no Var, or no memory would be freed before Python looks for cycles."""

    var: weakref.ref[TapeVar]
    value: Any
    name: str
    requires_grad: bool
    op: Any = None
    operands: tuple[Any, ...] = ()
    parents: tuple[int | None, ...] = ()
    memory: Any = None


class Tape(Level):
    """A record of operators as they run; `backward` computes gradients from it.

    >>> import numpy as np, specgrad as sg
    >>> tape = Tape()
    >>> x = tape.leaf(np.array([1.0, -2.0, 3.0]), name="x")
    >>> loss = sg.sum(sg.relu(x) * x)
    >>> tape.backward(loss)[x]
    array([2., 0., 6.])
    >>> tape
    <Tape of 4 values>
    """

    called = "tape"

    def __init__(self, *, _transform: bool = False) -> None:
        super().__init__(_transform)
        self.nodes: list[Node] = []

    def __repr__(self) -> str:
        return f"<Tape of {len(self.nodes)} values>"

    def leaf(self, value: Any, name: str | None = None, requires_grad: bool = True) -> TapeVar:
        """A value that no operator on this tape computes: a parameter, an input, or with
        requires_grad=False a constant."""
        if dispatch.is_var(value):
            self.admit("leaf", "value", value)
            if value.level is self:
                rule, remedy = "is on this tape already", "use the Var itself, or detach it"
                raise refusal(ArgumentError, "leaf", "value", value, rule, remedy)
        else:
            value = as_operand("leaf", "value", value)
        if not (name is None or isinstance(name, str)):
            raise refusal(ArgumentError, "leaf", "name", name, "is not a word", "write a string, or leave it out")
        tracked = arguments.flag("leaf", "requires_grad", requires_grad)
        return self._append(value, name or f"leaf_{len(self.nodes)}", tracked)

    def record(self, op: Any, operands: tuple[Any, ...]) -> TapeVar:
        parents = [o if isinstance(o, TapeVar) and o.level is self else None for o in operands]
        values = tuple([o if p is None else p.value for o, p in zip(operands, parents, strict=True)])
        followed = tuple(
            [
                p.index if p is not None and p.requires_grad and slot.differentiable else None
                for slot, p in zip(op.slots, parents, strict=False)
            ]
        )
        name = f"{op.name}_{len(self.nodes)}"
        if followed.count(None) == len(followed):
            return self._append(dispatch.forward(op, values), name, False)
        value, memory = dispatch.keep(op, values)
        return self._append(value, name, True, op, values, followed, memory)

    def _append(self, value: Any, name: str, requires_grad: bool, *how: Any) -> TapeVar:
        var = TapeVar(self, len(self.nodes), value, name, requires_grad)
        self.nodes.append(Node(weakref.ref(var), value, name, requires_grad, *how))
        return var

    def _var(self, index: int) -> TapeVar:
        """The Var of a value, or another one if nobody holds it any more."""
        node = self.nodes[index]
        var = node.var()
        return TapeVar(self, index, *node[1:4]) if var is None else var

    def backward(self, var: Any, seed: Any = None) -> dict[TapeVar, Any]:
        """The gradients of <seed, var> in all values from which `var` was computed and that require
        a gradient, as a dict; `var` is included.

        A var of one cell needs no seed; the default is 1.
        """
        if not dispatch.is_var(var) or var.level is not self:
            rule, remedy = "is not a Var of this tape", "call backward on the tape that made it"
            raise refusal(ArgumentError, "backward", "var", var, rule, remedy)
        found = self.sweep([(var, checked_seed("backward", var, seed))])
        return {self._var(index): gradient for index, gradient in found.items()}

    def sweep(self, seeds: Sequence[tuple[TapeVar, Any]]) -> dict[int, Any]:
        """Send several seeds back at once, from the newest value to the oldest; gradients by place
        on the tape."""
        found: dict[int, Any] = {}
        for var, seed in seeds:
            if var.requires_grad:
                found[var.index] = total(found.get(var.index), seed)
        for index in range(max(found, default=-1), -1, -1):
            node, arriving = self.nodes[index], found.get(index)
            if arriving is None or node.op is None:
                continue
            wanted = [parent is not None for parent in node.parents]
            pulled = dispatch.pull(node.op, node.operands, node.memory, arriving, wanted)
            for parent, part in zip(node.parents, pulled, strict=True):
                if parent is not None and part is not None:
                    found[parent] = total(found.get(parent), part)
        return found


def checked_seed(name: str, var: Any, seed: Any) -> Any:
    """A cotangent for `var`: the seed once it fits, or 1 for a value of one cell."""
    if seed is None:
        if math.prod(var.shape) != 1:
            rule, remedy = "is not one cell, so it needs a seed", "give a seed of that shape, or sum the cells"
            if name == "grad":
                rule, remedy = "is not one cell", "sum the cells, or use vjp, whose pullback takes a cotangent"
            raise refusal(ShapeError, name, "output", var, rule, remedy)
        return like(var, 1, var.shape)
    return fitted(name, "seed", seed, var)


def fitted(name: str, argument: str, given: Any, value: Any) -> Any:
    """A seed or tangent for `value`, refused unless it has its shape and a scalar that mixes with
    its own."""
    shape = shape_of(name, argument, value)
    if shape_of(name, argument, given) != shape:
        remedy = "reshape or broadcast it first"
        raise refusal(ShapeError, name, argument, given, f"must have shape {shape}", remedy)
    if dispatch.is_var(given):
        return given
    array = as_operand(name, argument, given)
    while dispatch.is_var(value):
        if not hasattr(value, "value"):
            return array
        value = value.value
    if type(value) is type(array) is np.ndarray and value.dtype == array.dtype and array.dtype.kind in "iufc":
        return array
    find_family(name, ["value", argument], [as_operand(name, "value", value), array])
    return array
