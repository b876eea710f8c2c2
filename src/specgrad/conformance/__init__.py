"""Checking implementations against the specification: curated cases, claims, derived error bounds,
subjects, reports.

A *subject* is an implementation under check: an object with a `name` and `forward(op, inputs)`, and
optionally `jvp(op, inputs, tangents)`, `vjp(op, inputs, cotangent)` and `second(op, inputs,
tangents, cotangent)`. A subject raises `NotOffered` for calls that it does not support.
"""

from __future__ import annotations

from typing import Any

from .subject import NotOffered, Subject

__all__ = ["NotOffered", "Subject", "function_subject", "pytest_cases"]


def function_subject(
    function: Any, operator: str, *, rank: int | None = None, name: str | None = None, conventions: Any = ()
) -> Any:
    """A subject made of a plain function, for `specgrad check file.py:subject` and `pytest_cases`.

    `operator` names the operator that the function computes, `MaxPool` or `max_pool`. `rank` is the
    only number of spatial axes that the function supports (None: any). `conventions` lists its
    documented conventions. The function takes the arrays first, then the operator's parameters by
    name, one int per axis: `f(x, kernel_size, stride, padding)`. A parameter of the operator that
    the function lacks is offered at its default alone.

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
    """Checks of a subject for ``pytest.mark.parametrize``: one function without arguments per
    operator and claim."""
    from .suite import pytest_cases as made

    found: list[Any] = made(subject, operators=operators, claims=claims, examples=examples, seed=seed)
    return found
