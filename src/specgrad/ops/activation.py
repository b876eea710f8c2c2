"""Functions of one cell: exponential, logarithm, square root, and the activations of networks."""

from __future__ import annotations

from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, ClassVar

from .. import arguments
from ..operator import operator, parameter
from ..scalars.base import Cells, Family, Mask
from .pointwise import Pointwise, Slope

TRANSCENDENTAL = ("real", "division", "exp")


@operator
class Relu(Pointwise):
    """max(x, 0), with slope 1 where x > 0 and 0 elsewhere, at 0 too.

    Domain: ordered scalars. NaN gives NaN, with slope 1 as in PyTorch; -0.0 gives 0.

    >>> import numpy as np
    >>> Relu()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    name: ClassVar = "relu"
    needs: ClassVar = ("real",)
    curvature: ClassVar = "piecewise_linear"

    def function(self, S: Family, x: Cells) -> Cells:
        return S.extreme(self._passes(S, x), x, S.constant(0))

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(present=self._passes(S, x)),)

    @staticmethod
    def _passes(S: Family, x: Cells) -> Mask:
        return S.either(S.gt(x, S.constant(0)), S.is_nan(x))


@operator
class Exp(Pointwise):
    """e to the power of x, with slope e to the power of x.

    Domain: scalars with exp.

    >>> import numpy as np
    >>> Exp()(np.array([0.0, 1.0])).round(6)
    array([1.      , 2.718282])
    """

    name: ClassVar = "exp"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return S.exp(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (S.exp(x),)


@operator
class Log(Pointwise):
    """The natural logarithm of x, with slope 1/x.

    Domain: scalars with log. Floats give -inf at 0 and NaN below.

    >>> import numpy as np
    >>> Log().vjp((np.array([1.0, 4.0]),), np.ones(2))
    (array([1.  , 0.25]),)
    """

    name: ClassVar = "log"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return S.log(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(over=x),)


@operator
class Sqrt(Pointwise):
    """The square root of x, with slope 1/(2√x): infinite at 0.

    Domain: scalars with roots. Floats give NaN below 0.

    >>> import numpy as np
    >>> Sqrt().jvp((np.array([4.0, 9.0]),), (np.array([12.0, 12.0]),))
    (array([2., 3.]), array([3., 2.]))
    """

    name: ClassVar = "sqrt"
    needs: ClassVar = (*TRANSCENDENTAL, "root")

    def function(self, S: Family, x: Cells) -> Cells:
        return S.sqrt(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(over=2 * S.sqrt(x)),)


@operator
class Tanh(Pointwise):
    """The hyperbolic tangent of x, with slope 1 - tanh² x.

    Domain: scalars with exp.

    >>> import numpy as np
    >>> Tanh()(np.array([0.0, 1.0])).round(6)
    array([0.      , 0.761594])
    """

    name: ClassVar = "tanh"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return S.tanh(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        y = S.tanh(x)
        return (1 - y * y,)


@operator
class Erf(Pointwise):
    """The error function 2/√π ∫₀ˣ exp(-t²) dt, with slope 2/√π exp(-x²).

    Domain: scalars with exp; NumPy's long doubles are refused.

    >>> import numpy as np
    >>> Erf()(np.array([0.0, 1.0])).round(6)
    array([0.      , 0.842701])
    """

    name: ClassVar = "erf"
    needs: ClassVar = (*TRANSCENDENTAL, "erf")

    def function(self, S: Family, x: Cells) -> Cells:
        return S.erf(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(2 * S.exp(-(x * x)), over=S.sqrt(S.pi())),)


@operator
class Sigmoid(Pointwise):
    """σ(x) = 1 / (1 + exp(-x)), with slope σ(x) σ(-x).

    Domain: scalars with exp. The computation does not overflow.

    >>> import numpy as np
    >>> Sigmoid().jvp((np.array([0.0, -1000.0]),), (np.ones(2),))
    (array([0.5, 0. ]), array([0.25, 0.  ]))
    """

    name: ClassVar = "sigmoid"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return S.logistic(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (S.logistic(x) * S.logistic(-x),)


@operator
class Softplus(Pointwise):
    """log(1 + exp(x)), with slope 1 / (1 + exp(-x)).

    Domain: scalars with exp and log. The computation does not overflow.

    >>> import numpy as np
    >>> Softplus()(np.array([-1000.0, 0.0, 1000.0])).round(6)
    array([0.00000e+00, 6.93147e-01, 1.00000e+03])
    """

    name: ClassVar = "softplus"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return S.logaddexp(x, S.constant(0))

    def slopes(self, S: Family, x: Cells) -> Any:
        return (S.logistic(x),)


@operator
class Silu(Pointwise):
    """x σ(x), where σ(x) = 1 / (1 + exp(-x)), with slope σ(x) + x σ(x) σ(-x); also known as swish.

    Domain: scalars with exp. The computation does not overflow.

    >>> import numpy as np
    >>> Silu()(np.array([-1.0, 0.0, 1.0])).round(6)
    array([-0.268941,  0.      ,  0.731059])
    """

    name: ClassVar = "silu"
    needs: ClassVar = TRANSCENDENTAL

    def function(self, S: Family, x: Cells) -> Cells:
        return x * S.logistic(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (S.logistic(x) * (1 + x * S.logistic(-x)),)


@operator
class Gelu(Pointwise):
    """x Φ(x), where Φ(x) = (1 + erf(x/√2)) / 2 is the normal distribution, with slope Φ(x) + x
    exp(-x²/2) / √(2π).

    approximate="tanh" uses (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 for Φ(x), with the slope of
    this formula. Domain: scalars with exp; NumPy's long doubles are refused except with
    approximate="tanh".

    >>> import numpy as np
    >>> Gelu()(np.array([-1.0, 0.0, 1.0])).round(6)
    array([-0.158655,  0.      ,  0.841345])
    """

    name: ClassVar = "gelu"
    needs: ClassVar = (*TRANSCENDENTAL, "erf")

    _: KW_ONLY
    approximate: str = parameter(arguments.choice, ("none", "tanh"), default="none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.approximate == "tanh":
            self._set(needs=TRANSCENDENTAL)

    def function(self, S: Family, x: Cells) -> Cells:
        return x * self._share(S, x)[0]

    def slopes(self, S: Family, x: Cells) -> Any:
        share, slope = self._share(S, x)
        return (share + x * slope,)

    def _share(self, S: Family, x: Cells) -> tuple[Cells, Cells]:
        """Φ(x) and its slope."""
        half = S.constant(Fraction(1, 2))
        if self.approximate == "tanh":
            unit, cubic = S.sqrt(S.divide(S.constant(2), S.pi())), S.constant(Fraction("0.044715"))
            y = S.tanh(unit * (x + cubic * x * x * x))
            return half * (1 + y), half * (1 - y * y) * unit * (1 + 3 * cubic * x * x)
        density = S.divide(S.exp(-half * x * x), S.sqrt(2 * S.pi()))
        return half * (1 + S.erf(S.divide(x, S.sqrt(S.constant(2))))), density
