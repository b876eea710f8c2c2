"""The API reference, made from signatures and docstrings when the site is built."""

from __future__ import annotations

import inspect
import re
from html import escape

import numpy as np

import specgrad
import specgrad.torch
from specgrad.drawing import distinct
from specgrad.ops.conv import Bilinear


def of(*parts: str) -> list[tuple[object, str]]:
    """The public names that these parts of the package define."""
    homes = {name: getattr(getattr(specgrad, name), "__module__", "").split(".")[1:2] for name in specgrad.__all__}
    return [(specgrad, name) for part in parts for name, home in homes.items() if home == [part]]


PAGES = {
    "windows": (
        "Windows",
        "Pooling, convolution and patches as functions. Parameters mean the same in all of them. The names "
        "that end in 1d, 2d and 3d take an int where these take a tuple.",
        of("functional", "conv_functions"),
    ),
    "arrays": (
        "Arrays, shapes and losses",
        "Functions of cells, shapes, and what networks are made of.",
        of("array_functions"),
    ),
    "operators": (
        "Operators",
        "The operators as frozen, hashable objects: `op(x)`, `op.output_shape(x.shape)`, "
        "`op.jvp((x,), (dx,))`, `op.vjp((x,), gy)`.",
        of("ops"),
    ),
    "derivatives": (
        "Derivatives, tapes and graphs",
        "Transforms of Python functions, the tape, graphs and programs, bounds and pictures.",
        of("autograd", "derivatives", "tree", "graph", "scalars", "bounds", "drawing"),
    ),
    "torch": (
        "PyTorch",
        "What `import specgrad.torch` brings, beside torch's own pooling names in `specgrad.torch.functional`.",
        [(specgrad.torch, name) for name in specgrad.torch.__all__ if callable(getattr(specgrad.torch, name))],
    ),
    "settings": (
        "Settings and errors",
        "Engines, threads, memory, errors and warnings.",
        of("dispatch", "threads", "memory", "errors"),
    ),
}
"""The pages: title, first paragraph, and the public names in their order."""


def page(name: str) -> str:
    """One page of the reference, in Markdown."""
    title, words, names = PAGES[name]
    return "\n".join([f"# {title}", "", words, "", *(entry(home, name) for home, name in names)])


def entry(home: object, name: str) -> str:
    """A heading, the signature, the docstring, and the public methods of a class."""
    thing = getattr(home, name)
    parts = [f"## {name}", "", signature(name, thing), "", prose(inspect.getdoc(thing) or ""), ""]
    if inspect.isclass(thing) and thing.__name__ in ("Tape", "Graph", "Program", "Explanation", "Bounds"):
        for method, found in inspect.getmembers(thing, inspect.isfunction):
            if not method.startswith("_") and found.__doc__:
                parts += [f"### {name}.{method}", "", signature(method, found), "", prose(inspect.getdoc(found)), ""]
    return "\n".join(parts)


def signature(name: str, thing: object) -> str:
    """`name(…)` on as many lines as it takes."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    plain = found.replace(
        parameters=[p for p in found.parameters.values() if p.name != "self"], return_annotation=inspect.Signature.empty
    )
    written = re.sub(r": '([^']*)'", r": \1", str(plain))  # annotations are strings, until somebody asks for them
    text = f"{name}{written}"
    if len(text) > 90:
        text = f"{name}(\n    " + re.sub(r", (?=[*\w]+[:=,)]|\*,)", ",\n    ", written[1:-1]) + ",\n)"
    return f"```python\n{text}\n```"


def prose(docstring: str) -> str:
    """A docstring as Markdown: sections, parameters as lists, examples as code, roles as names."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", docstring).replace("``", "`")
    text = re.sub(r"^(\w+)\n-+$", r"**\1**\n", text, flags=re.MULTILINE)
    lines, code = [], False
    for line in text.splitlines():
        if line.startswith(">>>") and not code:
            lines += ["", "```pycon"]
            code = True
        elif code and not line.strip():
            lines.append("```")
            code = False
        elif not code and re.fullmatch(r"\w+", line):
            line = f"- `{line}`:"
        lines.append(line)
    return "\n".join([*lines, "```"] if code else lines)


def drawn(call: str) -> str:
    """The SVG of an entry of the gallery."""
    op, x, output = eval(f"({call})", {**vars(specgrad), "float": float})
    array = distinct(x) if isinstance(x, tuple) else np.array(x, float)
    return specgrad.explain(op, array[None] if isinstance(op, Bilinear) else array, output=output).svg()


__all__ = ["PAGES", "drawn", "escape", "page"]
