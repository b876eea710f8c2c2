"""Running claims: every subject × operator × claim over the curated cases and a search, into a
report of cells.

Cases and their exact answers are computed once for all subjects. A case that a subject does not
offer is tried in other forms (`forms`) until one is offered. Differences with the same part of the
result and the same reading form a group, and one difference of each group is shrunk.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .. import sizes
from ..operator import Operator
from ..ops import MaxPool
from . import huge_case, refusals
from .cases import LONG, STRATEGIES, Case, bfloat16
from .cells import Cell, Difference, difference
from .claims import CLAIMS, refusal
from .compare import Outcome
from .conventions import recognise
from .curated import NUMERIC, WINDOWED, curated
from .expected import Answers
from .forms import COMMON, FORMS, Form, restated
from .search import TimeUp, drawn
from .shrink import size, smaller
from .subject import NotOffered
from .trial import Crashed, Refused, Trial, handle

MOST_GROUPS = 6
MOST_LOST = 3
"""An operator of a subject may lose this many processes; its other cases are then not tried."""
Answered = tuple[str, Case, Answers]  # the title of a case, the case, and the right answers to it

IN_EVERY_FORM = ("NaN", "infinity", "ties")
"""The kinds of cases that are tried in every common form which a subject offers."""


@dataclass(frozen=True)
class Effort:
    """The effort of a check: random cases per operator for judged subjects and for peers, and the
    seconds to shrink a difference."""

    examples: int
    peer_examples: int
    shrink_seconds: float
    every: int = 1
    """Only every n-th curated case about plain windows and padding is tried."""
    slow_every: int = 8
    """`every` for subjects with the flag `slow`, such as those that compile for every shape."""
    peer_shrink_seconds: float | None = None
    """`shrink_seconds` for peers (None: the same)."""
    quick: bool = False
    """Whether only the curated cases with the flag `quick` are tried."""
    far: bool = False
    """Whether `huge_case` is tried too."""

    def for_peers(self) -> Effort:
        """The same effort with the examples and seconds that peers get."""
        seconds = self.shrink_seconds if self.peer_shrink_seconds is None else self.peer_shrink_seconds
        return replace(self, examples=self.peer_examples, shrink_seconds=seconds)


QUICK = Effort(0, 0, 0.0, quick=True)
USUAL = Effort(20, 2, 2.0, slow_every=32, peer_shrink_seconds=0.2)
THOROUGH = Effort(400, 40, 10.0, slow_every=1, peer_shrink_seconds=2.0, far=True)


@dataclass(frozen=True)
class Plan:
    """The operators, claims and effort of a check, as plain data for another process."""

    operators: tuple[str, ...]
    claims: tuple[str, ...]
    effort: Effort
    seed: int

    def kinds(self) -> list[type[Operator]]:
        return [kind for kind in WINDOWED if kind.__name__ in self.operators]


def random_cases(kind: type[Operator], count: int, start: int) -> list[Case]:
    """`count` cases of an operator over floats, the same for the same seed."""
    small, long = STRATEGIES[kind], LONG.get(kind, STRATEGIES[kind])
    cases = st.integers(0, 7).flatmap(lambda turn: long if turn == 7 else small)
    return drawn(floating(cases), count, start)


@st.composite
def floating(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case of small integers made float: unchanged, in thirds, or with NaN, infinities and -0.0.

    Fast kernels treat half types separately: bfloat16 is drawn here, and float16 is in `curated`.
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
    """A running check: the cells so far, and the callback `progress`."""

    def __init__(
        self,
        effort: Effort = USUAL,
        start: int = 0,
        claims: Sequence[str] = tuple(CLAIMS),
        progress: Callable[[str], None] | None = None,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self.effort = effort
        self.start = start
        self.claims = claims
        self.cells: list[Cell] = []
        self.seconds: dict[str, float] = {}
        self.skipped: dict[str, str] = {}
        """The cases that were not tried, and why."""
        self._progress = progress or (lambda _: None)
        self._pulse = pulse
        """Called before every case; may raise, which ends the check."""
        self._curated: dict[type[Operator], list[tuple[bool, Answered]]] = {}
        self._searched: dict[tuple[type[Operator], int], list[Answered]] = {}
        self._restated: dict[tuple[int, Form], Answered | None] = {}
        self._refusals: dict[tuple[str, str, str], Difference] = {}

    def cases(self, kind: type[Operator], examples: int, slow: bool) -> list[Answered]:
        """The cases of an operator with their answers; each answer is computed once."""
        if kind not in self._curated:
            self._curated[kind] = [(one.quick, (one.title, one.case, Answers(one.case))) for one in curated(kind)]
        told = [one for quick, one in self._curated[kind] if quick or not self.effort.quick]
        if self.effort.quick:
            if slow:
                firsts: dict[tuple[str, str], Answered] = {}
                for one in told:
                    firsts.setdefault((one[2].aspect, one[1].operands[0].dtype.name), one)
                told = list(firsts.values())
            return [*told, *self._in_common_forms(told, True)]
        every = self.effort.slow_every if slow else self.effort.every
        if (kind, examples) not in self._searched:
            searched = random_cases(kind, examples, self.start)
            self._searched[kind, examples] = [("found by search", case, Answers(case)) for case in searched]
        common = [one for one in told if one[2].aspect in ("", "padding") and one[0] not in NUMERIC]
        thinned = {id(one) for place, one in enumerate(common) if place % every}
        kept = [one for one in told if id(one) not in thinned]
        return [*kept, *self._in_common_forms(kept, slow), *self._searched[kind, examples][:: 1 + 3 * slow]]

    def _in_common_forms(self, cases: Sequence[Answered], few: bool) -> Iterator[Answered]:
        """The cases about NaN, infinities and ties in all other common forms; with `few`, one case
        of each kind."""
        aspects: Counter[str] = Counter()
        for one in cases:
            aspect = one[2].aspect
            aspects[aspect] += 1
            if aspect in IN_EVERY_FORM and not (few and aspects[aspect] > 1):
                yield from (other for form in COMMON if (other := self._in_form(one, form)))

    def _in_form(self, one: Answered, form: Form) -> Answered | None:
        title, case, _ = one
        key = (id(case), form)
        if key not in self._restated:
            other = restated(case, form)
            self._restated[key] = None if other is None else (f"{title} ({form})", other, Answers(other))
        return self._restated[key]

    def run(
        self,
        subjects: Sequence[Any],
        kinds: Sequence[type[Operator]] = WINDOWED,
        done: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Check every operator of every subject; `done` is called after each subject."""
        for subject in subjects:
            for kind in kinds:
                self._progress(f"{subject.name}: {kind.__name__}")
                begun = time.monotonic()
                self.cells += self.one(subject, kind, self.effort.examples)
                self.seconds[subject.name] = self.seconds.get(subject.name, 0.0) + time.monotonic() - begun
            done(subject.name)

    def one(self, subject: Any, kind: type[Operator], examples: int) -> list[Cell]:
        """All claims about one operator of one subject, smallest cases first."""
        subject = handle(subject)
        cells = {claim: Cell(subject.name, kind.__name__, claim) for claim in self.claims}
        found: dict[str, list[tuple[str, Case, Outcome]]] = {claim: [] for claim in self.claims}
        forms, most = list(FORMS), subject.losses + MOST_LOST
        for one in sorted(self.cases(kind, examples, subject.slow), key=lambda one: size(one[1])):
            self._pulse()
            asking = [claim for claim in self.claims if CLAIMS[claim].asks(one[2])]
            for claim in asking if subject.losses >= most else ():
                cells[claim].give_up()
            if not asking or subject.losses >= most:
                continue
            title, trial = self._offered(subject, one, forms)
            for claim in self.claims:
                found[claim] += [(title, trial.case, outcome) for outcome in attempt(cells[claim], claim, trial)]
        for claim, failures in found.items():
            self._report(cells[claim], subject, failures)
        if self.effort.far and kind is MaxPool and "value" in cells:
            self._far(cells["value"], subject)
        for claim, title, case, judge in refusals.listed(kind):
            if claim in cells and subject.losses >= most:
                cells[claim].give_up()
            elif claim in cells:
                self._listed(cells[claim], subject, title, case, judge)
        return list(cells.values())

    def _offered(self, subject: Any, one: Answered, forms: list[Form]) -> tuple[str, Trial]:
        """The case itself, or restated in the first form that the subject offers. This form moves
        to the front of `forms`."""
        title, case, answers = one
        asis = Trial(subject, case, answers)
        if asis.is_offered():
            return title, asis
        for form in forms:
            other = self._in_form(one, form)
            trial = other and Trial(subject, *other[1:])
            if trial and trial.is_offered():
                forms.remove(form)
                forms.insert(0, form)
                return f"{title} ({form})", trial
        return title, asis

    def _report(self, cell: Cell, subject: Any, failures: list[tuple[str, Case, Outcome]]) -> None:
        """Group failures by their look, and shrink the smallest of each group."""
        groups: dict[tuple[str, str | None], tuple[str, Case, Outcome]] = {}
        for title, case, outcome in failures:
            key = (outcome.part, look(case, outcome))
            if key not in groups or size(case) < size(groups[key][1]):
                groups[key] = (title, case, outcome)
        for (_, name), (title, case, outcome) in list(groups.items())[:MOST_GROUPS]:
            refused = outcome.refused
            alike = (cell.subject, cell.operator, str(name))
            if refused and alike in self._refusals:  # one refusal breaks many claims, and is reported once
                cell.refusals.append(self._refusals[alike])
                continue
            documented = name in subject.conventions
            if not documented and not outcome.part.startswith("ended"):  # each try would lose another process
                case, outcome = shrunk(subject, cell.claim, case, outcome, name, self.effort, self.start)
                if not refused and not attempt(Cell("", "", cell.claim), cell.claim, Trial(subject, case)):
                    outcome = replace(outcome, words=f"{outcome.words}; a second try showed no difference")
            told = difference(title, case, cell.claim, outcome, subject)
            if refused:
                self._refusals[alike] = told
            (cell.refusals if refused else cell.conventions if documented else cell.differences).append(told)

    def _far(self, cell: Cell, subject: Any) -> None:
        if sizes.available() >= huge_case.NEEDED:
            with contextlib.suppress(MemoryError):
                self._listed(cell, subject, huge_case.TITLE, huge_case.placeholder(), huge_case.far)
                return
        self.skipped[huge_case.TITLE] = f"left out: {huge_case.NEEDED // 2**30} GiB of free memory are needed"

    def _listed(self, cell: Cell, subject: Any, title: str, case: Case, judge: Callable[[Any], Outcome]) -> None:
        """Try a case that a claim brings itself; failures are reported without shrinking."""
        cell.asked += 1
        try:
            broken = cell.tried([judge(subject)])
        except NotOffered as reason:
            cell.decline(reason)
            return
        except Refused as error:
            broken = [refusal(error)]
        for outcome in broken:
            told = difference(title, case, cell.claim, outcome, subject)
            if not outcome.refused:
                (cell.conventions if told.reading in subject.conventions else cell.differences).append(told)
                continue
            told = self._refusals.setdefault((cell.subject, cell.operator, str(look(case, outcome))), told)
            if told not in cell.refusals:
                cell.refusals.append(told)


def attempt(cell: Cell, name: str, trial: Trial) -> list[Outcome]:
    """Try one claim on one case to which the claim applies, count it in the cell, and return the
    outcomes that do not hold."""
    claim = CLAIMS[name]
    if claim.judge is None or not claim.asks(trial.answers):
        return []
    cell.asked += 1
    try:
        outcome = claim.judge(trial)
    except NotOffered as reason:
        cell.decline(reason)
        return []
    except Refused as error:
        # a refused legal case is reported under claims about results, not under every claim
        return [] if claim.conduct and not isinstance(error, Crashed) else [refusal(error)]
    if outcome is None:
        return []
    return cell.tried(outcome if isinstance(outcome, list) else [outcome])


def shrunk(
    subject: Any, claim: str, case: Case, outcome: Outcome, reading: str | None, effort: Effort, start: int
) -> tuple[Case, Outcome]:
    """The smallest case found that fails the claim in the same way, and its outcome."""

    most = subject.losses + 1

    def same_failure(candidate: Case) -> Outcome | None:
        if subject.losses > most:  # a search in which many cases lose the process takes too long
            raise TimeUp
        found: list[Outcome] = []
        with contextlib.suppress(ArithmeticError, ValueError):
            found = attempt(Cell("", "", claim), claim, Trial(subject, candidate))
        for one in found:
            if one.part == outcome.part and look(candidate, one) == reading:
                return one
        return None

    if not effort.shrink_seconds:
        return case, outcome
    best = smaller(case, lambda candidate: same_failure(candidate) is not None, start, effort.shrink_seconds)
    again = same_failure(best) if best is not case else None
    return (case, outcome) if again is None else (best, again)


def look(case: Case, outcome: Outcome) -> str | None:
    """The look of a difference: the name of a reading, or the kind of error that was raised."""
    if outcome.refused:
        return str(outcome.words).partition(":")[0]
    reading = recognise(case, outcome.part, outcome.got, outcome.expected)
    return reading.name if reading else None
