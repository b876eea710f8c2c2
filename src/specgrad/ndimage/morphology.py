"""Grey morphology: minimum of a window, maximum of its mirror image, and their compositions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, refusal
from . import arguments
from .arguments import Array, delivered
from .extremum import extremum


class Morphology(Protocol):
    """The signature of every function here, which is SciPy's."""

    def __call__(
        self,
        input: Any,
        size: Any = None,
        footprint: Any = None,
        structure: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: float = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Array: ...


def _composed(name: str, steps: str, formula: str) -> Morphology:
    """The function that takes steps in turn: e(rosion), d(ilation), - input - y, + y - input."""

    def run(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        structure: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: float = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Array:
        if size is None and footprint is None and structure is None:
            rule = "size, footprint, or structure must be specified"
            raise refusal(ArgumentError, name, "size", None, rule, "give one of them")
        x = arguments.image(name, input)
        last = output if steps[-1] in "ed" else arguments.output_dtype(name, output, x)  # `output` may be the input
        y, places = x, [None] * (len(steps.rstrip("+-")) - 1) + [last]
        for step, place in zip(steps, places, strict=False):
            is_erosion = step == "e"
            y = extremum(
                name,
                y,
                size,
                footprint,
                structure,
                place,
                mode,
                cval,
                origin,
                axes,
                lowest=is_erosion,
                mirrored=not is_erosion,
            )
        if steps[-1] in "+-":
            first, second = (x, y) if steps[-1] == "-" else (y, x)
            both_bool = x.dtype == y.dtype == np.bool_
            subtract = np.bitwise_xor if both_bool else np.subtract
            subtract(first, second, out=y, casting="unsafe")
        return delivered(y, output)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"{formula}, as `scipy.ndimage.{name}`."
    return run


grey_erosion = _composed("grey_erosion", "e", "Minimum of cell - structure over the window")
grey_dilation = _composed("grey_dilation", "d", "Maximum of cell + structure over the mirrored window")
grey_opening = _composed("grey_opening", "ed", "Dilation of the erosion")
grey_closing = _composed("grey_closing", "de", "Erosion of the dilation")
white_tophat = _composed("white_tophat", "ed-", "input - opening")
black_tophat = _composed("black_tophat", "de+", "closing - input")
