"""torch.nn's pooling modules on specgrad's engines, and modules that torch does not have.

The modules with torch's names are subclasses of torch's own with another `forward`, so that
arguments, repr, state and `isinstance` are torch's. Of the others only those with a learnable beta
have a state.
"""

from __future__ import annotations

import functools
import types
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: F401, N812 - a name in torch's own `forward`, as torch.jit.script reads it
from torch import Tensor, nn

from ..arguments import Ints, Padding, temperature
from ..functional import avg_pool, global_avg_pool, global_max_pool, max_pool
from . import functional

for name in ("avg_pool", "global_avg_pool", "global_max_pool", "max_pool"):
    torch.fx.wrap(name)  # torch.fx records one call of each of our functions


class _Ours:
    _pool: ClassVar[Any]
    _answer: ClassVar[Any]
    """The `answer` of the function, which saves a frame of Python."""

    def __init_subclass__(cls) -> None:
        """Let our `forward` wrap that of torch's own module. torch.jit.script compiles the wrapped
        function, since it cannot compile ours."""
        theirs = next((base for base in cls.__bases__ if issubclass(base, nn.Module)), None)
        if theirs is not None:
            cls._answer = cls._pool.answer
            forward: Any = cls.forward  # type: ignore[attr-defined]
            of_its_own = types.FunctionType(forward.__code__, globals())
            cls.forward = functools.wraps(theirs.forward)(of_its_own)  # type: ignore[attr-defined]


class _Max(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        arguments = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        return self._answer(input, arguments, self.return_indices)


class MaxPool1d(_Max, nn.MaxPool1d):
    """torch.nn.MaxPool1d, by specgrad's engines."""

    _pool = staticmethod(functional.max_pool1d)


class MaxPool2d(_Max, nn.MaxPool2d):
    """torch.nn.MaxPool2d, by specgrad's engines."""

    _pool = staticmethod(functional.max_pool2d)


class MaxPool3d(_Max, nn.MaxPool3d):
    """torch.nn.MaxPool3d, by specgrad's engines."""

    _pool = staticmethod(functional.max_pool3d)


class _AvgOfRow(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        arguments = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return self._answer(input, arguments, False)


class AvgPool1d(_AvgOfRow, nn.AvgPool1d):
    """torch.nn.AvgPool1d, by specgrad's engines."""

    _pool = staticmethod(functional.avg_pool1d)


class _Avg(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        divisor = self.divisor_override
        arguments = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, divisor)
        return self._answer(input, arguments, False)


class AvgPool2d(_Avg, nn.AvgPool2d):
    """torch.nn.AvgPool2d, by specgrad's engines."""

    _pool = staticmethod(functional.avg_pool2d)


class AvgPool3d(_Avg, nn.AvgPool3d):
    """torch.nn.AvgPool3d, by specgrad's engines."""

    _pool = staticmethod(functional.avg_pool3d)


class _AdaptiveMax(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        return self._answer(input, (self.output_size,), self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax, nn.AdaptiveMaxPool1d):
    """torch.nn.AdaptiveMaxPool1d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax, nn.AdaptiveMaxPool2d):
    """torch.nn.AdaptiveMaxPool2d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax, nn.AdaptiveMaxPool3d):
    """torch.nn.AdaptiveMaxPool3d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_max_pool3d)


class _AdaptiveAvg(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        return self._answer(input, (self.output_size,), False)


class AdaptiveAvgPool1d(_AdaptiveAvg, nn.AdaptiveAvgPool1d):
    """torch.nn.AdaptiveAvgPool1d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvg, nn.AdaptiveAvgPool2d):
    """torch.nn.AdaptiveAvgPool2d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvg, nn.AdaptiveAvgPool3d):
    """torch.nn.AdaptiveAvgPool3d, by specgrad's engines."""

    _pool = staticmethod(functional.adaptive_avg_pool3d)


class _Power(_Ours):
    def forward(self: Any, input: Tensor) -> Any:
        return self._pool(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_Power, nn.LPPool1d):
    """torch.nn.LPPool1d, by specgrad's engines."""

    _pool = staticmethod(functional.lp_pool1d)


class LPPool2d(_Power, nn.LPPool2d):
    """torch.nn.LPPool2d, by specgrad's engines."""

    _pool = staticmethod(functional.lp_pool2d)


class LPPool3d(_Power, nn.LPPool3d):
    """torch.nn.LPPool3d, by specgrad's engines."""

    _pool = staticmethod(functional.lp_pool3d)


class _Described(nn.Module):
    """A module whose repr shows the arguments it was made with."""

    def __init__(self, **shown: Any) -> None:
        super().__init__()
        self.shown = tuple(shown)
        for name, value in shown.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)


@torch.fx.wrap
def smooth_max_pool(input: Tensor, kernel_size: Ints, rank: int, beta: Any, **words: Any) -> Any:
    """Smooth maxima over the last axes; beta may be a tensor."""
    pool = getattr(functional, f"smooth_max_pool{rank}d")
    if isinstance(beta, Tensor):
        wide = torch.promote_types(input.dtype, torch.float32)  # half floats are rounded once, at the end
        beta = beta.to(wide)
        return (pool(input.to(wide) * beta, kernel_size, beta=1, **words) / beta).to(input.dtype)
    return pool(input, kernel_size, beta=beta, **words)


class _SmoothMaxPool(_Described):
    """(1/beta) log Σ exp(beta x) of each window: a smooth maximum, with a gradient for every cell.

    With learnable=True, beta is a parameter. Its learning rate must be small enough that beta keeps
    its sign, because beta = 0 is undefined. The module then pools beta·x, which must not overflow,
    with beta 1, and divides the result by beta.
    """

    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Padding = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        *,
        beta: float = 1.0,
        learnable: bool = False,
        pad: str = "zero",
    ) -> None:
        number = float(temperature("smooth_max_pool", "beta", beta))
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
            pad=pad,
        )
        self.beta: Any = nn.Parameter(torch.tensor(number)) if learnable else number

    def forward(self, input: Tensor) -> Any:
        words = {name: getattr(self, name) for name in self.shown}
        return smooth_max_pool(input, rank=self.rank, beta=self.beta, **words)

    def extra_repr(self) -> str:
        learnable = isinstance(self.beta, Tensor)
        beta = self.beta.item() if learnable else self.beta
        return f"{super().extra_repr()}, beta={beta:g}" + (", learnable=True" if learnable else "")


class SmoothMaxPool1d(_SmoothMaxPool):
    """(1/beta) log Σ exp(beta x) over windows of the last axis; beta fixed or learnable."""

    rank = 1


class SmoothMaxPool2d(_SmoothMaxPool):
    """(1/beta) log Σ exp(beta x) over windows of the last two axes; beta fixed or learnable."""

    rank = 2


class SmoothMaxPool3d(_SmoothMaxPool):
    """(1/beta) log Σ exp(beta x) over windows of the last three axes; beta fixed or learnable."""

    rank = 3


class MaxPoolNd(_Described):
    """`specgrad.max_pool` of any rank: one entry of kernel_size per axis."""

    def __init__(
        self,
        kernel_size: tuple[int, ...],
        stride: Ints | None = None,
        padding: Padding = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        *,
        ties: str = "first",
        return_indices: bool = False,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
            ties=ties,
            return_indices=return_indices,
        )

    def forward(self, input: Tensor) -> Any:
        return max_pool(input, **{name: getattr(self, name) for name in self.shown})


class AvgPoolNd(_Described):
    """`specgrad.avg_pool` of any rank: one entry of kernel_size per axis."""

    def __init__(
        self,
        kernel_size: tuple[int, ...],
        stride: Ints | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: Ints = 1,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
            dilation=dilation,
        )

    def forward(self, input: Tensor) -> Any:
        return avg_pool(input, **{name: getattr(self, name) for name in self.shown})


class GlobalAvgPool(_Described):
    """The mean of the last `rank` axes, kept as ones or dropped."""

    def __init__(self, rank: int = 2, *, keepdims: bool = True) -> None:
        super().__init__(rank=rank, keepdims=keepdims)

    def forward(self: Any, input: Tensor) -> Any:
        return global_avg_pool(input, self.rank, keepdims=self.keepdims)


class GlobalMaxPool(_Described):
    """The maximum of the last `rank` axes, kept as ones or dropped; by default every maximal cell
    has slope 1."""

    def __init__(self, rank: int = 2, *, ties: str = "all", keepdims: bool = True) -> None:
        super().__init__(rank=rank, ties=ties, keepdims=keepdims)

    def forward(self: Any, input: Tensor) -> Any:
        return global_max_pool(input, self.rank, ties=self.ties, keepdims=self.keepdims)


REPLACES: dict[type[nn.Module], type[nn.Module]] = {
    kind.__bases__[1]: kind  # (how it is called, torch's)
    for kind in (
        MaxPool1d, MaxPool2d, MaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
        AdaptiveMaxPool3d, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, LPPool1d, LPPool2d, LPPool3d,
    )
}  # fmt: skip
"""torch's classes of modules, and the class of ours that replaces each."""
