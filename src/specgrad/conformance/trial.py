"""One subject on one case: each method is called once, writes into arguments are recorded, and
errors are classified."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from .cases import Case
from .compare import same_bits
from .expected import Answers
from .subject import NotOffered, named, printable, where, words_of

Array = np.ndarray[Any, Any]

MOST_BYTES = 2**26
"""The largest size of a result; results of all cases are far smaller."""


class Refused(Exception):
    """The subject raised something other than NotOffered on a legal case; the message is the
    subject's."""

    def __init__(self, method: str, words: str) -> None:
        super().__init__(words)
        self.method = method


class Crashed(Refused):
    """The subject's process was lost: by a crash, an exit, or a timeout; the message says how."""


class Reply(NamedTuple):
    """The result of one call of a subject as plain data: arrays or words."""

    result: Any = None
    not_offered: str | None = None
    refused: str | None = None
    lost: str | None = None
    modified: str | None = None
    """The arguments that the call wrote into."""

    def given(self, method: str) -> Any:
        """The result; raises NotOffered, Refused or Crashed if there is none."""
        if self.lost is not None:
            raise Crashed(method, self.lost)
        if self.not_offered is not None:
            raise NotOffered(self.not_offered)
        if self.refused is not None:
            raise Refused(method, self.refused)
        return self.result


class Here:
    """A subject in this process, and its place in words. For a user's operator, also its
    description."""

    def __init__(self, subject: Any, place: str | None = None, description: Any = None) -> None:
        self.subject = subject
        self.place = place
        self.description = description
        self.name = printable(subject.name)
        self.version = printable(str(getattr(subject, "version", "")))
        self.slow = bool(getattr(subject, "slow", False))
        self.losses, self.printed = 0, ""  # here a crash ends the whole check, and printed text is not captured
        self.conventions: tuple[str, ...] = tuple(printable(str(c)) for c in getattr(subject, "conventions", ()))

    def ask(self, method: str, op: Any, arguments: tuple[Any, ...]) -> Reply:
        return answer(self.subject, method, op, arguments)

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
        """function(subject, *arguments), in the subject's process."""
        return function(self.subject, *arguments)

    def stop(self) -> None:
        """Nothing to end."""


def handle(subject: Any) -> Any:
    """The object with the method `ask` for a subject."""
    return subject if hasattr(subject, "ask") else Here(subject)


class Trial:
    """A subject, a case and the right answers. Each method of the subject is called once, and its
    result is cached."""

    def __init__(self, subject: Any, case: Case, answers: Answers | None = None) -> None:
        self.subject = handle(subject)
        self.case = case
        self.answers = Answers(case) if answers is None else answers
        self.modified: dict[str, str] = {}
        """For each method that wrote into its arguments, the arguments."""
        self._seen: dict[str, tuple[Any, Exception | None]] = {}

    def is_offered(self) -> bool:
        """Whether the subject answers or refuses the case, instead of raising NotOffered."""
        try:
            self.forward()
        except NotOffered:
            return False
        except Refused:
            pass
        return True

    def forward(self) -> Any:
        return self._once("forward")

    def jvp(self) -> Any:
        return self._derivative("jvp", self.case.tangents)

    def vjp(self) -> Any:
        return self._derivative("vjp", self.case.cotangent)

    def second(self) -> Any:
        return self._derivative("second", self.case.tangents, self.case.cotangent)

    def bounds(self, radius: Array) -> Any:
        """(lower, upper) of the output while the first operand moves by up to `radius`."""
        return self._once("bounds", radius)

    def again(self, method: str, *arguments: Any) -> Any:
        """Call a method without the cache."""
        reply: Reply = self.subject.ask(method, self.case.op, (self.case.operands, *arguments))
        if reply.modified is not None:
            self.modified[method] = reply.modified
        return reply.given(method)

    def _derivative(self, method: str, *arguments: Any) -> Any:
        if self.answers.whole:
            raise NotOffered("integers have no derivatives")
        return self._once(method, *arguments)

    def _once(self, method: str, *arguments: Any) -> Any:
        if method not in self._seen:
            try:
                self._seen[method] = self.again(method, *arguments), None
            except (NotOffered, Refused) as refusal:
                self._seen[method] = None, refusal
        found, error = self._seen[method]
        if error is not None:
            raise error
        return found


def answer(subject: Any, method: str, op: Any, arguments: tuple[Any, ...]) -> Reply:
    """Call a method of a subject with views of the arguments. If the method writes into an
    argument, restore its cells."""
    given = [array for _, array in tree.leaves(arguments)]
    shown = tree.map_leaves(np.ndarray.view, arguments)  # a subject may change shapes and flags of these views
    before = [a.copy(order="K") for a in given]
    lent = copy.copy(op)
    reply = answered(subject, method, lent, shown)
    modified = "the operator" if _altered(op, lent) else None
    for array, kept in zip(given, before, strict=True):
        if not same_bits(array, kept):
            modified = "its arguments"
            array[...] = kept
    return reply._replace(modified=modified)


def answered(subject: Any, method: str, op: Any, arguments: tuple[Any, ...]) -> Reply:
    """Call a method of a subject with these arguments themselves."""
    operands = arguments[0]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function: Callable[..., Any] | None = getattr(subject, method, None)
            if function is None:
                return Reply(not_offered=f"no {method}")
            result = function(op, *arguments)
            return Reply(
                _arrays(method, result, len(operands)) if method in ("vjp", "second") else _array(method, result)
            )
    except NotOffered as reason:
        return Reply(not_offered=words_of(reason))
    except Refused as error:
        return Reply(refused=str(error))
    except NotImplementedError as error:  # Python's own exception for this
        return Reply(not_offered=words_of(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and multiprocessing.parent_process() is None:
            raise  # in a child process nobody sends SIGINT, so the subject raised it
        if operands[0].dtype.kind == "V":  # NumPy itself does not know bfloat16, so a subject need not support it
            return Reply(not_offered=str(operands[0].dtype.name))
        return Reply(refused=f"{named(error)}: {words_of(error)[:200]}{where(error, subject)}")


def _altered(op: Any, lent: Any) -> bool:
    try:
        return any(getattr(op, f.name) != getattr(lent, f.name) for f in dataclasses.fields(op))
    except Exception:  # a parameter was deleted, or became something that cannot be compared
        return True


def _arrays(method: str, result: Any, wanted: int) -> tuple[Any, ...]:
    """One array per operand, or None for no derivative."""
    if not isinstance(result, tuple | list):
        raise Refused(method, f"{method} returned {type(result).__name__}, not a tuple of {wanted} arrays")
    if len(result) != wanted:
        raise Refused(method, f"{method} returned {len(result)} arrays, not {wanted}")
    return tuple(None if one is None else _array(method, one) for one in result)


def _array(method: str, result: Any) -> Array:
    """A copy of the result: a subject may use its memory again in the next call."""
    try:
        made: Array = np.array(result)
    except Exception as error:
        words = f"{method} returned {type(result).__name__}, which is no array: {words_of(error)}"
        raise Refused(method, words) from error
    if made.nbytes > MOST_BYTES:
        raise Refused(method, f"{method} returned {made.nbytes} bytes, more than any case has")
    if made.dtype.kind not in "biuf" and made.dtype.name != "bfloat16":
        raise Refused(method, f"{method} returned {type(result).__name__} of {made.dtype}, not of real numbers")
    return made
