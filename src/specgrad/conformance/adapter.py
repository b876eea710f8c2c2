"""A plain function `f(x, kernel_size, stride, padding, …)` as a subject."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.window import Pool
from .curated import operator_called
from .subject import NotOffered


class FunctionSubject:
    """Calls a function with the operator's parameters under the function's own parameter names.

    An operator's parameter that the function does not take is offered at its default alone. Padding
    is one int per axis; a function with a parameter `pads` gets a (before, after) pair per axis
    instead.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        operator: str,
        rank: int | None,
        name: str | None,
        conventions: Sequence[str],
    ) -> None:
        self.function, self.rank, self.conventions = function, rank, tuple(conventions)
        self.kind: Any = operator_called(operator)
        self.name = name or getattr(function, "__name__", "function")
        self.__module__ = getattr(function, "__module__", __name__)  # whose lines are shown where it raises
        self.takes = list(inspect.signature(function).parameters)[1:]

    def forward(self, op: Any, inputs: tuple[np.ndarray[Any, Any], ...]) -> Any:
        """The function's result; raises NotOffered for parameters that it does not take."""
        if self.kind is not type(op):
            raise NotOffered(f"other operators than {self.kind.__name__}")
        if self.rank not in (None, op.spatial_rank() if isinstance(op, Pool) else len(op.weight_kernel()[0])):
            raise NotOffered(f"other ranks than {self.rank}")
        words, defaults = (
            {f.name: getattr(one, f.name) for f in dataclasses.fields(op)} for one in (op, op.with_defaults())
        )
        if "padding" in words:
            words |= self._padding(op.padding)
            defaults |= self._padding(defaults["padding"])
        given = {word: value for word, value in words.items() if word in self.takes}
        for name, default in defaults.items():
            if name not in self.takes and words[name] != default:
                raise NotOffered(f"{name}={words[name]!r}")
        return self.function(inputs[0], **given) if len(inputs) == 1 else self.function(*inputs, **given)

    def _padding(self, padding: Any) -> dict[str, Any]:
        if isinstance(padding, str):
            raise NotOffered(f"padding={padding!r}")
        if "pads" in self.takes:
            return {"pads": padding, "padding": (0,) * len(padding)}
        if any(before != after for before, after in padding):
            raise NotOffered("other padding before than after")
        return {"padding": tuple(before for before, _ in padding)}
