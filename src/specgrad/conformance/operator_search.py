"""The cases of a user's operator: drawn as plain data from what is known of it, tried where it is,
and shrunk by Hypothesis."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from . import exact
from .case import integers, nonzero, positive
from .cases import planes, sliding_axes, sliding_parameters, up_to
from .cells import Cell, Difference
from .compare import Outcome
from .messages import array_words
from .search import drawn, search
from .shrink import TimeUp
from .trial import Crashed
from .user_operators import JUDGES, Description, Drawn, Verdict, judge, refuses, wrong


@st.composite
def drawings(draw: st.DrawFn, known: Description) -> Drawn:
    """Cases of an operator that is described so."""
    parameters: dict[str, Any] = {}
    if known.made and known.window in ("sliding", "adaptive", "whole"):
        shapes = [draw(_around(known))]
    elif known.window == "sliding":
        axes = draw(sliding_axes(draw(st.integers(0, 3))))
        shape, at = draw(planes([axis.size for axis in axes]))
        parameters = {**sliding_parameters(axes), "ceil_mode": bool(axes and axes[0].ceil_mode), "axes": at}
        shapes = [shape]
    elif known.window in ("adaptive", "whole"):
        sizes = draw(up_to(5))
        shape, at = draw(planes(sizes))
        lengths = tuple(draw(st.none() | st.integers(0, 6)) for _ in sizes)
        own = (
            {"output_size": lengths}
            if known.window == "adaptive"
            else {"rank": len(sizes), "keepdims": draw(st.booleans())}
        )
        parameters, shapes = {**own, "axes": at}, [shape]
    else:
        shape = tuple(draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3), max_size=3)))
        shapes = [shape, *(_broadcast(draw, shape) for _ in range(known.slots - 1))]
    if "axes" in parameters and parameters["axes"] == tuple(range(len(shapes[0])))[-len(parameters["axes"] or ()) :]:
        parameters["axes"] = None
    domain = draw(st.sampled_from([lambda x: x, lambda x: x, nonzero, positive]))
    # a pattern that is repeated, so that shapes shrink without their cells
    operands, tangents = (tuple(np.resize(integers(draw, (13,)), shape) for shape in shapes) for _ in range(2))
    operands = tuple(map(domain, operands))
    choices = {name: draw(st.integers(0, len(values) - 1)) for name, values in known.options.items()}
    return Drawn(parameters, choices, operands, tangents, tuple(integers(draw, (7,)).tolist()))


@st.composite
def _around(draw: st.DrawFn, known: Description) -> tuple[int, ...]:
    """The shape of an operand of an operator whose axes are given."""
    rank = len(known.least)
    most = max((a + 1 if a >= 0 else -a for a in known.axes or ()), default=rank)
    ndim = max(most, rank) + draw(st.integers(0, 2))
    shape = [draw(st.integers(1, 2)) for _ in range(ndim)]
    for least, p in zip(known.least, known.axes or range(-rank, 0), strict=True):
        shape[p] = least + draw(st.integers(0, 3))
    return tuple(shape)


def _broadcast(draw: st.DrawFn, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(draw(st.sampled_from([n, n, 1])) for n in shape[draw(st.integers(0, len(shape))) :])


RESULTS = "(op(*inputs), *op.jvp(inputs, tangents), *op.vjp(inputs, cotangent))"
SHOWN = {
    **exact.SHOWN,
    "shape": [
        f"print([np.shape(r) for r in {RESULTS}])",
        "print([*[np.shape(cotangent)] * 3, *map(np.shape, inputs)])  # expected to be the same",
    ],
    "second": [
        "pulled = lambda *xs: vjp(lambda *ys: op(*ys), *xs)[1](cotangent)",
        "print(jvp(pulled, inputs, tangents)[1])  # by transforms, which trust the hints of the class",
        "duals = tuple(Dual(x, t) for x, t in zip(inputs, tangents))",
        "print([p.tangent for p in op.vjp(duals, cotangent)])  # expected to be the same: by the row over Duals",
        "twice = op(*(Dual(d, Dual(t, t * 0)) for d, t in zip(duals, tangents)))",
        "print(twice.tangent.tangent)  # along the tangents: by the value alone",
    ],
    "dtype": [f"print([r.dtype for r in {RESULTS} if r is not None])  # expected: float32 everywhere"],
    "value": [
        "print(op(*inputs), op.jvp(inputs, tangents))",
        'with engine("reference"):',
        "    print(op(*inputs), op.jvp(inputs, tangents))  # expected to be the same",
    ],
    "deterministic": [f"print({RESULTS})", f"print({RESULTS})  # expected to be the same"],
    "unmodified": [
        "before = [a.copy() for a in (*inputs, *tangents, cotangent)]",
        "op(*inputs), op.jvp(inputs, tangents), op.vjp(inputs, cotangent)",
        "print([np.array_equal(a, b) for a, b in zip(before, (*inputs, *tangents, cotangent))])  # expected: "
        "True everywhere",
    ],
}
GUESSES = 4
"""How many cases are drawn for each that is wanted: a class may refuse most of the values that the
types of its parameters suggest."""
EXACT = ("shape", "adjoint", "witness", "second")


def pasteable(known: Description, place: str, case: Drawn, claim: str, call: str = "") -> str:
    """Python that shows how an operator breaks a claim, or takes a call that it should refuse."""
    exactly = claim in EXACT
    scalar = known.scalar if exactly else "float" if claim == "refuses" else "np.float32"
    shown = SHOWN.get(claim, [f"print({call})  # expected: an error"])
    code = "\n".join(['with engine("reference"):', *(f"    {line}" for line in shown)] if exactly else shown)
    names = [name for name in ("Dual", "engine", "jvp", "vjp") if re.search(rf"(?<![.\w]){name}\(", code)]
    lines = [f"from {'decimal' if scalar == 'Decimal' else 'fractions'} import {scalar}"] if exactly else []
    lines += ["import numpy as np", *([f"from specgrad import {', '.join(names)}"] if names else [])]
    lines += ["from specgrad.conformance.subject import load"]
    lines += (
        [f"op = load({place!r})"]
        if known.made
        else [f"{known.operator} = load({place!r})", f"op = {known.making(case)}"]
    )
    lines.append(f"number = np.vectorize({scalar}, otypes=[{'object' if exactly else scalar}])")
    for name, group in (("inputs", case.operands), ("tangents", case.tangents)):
        if name in code:
            lines.append(f"{name} = ({''.join(f'number({array_words(a)}), ' for a in group)})")
    if "cotangent" in code:
        lines.append(f"cotangent = number(np.resize({list(case.cells)}, op.output_shape(*[x.shape for x in inputs])))")
    if "make(" in code:
        chosen = "".join(f", {name}={known.options[name][value]}" for name, value in case.choices.items())
        lines.append(f"make = lambda **words: {known.operator}(**words{chosen})")
    return "\n".join([*lines, code])


def cells(
    subject: Any, examples: int, seconds: float, start: int, wanted: Sequence[str], pulse: Callable[[], None]
) -> list[Cell]:
    """Every claim about a user's operator that is among the wanted ones."""
    known: Description = subject.description
    made = {claim: Cell(known.name, known.operator, claim) for claim in wanted if claim in JUDGES or claim == "refuses"}
    failed: dict[str, tuple[Drawn, Verdict]] = {}
    legal: list[Drawn] = []
    for case in drawn(drawings(known), GUESSES * examples, start):
        asked = [c for c, cell in made.items() if c in JUDGES and c not in failed and cell.cases < examples]
        if not asked:
            break
        pulse()
        for claim in asked:
            cell = made[claim]
            cell.asked += 1
            verdict = _asked(subject, judge, case, claim)
            if verdict.unfit is not None:
                cell.not_offered = cell.not_offered or verdict.unfit
            elif cell.tried([Outcome(words=verdict.words, part=verdict.part)]):
                failed[claim] = (case, verdict)
            else:
                legal.append(case)
    for claim, (case, verdict) in failed.items():
        if verdict.part == "exact":
            case, verdict = _smallest(subject, claim, case, verdict, start, seconds)
        _differs(made[claim], subject, case, verdict, pasteable(known, subject.place, case, claim))
    if "refuses" in made:
        _refuses(made["refuses"], subject, next(filter(_has_cells, legal), None))
    return list(made.values())


def _asked(subject: Any, function: Callable[..., Verdict], *arguments: Any) -> Verdict:
    """What becomes of a claim, where the operator is; it may be the end of the process there."""
    try:
        verdict: Verdict = subject.run(function, *arguments)
    except Crashed as error:
        return Verdict(str(error), part="ended by a call")
    return verdict


def _has_cells(case: Drawn) -> bool:
    """Whether there is anything that a wrong call could be about: cells, and a spatial axis where
    there is a window."""
    window = [case.parameters[name] for name in ("kernel_size", "output_size", "rank") if name in case.parameters]
    return (
        all(x.size and x.ndim for x in case.operands)
        and all(window)
        and 0 not in case.parameters.get("output_size", ())
    )


def _differs(cell: Cell, subject: Any, case: Drawn, verdict: Verdict, python: str) -> None:
    known: Description = subject.description
    words = verdict.words if known.made else f"{known.making(case)}: {verdict.words}"
    outcome = Outcome(words=words, part=verdict.part)
    (cell.refusals if outcome.refused else cell.differences).append(Difference("found by search", outcome, python))


def _smallest(
    subject: Any, claim: str, case: Drawn, verdict: Verdict, start: int, seconds: float
) -> tuple[Drawn, Verdict]:
    """Search anew for a case that breaks the claim, and shrink it."""
    found = [(case, verdict)]
    end, latest = time.process_time() + seconds, time.monotonic() + 20 * seconds

    def attempt(one: Drawn) -> None:
        if time.process_time() > end or time.monotonic() > latest:
            raise TimeUp
        told = _asked(subject, judge, one, claim)
        if told.part != "exact":
            raise TimeUp
        if told.words is not None:
            found.append((one, told))
            raise AssertionError(told.words)

    with contextlib.suppress(AssertionError, TimeUp):
        search(drawings(subject.description), 200, start, attempt, shrink=True)
    sizes = [sum(x.size for x in one.operands) for one, _ in found]
    return found[len(sizes) - 1 - sizes[::-1].index(min(sizes))]


def _refuses(cell: Cell, subject: Any, legal: Drawn | None) -> None:
    """Wrong calls, beside a right one."""
    known: Description = subject.description
    for call in wrong(known):
        cell.asked += 1
        if legal is None:
            cell.not_offered = "no legal case was found"
            continue
        verdict = _asked(subject, refuses, legal, call)
        if cell.tried([Outcome(words=verdict.words, part=verdict.part)]):
            _differs(cell, subject, legal, verdict, pasteable(known, subject.place, legal, "refuses", call))
