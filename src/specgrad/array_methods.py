"""What makes a recorded value, or a Dual, behave like an array: operators, indexing, shapes, and
NumPy's functions on it.

Each method is a function of specgrad, entered in `FUNCTIONS` by the module that declares it, so
that a method has the derivative, the scalars and the refusals of the function. ``==`` stays
identity, because recorded values are keys of dicts: `equal` compares cells.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .errors import ArgumentError, UndeclaredError, refusal

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of specgrad that methods call, by their names."""
NUMPY: dict[Any, Callable[..., Any]] = {}
"""The functions of specgrad that stand for functions of NumPy."""
OPERATORS = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.divide: ("__truediv__", "__rtruediv__"),
    np.power: ("__pow__", "__rpow__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.negative: ("__neg__", ""),
}
"""NumPy's functions behind Python's operators, and the methods for a left and for a right
operand."""
REMEDIES = {
    "dtype": "a graph has shapes and no scalar: ask the arrays that it runs on",
    "max": "write global_max_pool(x, rank)",
    "min": "write -global_max_pool(-x, rank)",
    "flatten": "write x.reshape(-1)",
    "ravel": "write x.reshape(-1)",
    "dot": "write x @ y",
    "copy": "use it as it is: it never changes",
    "astype": "cast the arrays before they are recorded",
    "item": "ask its value",
    "tolist": "ask its value",
    "clip": "write minimum(maximum(x, low), high)",
    "var": "write mean((x - x.mean()) ** 2)",
}
"""What to write instead of a method that arrays of NumPy have."""


class ArrayMethods:
    """``** @ []``, comparisons, ``.ndim .size .T .sum() .mean() .reshape() .transpose()``, and
    functions of NumPy; `shape` is the class's own."""

    __slots__ = ()

    called = "Var"

    @property
    def shape(self) -> tuple[int, ...]:
        """Its lengths; every class has its own."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a value without an axis")
        return self.shape[0]

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return FUNCTIONS["transpose"](self)

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order: ``x.transpose(1, 0)``, or reversed."""
        return FUNCTIONS["transpose"](self, _flat(axes) or None)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The same cells under another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
        if order != "C":
            rule, remedy = "cells are read in row-major order", "transpose first"
            raise refusal(ArgumentError, "reshape", "order", order, rule, remedy)
        return FUNCTIONS["reshape"](self, shape[0] if len(shape) == 1 else shape)

    def sum(self, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Any:
        """Σ over all axes, or over `axis`."""
        return FUNCTIONS["sum"](self, axis, keepdims=keepdims, **_unused("sum", options))

    def mean(self, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Any:
        """Σ / count over all axes, or over `axis`."""
        return FUNCTIONS["mean"](self, axis, keepdims=keepdims, **_unused("mean", options))

    def __pow__(self, exponent: Any) -> Any:
        return FUNCTIONS["power"](self, exponent)

    def __rpow__(self, base: Any) -> Any:
        rule, remedy = "the exponent of a power is a number", "write exp(x * log(base))"
        raise refusal(ArgumentError, "power", "x", base, rule, remedy)

    def __matmul__(self, other: Any) -> Any:
        return FUNCTIONS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return FUNCTIONS["matmul"](other, self)

    def __getitem__(self, index: Any) -> Any:
        """Cells by integers, slices, None and ``...``, as `slice`; by a list or an array of
        integers along the first axis, as `take`."""
        if isinstance(index, ArrayMethods) or getattr(index, "dtype", None) == np.bool_:
            rule, remedy = "is not an index", "select with where(mask, x, y), or index by integers"
            raise refusal(ArgumentError, "slice", "index", index, rule, remedy)
        return FUNCTIONS["take" if isinstance(index, list | np.ndarray) and np.ndim(index) else "slice"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        rule, remedy = "a recorded value never changes", "make another one: where(mask, x, y), or concatenate"
        raise refusal(ArgumentError, self.called, "index", index, rule, remedy)

    def __lt__(self, other: Any) -> Any:
        return FUNCTIONS["less"](self, other)

    def __le__(self, other: Any) -> Any:
        return FUNCTIONS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Any:
        return FUNCTIONS["greater"](self, other)

    def __ge__(self, other: Any) -> Any:
        return FUNCTIONS["greater_equal"](self, other)

    def __abs__(self) -> Any:
        return FUNCTIONS["abs"](self)

    def __pos__(self) -> Any:
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions of cells: Python's operators with an array on the left, and those that
        specgrad has too."""
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if name == ufunc.__name__ and not options:
            if ufunc in OPERATORS:
                left = hasattr(inputs[0], "__array_ufunc__") and not isinstance(inputs[0], np.ndarray | np.generic)
                owner, others = (inputs[0], inputs[1:]) if left else (inputs[1], inputs[:1])
                return getattr(owner, OPERATORS[ufunc][not left])(*others)
            if ufunc in NUMPY:
                return NUMPY[ufunc](*inputs)
        return self._refused(name, "out" in options)

    def __array_function__(self, function: Any, types: Iterable[type], given: Any, options: Any) -> Any:
        """Functions of NumPy that specgrad has too, with the arguments that it has."""
        if function in NUMPY:
            known = inspect.signature(NUMPY[function])
            options = {k: v for k, v in options.items() if v is not None or k in known.parameters}
            try:
                known.bind(*given, **options)
            except TypeError:
                rule = "is given arguments that specgrad does not take"
                raise refusal(
                    ArgumentError, self.called, "function", function.__name__, rule, f"it takes {known}"
                ) from None
            return NUMPY[function](*given, **options)
        return self._refused(function.__name__)

    def _refused(self, name: str, writes: bool = False) -> Any:
        rule = "a recorded value is not written into an array" if writes else "is NumPy's, and not one of specgrad's"
        known = f"write specgrad.{name}(…)" if name in FUNCTIONS else "write it with functions of specgrad"
        remedy = "leave out= and += away" if writes else known
        raise refusal(ArgumentError, self.called, "function", name, rule, remedy)

    @property
    def __array__(self) -> Any:
        if self.shape == ():  # a scalar may stand in an array of objects
            raise AttributeError("__array__")
        return self._refuse_to_be_an_array

    def _refuse_to_be_an_array(self, *_: Any, **__: Any) -> Any:
        rule, remedy = "is not an array of NumPy", "use functions of specgrad on it, or ask its value"
        raise refusal(ArgumentError, self.called, "x", self, rule, remedy)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{self.called!r} object has no attribute {name!r}")
        remedy = REMEDIES.get(name, "write it with functions of specgrad")
        raise refusal(UndeclaredError, self.called, "attribute", name, "is not offered", remedy)


def _flat(axes: Any) -> Any:
    """Axes that are given one by one, or as one tuple."""
    return axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes


def _unused(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Nothing: what NumPy adds to its calls must be None, and anything else is refused."""
    for option, value in options.items():
        if value is not None:
            raise refusal(ArgumentError, name, option, value, "is not offered", "leave it out")
    return {}
