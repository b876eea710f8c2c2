"""Sound bounds of graphs over boxes of inputs: what a network computes for *every* input between two arrays.

A bound is sound: rounding is always away from what is enclosed. Needs SciPy, which is imported when first used:
``pip install 'specgrad[certify]'``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import arguments
from ..graph import Graph, trace

__all__ = ["Bounds", "LinearForm", "bounds"]

METHODS = ("crown", "alpha", "ibp", "zonotope")
COVERS = ("real", "float32", "float64")


class LinearForm(NamedTuple):
    """Σ coefficients·inputs + constant: one array (rows, *shape of the input) per input, and one number per row."""

    coefficients: tuple[Any, ...]
    constant: Any


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower ≤ y ≤ upper for all inputs in the box; y is the output, or the rows of `of` times it.

    `below` and `above` are affine forms of the inputs between which y lies on the box, where the method has them.
    """

    lower: Any
    upper: Any
    below: LinearForm | None = field(default=None, repr=False)
    above: LinearForm | None = field(default=None, repr=False)


def bounds(
    graph: Graph | Callable[..., Any],
    box: tuple[Any, Any],
    *,
    method: str = "crown",
    of: Any = None,
    covers: str = "real",
) -> Bounds:
    """Bounds of a graph's output, or of a function's, for all inputs in the box (lower, upper).

    `method`: "ibp" carries intervals forwards; "zonotope" affine forms of shared symbols; "crown" carries affine forms backwards, with
    the values before every nonlinear operator bounded in the same way first; "alpha" also chooses the forms of relus for each bound by gradient
    ascent, and takes relus of one window of the input together. `of`: a matrix with one column per output cell; its rows times
    the output are bounded, which is closer than combining bounds of single cells. `covers="float32"` (or "float64") also encloses what a computation
    in these floats of the same operators gives, in any order of summation.

    >>> import numpy as np, specgrad as sg
    >>> f = lambda x: sg.max_pool(x, (2,), stride=1)
    >>> found = sg.bounds(f, (np.array([0.0, 1.0, 4.0]), np.array([2.0, 3.0, 5.0])))
    >>> found.lower, found.upper
    (array([1., 4.]), array([3., 5.]))
    """
    arguments.choice("bounds", "method", method, METHODS)
    arguments.choice("bounds", "covers", covers, COVERS)
    from .api import run

    return run(graph if isinstance(graph, Graph) else traced(graph, box), box, method, of, covers)


def traced(function: Callable[..., Any], box: Any) -> Graph:
    """The graph of a function for the shapes of a box."""
    arguments.function("bounds", function)
    side = box[0] if isinstance(box, list | tuple) and box else box
    return trace(function, *(np.shape(end) for end in (side if isinstance(side, tuple) else (side,))))
