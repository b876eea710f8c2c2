"""Correct and wrong operators as a user writes them, for `specgrad check own_operators.py:Name`."""

import enum
import os
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import specgrad as sg
from specgrad.operator import Operator
from specgrad.ops.pointwise import Pointwise
from specgrad.ops.window import AdaptiveWindow, SlidingWindow, WholeWindow


def operator(cls):
    return dataclass(frozen=True, eq=False, repr=False)(cls)


class Half(enum.Enum):
    WHOLE = 1
    DOUBLE = 2


class Energy:
    """factor · Σ cells²."""

    def value(self, S, window):
        total = S.zeros(window.size)
        for tap in window:
            total = total + S.where(tap.real, tap.cells(0) * tap.cells(0), S.constant(0))
        return S.constant(self.scale()) * total, None

    def row(self, S, window, kept):
        for tap in window:
            yield tap.entry(0, present=tap.real, times=S.constant(2 * self.scale()) * tap.cells(0))

    def scale(self):
        return 1


@operator
class EnergyPool(Energy, SlidingWindow):
    name: ClassVar = "energy_pool"

    _: KW_ONLY
    factor: int = 1
    doubled: bool = False
    sign: Literal["plus", "minus"] = "plus"
    more: Half | None = None

    def __post_init__(self):
        if self.factor < 0:
            raise ValueError("no negative factors")
        super().__post_init__()

    def scale(self):
        doubled = self.factor * (2 if self.doubled else 1) * (self.more.value if self.more else 1)
        return doubled if self.sign == "plus" else -doubled


@operator
class AdaptiveEnergy(Energy, AdaptiveWindow):
    name: ClassVar = "adaptive_energy"


@operator
class GlobalEnergy(Energy, WholeWindow):
    name: ClassVar = "global_energy"


@operator
class Product(Pointwise):
    """x · y · z."""

    name: ClassVar = "product"
    slots: ClassVar = tuple(sg.operator.Slot(name) for name in "xyz")

    def function(self, S, x, y, z):
        return x * y * z

    def slopes(self, S, x, y, z):
        return y * z, x * z, x * y


@operator
class SlopeInPadding(EnergyPool):
    name: ClassVar = "slope_in_padding"

    def row(self, S, window, kept):
        for tap in window:
            yield tap.entry(0, present=tap.exists, times=S.constant(2 * self.scale()) * tap.cells(0))


@operator
class HalfTheSlope(AdaptiveEnergy):
    name: ClassVar = "half_the_slope"

    def row(self, S, window, kept):
        for tap in window:
            yield tap.entry(0, present=tap.real, times=tap.cells(0))


@operator
class WrongHint(GlobalEnergy):
    name: ClassVar = "wrong_hint"
    curvature: ClassVar = "none"

    def row(self, S, window, kept):
        yield from super().row(S, window, kept)


@operator
class WrongShape(GlobalEnergy):
    name: ClassVar = "wrong_shape"

    def output_shape(self, *shapes):
        return (*super().output_shape(*shapes), 2)


@operator
class TakesAnything(SlidingWindow):
    """Its own checks replace those of the window."""

    name: ClassVar = "takes_anything"
    value, row = EnergyPool.value, EnergyPool.row
    scale = Energy.scale

    def __post_init__(self):
        kernel = (1,) if self.kernel_size is None else tuple(self.kernel_size)
        rank = len(kernel)
        padding = self.padding if isinstance(self.padding, tuple) else ((0, 0),) * rank
        stride, dilation = (v if isinstance(v, tuple) else (1,) * rank for v in (self.stride, self.dilation))
        self._set(kernel_size=kernel, padding=padding, stride=stride, dilation=dilation)


@operator
class Raises(EnergyPool):
    name: ClassVar = "raises"

    def row(self, S, window, kept):
        raise KeyError("no row")


@operator
class Crashing(EnergyPool):
    """Ends its process for a padded kernel of 2."""

    name: ClassVar = "crashing"

    def row(self, S, window, kept):
        if 2 in self.kernel_size and any(map(any, self.padding)):
            os._exit(7)
        yield from super().row(S, window, kept)


@operator
class Unknown(EnergyPool):
    name: ClassVar = "unknown"
    weights: tuple[int, ...]


@operator
class Nameless(Energy, SlidingWindow):
    pass


@operator
class Odd(Operator):
    """An operator without a known window: every second cell of the last axis."""

    name: ClassVar = "odd"
    slots: ClassVar = (sg.operator.Slot("x"),)

    def output_shape(self, *shapes):
        (shape,) = sg.operator.checked_shapes(self, shapes)
        return MOVED.output_shape(shape)

    def geometry(self, *shapes):
        return MOVED.geometry(*shapes)

    def value(self, S, window):
        (tap,) = window
        return tap.cells(0), None

    def row(self, S, window, kept):
        (tap,) = window
        yield tap.entry(0, tap.real)


MOVED = EnergyPool((1,), stride=2)
pool = EnergyPool((2, 1), stride=1, padding=1, factor=3, axes=(0, -1))
cube = sg.pointwise("cube", lambda S, x: x * x * x, lambda S, x: 3 * x * x)
squared = sg.pointwise("squared", lambda S, x: x * x, lambda S, x: x)
log = sg.pointwise(
    "own_log", lambda S, x: S.log(x), lambda S, x: S.divide(S.constant(1), x), ("real", "division", "exp")
)
