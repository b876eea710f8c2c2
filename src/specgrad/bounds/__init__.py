"""Sound bounds of graphs over boxes of inputs: what a network computes for *every* input between
two arrays.

A bound is sound: rounding is always away from what is enclosed. Needs SciPy, which is imported when
first used: ``pip install 'specgrad[certify]'``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..graph import Graph, trace
from ..operator import shape_of
from .results import Bounds, LinearForm

if TYPE_CHECKING:
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

    `method`: "ibp" carries intervals forwards; "zonotope" affine forms of shared symbols; "crown"
    carries affine forms backwards, with the values before every nonlinear operator bounded in the
    same way first; "alpha" also chooses the forms of relus and maxima for each bound by gradient
    ascent. `of`: a matrix with one column per output cell;
    its rows times the output are bounded, which is closer than combining bounds of single cells.
    `covers="float32"` (or "float64") also encloses what a computation in these floats of the same
    operators gives, in any order of summation.

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


def certify(
    graph: Graph | Callable[..., Any],
    box: tuple[Any, Any],
    of: Any,
    *,
    covers: str = "real",
    timeout: float = 60.0,
    progress: Callable[[float, int], None] | None = None,
) -> Certificate:
    """That every row of `of` times the output is greater than 0 for all inputs in the box (lower,
    upper): a proof, or an input that breaks it.

    Bounds as `bounds` finds them; what they leave open is split, at relus, maxima and inputs, until
    it is decided or `timeout` seconds are over. The certificate's `status` is "holds", "violated"
    or "unknown". ``certificate.check()`` replays it in exact rationals, without any of what found
    it; ``to_json`` and ``Certificate.from_json`` carry it elsewhere. Networks of affine operators,
    relu, abs, maxima and minima are certified. `progress(share, parts)` is called after each part
    of the box.

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

    return margins(graph if isinstance(graph, Graph) else traced(graph, box), box, of, covers, timeout, progress)


def lipschitz(graph: Graph | Callable[..., Any], box: tuple[Any, Any], *, of: Any = None) -> float:
    """An upper bound of |f(x) - f(x')| / |x - x'| for inputs of the box (lower, upper), where |·|
    is the greatest cell.

    The least constant of an affine function; of others from intervals of their slopes on the box.
    `of`: a matrix whose rows times the output are taken instead of its cells. Smaller boxes give
    closer bounds.

    >>> import numpy as np, specgrad as sg
    >>> round(sg.lipschitz(lambda x: sg.avg_pool(sg.relu(x), (2,)), (-np.ones(4), np.ones(4))), 6)
    1.0
    """
    from .lipschitz import constant

    return constant(graph if isinstance(graph, Graph) else traced(graph, box), box, of)


def traced(function: Callable[..., Any], box: Any) -> Graph:
    """The graph of a function for the shapes of a box."""
    arguments.function("bounds", function)
    side = box[0] if isinstance(box, list | tuple) and box else box
    return trace(function, *(shape_of("bounds", "box", end) for end in (side if isinstance(side, tuple) else (side,))))
