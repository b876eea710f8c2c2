"""Running claims: every subject × operator × claim over the telling cases and a search, into a report of cells.

Cases and their exact answers are made once and shared by all subjects. A difference is grouped with its like (the same part of the
result, the same reading), and one of each group is shrunk.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..operator import Operator
from ..ops import MaxPool
from . import beyond, refusals
from .answers import Answers
from .brief import brief
from .cases import LONG, STRATEGIES, Case, bfloat16
from .claims import CLAIMS, refusal
from .judge import Outcome
from .readings import recognise
from .search import drawn
from .shrink import size, smallest
from .subject import NotOffered
from .telling import NUMERIC, WINDOWED, Telling, telling
from .trial import Refused, Trial

ALL_CLAIMS = (*CLAIMS, "fixed", "refuses")
MOST_GROUPS = 6
Answered = tuple[str, Case, Answers]  # the title of a case, the case, and the right answers to it

ABOUT_CONDUCT = ("shape", "dtype", "adjoint", "witness", "unmodified", "deterministic")


def claim_called(name: str) -> str:
    """The name of a claim; raises ValueError with those there are."""
    if name not in ALL_CLAIMS:
        raise ValueError(f"{name}: choose from " + ", ".join(ALL_CLAIMS))
    return name


@dataclass(frozen=True)
class Effort:
    """How hard to look: random cases per operator for judged subjects and for peers, and seconds to shrink a difference."""

    examples: int
    peer_examples: int
    shrink_seconds: float
    every: int = 1
    """Every how many-th telling case about plain windows and padding is tried (all others are)."""
    slow_every: int = 8
    """The same for subjects that say they are `slow`, such as those that compile every shape."""
    peer_shrink_seconds: float | None = None
    """The seconds for peers, where they are others."""
    brief: bool = False
    """Only the telling cases of `brief`."""
    far: bool = False
    """Also the case of `beyond`."""

    def for_peers(self) -> Effort:
        """The same effort with the examples and seconds that peers get."""
        seconds = self.shrink_seconds if self.peer_shrink_seconds is None else self.peer_shrink_seconds
        return replace(self, examples=self.peer_examples, shrink_seconds=seconds)


QUICK = Effort(0, 0, 0.0, brief=True)
USUAL = Effort(20, 2, 2.0, slow_every=32, peer_shrink_seconds=0.2)
THOROUGH = Effort(400, 40, 10.0, slow_every=1, peer_shrink_seconds=2.0, far=True)


@dataclass(frozen=True)
class Plan:
    """What is asked of every subject, in words that another process understands."""

    operators: tuple[str, ...]
    claims: tuple[str, ...]
    effort: Effort
    seed: int

    def kinds(self) -> list[type[Operator]]:
        return [kind for kind in WINDOWED if kind.__name__ in self.operators]


@dataclass(frozen=True, eq=False)
class Difference:
    """One way in which a subject differs, on the smallest case that was found."""

    title: str
    case: Case
    outcome: Outcome
    reading: str | None = None
    reading_words: str | None = None


@dataclass
class Cell:
    """What became of one claim about one operator of one subject."""

    subject: str
    operator: str
    claim: str
    cases: int = 0
    share: float = 0.0
    ulps: float = 0.0
    not_offered: str | None = None
    differences: list[Difference] = field(default_factory=list)
    refusals: list[Difference] = field(default_factory=list)
    conventions: list[Difference] = field(default_factory=list)

    @property
    def status(self) -> str:
        """holds, differs, refuses, convention (documented), not offered, or nothing (no case asked)."""
        if self.differences:
            return "differs"
        if self.refusals:
            return "refuses"
        if self.conventions:
            return "convention"
        return "holds" if self.cases else "not offered" if self.not_offered else ""


def told_as(title: str, case: Case, outcome: Outcome) -> Difference:
    """A difference with the reading that it looks like."""
    refused = outcome.part.startswith("refused")
    reading = None if refused else recognise(case, outcome.part, outcome.got, outcome.expected)
    if reading is None:
        return Difference(title, case, outcome)
    return Difference(title, case, outcome, reading.name, reading.words)


def random_cases(kind: type[Operator], count: int, start: int) -> list[Case]:
    """Cases of an operator over floats, the same for the same seed."""
    small, long = STRATEGIES[kind], LONG.get(kind, STRATEGIES[kind])
    cases = st.integers(0, 7).flatmap(lambda turn: long if turn == 7 else small)
    return drawn(floating(cases), count, start)


@st.composite
def floating(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case of small integers made float: as they are, in thirds, or with NaN, infinities and -0.0 among them.

    Half types are what fast kernels treat in a way of their own: bfloat16 is drawn, and float16 told in `telling`.
    """
    case = draw(cases)
    dtype = draw(st.sampled_from([np.float32, np.float64, *bfloat16().values()]))
    form = draw(st.integers(0, 3))

    def made(x: Any, operand: bool) -> Any:
        if form == 1 and operand:
            return np.asarray(x / 3, dtype)
        array = np.asarray(x, dtype).copy()
        if form == 3 and operand and "exp" not in case.op.needs:
            for whole, special in ((4, np.nan), (3, np.inf), (-4, -np.inf), (0, -0.0)):
                array[x == whole] = special
        return array

    operands, tangents = tuple(made(x, True) for x in case.operands), tuple(made(x, False) for x in case.tangents)
    return Case(case.op, operands, tangents, made(case.cotangent, False))


class Session:
    """A check under way: its cells so far, and who wants to know about progress."""

    def __init__(
        self,
        effort: Effort = USUAL,
        start: int = 0,
        claims: Sequence[str] = ALL_CLAIMS,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.effort = effort
        self.start = start
        self.claims = claims
        self.cells: list[Cell] = []
        self.seconds: dict[str, float] = {}
        self.skipped: dict[str, str] = {}
        """What was not tried, and why."""
        self._progress = progress or (lambda _: None)
        self._told: dict[type[Operator], list[Answered]] = {}
        self._brief: dict[tuple[type[Operator], bool], list[Answered]] = {}
        self._searched: dict[tuple[type[Operator], int], list[Answered]] = {}
        self._refusals: dict[tuple[str, str, str], Difference] = {}

    def cases(self, kind: type[Operator], examples: int, slow: bool) -> list[Answered]:
        """The cases of an operator with their answers, which are worked out once, however many of them are asked for."""
        if kind not in self._told:
            self._told[kind] = [(title, case, Answers(case)) for title, case in telling(kind)]
        told = self._told[kind]
        if self.effort.brief:
            if (kind, slow) not in self._brief:
                chosen = {id(case) for _, case in brief([Telling(title, case) for title, case, _ in told], slow)}
                self._brief[kind, slow] = [one for one in told if id(one[1]) in chosen]
            return self._brief[kind, slow]
        every = self.effort.slow_every if slow else self.effort.every
        if (kind, examples) not in self._searched:
            searched = random_cases(kind, examples, self.start)
            self._searched[kind, examples] = [("found by search", case, Answers(case)) for case in searched]
        common = [one for one in told if one[2].aspect in ("", "padding") and one[0] not in NUMERIC]
        thinned = {id(one) for place, one in enumerate(common) if place % every}
        return [one for one in told if id(one) not in thinned] + self._searched[kind, examples][:: 1 + 3 * slow]

    def run(self, subjects: Sequence[Any], kinds: Sequence[type[Operator]] = WINDOWED) -> None:
        """Every operator of every subject."""
        for kind in kinds:
            for subject in subjects:
                self._progress(f"{subject.name}: {kind.__name__}")
                begun = time.monotonic()
                self.cells += self.one(subject, kind, self.effort.examples)
                self.seconds[subject.name] = self.seconds.get(subject.name, 0.0) + time.monotonic() - begun

    def one(self, subject: Any, kind: type[Operator], examples: int) -> list[Cell]:
        """All claims about one operator of one subject."""
        cells = {claim: Cell(subject.name, kind.__name__, claim) for claim in self.claims}
        found: dict[str, list[tuple[str, Case, Outcome]]] = {claim: [] for claim in self.claims}
        for title, case, answers in self.cases(kind, examples, getattr(subject, "slow", False)):
            trial = Trial(subject, case, answers)
            for claim in self.claims:
                if claim in CLAIMS:
                    found[claim] += [(title, case, outcome) for outcome in attempt(cells[claim], claim, trial)]
        if self.effort.far and kind is MaxPool and "value" in cells:
            self._far(cells["value"], subject)
        for claim, failures in found.items():
            self._report(cells[claim], subject, failures)
        if "fixed" in cells:
            self._fixed(cells["fixed"], subject, kind)
        if "refuses" in cells:
            self._refuses(cells["refuses"], subject, kind)
        return list(cells.values())

    def _report(self, cell: Cell, subject: Any, failures: list[tuple[str, Case, Outcome]]) -> None:
        """Group failures by what they look like, and shrink the smallest of each group."""
        groups: dict[tuple[str, str | None], tuple[str, Case, Outcome]] = {}
        for title, case, outcome in failures:
            key = (outcome.part, look(case, outcome))
            if key not in groups or size(case) < size(groups[key][1]):
                groups[key] = (title, case, outcome)
        for (part, name), (title, case, outcome) in list(groups.items())[:MOST_GROUPS]:
            refused = part.startswith("refused")
            alike = (cell.subject, cell.operator, str(name))
            if refused and alike in self._refusals:  # one refusal breaks many claims; it is told once
                cell.refusals.append(self._refusals[alike])
                continue
            documented = name in getattr(subject, "conventions", ())
            if not documented:
                case, outcome = shrunk(subject, cell.claim, case, outcome, name, self.effort, self.start)
            difference = told_as(title, case, outcome)
            if refused:
                self._refusals[alike] = difference
            (cell.refusals if refused else cell.conventions if documented else cell.differences).append(difference)

    def _far(self, cell: Cell, subject: Any) -> None:
        try:
            if beyond.free() < beyond.NEEDED:
                raise MemoryError
            outcome = beyond.far(subject)
        except NotOffered:
            return
        except MemoryError:
            self.skipped[beyond.TITLE] = f"left out: {beyond.NEEDED // 2**30} GiB of free memory are needed"
            return
        except Refused as error:
            cell.refusals.append(Difference(beyond.TITLE, beyond.placeholder(), refusal(error)))
            return
        cell.cases += 1
        if not outcome.holds:
            cell.differences.append(Difference(beyond.TITLE, beyond.placeholder(), outcome))

    def _fixed(self, cell: Cell, subject: Any, kind: type[Operator]) -> None:
        for answer in refusals.fixed_of(kind):
            case = Case(answer.op, answer.operands, (), np.asarray(answer.value, float))
            try:
                outcome = refusals.fixed(subject, answer)
            except NotOffered as reason:
                cell.not_offered = str(reason)
                continue
            except Refused as error:
                told = Difference("a published answer", case, refusal(error))
                alike = (cell.subject, cell.operator, str(look(case, told.outcome)))
                told = self._refusals.setdefault(alike, told)
                if told not in cell.refusals:
                    cell.refusals.append(told)
                continue
            cell.cases += 1
            if not outcome.holds:
                full = Case(
                    answer.op,
                    answer.operands,
                    tuple(np.zeros_like(x) for x in answer.operands),
                    np.ones(np.shape(answer.value)),
                )
                difference = told_as("a published answer", full, outcome)
                documented = difference.reading in getattr(subject, "conventions", ())
                (cell.conventions if documented else cell.differences).append(difference)

    def _refuses(self, cell: Cell, subject: Any, kind: type[Operator]) -> None:
        for one in refusals.illegal():
            if type(one.op) is not kind:
                continue
            outcome = refusals.refuses(subject, one)
            if outcome is None:
                cell.not_offered = "the operator"
                continue
            cell.cases += 1
            if not outcome.holds:
                cell.differences.append(Difference(one.title, Case(one.op, one.operands, (), np.zeros(0)), outcome))


def attempt(cell: Cell, claim: str, trial: Trial) -> list[Outcome]:
    """Try one claim on one case and note it in the cell; what does not hold is returned."""
    try:
        outcome = CLAIMS[claim](trial)
    except NotOffered as reason:
        cell.not_offered = cell.not_offered or str(reason)
        return []
    except Refused as error:
        # a legal case that is refused is told where its result was wanted, not under every claim
        return [] if claim in ABOUT_CONDUCT else [refusal(error)]
    if outcome is None:
        return []
    cell.cases += 1
    every = outcome if isinstance(outcome, list) else [outcome]
    for one in every:
        if one.holds:
            cell.share, cell.ulps = max(cell.share, one.share), max(cell.ulps, one.ulps)
    return [one for one in every if not one.holds]


def shrunk(
    subject: Any, claim: str, case: Case, outcome: Outcome, reading: str | None, effort: Effort, start: int
) -> tuple[Case, Outcome]:
    """The smallest case found that fails the claim in the same way, and its outcome."""

    def same_failure(candidate: Case) -> Outcome | None:
        found: list[Outcome] = []
        with contextlib.suppress(ArithmeticError, ValueError):
            found = attempt(Cell("", "", claim), claim, Trial(subject, candidate))
        for one in found:
            if one.part == outcome.part and look(candidate, one) == reading:
                return one
        return None

    if not effort.shrink_seconds:
        return case, outcome
    best = smallest(case, lambda candidate: same_failure(candidate) is not None, start, effort.shrink_seconds)
    again = same_failure(best) if best is not case else None
    return (case, outcome) if again is None else (best, again)


def look(case: Case, outcome: Outcome) -> str | None:
    """What a difference looks like: the name of a reading, or the kind of error that was raised."""
    if outcome.part.startswith("refused"):
        return str(outcome.words).partition(":")[0]
    reading = recognise(case, outcome.part, outcome.got, outcome.expected)
    return reading.name if reading else None
