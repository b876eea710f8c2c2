"""How much effort a test takes: `make test` as much as finds faults, `make thorough` more."""

import os

from specgrad.ops.conv import Bilinear
from specgrad.ops.pool import Pool

THOROUGH = os.environ.get("SPECGRAD_TESTS") == "thorough"


def effort(usual, thorough):
    """The first, or where tests are thorough the second: numbers of examples, or cases."""
    return thorough if THOROUGH else usual


def in_turn(cases, turn):
    """All cases where tests are thorough; else one of them, the next one in each turn."""
    return effort([cases[turn % len(cases)]], cases)


def examples(most):
    """So many examples where tests are thorough; else a third of them."""
    return effort(max(most // 3, 5), most)


def share(kind, most):
    """The examples of an operator with windows; a third of them where no geometry varies."""
    return examples(most if issubclass(kind, Pool | Bilinear) else most // 3)
