"""What an operator is: operands, geometry, value and row. Both derivatives follow from the row.

A *row* is the sparse Jacobian row of an output cell: one entry for each operand cell it depends on,
with the slope there. JVP gathers with the row and VJP scatters with the same row, so they are
adjoint by construction; the row itself is witnessed by Dual numbers pushed through `value`. Who
computes all this is not decided here but in `dispatch`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast, dataclass_transform

import numpy as np

from . import dispatch
from .arguments import LONGEST, bounded, integer, is_sequence, one_each
from .caches import cached_property
from .errors import ArgumentError, ShapeError, UndeclaredError, refusal
from .geometry import Block, Geometry, Shape, Step
from .scalars import as_operand, refuse_masked
from .scalars.base import Cells, Family, Mask, refuse_nested

RULES: dict[str, Any] = {}
"""How a derivative is an operator again: entered by `derive`, which is built on this module."""


ARRAYS = frozenset({np.ndarray})

STATEMENT = ("value", "row", "geometry", "output_shape", "function", "slopes", "move")
"""The methods by which a class states its operator; the last three are those of pointwise and of
shape operators."""

HINTS = ("curvature", "factors", "keeps", "pointwise", "alias", "adjoint", "second_jvp", "second_vjp")
"""What a class says about its statement so that less has to be computed. Without a hint every
answer is the same."""


class Slot(NamedTuple):
    """An operand's place: its name, whether a derivative reaches it, whether it may be left out,
    and whether it holds indices."""

    name: str
    differentiable: bool = True
    optional: bool = False
    integer: bool = False
    """Whole numbers of NumPy (labels), whatever scalar the other operands have."""


class Entry(NamedTuple):
    """One entry of a row, for all output cells of a window at once.

    The slope in cell `place` of operand `slot` is times/over (1 where they are None) where
    `present` (None: everywhere), and absent elsewhere: an absent slope is selected away, never
    multiplied.
    """

    slot: int
    place: Any
    present: Mask | None
    times: Cells | None = None
    over: Cells | None = None

    def apply(self, S: Family, cells: Cells) -> Cells:
        """slope * cells, and 0 where the slope is absent."""
        if self.times is not None:
            cells = cells * self.times
        if self.over is not None:
            cells = S.divide(cells, self.over)
        return cells if self.present is None else S.where(self.present, cells, S.constant(0))


class Tap:
    """One tap of every output cell of a window: the two masks, and the operands' cells it reads."""

    __slots__ = ("exists", "place", "real", "window")

    def __init__(self, window: Window, step: Step) -> None:
        self.window = window
        self.place, self.real, self.exists = step

    def cells(self, slot: int) -> Cells:
        """The operand's cells under this tap (any real cell where the tap is padding)."""
        return self.window.scalars.take(self.window.operands[slot], self.place[slot])

    @property
    def x(self) -> Cells:
        """The first operand's cells under this tap, 0 where the tap is padding."""
        S = self.window.scalars
        return S.where(self.real, self.cells(0), S.constant(0))

    def entry(self, slot: int, present: Mask | None, times: Cells | None = None, over: Cells | None = None) -> Entry:
        """An entry of the row at the cell that this tap reads."""
        return Entry(slot, self.place[slot], present, times, over)


class Window:
    """The windows of a block of output cells: iterate over their taps in row-major order."""

    def __init__(self, scalars: Family, block: Block, operands: Sequence[Cells]) -> None:
        self.scalars = scalars
        self.block = block
        self.operands = operands
        self.size = block.size
        self.everywhere = np.ones(block.size, np.bool_)

    def __iter__(self) -> Iterator[Tap]:
        return (Tap(self, step) for step in self.block.steps())


class _Undeclared:
    """A class attribute that every operator class must declare: reading it without says how."""

    def __init__(self, example: str) -> None:
        self.example = example

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, holder: Any, owner: type) -> Any:
        remedy = f"write `{self.name}: ClassVar = {self.example}` in the class"
        rule = "an operator class must declare it"
        raise refusal(UndeclaredError, owner.__name__, self.name, None, rule, remedy)


T = TypeVar("T")


class Converter(NamedTuple):
    """How a parameter is stored: as `convert(operator's name, parameter's name, value, *rules)`
    returns it."""

    convert: Callable[..., Any]
    rules: tuple[Any, ...]
    spatial: bool
    """Whether `convert` takes the number of spatial axes too, before the rules."""
    optional: bool
    """Whether None is stored as it is."""


def parameter(
    convert: Callable[..., Any], *rules: Any, default: Any = dataclasses.MISSING, spatial: bool = False
) -> Any:
    """A parameter that is stored as `convert(operator's name, parameter's name, value, *rules)`
    returns it; None stays None where it is the default.

    With `spatial`, `convert` takes the operator's `spatial_rank()` before the rules.
    """
    converter = Converter(convert, rules, spatial, optional=default is None)
    return dataclasses.field(default=default, metadata={"converter": converter})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(parameter,))
def operator(declared: type[T]) -> type[T]:
    """The class of an operator: a frozen dataclass of its parameters; Operator has equality, hash
    and repr."""
    return dataclasses.dataclass(frozen=True, eq=False, repr=False)(declared)


@operator
class Operator(ABC):
    """A frozen, hashable operator: call it, or take its `jvp` and `vjp`; its repr can be pasted
    back."""

    name: ClassVar[str] = cast(str, _Undeclared('"my_operator"'))
    slots: ClassVar[tuple[Slot, ...]] = cast(Any, _Undeclared('(Slot("x"),)'))
    needs: ClassVar[tuple[str, ...]] = ()
    """What the value needs of a scalar beyond + - *: "real" (an order), "reals" (none, but no
    complex numbers), "division", "exp"."""
    curvature: ClassVar[str] = "any"
    """How the slopes vary: "none" (a linear operator), "piecewise_linear" (they jump and are
    constant between), "multilinear" (linear in each of the slots `factors` apart, the optional ones
    being added to that), or "any", of which nothing is known."""
    factors: ClassVar[tuple[int, ...]] = ()
    keeps: ClassVar[bool] = True
    """Whether the row needs anything of the forward computation."""
    pointwise: ClassVar[bool] = False
    """Whether an output cell reads, of operands that have the output's shape, only the cell at its
    own place."""
    alias: ClassVar[bool] = False
    """Whether the value is the operand's memory under another shape."""
    derived: ClassVar[bool] = False
    """Whether this is a derivative of another operator, evaluated through it (see `derive`)."""
    _converters: ClassVar[dict[str, Converter]] = {}
    """How parameters are stored, in the order in which they are refused."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Collect how parameters are stored, and drop inherited hints where the class overrides the
        statement that they were about."""
        super().__init_subclass__(**options)
        cls._converters = _collected(cls)
        for hint in HINTS:
            giver = next(base for base in cls.__mro__ if hint in vars(base))
            if giver is not Operator and any(_overrides(cls, giver, method) for method in STATEMENT):
                setattr(cls, hint, vars(Operator)[hint])

    if not TYPE_CHECKING:  # to whom it would hide the parameters

        def __new__(cls, *_, **__):
            """Refuse a class whose parameters no dataclass collects."""
            if "__dataclass_fields__" not in cls.__dict__:
                _check_class(cls)
            return super().__new__(cls)

    def __post_init__(self) -> None:
        """Store the parameters in their normal form."""
        if not self._converters:
            return
        state = self.__dict__
        for field, (convert, rules, spatial, optional) in self._converters.items():
            value = state[field]
            if spatial and (value is not None or not optional):
                state[field] = convert(self.name, field, value, self.spatial_rank(), *rules)
            elif value is not None or not optional:
                state[field] = convert(self.name, field, value, *rules)

    def _set(self, **normal: Any) -> None:
        """Store parameters in their normal form, while the frozen object is being made."""
        for field, value in normal.items():
            object.__setattr__(self, field, value)

    def spatial_rank(self) -> int:
        """How many spatial axes there are: `spatial` parameters have an entry for each."""
        return 0

    @abstractmethod
    def output_shape(self, *shapes: Shape) -> Shape:
        """The output's shape for operands of these shapes; refuses operands that do not fit."""

    @abstractmethod
    def geometry(self, *shapes: Shape) -> Geometry:
        """Which operand cells each output cell reads; refuses operands that do not fit."""

    @abstractmethod
    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        """The output cells of a window, and what the row keeps of the computation (None:
        nothing)."""

    @abstractmethod
    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        """The entries of the Jacobian row, in the order in which a JVP adds them."""

    def check(self, operands: Sequence[Any]) -> None:  # noqa: B027 - most operators take any number
        """Refuse arrays whose numbers this operator does not take (labels that are no class)."""

    def reads(self, slot: int) -> frozenset[int]:
        """The slots whose numbers the slopes in `slot` depend on; of the others they depend on the
        shape alone."""
        if self.curvature == "none":
            return frozenset()
        if self.curvature == "multilinear":
            return frozenset(self.factors) - {slot} if slot in self.factors else frozenset()
        return frozenset(range(len(self.slots)))

    def tangent(self, operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The output's tangent as operators applied to operands and tangents, so that it can be
        recorded; None is zero."""
        return RULES["jvp"](self, operands, (tangents,))

    def cotangent(self, slot: int, operands: Sequence[Any], cotangent: Any) -> Any:
        """An operand's cotangent as operators applied to operands and cotangent, so that it can be
        recorded; None is zero."""
        return RULES["vjp"](self, slot, operands, cotangent, ())

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        """A linear operator's cotangent by simpler operators; NotImplemented if nobody wrote it
        down."""
        return NotImplemented

    def second_jvp(self, operands: Sequence[Any], one: Sequence[Any], other: Sequence[Any]) -> Any:
        """The second derivative along two directions, in first derivatives; NotImplemented if
        nobody wrote it down."""
        return NotImplemented

    def second_vjp(self, slot: int, operands: Sequence[Any], cotangent: Any, along: Sequence[Any]) -> Any:
        """The derivative of `cotangent` along a direction, in first derivatives; NotImplemented if
        nobody wrote it down."""
        return NotImplemented

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The value, in the kind of array that the operands are; written into `out` where one is
        given."""
        complete = len(operands) == len(self.slots) and operands[-1] is not None
        return dispatch.forward(self, operands if complete else self._given(operands), out)

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Value and directional derivative: (y, dy) with dy = Σ slope·dx. A tangent of None is
        zero."""
        if (both := _at_once("jvp", self, operands, tangents)) is not NotImplemented:
            return cast(tuple[Any, Any], both)
        given, moved = self._given(operands), one_each(self.name, "tangents", tangents)
        if len(moved) != len(given) and (
            len(moved) != len(operands) or any(t is not None for t in moved[len(given) :])
        ):
            rule = f"{len(given)} operands need as many tangents"
            raise refusal(ShapeError, self.name, "tangents", len(moved), rule, "give one per operand, None for zero")
        for slot, operand, tangent in zip(self.slots, given, moved, strict=False):
            if tangent is not None and not are_alike(tangent, operand):
                self._fits(f"tangent of {slot.name}", tangent, shape_of(self.name, slot.name, operand))
        return dispatch.jvp(self, given, moved[: len(given)])

    def vjp(self, operands: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        """One cotangent per operand, each Σ slope·gy over the outputs that read it; None where no
        derivative reaches."""
        if (found := _at_once("vjp", self, operands, (cotangent,))) is not NotImplemented:
            return cast(tuple[Any, ...], found)
        given = self._given(operands)
        if ARRAYS.issuperset(map(type, given)):
            shape = output_shape(self, tuple([operand.shape for operand in given]))
        else:
            slots = zip(self.slots, given, strict=False)
            shape = self.output_shape(*[shape_of(self.name, slot.name, operand) for slot, operand in slots])
        if type(cotangent) is not np.ndarray or cotangent.shape != shape:
            self._fits("cotangent", cotangent, shape)
        pulled = dispatch.vjp(self, given, cotangent)
        return pulled if len(given) == len(operands) else (*pulled, *[None] * (len(operands) - len(given)))

    def _given(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The operands, without the optional ones that are None."""
        given = one_each(self.name, "operands", operands)
        if len(given) == len(self.slots) and given[-1] is not None:
            return given
        required = sum(not slot.optional for slot in self.slots)
        while required < len(given) <= len(self.slots) and given[-1] is None:
            given = given[:-1]
        if not required <= len(given) <= len(self.slots):
            names = ", ".join(slot.name + ("=None" if slot.optional else "") for slot in self.slots)
            raise refusal(ShapeError, self.name, "operands", len(given), f"takes ({names})", "give these operands")
        return given

    def _fits(self, argument: str, given: Any, shape: Shape) -> None:
        if type(given) is not np.ndarray:
            refuse_masked(self.name, argument, given)
        if shape_of(self.name, argument, given) != shape:
            raise refusal(
                ShapeError, self.name, argument, given, f"must have shape {shape}", "reshape or broadcast it first"
            )

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._parameters == other._parameters)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        """What tells it from others of its kind: its fields, and whatever else a class stores in
        its operators."""
        return self.__getstate__()

    @cached_property
    def _hash(self) -> int:
        """Found once: engines look up by operator what they know of a call."""
        try:
            return hash((type(self), *self._parameters.values()))
        except TypeError:
            field, value = next((f, v) for f, v in self._parameters.items() if not _is_hashable(v))
            rule, remedy = "a parameter of an operator must be hashable", "store a tuple, or pass arrays as operands"
            raise refusal(ArgumentError, self.name, field, type(value).__name__, rule, remedy) from None

    def __getstate__(self) -> dict[str, Any]:
        """All but what is remembered: a hash differs from process to process."""
        return {name: value for name, value in vars(self).items() if name not in ("_hash", "_parameters")}

    def with_defaults(self) -> Self:
        """The operator with the same required parameters, and the default of every other one."""
        missing = dataclasses.MISSING
        return type(self)(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.default is missing})

    def __repr__(self) -> str:
        """Required parameters, then those that differ from their defaults, as -0.0 does from 0."""
        plain = self.with_defaults()
        words = [
            repr(getattr(self, f.name)) if not f.kw_only else f"{f.name}={getattr(self, f.name)!r}"
            for f in sorted(dataclasses.fields(self), key=lambda f: f.kw_only is True)
            if f.default is dataclasses.MISSING or repr(getattr(self, f.name)) != repr(getattr(plain, f.name))
        ]
        return f"{type(self).__name__}({', '.join(words)})"


def _collected(cls: type) -> dict[str, Converter]:
    """The converters of a class's parameters, in the order in which arguments are refused.

    An operator, which has a name, comes after its bases. A class without a name is a part of
    operators, such as a window, and comes before its bases.
    """
    own, inherited = _declared(vars(cls)), dict[str, Converter]()
    for base in cls.__bases__:
        theirs = getattr(base, "_converters", None) or _declared(getattr(base, "__dataclass_fields__", {}))
        for field, converter in theirs.items():
            inherited[field] = inherited.pop(field, converter)  # what two bases share comes after both
    return {**inherited, **own} if "name" in vars(cls) else {**own, **inherited, **own}


def _declared(attributes: Mapping[str, Any]) -> dict[str, Converter]:
    """The converters of those attributes that are fields with one."""
    fields = {name: field for name, field in attributes.items() if isinstance(field, dataclasses.Field)}
    return {name: field.metadata["converter"] for name, field in fields.items() if "converter" in field.metadata}


def _overrides(cls: type, giver: type, method: str) -> bool:
    """Whether a class has another method than the class that gave a hint about it."""
    stated = getattr(giver, method, None)
    abstract = stated is None or getattr(stated, "__isabstractmethod__", False)
    return not abstract and getattr(cls, method) is not stated


def _check_class(cls: type[Operator]) -> None:
    """Refuse a class with annotated parameters that is not a dataclass."""
    for base in cls.__mro__[: cls.__mro__.index(Operator)]:
        own = [name for name, kind in inspect.get_annotations(base).items() if "ClassVar" not in str(kind)]
        if own and "__dataclass_fields__" not in vars(base):
            rule = "is annotated as a parameter, but its class is not a dataclass"
            remedy = f"write @dataclass(frozen=True, eq=False, repr=False) above class {base.__name__}"
            raise refusal(ArgumentError, cls.__name__, own[0], base.__name__, rule, remedy)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def are_alike(tangent: Any, operand: Any) -> bool:
    """Whether both are arrays of NumPy of the same shape."""
    return type(tangent) is type(operand) is np.ndarray and tangent.shape == operand.shape


def shape_of(name: str, argument: str, operand: Any) -> Shape:
    """The shape of an array, a Var, a Dual, a number or a nested list."""
    if type(operand) is np.ndarray:
        own: Shape = operand.shape
        return own
    refuse_nested(name, argument, operand)
    shape = getattr(operand, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else tuple(as_operand(name, argument, operand).shape)


@functools.lru_cache(maxsize=256)
def output_shape(op: Operator, shapes: tuple[Shape, ...]) -> Shape:
    """An operator's output shape, remembered: for shapes of arrays, whose lengths are exact
    integers."""
    return op.output_shape(*shapes)


def _at_once(rule: str, op: Operator, operands: Sequence[Any], directions: Sequence[Any]) -> Any:
    """The result of a shortcut for a lone operand and its tangent or cotangent, or
    NotImplemented."""
    if type(operands) is not tuple or len(operands) != 1 or type(directions) is not tuple or len(directions) != 1:
        return NotImplemented
    run = dispatch.shortcuts.get((rule, type(operands[0])))
    return NotImplemented if run is None else run(op, operands[0], directions[0])


def checked_shapes(op: Operator, shapes: tuple[Any, ...]) -> tuple[Shape, ...]:
    """The shapes of an operator's operands, as many as it takes and made of lengths."""
    required = sum(not slot.optional for slot in op.slots)
    if not required <= len(shapes) <= len(op.slots):
        names = ", ".join(slot.name for slot in op.slots)
        rule = f"takes the shapes of ({names}), of which {required} are required"
        raise refusal(ShapeError, op.name, "shapes", len(shapes), rule, "give one shape per operand")
    for slot, shape in zip(op.slots, shapes, strict=False):
        if not is_sequence(shape):
            rule = f"must be a tuple of lengths, got {type(shape).__name__}"
            raise refusal(ShapeError, op.name, f"shape of {slot.name}", shape, rule, "give one length per axis")
        bounded(op.name, f"shape of {slot.name}", shape)
    return tuple(
        tuple(integer(op.name, f"shape of {slot.name}", n, 0, axis, shape, LONGEST) for axis, n in enumerate(shape))
        for slot, shape in zip(op.slots, shapes, strict=False)
    )
