"""VNN-LIB, the property format of the verification competition: the parts of versions 1 and 2 that
the competition uses.

A property describes the inputs and outputs of counterexamples. It is read into alternatives: a box
of inputs, and linear constraints on outputs (and inputs) that must all hold. Numbers are kept
exactly as written.
"""

from __future__ import annotations

import gzip
import itertools
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ModelError, SpecgradError, refusal

TOKEN = re.compile(r";[^\n]*|\[[^\]]*\]|[()]|[^\s()\[\];]+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4})?")
MOST = 100_000  # alternatives
DEEPEST = 100

Variable = tuple[str, int]
"""("X" or "Y", flat index)."""


class Constraint(NamedTuple):
    """Σ coefficients·variables ≤ bound, or < if `strict`."""

    coefficients: dict[Variable, Fraction]
    bound: Fraction
    strict: bool = False

    def holds(self, x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
        """Whether exact inputs and outputs satisfy the constraint."""
        value = sum(
            (c * (x if kind == "X" else y)[place] for (kind, place), c in self.coefficients.items()), Fraction(0)
        )
        return value < self.bound if self.strict else value <= self.bound


@dataclass(frozen=True)
class Alternative:
    """A box of inputs, and the constraints of a counterexample in it."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True)
class Property:
    """The alternatives of a property: a counterexample satisfies one of them."""

    inputs: int
    outputs: int
    alternatives: tuple[Alternative, ...]


def bad(what: str, value: Any, rule: str, remedy: str) -> SpecgradError:
    return refusal(ModelError, "vnnlib", what, value, rule, remedy)


def read(source: str | Path) -> Property:
    """The property in a file, which may be compressed by gzip."""
    try:
        text = bytes_of(Path(source)).decode("utf-8")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise bad("file", str(source), f"cannot be read: {error}", "give a text file") from None
    try:
        return parse(text)
    except ModelError as error:
        words = str(error).removeprefix("vnnlib: ")
        raise bad("file", str(source), f"has a fault: {words}", "correct the file") from None


def bytes_of(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def parse(text: str) -> Property:
    """The property that a text states.

    >>> found = parse("(declare-const X_0 Real) (declare-const Y_0 Real) (assert (<= X_0 1.5))"
    ...               "(assert (>= X_0 -1)) (assert (<= Y_0 0))")
    >>> found.alternatives[0].upper, found.alternatives[0].constraints[0].bound
    ((Fraction(3, 2),), Fraction(0, 1))
    """
    reader = _Reader()
    formulas = [formula for statement in _statements(text) if (formula := reader.statement(statement)) is not None]
    always = [constraint for formula in formulas if isinstance(formula, list) for constraint in formula]
    cases: list[list[Constraint]] = [[]]
    for formula in formulas:
        if isinstance(formula, list):
            continue
        options = list(itertools.islice(_normal(formula), MOST + 1))
        if len(options) * len(cases) > MOST:
            raise bad("assertions", len(options) * len(cases), f"have more than {MOST} cases", "split the property")
        cases = [case + option for case in cases for option in options]
    counts = {kind: reader.count(kind) for kind in "XY"}
    common = _Case(always)
    found = tuple(a for case in cases if (a := _alternative(common, case, counts["X"])) is not None)
    return Property(counts["X"], counts["Y"], found)


def _statements(text: str) -> Iterator[Any]:
    """The text as nested lists of words, without comments."""
    stack: list[list[Any]] = [[]]
    for token in TOKEN.findall(text):
        if token.startswith(";"):
            continue
        if token == "(":
            stack.append([])
            if len(stack) > DEEPEST:
                raise bad("text", "(", f"is nested deeper than {DEEPEST}", "write a flatter property")
        elif token == ")":
            if len(stack) == 1:
                raise bad("text", ")", "closes nothing", "balance the parentheses")
            done = stack.pop()
            stack[-1].append(done)
        elif token.startswith("[") and stack[-1] and isinstance(stack[-1][-1], str):
            stack[-1][-1] += token  # X[0,1], or X [0,1]
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise bad("text", "(", "is never closed", "balance the parentheses")
    yield from stack[0]


class _Reader:
    """A parser of declarations and assertions, one after another."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[str, tuple[int, ...]]] = {}  # version 2: name -> (kind, shape)
        self.seen: dict[str, set[int]] = {"X": set(), "Y": set()}

    def count(self, kind: str) -> int:
        """The number of inputs ("X") or outputs ("Y")."""
        declared = [math.prod(shape) for k, shape in self.shapes.values() if k == kind]
        if len(declared) > 1:
            raise bad("declarations", len(declared), "one input and one output are read", "use a network of one each")
        places = self.seen[kind]
        count = declared[0] if declared else max(places, default=-1) + 1
        if count == 0 or (not declared and len(places) != count):
            raise bad("declarations", sorted(places)[:5], f"do not number all {kind} from 0", "declare every variable")
        return count

    def statement(self, words: Any) -> Any:
        """A formula, or None for a declaration."""
        if not isinstance(words, list) or not words:
            raise bad("statement", words, "is not a list", "write (assert …)")
        head = words[0]
        if head == "vnnlib-version":
            return None
        if head == "declare-const" and len(words) == 3:
            self._declare(words[1])
            return None
        if head == "declare-network":
            for part in words[2:]:
                self._tensor(part)
            return None
        if head == "assert" and len(words) == 2:
            return self.formula(words[1])
        raise bad("statement", head, "is not a statement of VNN-LIB", "write declare-const, declare-network or assert")

    def _declare(self, name: Any) -> None:
        match = re.fullmatch(r"([XY])_(\d{1,9})", name if isinstance(name, str) else "")
        if match is None:
            raise bad("variable", name, "is not X_i or Y_i", "name inputs X_0, X_1, … and outputs Y_0, …")
        self.seen[match[1]].add(int(match[2]))

    def _tensor(self, part: Any) -> None:
        kinds = {"declare-input": "X", "declare-output": "Y"}
        if not isinstance(part, list) or len(part) not in (3, 4) or part[0] not in kinds:
            raise bad("declaration", part, "is not an input or output", "write (declare-input X Real [1,3])")
        *words, last = part[1:]
        _, _, shape = str(last).partition("[")
        lengths = tuple(int(n) for n in re.findall(r"\d{1,9}", shape))
        self.shapes[words[0]] = kinds[part[0]], lengths

    def formula(self, words: Any) -> Any:
        """("and" | "or", parts), or a list of constraints that must all hold."""
        head = words[0] if isinstance(words, list) and words else words
        if head in ("and", "or"):
            return head, [self.formula(part) for part in words[1:]]
        if head in ("<=", "<", ">=", ">", "==", "=") and len(words) == 3:
            left, right = self.expression(words[1]), self.expression(words[2])
            found = [] if head in (">", ">=") else [_constraint(left, right, strict=head == "<")]
            return found if head in ("<", "<=") else [*found, _constraint(right, left, strict=head == ">")]
        raise bad("formula", words, "is not and, or, or a comparison", "write (<= expression expression)")

    def expression(self, words: Any) -> dict[Variable | None, Fraction]:
        """A linear expression: coefficients by variable, and the constant under None."""
        if isinstance(words, str):
            if NUMBER.fullmatch(words):
                return {None: Fraction(words)}
            return {self.variable(words): Fraction(1)}
        if isinstance(words, list) and len(words) > 1 and words[0] in ("+", "-", "*"):
            parts = [self.expression(part) for part in words[1:]]
            if words[0] == "*":
                return self._product(words, parts)
            first = parts[0] if len(parts) > 1 or words[0] == "+" else _times(parts[0], Fraction(-1))
            for part in parts[1:]:
                first = _plus(first, part, Fraction(1 if words[0] == "+" else -1))
            return first
        raise bad("expression", words, "is not a linear expression", "write +, -, * of numbers and variables")

    @staticmethod
    def _product(words: Any, parts: list[dict[Variable | None, Fraction]]) -> dict[Variable | None, Fraction]:
        made: dict[Variable | None, Fraction] = {None: Fraction(1)}
        for part in parts:
            numbers = [p.get(None, Fraction(0)) if set(p) <= {None} else None for p in (made, part)]
            if numbers[1] is not None:
                made = _times(made, numbers[1])
            elif numbers[0] is not None:
                made = _times(part, numbers[0])
            else:
                raise bad("expression", words, "multiplies variables", "write linear constraints")
        return made

    def variable(self, word: str) -> Variable:
        name, _, index = word.partition("[")
        if name in self.shapes:
            kind, shape = self.shapes[name]
            places = [int(n) for n in re.findall(r"\d{1,9}", index)]
            places = places or [0] * len(shape)
            if len(places) == 1 and not shape:
                places = []
            if len(places) != len(shape) or any(p >= n for p, n in zip(places, shape, strict=True)):
                raise bad("variable", word, f"is not in {name} of shape {shape}", "write one index per axis")
            flat = 0
            for place, length in zip(places, shape, strict=True):
                flat = flat * length + place
            return kind, flat
        match = re.fullmatch(r"([XY])_(\d{1,9})", word)
        if match is None or int(match[2]) not in self.seen[match[1]]:
            raise bad("variable", word, "is not declared", "declare it first: (declare-const X_0 Real)")
        return match[1], int(match[2])


def _times(expression: dict[Variable | None, Fraction], factor: Fraction) -> dict[Variable | None, Fraction]:
    return {variable: c * factor for variable, c in expression.items()}


def _plus(one: dict[Variable | None, Fraction], other: dict[Variable | None, Fraction], sign: Fraction) -> Any:
    made = dict(one)
    for variable, c in other.items():
        made[variable] = made.get(variable, Fraction(0)) + sign * c
    return made


def _constraint(left: Any, right: Any, strict: bool) -> Constraint:
    """The constraint left ≤ right, or < if `strict`."""
    both = _plus(left, right, Fraction(-1))
    bound = -both.pop(None, Fraction(0))
    return Constraint({v: c for v, c in both.items() if c}, bound, strict)


def _normal(formula: Any) -> Iterator[list[Constraint]]:
    """The cases of a formula, each a list of constraints that must all hold."""
    if isinstance(formula, list):
        yield formula
    elif formula[0] == "or":
        for part in formula[1]:
            yield from _normal(part)
    else:
        for parts in itertools.product(*(list(itertools.islice(_normal(part), MOST + 1)) for part in formula[1])):
            yield [constraint for part in parts for constraint in part]


class _Case:
    """Constraints that must all hold, as a box of inputs and the other constraints."""

    def __init__(self, constraints: Sequence[Constraint], common: _Case | None = None) -> None:
        self.lower: dict[int, Fraction] = {} if common is None else dict(common.lower)
        self.upper: dict[int, Fraction] = {} if common is None else dict(common.upper)
        self.others: list[Constraint] = [] if common is None else list(common.others)
        for constraint in constraints:
            if len(constraint.coefficients) == 1:
                (((kind, place), c),) = constraint.coefficients.items()
                if kind == "X":
                    ends, pick = (self.upper, min) if c > 0 else (self.lower, max)
                    value = constraint.bound / c
                    ends[place] = pick(ends[place], value) if place in ends else value
                    if not constraint.strict:
                        continue
            self.others.append(constraint)


def _alternative(common: _Case, constraints: list[Constraint], inputs: int) -> Alternative | None:
    """The box and the other constraints of a case; None if the box is empty."""
    case = _Case(constraints, common)
    for side, found in (("lower", case.lower), ("upper", case.upper)):
        if len(found) < inputs:
            missing = min(set(range(inputs)) - set(found))
            raise bad("variable", f"X_{missing}", f"has no {side} bound", "bound every input")
    lower, upper = (tuple(found[place] for place in range(inputs)) for found in (case.lower, case.upper))
    return (
        Alternative(lower, upper, tuple(case.others))
        if all(a <= b for a, b in zip(lower, upper, strict=True))
        else None
    )
