"""Checking implementations against the specification: curated cases, claims, derived error bounds,
subjects, reports.

A *subject* is whatever is checked: an object with a `name` and `forward(op, inputs)`, and
optionally `jvp(op, inputs, tangents)`, `vjp(op, inputs, cotangent)` and `second(op, inputs,
tangents, cotangent)`; `NotOffered` is how it says that it does not do something.
"""

from __future__ import annotations

from typing import Any

from .subject import NotOffered, Subject

__all__ = ["NotOffered", "Subject", "function_subject", "pytest_cases"]


def function_subject(
    function: Any, operator: str, *, rank: int | None = None, name: str | None = None, conventions: Any = ()
) -> Any:
    """A subject made of a plain function, for `specgrad check file.py:subject` and `pytest_cases`.

    `operator` is what the function computes, `MaxPool` or `max_pool`; `rank` the only number of
    spatial axes that it does (None: any); `conventions` the rules of its own that it documents. The
    function takes the arrays first and the operator's parameters by their names, one int per axis:
    `f(x, kernel_size, stride, padding)`. What it has no parameter for is not offered.

    >>> import numpy as np
    >>> from specgrad import MaxPool
    >>> whole = lambda x, kernel_size: x.max(-1, keepdims=True)
    >>> subject = function_subject(whole, "max_pool", rank=1, name="whole")
    >>> subject.forward(MaxPool((3,)), (np.array([1.0, 3.0, 2.0]),))
    array([3.])
    """
    from .adapter import FunctionSubject

    return FunctionSubject(function, operator, rank, name, conventions)


def pytest_cases(
    subject: Any, *, operators: Any = None, claims: Any = None, examples: int = 10, seed: int = 0
) -> list[Any]:
    """Checks of a subject for ``pytest.mark.parametrize``: one per operator and claim, each to be
    called without arguments."""
    from .suite import pytest_cases as made

    found: list[Any] = made(subject, operators=operators, claims=claims, examples=examples, seed=seed)
    return found
