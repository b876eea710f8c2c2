"""A difference in words: the counterexample as a Python script to paste, and a picture of its
window."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..drawing.window import Picture, picture
from . import huge_case
from .cases import Case
from .compare import Outcome

Array = np.ndarray[Any, Any]

OURS = {
    "forward": "op(*inputs)",
    "jvp": "op.jvp(inputs, tangents)[1]",
    "vjp": "op.vjp(inputs, cotangent)",
    "second": "[moved.tangent for moved in op.vjp(duals, cotangent)]",
    "bounds": "op(*inputs)",
}
GIVEN = {"jvp": ", tangents", "vjp": ", cotangent", "second": ", tangents, cotangent", "bounds": ", radius"}
THEIRS = {method: f"subject.{method}(op, inputs{GIVEN.get(method, '')})" for method in OURS}
"""The expressions by which the specification and a subject compute a result."""
DUALS = "duals = tuple(Dual(x, t) for x, t in zip(inputs, tangents))"
INNER = "inner = lambda a, b: float(np.sum(np.asarray(a, float) * np.asarray(b, float)))"


def array_words(array: Array) -> str:
    """An array as a Python expression."""
    listed = repr(np.asarray(array).tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    kind = f"{'ml_dtypes' if array.dtype.kind == 'V' else 'np'}.{array.dtype.name}"
    return f"np.array({listed}, {kind})" if array.size else f"np.zeros({array.shape}, {kind})"


def finding(subject: Any) -> str:
    """The Python line that makes `subject`: from its place, its known name, or the module that has
    it."""
    from . import subjects

    place = getattr(subject, "place", None) or subject.name
    if ":" in place:
        return f"from specgrad.conformance.subject import load; subject = load({place!r})"
    if any(place.startswith(name) for name in subjects.NAMES):
        return f"from specgrad.conformance.subjects import named; subject = named({place!r})"
    own = getattr(subject, "subject", subject)  # the subject itself, if `subject` is a handle
    home = getattr(own, "__module__", type(own).__module__)
    for name, thing in vars(sys.modules[home]).items() if home in sys.modules else ():
        if thing is own:
            return f"from {home} import {name} as subject"
    return "# subject: the one that is checked"


def imports(case: Case, *names: str) -> list[str]:
    """The imports of a case's script: by name, since some names of specgrad are also Python's."""
    return [
        *["from fractions import Fraction"] * ("Fraction(" in repr(case.op)),
        *["import ml_dtypes"] * any(a.dtype.kind == "V" for a in case.operands),
        "import numpy as np",
        f"from specgrad import {', '.join([type(case.op).__name__, *names])}",
    ]


def pasteable(case: Case, claim: str, outcome: Outcome, subject: Any) -> str:
    """A Python script that prints the specification's answer and the subject's."""
    if not case.operands:
        return huge_case.PYTHON.format(finding=finding(subject))
    shown = list(_shown(claim, outcome))
    code = "\n".join(shown)
    names = [slot.name for slot in case.op.slots[: len(case.operands)]]
    lines = [*imports(case, *["Dual"] * ("duals" in code)), finding(subject), f"op = {case.op!r}"]
    lines += [f"{name} = {array_words(x)}" for name, x in zip(names, case.operands, strict=True)]
    lines.append(f"inputs = ({', '.join(names)},)")
    if "tangents" in code or "duals" in code:
        lines.append(f"tangents = ({''.join(array_words(t) + ', ' for t in case.tangents)})")
    if "radius" in code:
        lines.append(f"radius = {array_words(np.full_like(case.operands[0], 0.125))}")
    if "cotangent" in code:
        lines.append(f"cotangent = {array_words(case.cotangent)}")
    return "\n".join([*lines, *([DUALS] if "duals" in code else []), *shown])


def _shown(claim: str, outcome: Outcome) -> Iterator[str]:
    """The lines that print the expected and the found result."""
    method = _method(outcome.part)
    ours, theirs = OURS[method], THEIRS[method]
    if claim == "unmodified":
        given = {"forward": "[*inputs]", "jvp": "[*inputs, *tangents]", "vjp": "[*inputs, cotangent]"}[method]
        yield f"given = {given}; before = [repr(op), *(a.tobytes() for a in given)]"
        yield theirs
        yield (
            "print([a == b for a, b in zip(before, [repr(op), *(a.tobytes() for a in given)])])  # expected: "
            "True everywhere"
        )
    elif claim == "deterministic":
        yield f"print({theirs})  # once{_listed(outcome.expected)}"
        yield f"print({theirs})  # and again{_listed(outcome.got)}"
    elif outcome.part == "inner products":
        yield INNER
        if claim == "adjoint":
            yield f"print(inner({THEIRS['jvp']}, cotangent))  # ⟨JVP(dx), g⟩"
        else:
            yield (
                "print(inner(op(*duals).tangent, cotangent))  # ⟨dy, g⟩, where dy is what Dual numbers find in "
                "the value"
            )
        yield (
            f"print(sum(inner(t, p) for t, p in zip(tangents, {THEIRS['vjp']})))  # ⟨dx, VJP(g)⟩: "
            "expected to be the same"
        )
    elif claim == "refuses":
        yield f"print({theirs})  # got{_listed(outcome.got)}, where an error is expected"
    else:
        made = {"witness": "op(*duals).tangent"}.get(claim, ours)
        form = {"shape": "np.shape({})", "dtype": "np.asarray({}).dtype"}.get(outcome.part.partition(" ")[0], "{}")
        if (
            form == "{}"
            and outcome.got is not None
            and str(np.asarray(outcome.expected)) == str(np.asarray(outcome.got))
        ):
            form = "np.asarray({}).tolist()"  # all digits
        if form != "{}" and method in ("vjp", "second"):
            form = f"[{form.format('p')} for p in {{}}]"
        yield f"print({form.format(made)})  # expected{_listed(outcome.expected)}"
        if outcome.refused:
            words = " ".join(str(outcome.words).split())[:120]
            raises = outcome.part.startswith("refused") and not words.startswith(f"{method} returned")
            yield f"print({theirs})  # {'raises ' * raises}{words}"
        else:
            yield f"print({form.format(theirs)})  # got{_listed(outcome.got)}"


def _method(part: str) -> str:
    """The method whose result has a part, in the words of `Outcome.part`."""
    words = {"JVP": "jvp", "VJP": "vjp", "second": "second", **{method: method for method in THEIRS}}
    return next((method for word, method in words.items() if word in part.split()), "forward")


def _listed(result: Any) -> str:
    if result is None or isinstance(result, str):
        return ""
    listed = repr(np.asarray(result).tolist())
    return f": {listed}" if len(listed) < 120 else ""


def picture_of(case: Case, outcome: Outcome) -> Picture | None:
    """The window in which a difference occurs; None if there is none to draw."""
    part = outcome.part
    if (
        outcome.refused
        or part.startswith(("refus", "shape", "dtype", "arguments", "repeated"))
        or part in ("exact", "beyond", "")
    ):
        return None
    output = output_of(case, part, outcome.cell) if case.cotangent.size else None
    if output is None or len(output) != case.cotangent.ndim:
        return None
    try:
        return picture(case.op, case.operands, output)
    except (ValueError, IndexError):
        return None


def output_of(case: Case, part: str, cell: tuple[int, ...]) -> tuple[int, ...] | None:
    """The output cell to draw for a difference: the cell itself, or for a cotangent an output that
    reads the cell."""
    if not case.cotangent.size:
        return None
    if part.startswith("VJP of x") and len(cell) == case.operands[0].ndim:
        op: Any = case.op
        moved = [np.zeros(x.shape) for x in case.operands]
        moved[0][cell] = 1
        geometry = op.geometry(*(x.shape for x in case.operands))
        flat = int(np.ravel_multi_index(cell, case.operands[0].shape)) if cell else 0
        reads = np.zeros(geometry.outputs, bool)
        for step in geometry.block(0, geometry.outputs).steps():
            reads |= step.real & (step.place[0] == flat)
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(reads)), case.cotangent.shape))
    if len(cell) == case.cotangent.ndim and all(i < n for i, n in zip(cell, case.cotangent.shape, strict=True)):
        return cell
    return (0,) * case.cotangent.ndim
