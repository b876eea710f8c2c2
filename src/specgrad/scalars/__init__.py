"""The families: what a scalar must be able to do, and who speaks for which type of scalar.

A family is found by the type of an operand or of its elements, from `HOMES`, so that no library is
imported before one of its numbers is seen. To add a scalar, write one file with two functions,
``normal(kind)`` (the type that stands for an element type, or None) and ``family(kind)``, and add
one line to `HOMES`.
"""

from __future__ import annotations

import dataclasses
import importlib
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ScalarError, ShapeError, refusal
from .base import Elements, Family, is_tensor, is_traced, unlike
from .dual import ConstantDual, Dual, deepened, depth, gathered
from .foreign import as_numpy, is_dask, is_foreign

HOMES = {  # the top-level module that defines the scalar's type -> the file that speaks for it
    "numpy": "floats",
    "ml_dtypes": "floats",
    "builtins": "builtin",
    "fractions": "fraction",
    "decimal": "decimal",
    "mpmath": "mpmath",
    "flint": "flint",
    "z3": "z3",
    "sympy": "sympy",
    "torch": "torch",
}

__all__ = ["HOMES", "Family", "as_indices", "as_operand", "find_family", "is_tensor", "is_traced", "refuse_masked"]


def as_operand(name: str, argument: str, value: Any) -> Any:
    """An operand as the array it is: NumPy arrays, tensors and Duals as they are, numbers and
    nested lists as NumPy arrays."""
    if type(value) is np.ndarray and value.dtype != object:
        return value
    if is_tensor(value) or is_traced(value) or is_dask(type(value)):
        return value
    if isinstance(value, ConstantDual):
        return ConstantDual(as_operand(name, argument, value.primal))
    if isinstance(value, Dual):
        return Dual(as_operand(name, argument, value.primal), as_operand(name, argument, value.tangent))
    refuse_masked(name, argument, value)
    if is_foreign(value):
        value = as_numpy(name, argument, value)
    if not isinstance(value, np.ndarray | np.generic | list | tuple | numbers.Number) and not _spoken(type(value)):
        rule = f"{type(value).__name__} is not an array specgrad takes"
        remedy = "register it: register_tree(kind)" if dataclasses.is_dataclass(value) else "give a NumPy array"
        raise refusal(ScalarError, name, argument, value, rule, remedy)
    if isinstance(value, list | tuple):
        for holds, what, how in (
            (is_tensor, "tensors", "make one of them first: torch.stack(x)"),
            (_is_recorded, "recorded values", "make one of them: stack(x), or give an array where the list was"),
            (_is_endless, "ranges without end", "give an array: np.arange(n)"),
        ):
            if _holds(value, holds):
                raise refusal(ScalarError, name, argument, type(value).__name__, f"is a list of {what}, not one", how)
    try:
        return gathered(np.asarray(value))
    except ValueError:
        raise refusal(ShapeError, name, argument, value, "is ragged", "give rows of equal length") from None


def _is_endless(leaf: Any) -> bool:
    """Whether NumPy would walk a range for minutes, and gigabytes."""
    return isinstance(leaf, range) and bool(leaf[2**20 :])


def _holds(nest: Any, holds: Callable[[Any], bool]) -> bool:
    """Whether a leaf of nested lists does."""
    return any(_holds(part, holds) for part in nest) if isinstance(nest, list | tuple) else holds(nest)


def _is_recorded(value: Any) -> bool:
    return hasattr(type(value), "__specgrad__")


def refuse_masked(name: str, argument: str, value: Any) -> None:
    """Masked cells are not absent here, and must not pass for numbers."""
    if isinstance(value, np.ma.MaskedArray):
        rule, remedy = "masked arrays are not taken", "fill the mask first: x.filled(0)"
        raise refusal(ScalarError, name, argument, value, rule, remedy)


def as_indices(name: str, argument: str, value: Any) -> Any:
    """An operand that holds whole numbers, such as labels, as a NumPy array of them."""
    array = as_operand(name, argument, value)
    if is_tensor(array):
        array = array.detach().cpu().numpy()
    if isinstance(array, np.ndarray) and array.dtype == object and all(type(e) is int for e in array.flat):
        try:
            array = array.astype(np.intp)
        except OverflowError:
            rule, remedy = "holds an integer of more than 64 bits", "write smaller ones"
            raise refusal(ScalarError, name, argument, value, rule, remedy) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        raise refusal(ScalarError, name, argument, value, "must hold integers", "cast first, e.g. x.astype(np.int64)")
    return array


def find_family(name: str, arguments: Sequence[str], operands: Sequence[Any]) -> Family:
    """The one family in which all these operands can be computed together."""
    if any(isinstance(operand, Dual) for operand in operands):
        inner = find_family(name, arguments, [o.primal if isinstance(o, Dual) else o for o in operands])
        return deepened(inner, max(map(depth, operands)))
    if any(map(is_tensor, operands)):
        composed: Family = importlib.import_module(f"{__name__}.torch").family_of(name, arguments, operands)
        return composed
    found: dict[Any, int] = {}
    for place, (argument, operand) in enumerate(zip(arguments, operands, strict=True)):
        for kind in _kinds(name, argument, operand):
            found.setdefault(kind, place)
    if not found:  # object arrays without an element could hold any scalar
        return Elements(int)
    if any(isinstance(kind, type) for kind in found):  # among scalars in object arrays, integers are constants
        found = {kind: place for kind, place in found.items() if not _is_integer(kind)} or {int: 0}
    (kind, _), *others = found.items()
    if others:
        other, place = others[0]
        raise refusal(ScalarError, name, arguments[place], operands[place], *unlike(_called(other), _called(kind)))
    if isinstance(kind, np.dtype) and any(map(is_traced, operands)):
        traced: Family = importlib.import_module(f"{__name__}.jax").Arrays(kind)
        return traced
    made: Family = _home(kind.type if isinstance(kind, np.dtype) else kind).family(kind)
    return made


def _kinds(name: str, argument: str, operand: Any) -> list[Any]:
    """The scalar kinds of an operand: its dtype, or the types of its elements where NumPy only
    carries objects."""
    if operand.dtype != object:
        if operand.dtype.kind not in "iufc" and operand.dtype.name != "bfloat16":
            rule, remedy = (
                f"{operand.dtype} is not a scalar specgrad takes",
                "cast to a number first, e.g. x.astype(np.float64)",
            )
            raise refusal(ScalarError, name, argument, operand, rule, remedy)
        return [np.dtype(operand.dtype.type)]  # NumPy's own object: for an equal one, np.add.at is 20 times slower
    found = []
    for kind in dict.fromkeys(type(element) for element in operand.flat):
        spoken = int if _is_integer(kind) else _spoken(kind)
        if spoken is None:
            rule, remedy = (
                f"an element is a {kind.__qualname__}, which is not a scalar specgrad takes",
                "use one scalar type, in rows of equal length",
            )
            raise refusal(ScalarError, name, argument, operand, rule, remedy)
        found.append(spoken)
    return found


def _is_integer(kind: Any) -> bool:
    if isinstance(kind, np.dtype):
        return kind.kind in "iu"
    return issubclass(kind, int | np.integer) and kind is not bool


def _home(kind: type) -> Any:
    home = HOMES.get(kind.__module__.partition(".")[0])
    return home and importlib.import_module(f"{__name__}.{home}")


def _spoken(kind: type) -> Any:
    """The kind that stands for this element type (all z3 terms are one kind), or None if nobody
    speaks for it."""
    home = _home(kind)
    return home and home.normal(kind)


def _called(kind: Any) -> str:
    return str(kind.name if isinstance(kind, np.dtype) else kind.__qualname__)
