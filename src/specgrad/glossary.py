"""What the parameters of windows mean, written once; docstrings are put together from it.

A function or an operator says its formula and shows an example. Its parameters, what is returned
and what is raised follow from its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

PARAMETERS = {
    "x": (
        "The input: a NumPy array (floats, integers where the operator allows them, objects of any scalar), a "
        "torch or JAX array, a dask array, a `Dual`, or a Var of a tape or graph. All axes before the spatial ones "
        "are batch axes."
    ),
    "y": "The values to write back: an array of the shape that `max_pool` returned.",
    "indices": "The flat index of each value in its plane, as returned by `max_pool(…, return_indices=True)`.",
    "weight": (
        "The weight: (out, in/groups, *kernel) for `conv`, (in, out/groups, *kernel) for `conv_transpose`, "
        "(out, in) for `linear`."
    ),
    "bias": "One number per output channel, or None (the default) for none.",
    "columns": "The patches as `unfold` returns them: (*batch, channels * Πkernel, patches).",
    "kernel_size": (
        "The lengths of the kernel: a tuple with one int per spatial axis. The names that end in 1d, 2d and 3d "
        "also take one int for all axes."
    ),
    "output_size": (
        "The lengths of the output: a tuple with one int per spatial axis. In adaptive pooling None keeps the "
        "input's length. The names that end in 1d, 2d and 3d also take one int."
    ),
    "rank": "The number of spatial axes: the last `rank` axes are the plane.",
    "stride": (
        "The step of the window: an int for all axes, or one int per axis. For pooling, None (the default) means "
        "the kernel size; other operators have stride 1 by default."
    ),
    "padding": (
        "The cells added around the input: an int for all sides (default 0), one int per axis, one (before, "
        'after) pair per axis, "valid" for none, or "same" for ⌈n / stride⌉ outputs.'
    ),
    "dilation": "The distance between the taps of the kernel: an int for all axes (default 1), or one int per axis.",
    "ceil_mode": (
        "Whether to round the output length up, so that the last window may extend beyond the padding "
        "(default False). Taps beyond the padding do not exist."
    ),
    "ties": (
        'Which of several equal extreme cells receive the gradient: the "first" in row-major order, "all" of them '
        '(slope 1 each), or all by "split" (slope 1/t for t equal cells).'
    ),
    "return_indices": (
        "Whether to also return the flat index of the extreme cell in its spatial plane (default False). The index "
        "is -1 for a window without a real cell."
    ),
    "axes": (
        "Which axes are spatial, in the order of the kernel; None (the default) for the last ones. "
        "Channels-last images have `axes=(1, 2)`."
    ),
    "out": ("An array of the result's shape and dtype to write the result into, or None (the default) for a new one."),
    "count_include_pad": "Whether the divisor of an average counts padded taps (default True).",
    "divisor_override": "A nonzero int to divide by instead of the number of cells, or None (the default).",
    "beta": (
        "The sharpness: a finite number other than 0. Positive gives a smooth maximum, negative a smooth minimum."
    ),
    "pad": '"zero" (the default): a padded tap counts as the value 0. "skip": padded taps are ignored.',
    "p": "The exponent of the norm, from 1 to infinity.",
    "keepdims": "Whether to keep the spatial axes with length 1 (the default), or drop them.",
    "groups": "The number of groups of channels that are convolved separately (default 1).",
    "output_padding": (
        "The number of cells added at the end of the output: an int for all axes (default 0), or one per axis; less "
        "than the stride or the dilation."
    ),
}
"""Every parameter of a window function: what it means, its forms, its default."""

RAISES = (
    "ArgumentError\n    A parameter is invalid; the message names the parameter, its value and a remedy.\n"
    "ShapeError\n    The shapes do not match, or the kernel is larger than the padded input.\n"
    "ScalarError\n    The element type does not have an operation that the operator needs."
)


def section(title: str, text: str) -> str:
    """A part of a docstring in NumPy's style."""
    return f"{title}\n{'-' * len(title)}\n{text}"


@cache
def explained(name: str) -> str:
    """A parameter and what it means, indented below it."""
    indent = "    "
    return f"{name}\n" + fill(
        PARAMETERS[name], 96, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def listed(names: Iterable[str]) -> str:
    """The parameters of these names, one after the other."""
    return "\n".join(map(explained, names))


def assembled(docstring: str, names: Iterable[str], returns: str) -> str:
    """A whole docstring: what it says, parameters, what is returned and raised, its example."""
    said, mark, shown = cleandoc(docstring).partition(">>> ")
    parts = [said.strip(), section("Parameters", listed(names))]
    if returns:
        parts.append(section("Returns", returns))
    parts.append(section("Raises", RAISES))
    return "\n\n".join([*parts, section("Examples", mark + shown)] if mark else parts) + "\n"


def documented(function: T) -> T:
    """A decorator of functions: what their parameters mean joins their docstring."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    returns = "The result, an array of the same type and dtype as the input."
    if "return_indices" in names:
        returns += "\nWith `return_indices=True`, a pair of the result and the indices."
    function.__doc__ = assembled(function.__doc__ or "", names, returns)
    return function


def document_operator(kind: type) -> None:
    """The same for the class of an operator, whose parameters are its fields."""
    names = {field.name for field in fields(kind)}
    if names and names <= set(PARAMETERS):
        kind.__doc__ = assembled(kind.__doc__ or "", [name for name in PARAMETERS if name in names], "")
