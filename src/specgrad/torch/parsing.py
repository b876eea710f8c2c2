"""From the arguments of torch's pooling functions to the parameters of our operators, in the order
of `operators.FIELDS`.

The functions return None for calls that torch itself answers or refuses: arguments that are not
integers, padding of more than half the kernel, and lengths that torch does not take.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..errors import ArgumentError, SpecgradError, refusal
from .operators import FIELDS, decoded

Ints = int | Sequence[int]
Words = dict[str, Any]


class Asked(NamedTuple):
    """The operator that a call describes: its class, and its parameters in the order of
    `operators.FIELDS`. `op` is the operator itself, or None if some are no plain integers."""

    kind: Any
    parameters: list[Any]
    misses: bool = False
    """Whether some windows have no real cell; torch's value of these is the lowest number."""
    op: Any = None

    @property
    def rank(self) -> int:
        return len(self.parameters[FIELDS[self.kind].index("axes")])


def asking(kind: Any, words: Callable[..., Words | None]) -> Callable[..., Asked | None]:
    """A function from torch's arguments to `Asked`, or None if torch answers the call. Results for
    numbers, None and sequences of these are cached."""

    def made(*arguments: Any) -> Asked | None:
        found = words(*arguments)
        if found is None:
            return None
        return Asked(kind, [found[field] for field in FIELDS[kind]], found.get("misses", False))

    @functools.lru_cache(maxsize=1024, typed=True)
    def known(*arguments: Any) -> Asked | None:
        found = made(*arguments)
        try:
            return None if found is None else found._replace(op=decoded(kind, found.parameters))
        except SpecgradError:
            return None

    def asked(*arguments: Any) -> Asked | None:
        if torch.compiler.is_compiling():
            return made(*arguments)
        key = []
        for value in arguments:
            if isinstance(value, tuple | list):
                value = tuple(value)
                if any(type(part) not in (int, type(None)) for part in value):
                    return made(*arguments)
            elif type(value) not in (int, bool, type(None)):
                return made(*arguments)
            key.append(value)
        return known(*key)

    return asked


def each(value: Any, rank: int) -> list[int] | None:
    """One integer per axis, from any form that torch accepts; None for other values."""
    if isinstance(value, int | torch.SymInt):
        return None if isinstance(value, bool) else [value] * rank  # type: ignore[list-item]
    if not isinstance(value, tuple | list) or not all(isinstance(v, int | torch.SymInt) for v in value):
        return None
    return list(value) * rank if len(value) == 1 else list(value) if len(value) == rank else None


def unpooled(lengths: Sequence[int], kernel: Any, stride: Any, padding: Any, asked: Any) -> list[int] | None:
    """The lengths of max_unpool's result; None if torch refuses the call."""
    rank = len(lengths)
    kernel, stride, padding = (each(value, rank) for value in (kernel, stride, padding))
    if kernel is None or stride is None or padding is None:
        return None
    found = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(lengths, kernel, stride, padding, strict=True)]
    if asked is not None:
        if not isinstance(asked, tuple | list) or len(asked) not in (rank, rank + 2):
            return None
        given = each(asked[-rank:], rank)
        if given is None or not all(_is_near(n - m, s) for n, m, s in zip(given, found, stride, strict=True)):
            return None
        found = given
    return found if all(n >= 0 for n in found) else None


def _is_near(difference: int, stride: int) -> bool:
    """Whether a length asked of max_unpool is less than a stride away from the usual one. An
    exported program checks this when it runs: a guard would not hold for all lengths."""
    if torch.compiler.is_exporting() and isinstance(difference, torch.SymInt):
        near = torch.scalar_tensor(abs(difference), device="cpu") < stride
        torch._assert_async(near, "max_unpool: output_size must be less than a stride away from the usual length")
        return True
    return abs(difference) < stride


def misses(lengths: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> bool:
    """Whether a window may have no real cell: its first tap is before the input, and the next one
    after it."""
    return any(d > n and p > 0 for n, p, d in zip(lengths, padding, dilation, strict=True))


def sliding(lengths: Sequence[int], kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Words | None:
    """Kernel, stride, padding as pairs, and dilation; None if torch would refuse them."""
    rank = len(lengths)
    kernel = each(kernel_size, rank)
    pads, holes = each(padding, rank), each(dilation, rank)
    steps = kernel if stride is None or (isinstance(stride, tuple | list) and not stride) else each(stride, rank)
    if kernel is None or steps is None or pads is None or holes is None:
        return None
    for k, s, p, d in zip(kernel, steps, pads, holes, strict=True):
        if isinstance(k, int) and k >= 2**31:  # torch's kernel of one axis truncates it, and never ends
            rule, remedy = "is not below 2**31", "give a kernel no longer than the padded input"
            raise refusal(ArgumentError, f"pooling of {rank} axes", "kernel_size", kernel_size, rule, remedy)
        if k < 1 or s < 1 or d < 1 or p < 0 or 2 * p > k:
            return None
    return {
        "kernel_size": kernel,
        "stride": steps,
        "padding": [p for p in pads for _ in range(2)],
        "dilation": holes,
        "axes": list(range(-rank, 0)),
        "misses": misses(lengths, pads, holes),
    }


def bins(sizes: Sequence[int], output_size: Any) -> Words | None:
    """The lengths of an adaptive output; None if torch would refuse them."""
    rank = len(sizes)
    lengths = output_size if isinstance(output_size, tuple | list) else each(output_size, rank)
    if lengths is None or len(lengths) != rank or (rank == 1 and lengths[0] is None):
        return None
    wanted = [n if m is None else m for n, m in zip(sizes, lengths, strict=True)]
    if not all(isinstance(m, int | torch.SymInt) and m > 0 for m in wanted):
        return None
    return {"output_size": wanted, "ties": "first", "axes": list(range(-rank, 0))}
