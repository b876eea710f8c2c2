"""Checking implementations against the specification: telling cases, claims, derived error bounds, subjects, reports.

A *subject* is whatever is checked: an object with a `name` and `forward(op, inputs)`, and optionally `jvp(op, inputs, tangents)`,
`vjp(op, inputs, cotangent)` and `second(op, inputs, tangents, cotangent)`; `NotOffered` is how it says that it does not do something.
"""

from __future__ import annotations

from typing import Any

from .subject import NotOffered, Subject

__all__ = ["NotOffered", "Subject", "pytest_cases"]


def pytest_cases(
    subject: Any, *, operators: Any = None, claims: Any = None, examples: int = 10, seed: int = 0
) -> list[Any]:
    """Checks of a subject for ``pytest.mark.parametrize``: one per operator and claim, each to be called without arguments."""
    from .suite import pytest_cases as made

    found: list[Any] = made(subject, operators=operators, claims=claims, examples=examples, seed=seed)
    return found
