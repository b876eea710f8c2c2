"""Faster pooling, and gradients of depthwise convolutions, for existing models: `accelerate`
changes the classes of modules, and replaces functional calls by a torch function mode.

A module keeps its identity, parameters, buffers, hooks and name; only its class changes, until
`undo`. Maxima and convolutions have the same bits as before; averages, and gradients of
convolutions, lie within the same error bounds.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import nn
from torch.overrides import TorchFunctionMode

from ..errors import ArgumentError, refusal
from . import convolution, functional
from .modules import REPLACES as POOLS

NOTHING = (
    "specgrad: no pooling module found; this model may call functions: use `with accelerate(model)`, "
    "or for good `accelerate(model, functions=True)`"
)
ALREADY = "specgrad: the pooling modules of this model run by specgrad already"
REPLACES = {**POOLS, **convolution.REPLACES}
POOLING = tuple(getattr(nn.modules.pooling, name) for name in nn.modules.pooling.__all__)


def _replaced() -> dict[Any, Any]:
    """torch's functions, as a function mode gets them, and ours."""
    found: dict[Any, Any] = {}
    for kind in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool"):
        for rank in (1, 2, 3):
            name = f"{kind}{rank}d"
            ours = getattr(functional, name)
            found[getattr(F, name)] = ours
            if hasattr(F, f"{name}_with_indices"):
                found[getattr(F, f"{name}_with_indices")] = functools.partial(ours, return_indices=True)
            if hasattr(torch, name) and kind != "adaptive_max_pool":  # torch.adaptive_max_pool1d gives indices always
                found[getattr(torch, name)] = ours
    return found


REPLACED = _replaced()  # not a cached function, of which torch.compile would warn


class _Calls(TorchFunctionMode):
    """A mode that replaces calls of torch's pooling functions by specgrad's."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = REPLACED.get(func)
        if ours is None:
            return func(*args, **(kwargs or {}))
        name = getattr(ours, "__name__", None) or ours.func.__name__
        self.counted[name] += 1
        if isinstance(ours, functools.partial):
            kwargs = {name: value for name, value in (kwargs or {}).items() if name != "return_indices"}
        return ours(*args, **(kwargs or {}))


class Acceleration:
    """The result of `accelerate`: print it, `undo` it, or use it in a ``with`` block, which calls
    `undo` at its end."""

    def __init__(self, model: nn.Module | None, functions: bool = False) -> None:
        if not (model is None or isinstance(model, nn.Module)):
            rule, remedy = "must be a module of torch", "give the model, or nothing to change functional calls alone"
            raise refusal(ArgumentError, "accelerate", "model", model, rule, remedy)
        self.model = model
        self.changed: dict[str, nn.Module] = {}
        self.left: dict[str, nn.Module] = {}
        self._calls = _Calls()
        self._running, self._hooks = 0, []  # type: int, list[Any]
        self._found = model is not None and any(type(module) in REPLACES.values() for module in model.modules())
        if functions and model is None:
            rule, remedy = "needs a model whose calls are exchanged", "give the model, or use a with block"
            raise refusal(ArgumentError, "accelerate", "functions", functions, rule, remedy)
        if functions and model is not None:
            self._hooks = [
                model.register_forward_pre_hook(self._begin, prepend=True),
                model.register_forward_hook(self._end, always_call=True),
            ]
        for name, module in model.named_modules() if model is not None else ():
            name = name or type(module).__name__
            if type(module) in POOLS or convolution.is_slow(module):
                self.changed[name] = module
                module.__class__ = REPLACES[type(module)]
            elif isinstance(module, POOLING) and type(module) not in REPLACES.values():
                self.left[name] = module

    @property
    def calls(self) -> Counter[str]:
        """The number of functional calls that were replaced in the ``with`` block, by name."""
        return self._calls.counted

    def _begin(self, *_: Any) -> None:
        """Start to replace functional calls, before the model runs."""
        self._calls.__enter__()
        self._running += 1

    def _end(self, *_: Any) -> None:
        """Stop, after the model has run or raised an error."""
        if self._running:
            self._running -= 1
            self._calls.__exit__(None, None, None)

    def undo(self) -> None:
        """Restore every module's own class, and the model's functional calls."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        theirs = {ours: torchs for torchs, ours in REPLACES.items()}
        for module in self.changed.values():
            module.__class__ = theirs.get(type(module), type(module))
        self.changed = {}

    def __enter__(self) -> Acceleration:
        self._calls.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._calls.__exit__(*problem)
        self.undo()

    def __repr__(self) -> str:
        """What was changed, in one line."""
        parts = [
            f"{title} {', '.join(names)}"
            for title, names in (("runs", self.changed), ("leaves to torch", self.left))
            if names
        ]
        parts += ["exchanges functional calls"] if self._hooks else []
        done = "; ".join(parts) or "changed nothing"
        return f"<accelerate({type(self.model).__name__ if self.model is not None else ''}): {done}>"

    def __str__(self) -> str:
        runs = [(name, repr(module)) for name, module in self.changed.items()]
        runs += [(f"{name}()", f"{count} call{'s' * (count != 1)}") for name, count in self.calls.items()]
        leaves = [(name, repr(module)) for name, module in self.left.items()]
        if not runs + leaves:
            with_functions = "specgrad runs the pooling functions that this model calls"
            return with_functions if self._hooks else ALREADY if self._found else NOTHING
        width, lines = max(len(name) for name, _ in runs + leaves), []
        for title, rows in (("specgrad runs", runs), ("specgrad leaves to torch", leaves)):
            lines += [title, *(f"  {name:<{width}}  {what}" for name, what in rows)] if rows else []
        return "\n".join(lines)


def accelerate(model: nn.Module | None = None, *, functions: bool = False, verbose: bool = True) -> Acceleration:
    """Let specgrad run a model's pooling modules from now on. In a ``with`` block, functional
    calls run by specgrad too.

    With functions=True, functional calls inside the model run by specgrad until `undo`; each call
    of a torch function inside the model then costs a few microseconds more. On the CPU, specgrad
    also computes the gradients of depthwise convolutions, and of those in groups of few channels.
    Fractional pooling, unpooling, and modules of classes derived from torch's stay with torch; the
    printed table lists them.

    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2))
    >>> done = accelerate(net)
    specgrad runs
      1  MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    >>> done
    <accelerate(Sequential): runs 1>
    >>> done.undo()
    """
    done = Acceleration(model, functions)
    if verbose and model is not None:
        print(done)
    return done
