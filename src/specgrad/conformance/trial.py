"""One subject on one case: its answers are asked for once, its mistakes of conduct are noted, its refusals are told apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from .answers import Answers
from .cases import Case
from .judge import same_bits
from .subject import NotOffered, words_of

Array = np.ndarray[Any, Any]


class Refused(Exception):
    """The subject raised something other than NotOffered on a legal case; the message is its own."""

    def __init__(self, method: str, words: str) -> None:
        super().__init__(words)
        self.method = method


class Trial:
    """A subject, a case and the right answers; every method of the subject is called once and remembered."""

    def __init__(self, subject: Any, case: Case, answers: Answers | None = None) -> None:
        self.subject = subject
        self.case = case
        self.answers = Answers(case) if answers is None else answers
        self.modified: list[str] = []
        self._seen: dict[str, tuple[Any, Exception | None]] = {}

    def forward(self) -> Array:
        found: Array = self._once("forward")
        return found

    def jvp(self) -> Array:
        self._differentiable()
        found: Array = self._once("jvp", self.case.tangents)
        return found

    def vjp(self) -> tuple[Array, ...]:
        self._differentiable()
        found: tuple[Array, ...] = self._once("vjp", self.case.cotangent)
        return found

    def second(self) -> tuple[Array, ...]:
        self._differentiable()
        found: tuple[Array, ...] = self._once("second", self.case.tangents, self.case.cotangent)
        return found

    def again(self, method: str, *arguments: Any) -> Any:
        """Call a method once more."""
        return self._call(method, arguments)

    def _differentiable(self) -> None:
        if self.answers.whole:
            raise NotOffered("integers have no derivatives")

    def _once(self, method: str, *arguments: Any) -> Any:
        if method not in self._seen:
            try:
                self._seen[method] = self._call(method, arguments), None
            except (NotOffered, Refused) as refusal:
                self._seen[method] = None, refusal
        found, error = self._seen[method]
        if error is not None:
            raise error
        return found

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        function: Callable[..., Any] | None = getattr(self.subject, method, None)
        if function is None:
            raise NotOffered(f"no {method}")
        case = [self.case.operands, *arguments]
        given = [array for _, array in tree.leaves(case)]
        shown = tree.map_leaves(np.ndarray.view, case)  # shapes and flags of views are the subject's to change
        before = [a.copy(order="K") for a in given]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                result = function(self.case.op, *shown)
                return self._arrays(method, result) if method in ("vjp", "second") else _array(method, result)
        except (NotOffered, Refused):
            raise
        except NotImplementedError as error:  # Python's own way of saying so
            raise NotOffered(words_of(error)) from error
        except (Exception, SystemExit) as error:
            if self.case.operands[0].dtype.kind == "V":  # NumPy itself does not know bfloat16: nobody has to
                raise NotOffered(self.case.operands[0].dtype.name) from error
            raise Refused(method, f"{type(error).__name__}: {words_of(error)[:200]}") from error
        finally:
            for array, copy in zip(given, before, strict=True):
                if not same_bits(array, copy):
                    self.modified.append(method)
                    array[...] = copy

    def _arrays(self, method: str, result: Any) -> tuple[Any, ...]:
        """One array per operand, or None where no derivative reaches."""
        wanted = len(self.case.operands)
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
    if made.dtype.kind not in "biuf" and made.dtype.name != "bfloat16":
        raise Refused(method, f"{method} returned {type(result).__name__} of {made.dtype}, not of real numbers")
    return made
