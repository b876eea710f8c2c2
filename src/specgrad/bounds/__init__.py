"""Sound bounds of graphs over boxes of inputs: intervals that contain the outputs of a network
for *all* inputs between two arrays.

Bounds are sound because they are rounded outward. They need SciPy, which is imported when first
used: ``pip install 'specgrad[certify]'``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..operator import shape_of
from .results import Bounds, LinearForm

if TYPE_CHECKING:
    from ..graph import Graph
    from .certificate import Certificate

__all__ = ["Bounds", "LinearForm", "bounds", "certify", "lipschitz"]

METHODS = ("crown", "alpha", "ibp", "zonotope")
COVERS = ("real", "float32", "float64")


def bounds(
    graph: Graph | Callable[..., Any],
    box: tuple[Any, Any],
    *,
    method: str = "crown",
    of: Any = None,
    covers: str = "real",
) -> Bounds:
    """Bounds of a graph's output, or of a function's, for all inputs in the box (lower, upper).

    `method`: "ibp" propagates intervals; "zonotope" propagates affine forms of shared symbols;
    "crown" propagates affine bounds backwards, after it bounded the inputs of every nonlinear
    operator in the same way; "alpha" also optimises the bounds of relus and maxima by gradient
    ascent. `of`: a matrix with one column per output cell. Its rows times the output are bounded,
    which is tighter than a combination of the bounds of single cells. `covers="float32"` (or
    "float64") also encloses the results of the same operators in this float arithmetic, in any
    order of summation. If a number on the way may exceed the greatest float (for "real" a float64,
    in which bounds are computed), all bounds are infinite.

    >>> import numpy as np, specgrad as sg
    >>> f = lambda x: sg.max_pool(x, (2,), stride=1)
    >>> found = sg.bounds(f, (np.array([0.0, 1.0, 4.0]), np.array([2.0, 3.0, 5.0])))
    >>> found.lower, found.upper
    (array([1., 4.]), array([3., 5.]))
    """
    arguments.choice("bounds", "method", method, METHODS)
    arguments.choice("bounds", "covers", covers, COVERS)
    from .api import run

    return run(graph_of(graph, box), box, method, of, covers)


def certify(
    graph: Graph | Callable[..., Any],
    box: tuple[Any, Any],
    of: Any,
    *,
    covers: str = "real",
    timeout: float = 60.0,
    progress: Callable[[float, int], None] | None = None,
) -> Certificate:
    """Prove that every row of `of` times the output is positive for all inputs in the box (lower,
    upper), or find an input for which it is not.

    The proof uses the bounds of `bounds`. Cases that they leave open are split, at relus, maxima
    and inputs, until all are decided or `timeout` seconds are over. The certificate's `status` is
    "holds", "violated" or "unknown"; with `covers`, not "holds" if a float computation may
    overflow. ``certificate.check()`` verifies the proof in exact rationals,
    independently of the search. ``to_json`` and ``Certificate.from_json`` write and read it.
    Supported are networks of affine operators, relu, abs, maxima and minima.
    `progress(share, parts)` is called after each part of the box.

    >>> import numpy as np, specgrad as sg
    >>> network = lambda x: sg.max_pool(sg.relu(x), (2,), stride=1)
    >>> box = np.array([1.0, -1.0, 2.0]), np.array([2.0, 1.0, 3.0])
    >>> found = sg.certify(network, box, [[-1, 2]])
    >>> found.status
    'holds'
    >>> found.check()
    """
    arguments.choice("certify", "covers", covers, COVERS)
    from .certify import margins

    return margins(graph_of(graph, box), box, of, covers, timeout, progress)


def lipschitz(graph: Graph | Callable[..., Any], box: tuple[Any, Any], *, of: Any = None) -> float:
    """An upper bound of |f(x) - f(x')| / |x - x'| for inputs of the box (lower, upper), where |·|
    is the maximum norm.

    For an affine function it is the exact Lipschitz constant; for other functions it follows from
    intervals of the slopes on the box. `of`: a matrix whose rows times the output replace the
    output. Smaller boxes give tighter bounds.

    >>> import numpy as np, specgrad as sg
    >>> round(sg.lipschitz(lambda x: sg.avg_pool(sg.relu(x), (2,)), (-np.ones(4), np.ones(4))), 6)
    1.0
    """
    from .lipschitz import constant

    return constant(graph_of(graph, box), box, of)


def graph_of(function: Graph | Callable[..., Any], box: Any) -> Graph:
    """A graph as given, or the graph of a function for the shapes of a box."""
    from ..graph import Graph, trace

    if isinstance(function, Graph):
        return function
    arguments.function("bounds", function)
    side = box[0] if isinstance(box, list | tuple) and box else box
    return trace(function, *(shape_of("bounds", "box", end) for end in (side if isinstance(side, tuple) else (side,))))
