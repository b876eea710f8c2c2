"""Outside suites: test cases of ONNX, PyTorch and JAX, run by specgrad and counted.

A suite's expected result is compared with the specification over float64, within the derived bound
of the suite's dtype. A case without an operator of specgrad counts as not expressible, with the
reason.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...errors import SpecgradError
from ...ops import ConvTranspose
from ...ops.conv import Bilinear
from ...ops.pool import Maximum

Array = np.ndarray[Any, Any]

HOMES = {
    "onnx_cases": "ONNX's node and exported cases",
    "torch_opinfo": "PyTorch's OpInfo samples",
    "jax_harness": "JAX's lax harness",
}


class NotExpressible(Exception):
    """No operator of specgrad computes this case; the message says why."""


class Told(NamedTuple):
    """The difference in one case of a suite."""

    name: str
    difference: str


LOOSELY = "to the printed digits"
"""The result of a case whose expected answer has only a few printed digits, and agrees to them."""
Judge = Callable[[], str | None]
"""A case of a suite: returns None if specgrad agrees, else the difference or LOOSELY; may raise
NotExpressible."""


@dataclass
class Suite:
    """A suite, and the counts of its results."""

    name: str
    version: str
    agree: int = 0
    loosely: int = 0
    differences: list[Told] = field(default_factory=list)
    not_expressible: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        total = self.agree + len(self.differences) + sum(self.not_expressible.values())
        words = f"{self.name} ({self.version}): {total} cases, {self.agree} agree" + (
            f" ({self.loosely} of them to the digits that the suite prints)" if self.loosely else ""
        )
        words += f", {len(self.differences)} differ"
        if self.not_expressible:
            why = ", ".join(f"{count} {reason}" for reason, count in self.not_expressible.most_common())
            words += f", {sum(self.not_expressible.values())} not expressible ({why})"
        return "; ".join([words, *(f"{told.name}: {told.difference}" for told in self.differences)])

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "agree": self.agree,
            "to_the_printed_digits_only": self.loosely,
            "differences": [{"case": told.name, "words": told.difference} for told in self.differences],
            "not_expressible": dict(self.not_expressible),
            "words": str(self),
        }


def run(home: str) -> Suite:
    """Run a suite; raises ModuleNotFoundError if its library is not installed."""
    module: Any = importlib.import_module(f"{__name__}.{home}")
    suite = Suite(HOMES[home], module.VERSION)
    cases: Iterator[tuple[str, Judge]] = module.cases()
    for name, judge in cases:
        try:
            wrong = judge()
        except NotExpressible as reason:
            suite.not_expressible[str(reason)] += 1
            continue
        except SpecgradError as error:
            wrong = f"refused: {error}"
        if wrong in (None, LOOSELY):
            suite.agree += 1
            suite.loosely += wrong == LOOSELY
        else:
            suite.differences.append(Told(name, str(wrong)))
    return suite


def agreement(op: Any, operands: tuple[Array, ...], expected: Array) -> str | None:
    """None if both the suite's float result and that of specgrad's default engines are within the
    bound, else the difference."""
    dtype = operands[0].dtype
    shape = op.output_shape(*(x.shape for x in operands))
    if tuple(expected.shape) != shape:
        return f"shape {tuple(expected.shape)}, not {shape}"
    ours = np.asarray(op(*operands))
    if isinstance(op, Maximum) or dtype.kind in "iu":
        same = np.array_equal(ours, expected, equal_nan=dtype.kind == "f")
        return None if same else "values differ"
    widest = np.complex128 if dtype.kind == "c" else np.float64
    wide = tuple(x.astype(widest) for x in operands)
    answer = np.asarray(op(*wide))
    magnitude = np.asarray(op(*(np.abs(x) for x in wide)) if not _smooth(op) else np.abs(answer))
    allowed = np.abs(magnitude) * (_terms(op, wide) + 2) * 2 * unit(dtype)
    for who, got in (("the suite", expected), ("specgrad", ours)):
        excess = np.abs(got.astype(widest) - answer) > allowed
        if excess.any():
            place = tuple(int(i) for i in np.argwhere(excess)[0])
            return f"{who} has {got.astype(widest)[place]} at {list(place)}, not {answer[place]}"
    return None


def unit(dtype: np.dtype[Any]) -> float:
    """The unit roundoff of a dtype."""
    return float(2.0 ** {"bfloat16": -8, "float16": -11, "float32": -24, "complex64": -24}.get(dtype.name, -53))


def _smooth(op: Any) -> bool:
    return "exp" in op.needs


def _terms(op: Any, operands: tuple[Array, ...]) -> int:
    """An upper bound of the number of terms of an output's sum."""
    if isinstance(op, Bilinear):
        weight = operands[1]
        return int(weight.size // max(weight.shape[0 if not isinstance(op, ConvTranspose) else 1], 1)) + 1
    return int(op.geometry(*(x.shape for x in operands)).taps)
