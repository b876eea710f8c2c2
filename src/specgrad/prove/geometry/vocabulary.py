"""Parameters that range over all axes, and the list of statements about geometry."""

from __future__ import annotations

from typing import Any

import z3

from ...geometry import Adaptive, Sliding
from ..integers import Parameter, assume
from ..statement import Statements
from ..symbolic import Symbol

Claim = Any
STATEMENTS = Statements()
holds, believed = STATEMENTS.holds, STATEMENTS.believed


class AnySliding(Sliding):
    """A sliding axis of symbols; `phase` is defined by the equations of gcd and inverse."""

    @property
    def phase(self) -> Any:
        stride: Any = self.stride
        dilation: Any = self.dilation
        shared, inverse = Symbol(z3.Int("shared")), Symbol(z3.Int("inverse"))
        assume(shared >= 1)
        step = dilation // shared
        assume(stride % shared == 0, dilation % shared == 0, inverse >= 0, inverse < step)
        assume((inverse * (stride // shared) - 1) % step == 0)
        return shared, step, inverse


def _sliding(ceil_mode: bool | None) -> Parameter:
    def make(*fields: Any) -> Sliding:
        kind: Any = AnySliding if isinstance(fields[0], Symbol) else Sliding
        axis: Sliding = kind(*fields[:6], fields[6] >= 1 if ceil_mode is None else ceil_mode)
        return axis

    least = {"n": 1, "k": 1, "s": 1, "before": 0, "after": 0, "d": 1}
    return Parameter(least if ceil_mode is not None else least | {"ceil": 0}, make)


def _integer(name: str, least: int) -> Parameter:
    return Parameter({name: least}, lambda value: value)


PARAMETERS = {
    "axis": _sliding(None),
    "floor": _sliding(False),
    "ceil": _sliding(True),
    "bins": Parameter({"n": 1, "m": 1}, Adaptive),
    **{name: _integer(name, 1) for name in ("n", "m", "k", "s", "d")},
    **{name: _integer(name, 0) for name in ("o", "i", "j", "c", "t", "extra")},
}
