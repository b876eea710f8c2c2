"""The winner's flat index of a maximum, as an operator of its own: its value is integers, which
have no derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..operator import Slot


@dataclass(frozen=True)
class Indices:
    """Per output cell of `base`, the flat index of the winner in its spatial plane."""

    base: Any
    derived: ClassVar = True
    needs: ClassVar = ()
    slots: ClassVar = (Slot("x", differentiable=False),)

    @property
    def name(self) -> str:
        return str(self.base.name)

    def output_shape(self, *shapes: Any) -> Any:
        return self.base.output_shape(*shapes)

    def tangent(self, operands: Any, tangents: Any) -> None:
        """Zero."""
