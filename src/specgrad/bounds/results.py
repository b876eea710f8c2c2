"""What bounds are: two arrays, and the affine forms of the inputs between which a value lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class LinearForm(NamedTuple):
    """Σ coefficients·inputs + constant: one array (rows, *shape of the input) per input, and one
    number per row."""

    coefficients: tuple[Any, ...]
    constant: Any


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower ≤ y ≤ upper for all inputs in the box; y is the output, or the rows of `of` times it.

    `below` and `above` are affine forms of the inputs between which y lies on the box, where the
    method has them.
    """

    lower: Any
    upper: Any
    below: LinearForm | None = field(default=None, repr=False)
    above: LinearForm | None = field(default=None, repr=False)
