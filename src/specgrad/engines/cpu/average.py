"""The average: one fold of sums forwards, the adjoint fold backwards. Being linear it keeps nothing but its plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Array, Seen, canonical, flat_if_it_lies_so, fresh, see
from .maximum import fold


def value(op: Any, x: Array, out: Array | None) -> Array:
    seen = see(op, x, any_order=True)
    made, found = seen.plan, seen.kind
    flat = flat_if_it_lies_so(made, found, out)
    result = out
    if flat is None:
        flat, array = fresh(made, found)
        result = array.reshape(made.shape)
    fold(made.passes, seen.flat, seen.origin, flat, found, None, made.divisors(found.computed))
    if out is not None and result is not out:
        np.copyto(out, result)
        return out
    return result


def pull(seen: Seen, gy: Array) -> Array:
    made, found = seen.plan, seen.kind
    flat, gx = fresh(made, found, of_output=False)
    arriving = canonical(made, gy, of_output=True).view(found.stored)
    fold(made.passes_back, arriving, 0, flat, found, None, made.divisors(found.computed))
    return gx
