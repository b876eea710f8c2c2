"""Sessions of checks that share cases and right answers, computed once for all tests of a
process."""

from specgrad.conformance import runner
from specgrad.conformance.claims import CLAIMS

_first = runner.Session()


def session(effort=runner.QUICK, claims=tuple(CLAIMS)):
    made = runner.Session(effort, claims=claims)
    made._curated, made._searched, made._restated = _first._curated, _first._searched, _first._restated
    return made
