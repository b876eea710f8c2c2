"""`define` registers an operator of ours with torch, so that all derivatives and transforms of
torch support it.

Backward, double backward, forward mode, torch.func in any nesting, vmap, compile and export all
reach an operator by one of two dispatch keys. At *Autograd* we register a Function with backward
and jvp; at *FuncTorchDynamicLayerFrontMode* the same rules as a Function with setup_context, which
torch.func lowers level by level. Other ways are wrong: custom_op with register_autograd gives zeros
in forward mode, a Function called from Python breaks the graph of torch.compile, and with a
Function that handles one level only, torch.func.hessian is zero.

The rules call operators again, so that derivatives of any order follow. torch.func.functionalize is
not supported: torch refuses it for every Function defined in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engines.torch_private import is_dual, redispatch_below_autograd, with_outer_tangents

LIBRARY = torch.library.Library("specgrad", "FRAGMENT")
TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)


class Rules(NamedTuple):
    """How an operator is differentiated. Only the first result has derivatives. `saved` and `rest`
    are what `save` returned."""

    save: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[tuple[Any, ...], Any]]
    """(arguments, results) -> tensors to keep, and anything else."""
    backward: Callable[[tuple[Any, ...], Any, Tensor, Sequence[bool]], tuple[Any, ...]]
    """(saved, rest, cotangent, wanted) -> one cotangent per argument that is a tensor, in their
    order; None is zero."""
    jvp: Callable[[tuple[Any, ...], Any, tuple[Any, ...]], Tensor | None]
    """(saved, rest, tangents of the arguments that are tensors) -> the result's tangent; None is
    zero."""


def define(
    schema: str,
    *,
    kernel: Any,
    fake: Any,
    rules: Rules | None,
    tensors: int,
    batched_shape: int = -1,
    instead: Callable[..., Any] = lambda *arguments: None,
) -> Any:
    """Define an operator whose first `tensors` arguments are tensors (or None) with any number of
    leading axes.

    vmap moves the mapped axis to the front of these tensors. If the shape of the result is an
    argument, `batched_shape` is its position, and vmap adds the mapped axis to it. Without rules
    the results are marked as not differentiable. `instead` may run a call that is differentiated
    or transformed by another operator, which keeps what the derivatives need.
    """
    name = schema.partition("(")[0]
    LIBRARY.define(schema, tags=TAGS)
    op = getattr(torch.ops.specgrad, name).default
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"specgrad::{name}", fake, lib=LIBRARY)
    several = len(op._schema.returns) > 1
    given = len(op._schema.arguments)

    def remember(ctx: Any, arguments: tuple[Any, ...], results: Any) -> None:
        results = results if several else (results,)
        if rules is None:
            ctx.mark_non_differentiable(*results)
            return
        saved, ctx.rest = rules.save(arguments, results)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)
        if several:
            ctx.mark_non_differentiable(*results[1:])

    def pulled(ctx: Any, cotangent: Tensor, wanted: Sequence[bool]) -> tuple[Any, ...]:
        assert rules is not None
        found = rules.backward(ctx.saved_tensors, ctx.rest, cotangent, wanted)
        return (*found, *[None] * (given - tensors))

    def pushed(ctx: Any, tangents: tuple[Any, ...]) -> Any:
        if rules is None:
            return None

        def rule(saved: tuple[Any, ...]) -> Any:
            return rules.jvp(saved, ctx.rest, tangents[:tensors])

        moved = with_outer_tangents(rule, ctx.saved_tensors)
        return (moved, *[None] * (len(op._schema.returns) - 1)) if several else moved

    class AtBase(torch.autograd.Function):
        """Ordinary autograd and forward mode, where no transform of torch.func is active."""

        @staticmethod
        def forward(ctx: Any, keyset: Any, *arguments: Any) -> Any:
            results = below(keyset, *arguments)
            remember(ctx, arguments, results)
            return results

        @staticmethod
        def backward(ctx: Any, cotangent: Any, *_: Any) -> Any:
            return (None, *pulled(ctx, cotangent, ctx.needs_input_grad[1:]))

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            return pushed(ctx, tangents)

    class InTransform(torch.autograd.Function):
        """The same rules in the form that torch.func lowers level by level."""

        @staticmethod
        def forward(*arguments: Any) -> Any:
            return op(*arguments)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            remember(ctx, inputs, output)

        @staticmethod
        def backward(ctx: Any, cotangent: Any, *_: Any) -> Any:
            return pulled(ctx, cotangent, ctx.needs_input_grad)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            return pushed(ctx, tangents)

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
            size, moved = info.batch_size, list(arguments)
            for i, (x, at) in enumerate(zip(arguments[:tensors], in_dims, strict=False)):
                if x is not None:
                    moved[i] = x.expand(size, *x.shape) if at is None else x.movedim(at, 0)
            if batched_shape >= 0:
                moved[batched_shape] = [size, *arguments[batched_shape]]
            results = op(*moved)
            return results, (0,) * len(results) if several else 0

    def below(keyset: Any, *arguments: Any) -> Any:
        return redispatch_below_autograd(op, keyset, *arguments)

    def at_autograd(keyset: Any, *arguments: Any) -> Any:
        if not differentiates(arguments[:tensors]):
            return below(keyset, *arguments)
        answer = instead(*arguments)
        return AtBase.apply(keyset, *arguments) if answer is None else answer

    def in_transform(*arguments: Any) -> Any:
        answer = instead(*arguments)
        return InTransform.apply(*arguments) if answer is None else answer

    LIBRARY.impl(name, at_autograd, "Autograd", with_keyset=True)
    LIBRARY.impl(name, in_transform, "FuncTorchDynamicLayerFrontMode")
    return op


def differentiates(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a call on these tensors may be differentiated."""
    if is_dual():
        return True
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
