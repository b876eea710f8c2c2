"""The results of `bounds`: two arrays, and affine forms of the inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class LinearForm(NamedTuple):
    """Σ coefficients·inputs + constant: one array (rows, *shape of the input) per input, and one
    constant per row."""

    coefficients: tuple[Any, ...]
    constant: Any


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower ≤ y ≤ upper for all inputs in the box; y is the output, or the rows of `of` times the
    output.

    `below` and `above` are affine forms of the inputs with below ≤ y ≤ above on the box, or None if
    the method has none.
    """

    lower: Any
    upper: Any
    below: LinearForm | None = field(default=None, repr=False)
    above: LinearForm | None = field(default=None, repr=False)
