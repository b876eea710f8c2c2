"""A user's operator: the cases that can be drawn for it, and the outcomes of statements and wrong
calls.

All functions here run in the operator's process: `describe` says which cases can be drawn, and
`judge` and `refuses` take cases as plain data. A case that the operator refuses with a
SpecgradError does not count; any other error is a difference.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..errors import SpecgradError
from ..operator import Operator
from ..ops.pointwise import Own, Pointwise
from ..ops.pool import Pool
from ..ops.window import AdaptiveWindow, SlidingWindow, WholeWindow
from .cases import Case
from .claims import CLAIMS
from .compare import Outcome
from .statements import scalar_of
from .subject import BadSubject, named, printable, words_of

Array = np.ndarray[Any, Any]

WINDOWS: dict[type, str] = {
    SlidingWindow: "sliding",
    AdaptiveWindow: "adaptive",
    WholeWindow: "whole",
    Pointwise: "pointwise",
}
KNOWN: dict[str, tuple[Any, ...]] = {
    "ties": ("first", "all", "split"),
    "pad": ("zero", "skip"),
    "beta": (1, -1, 0.5),
    "divisor_override": (None, 3, -2),
}
"""The values of parameters with a fixed meaning."""
SUGGESTED: dict[Any, tuple[Any, ...]] = {
    bool: (False, True),
    int: (1, 2, 3, -1, 0),
    float: (1.0, 0.5, -2.0, 0.0),
    Fraction: (Fraction(1, 2), Fraction(-3)),
    type(None): (None,),
}
"""The values that a type suggests; the operator may refuse some."""


class Description(NamedTuple):
    """The description of an operator: its kind of window, its operands, and the values of its other
    parameters as Python."""

    name: str
    operator: str
    window: str
    slots: int
    scalar: str
    options: dict[str, tuple[str, ...]]
    required: frozenset[str] = frozenset()
    """The options without a default. The first value of each other option is its default."""
    made: bool = False
    """Whether the operator is an object with fixed parameters; then `least` and `axes` are its
    axes' least lengths and positions."""
    least: tuple[int, ...] = ()
    axes: tuple[int, ...] | None = None

    def making(self, drawn: Drawn) -> str:
        """The Python expression of a case's operator, without parameters at their defaults."""
        given = drawn.parameters
        words = {name: repr(value) for name, value in given.items() if not _is_default(name, value, given)}
        words |= {
            name: self.options[name][place] for name, place in drawn.choices.items() if place or name in self.required
        }
        return f"{self.operator}({', '.join(f'{name}={value}' for name, value in words.items())})"


def _is_default(name: str, value: Any, given: dict[str, Any]) -> bool:
    """Whether this is the default of a window's parameter."""
    known = {"ceil_mode": False, "axes": None, "keepdims": True, "stride": given.get("kernel_size")}
    one = {"padding": (0, 0), "dilation": 1}
    return known[name] == value if name in known else name in one and set(value) <= {one[name]}


class Drawn(NamedTuple):
    """A case as plain data: parameters of the window, the chosen value of each other parameter,
    operands, tangents, cotangent cells."""

    parameters: dict[str, Any]
    choices: dict[str, int]
    operands: tuple[Array, ...]
    tangents: tuple[Array, ...]
    cells: tuple[int, ...]


UNFIT = "no case"
"""The part of an outcome whose words say why the case does not count."""


def describe(found: Any) -> Description:
    """The description of an operator or class; refuses a class with a parameter of no known
    value."""
    kind = found if isinstance(found, type) else type(found)
    window = next((word for base, word in WINDOWS.items() if issubclass(kind, base)), "any")
    known = (
        printable(found.name),
        printable(found.name if kind is Own else kind.__name__),
        window,
        len(found.slots),
        scalar_of(found).__name__,
    )
    if isinstance(found, type):
        options = {name: tuple(printable(repr(v)) for v in values) for name, values in _options(kind).items()}
        return Description(*known, options, frozenset(f.name for f in dataclasses.fields(found) if not _has_default(f)))
    least = _least(found) if isinstance(found, Pool) else ()
    axes: Any = getattr(found, "axes", None)
    return Description(*known, {}, made=True, least=least, axes=axes)


def _least(op: Any) -> tuple[int, ...]:
    """The least lengths of an operator's spatial axes without padding."""
    if hasattr(op, "kernel_size"):
        return tuple(d * (k - 1) + 1 for k, d in zip(op.kernel_size, op.dilation, strict=True))
    return (1,) * int(op.spatial_rank())


@functools.lru_cache(maxsize=256)
def _options(kind: type) -> dict[str, tuple[Any, ...]]:
    """The values to try, per parameter that is not the window's."""
    base = next((base for base in WINDOWS if issubclass(kind, base)), Operator)
    windows = {field.name for field in dataclasses.fields(base)}
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that only a type checker can resolve
        hints = {}
    return {
        field.name: _values(kind, field, hints.get(field.name))
        for field in dataclasses.fields(kind)
        if field.init and field.name not in windows
    }


def _values(kind: type, field: dataclasses.Field[Any], hint: Any) -> tuple[Any, ...]:
    factory = field.default_factory
    defaults = [] if not _has_default(field) else [field.default if factory is dataclasses.MISSING else factory()]
    suggested = _suggested(type(defaults[0]) if hint is None and defaults else hint)
    values = tuple(dict.fromkeys([*defaults, *(KNOWN.get(field.name) or suggested)]))
    if not values:
        raise BadSubject(
            f"{kind.__name__}: no values are known for its parameter {field.name} ({field.type}); "
            f"give an operator instead of the class, such as `pool = {kind.__name__}(…)`"
        )
    return values


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return not (field.default is field.default_factory is dataclasses.MISSING)


def _suggested(hint: Any) -> Iterator[Any]:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield from typing.get_args(hint)
    elif origin in (typing.Union, types.UnionType):
        for one in typing.get_args(hint):
            yield from _suggested(one)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield from hint
    else:
        yield from SUGGESTED.get(hint, ()) if isinstance(hint, type) else ()


def made(found: Any, drawn: Drawn) -> Operator:
    """The operator of a case."""
    if isinstance(found, Operator):
        return found
    values = _options(found)
    return found(**drawn.parameters, **{name: values[name][place] for name, place in drawn.choices.items()})  # type: ignore[no-any-return]


def judge(found: Any, drawn: Drawn | Case, claim: str) -> Outcome:
    """The outcome of a claim on a case, in the operator's process. A `Case` is known to be
    legal."""
    if isinstance(drawn, Case):
        return _judged(drawn, claim, ())
    try:
        op = made(found, drawn)
        shape = op.output_shape(*(x.shape for x in drawn.operands))
    except SpecgradError as error:
        return Outcome(words=words_of(error), part=UNFIT)
    except Exception as error:
        words = f"making it raised {named(error)}: {words_of(error)}"
        chosen = isinstance(error, ValueError | TypeError) and drawn.choices  # a value that the class does not take
        return Outcome(words=words, part=UNFIT if chosen else "exact")
    case = Case(op, drawn.operands, drawn.tangents, np.resize(drawn.cells, shape))
    return _judged(case, claim, (SpecgradError, ArithmeticError))


def _judged(case: Case, claim: str, unfit: tuple[type[Exception], ...]) -> Outcome:
    statement = CLAIMS[claim].stated
    assert statement is not None
    try:
        words = statement.broken(case)
    except Exception as error:
        if isinstance(error, unfit):
            return Outcome(words=words_of(error), part=UNFIT)
        words = f"{named(error)}: {words_of(error)}"
    return Outcome(words=words and printable(words), part="exact")


PARAMETERS = {
    "sliding": (
        *("kernel_size=(0,)", "kernel_size=(1.5,)", "kernel_size=None", "kernel_size=(2,), stride=0"),
        *("kernel_size=(2,), padding=-1", "kernel_size=(2,), dilation=0", "kernel_size=(2,), ceil_mode='yes'"),
    ),
    "adaptive": ("output_size=(-1,)", "output_size=(1.5,)", "output_size=None"),
    "whole": ("rank=-1", "rank=1.5", "rank=1, keepdims='yes'"),
}
"""Invalid parameters of windows."""
CALLS = (
    *("op()", "op(*inputs, *inputs)", "op(*[x.astype(bool) for x in inputs])", "op(*[x.astype(str) for x in inputs])"),
    *("op.jvp(inputs, ())", "op.jvp(inputs, [x[None] for x in inputs])", "op.vjp(inputs, cotangent[None])"),
)
"""Calls that every operator must refuse: wrong operands, tangents and cotangents."""


def wrong(known: Description) -> list[str]:
    """Calls that an operator must refuse, as Python: `make` makes an operator; `op` is one, with
    fitting inputs and cotangent."""
    calls = list(CALLS)
    if not known.made:
        calls += [f"make({words})" for words in PARAMETERS.get(known.window, ())]
    if known.window in PARAMETERS:
        calls.append("op(np.zeros((2,) * (op.spatial_rank() - 1)))")
        calls.append(
            "op(np.zeros([n * (p not in op.positions(inputs[0].shape)) for p, n in enumerate(inputs[0].shape)]))"
        )
    if known.window == "sliding" and not known.made:
        calls.append("make(kernel_size=(9,))(np.zeros(4))")
    if known.window == "pointwise" and known.slots > 1:
        calls.append(f"op(*[np.zeros(n + 2) for n in range({known.slots})])")
    return calls


def refuses(found: Any, drawn: Drawn, call: str) -> Outcome:
    """Whether a wrong call raises a SpecgradError."""
    op = made(found, drawn)
    inputs, _, _ = Case(op, drawn.operands, drawn.tangents, np.zeros(0)).over(np.dtype(np.float64))
    cotangent = np.ones(op.output_shape(*(x.shape for x in inputs)))
    values = {} if isinstance(found, Operator) else _options(found)
    chosen = {name: values[name][place] for name, place in drawn.choices.items()}
    scope = {"np": np, "op": op, "inputs": inputs, "cotangent": cotangent, "make": functools.partial(found, **chosen)}
    try:
        got = eval(call, scope)
    except SpecgradError:
        return Outcome()
    except Exception as error:
        words = f"{call} raised {named(error)}: {words_of(error)}, which is no SpecgradError"
        return Outcome(words=words, part="exact")
    return Outcome(words=f"{call} gave {printable(type(got).__name__)} instead of an error", part="exact")
