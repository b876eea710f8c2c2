"""Our own bounds of operators, as a subject of the claim that bounds hold every value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...bounds import bounds
from .shapes import only

Array = np.ndarray[Any, Any]


class Crown:
    """`specgrad.bounds` of one operator in its first operand; the other operands are constants."""

    name = "specgrad bounds"

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        only(inputs[0].dtype in (np.float32, np.float64), str(inputs[0].dtype))
        return np.asarray(op(*inputs))

    def bounds(self, op: Any, inputs: tuple[Array, ...], radius: Array) -> Array:
        x, *rest = (array.astype(np.float64) for array in inputs)
        found = bounds(lambda x: op(x, *rest), (x - radius, x + radius))
        return np.stack([found.lower, found.upper])


def subjects() -> list[Any]:
    return [Crown()]
