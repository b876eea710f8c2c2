"""A difference in words: what was claimed, what is not so, a counterexample to paste, and the window it happens in."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import beyond
from .drawing import as_text, output_of, picture
from .runner import Cell, Difference

Array = np.ndarray[Any, Any]

CLAIM_WORDS = {
    "shape": "the shape formula",
    "dtype": "the input's dtype is kept",
    "value": "the value",
    "jvp": "the JVP",
    "vjp": "the VJP",
    "adjoint": "JVP and VJP are adjoint",
    "witness": "the derivative is that of the value (Dual witness)",
    "second": "second order",
    "padding": "the part that padding takes",
    "ties": "tied maxima",
    "nan": "NaN",
    "infinity": "infinities",
    "unmodified": "inputs are not modified",
    "deterministic": "equal calls give equal bits",
    "fixed": "the published answers",
    "refuses": "what does not fit is refused",
}


def array_words(array: Array) -> str:
    """An array as Python."""
    listed = repr(np.asarray(array).tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    kind = f"{'ml_dtypes' if array.dtype.kind == 'V' else 'np'}.{array.dtype.name}"
    return f"np.array({listed}, {kind})" if array.size else f"np.zeros({array.shape}, {kind})"


def finding(subject: str | None) -> str:
    """The Python that gets a subject back by the words it was named with, or a reminder where it was given as an object."""
    if subject is None:
        return "# subject: the one that is checked"
    if ":" in subject:
        return f"from specgrad.conformance.subject import load; subject = load({subject!r})"
    return f"from specgrad.conformance.subjects import named; subject = named({subject!r})"


def pasteable(difference: Difference, subject: str | None) -> str:
    """Python that shows the difference: the specification's answer and the subject's."""
    case, part = difference.case, difference.outcome.part
    if part == "exact":
        return f"# over exact scalars: {case!r}"
    if difference.title == beyond.TITLE:
        return beyond.PYTHON.format(finding=finding(subject))
    names = [slot.name for slot in case.op.slots[: len(case.operands)]]
    given = f"({', '.join(names)},)"
    lines = ["import numpy as np", "from specgrad import *", finding(subject), f"op = {case.op!r}"]
    if any(a.dtype.kind == "V" for a in case.operands):
        lines.insert(0, "import ml_dtypes")
    if "Fraction(" in repr(case.op):
        lines.insert(0, "from fractions import Fraction")
    lines += [f"{name} = {array_words(x)}" for name, x in zip(names, case.operands, strict=True)]
    calls = [("op(*inputs)", "subject.forward(op, inputs)")]
    lines.append(f"inputs = {given}")
    part = {"refused by jvp": "JVP", "refused by vjp": "VJP", "refused by second": "second"}.get(part, part)
    if part in ("JVP", "inner product") or part.startswith("second"):
        lines += [f"tangents = ({''.join(array_words(t) + ', ' for t in case.tangents)})"]
        calls = [("op.jvp(inputs, tangents)[1]", "subject.jvp(op, inputs, tangents)")]
    if part.startswith(("VJP", "second")) or part == "inner product":
        lines.append(f"cotangent = {array_words(case.cotangent)}")
        pulled = ("op.vjp(inputs, cotangent)", "subject.vjp(op, inputs, cotangent)")
        calls = [*calls, pulled] if part == "inner product" else [pulled]
    if part.startswith("second"):
        duals = "tuple(Dual(x, t) for x, t in zip(inputs, tangents))"
        calls = [
            (f"[p.tangent for p in op.vjp({duals}, cotangent)]", "subject.second(op, inputs, tangents, cotangent)")
        ]
    for ours, theirs in calls:
        if part != "refusal":
            lines.append(f"print({ours})  # expected" + _shown(difference.outcome.expected, calls))
        lines.append(f"print({theirs})  # got" + _shown(difference.outcome.got, calls))
    return "\n".join(lines)


def _shown(result: Any, calls: list[Any]) -> str:
    if result is None or isinstance(result, str) or len(calls) > 1:
        return ""
    listed = repr(np.asarray(result).tolist())
    return f": {listed}" if len(listed) < 120 else ""


def drawn(difference: Difference) -> str | None:
    """The window in which it happens, as text."""
    found = picture_of(difference)
    return None if found is None else as_text(found)


def picture_of(difference: Difference) -> Any:
    case, outcome = difference.case, difference.outcome
    if (
        outcome.part.startswith("refus")
        or outcome.part in ("shape", "exact")
        or not case.cotangent.size
        or not outcome.part
    ):
        return None
    output = output_of(case, outcome.part, outcome.cell)
    if output is None or len(output) != case.cotangent.ndim:
        return None
    try:
        return picture(case, output)
    except (ValueError, IndexError):
        return None


def sentence(cell: Cell, difference: Difference) -> str:
    """One line: who differs, on what, and how."""
    return f"{cell.subject}, {cell.operator}, {CLAIM_WORDS[cell.claim]}: {difference.outcome.words}"


def likeness(difference: Difference) -> str | None:
    """The convention or known bug that it looks like."""
    return None if difference.reading is None else f"looks like “{difference.reading}”: {difference.reading_words}"
