"""Results of a check: a cell for each claim about each operator of each subject, with its
differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..drawing.window import Picture
from .cases import Case
from .claims import CLAIMS
from .compare import Outcome
from .conventions import recognise
from .messages import pasteable, picture_of
from .subject import NotOffered


@dataclass(frozen=True, eq=False)
class Difference:
    """One way in which a subject differs, on the smallest case found: Python code that shows the
    difference, and a picture of its window."""

    title: str
    outcome: Outcome
    python: str
    case: Case | None = None
    """None for an operator of a user."""
    picture: Picture | None = None
    reading: str | None = None
    reading_words: str | None = None

    @property
    def likeness(self) -> str | None:
        """The convention or known bug whose result equals the subject's."""
        return None if self.reading is None else f"looks like “{self.reading}”: {self.reading_words}"


@dataclass
class Cell:
    """The result of one claim about one operator of one subject."""

    subject: str
    operator: str
    claim: str
    asked: int = 0
    """The number of cases to which the claim applies."""
    cases: int = 0
    """The number of cases on which the claim was tried."""
    declined: int = 0
    """The number of cases that the subject does not offer."""
    share: float = 0.0
    ulps: float = 0.0
    not_offered: str | None = None
    differences: list[Difference] = field(default_factory=list)
    refusals: list[Difference] = field(default_factory=list)
    conventions: list[Difference] = field(default_factory=list)

    @property
    def status(self) -> str:
        """crashes, differs, refuses, convention (documented), holds, not offered, not tried, or ""
        if the claim applies to no case."""
        if any(found.outcome.part.startswith("ended") for found in self.refusals):
            return "crashes"
        if self.differences:
            return "differs"
        if self.refusals:
            return "refuses"
        if self.conventions:
            return "convention"
        if self.cases:
            return "holds"
        if not self.asked:
            return ""
        return "not offered" if self.declined == self.asked else "not tried"

    @property
    def found(self) -> list[Difference]:
        """All differences, refusals and documented conventions."""
        return [*self.differences, *self.refusals, *self.conventions]

    def tried(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Count a case, keep the largest share of a bound, and return the outcomes that do not
        hold."""
        self.cases += 1
        for outcome in outcomes:
            if outcome.share > self.share:
                self.share, self.ulps = outcome.share, outcome.ulps
        return [outcome for outcome in outcomes if not outcome.holds]

    def decline(self, reason: NotOffered) -> None:
        """Count a case that the subject does not offer."""
        self.declined += 1
        self.not_offered = self.not_offered or str(reason) or "it does not say why"

    def give_up(self, asks: bool = True) -> None:
        """Count a case that was not tried, because too many processes ended before."""
        self.asked += asks
        self.not_offered = "too many processes were lost"

    def sentence(self, difference: Difference) -> str:
        """The difference in one line: subject, operator, claim and outcome."""
        return f"{self.subject}, {self.operator}, {CLAIMS[self.claim].words}: {difference.outcome.words}"


def difference(title: str, case: Case, claim: str, outcome: Outcome, subject: Any) -> Difference:
    """A difference, with the reading whose result equals the subject's, if there is one."""
    reading = None if outcome.refused else recognise(case, outcome.part, outcome.got, outcome.expected)
    made = Difference(title, outcome, pasteable(case, claim, outcome, subject), case, picture_of(case, outcome))
    return made if reading is None else replace(made, reading=reading.name, reading_words=reading.words)
