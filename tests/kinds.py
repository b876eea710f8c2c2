"""The effort of tests: `make test` is enough to find faults, `make thorough` does more."""

import os

from specgrad.ops.conv import Bilinear
from specgrad.ops.pool import Pool

THOROUGH = os.environ.get("SPECGRAD_TESTS") == "thorough"


def effort(usual, thorough):
    """`usual`, or `thorough` if tests are thorough: numbers of examples, or cases."""
    return thorough if THOROUGH else usual


def in_turn(cases, turn):
    """All cases if tests are thorough; else the case number `turn`, cyclically."""
    return effort([cases[turn % len(cases)]], cases)


def examples(most):
    """`most` examples if tests are thorough, else a quarter."""
    return effort(max(most // 4, 5), most)


def share(kind, most):
    """The number of examples of an operator; a third for operators without a geometry."""
    return examples(most if issubclass(kind, Pool | Bilinear) else most // 3)
