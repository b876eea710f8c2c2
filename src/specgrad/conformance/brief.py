"""The curated cases of a quick run: every mistake that real projects shipped, and every part and
dtype that a claim is about, once.

Chosen by title, from the lists of `curated`; all others wait for the usual run. What is claimed of
an operator in the usual run is claimed in the quick one too, of fewer cases: a test holds both
together, and another that the planted faults are found by both.
"""

from __future__ import annotations

from collections.abc import Sequence

from .curated import NamedCase
from .expected import Answers

MISTAKES: dict[str, tuple[str, ...]] = {
    "ceil_mode with count_include_pad": (
        "ceil_mode in two axes with padding",
        "ceil_mode in two axes with padding, not counted",
        "ceil_mode: a window that would start in the right padding is dropped",
    ),
    "windows wholly in padding": ("a window wholly in padding", "a dilated window without a real cell"),
    "padding taken for a number": (
        "padding is not 0",
        "overlapping windows with padding",
        "overlapping windows with padding, not counted",
        "an infinite weight does not meet padding",
        "padding skipped",
        "padding crops",
    ),
    "averages by prefix sums": ("a running sum must not lose precision", "cancellation of large terms"),
    "JVP and VJP disagreeing on all -inf windows": ("-inf is an ordinary value",),
    "a winner loop that compared with the best of the row's start": ("every order of a 2×2 window",),
    "winners numbered in a byte": ("a winner that a byte cannot number",),
    "what is left over of vectors": ("a line that takes several vectors",),
    "divisor_override ignored": ("divisor_override",),
    "first-winner read from memory order": (
        "the first in index order, not in memory order",
        "an array that is not in row-major memory",
    ),
    "empty batches": ("empty batch",),
    "dilated max pool without VJP": ("dilation",),
    "disjoint or empty bins": (
        "5 cells in 3 bins",
        "2 cells in 3 bins",
        "two axes, bins overlapping in both",
        "no bin at all",
    ),
    "flipped kernels": ("the kernel is not flipped",),
    "exponentials that overflow": ("exponents that overflow unless shifted", "a large negative window beside padding"),
}
"""Mistakes, and the titles of the cases that show them; nondeterminism shows in every case, 2^31
elements in `huge_case`."""

PARTS = (
    *("kernel of 7", "channels last", "float64", "float16", "bfloat16", "int32"),
    *("the last NaN wins", "NaN wins", "infinity", "an infinite tangent at a loser stays out", "beta=-1", "-inf loses"),
    *("NaN stays in the windows that read it", "infinity stays in the windows that read it"),
    *(
        "NaN stays in the bins that read it",
        "NaN stays in its plane",
        "NaN stays in its row",
        "infinity stays in its row",
    ),
    *("NaN stays in what it writes", "infinity stays in what it writes"),
    *("NaN in every place of a window of rank 2", "infinity in every place of a window of rank 2"),
    *("NaN under a padded kernel of 3, stride 2", "NaN in the midst of a plane", "infinity in the midst of a plane"),
    *("rank 2, keepdims=True", "rank 1, keepdims=False", "depthwise", "groups", "output_padding", "without batch"),
    *("a batch", "no batch, no bias"),
)
"""The titles of cases that other claims are about."""

TIED = ("the first of two maximal cells", "all cells tie", "-0.0 and 0.0 tie, -0.0 first", "a plane with a tie")
"""The titles of cases that are tried once for every rule of ties; of other titles only the first
case is."""


def brief(cases: Sequence[NamedCase], slow: bool = False) -> list[NamedCase]:
    """The cases of an operator that a quick run tries; of a slow subject, the first of each aspect
    and dtype."""
    wanted = {*PARTS, *(title for titles in MISTAKES.values() for title in titles)}
    chosen: list[NamedCase] = []
    for one in cases:
        if one.title in TIED or (one.title in wanted and all(one.title != other.title for other in chosen)):
            chosen.append(one)
    if not slow:
        return chosen
    firsts: dict[tuple[str, str], NamedCase] = {}
    for one in chosen:
        firsts.setdefault((Answers(one.case).aspect, one.case.operands[0].dtype.name), one)
    return list(firsts.values())
