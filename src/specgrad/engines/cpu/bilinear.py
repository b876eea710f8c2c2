"""The sizes of a convolution, transposed convolution or linear map: images, groups, channels, cells
and taps.

The wide side is the input of a convolution, the narrow side its output; for a transposed
convolution the narrow side is the input.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from ...caches import cached_property
from ...geometry import Shape, Sliding
from ...ops.conv import Bilinear, ConvTranspose

SMALL = 1 << 21  # multiplications below which a call stays on its thread,
BLOCK = 8  # of at least so many channels of a group


@dataclass(frozen=True, eq=False)
class Plan:
    """The numbers of one call."""

    images: int
    groups: int
    wide_channels: int  # per group
    narrow_channels: int  # per group
    wide_cells: int
    narrow_cells: int
    taps: int
    axes: tuple[tuple[Sliding, int], ...]
    padded: bool
    transposed: bool  # whether the narrow side is read, and the wide one written

    @property
    def pointwise(self) -> bool:
        """Whether each narrow cell reads the wide one at its place."""
        return self.taps == 1 and not self.padded and self.wide_cells == self.narrow_cells

    @property
    def single(self) -> bool:
        """Whether one window is a whole image (linear maps): weights lie as its cells do, and all
        images together make one product."""
        return self.narrow_cells == 1 and self.wide_cells == self.taps and not self.padded

    @property
    def columns(self) -> int:
        """Weights of a narrow channel."""
        return self.wide_channels * self.taps

    @cached_property
    def work(self) -> int:
        """Multiplications of a whole product. Few channels take as long as a block of them."""
        channels = max(self.narrow_channels, BLOCK)
        return self.images * self.groups * channels * self.columns * self.narrow_cells

    @property
    def is_small(self) -> bool:
        """Whether a product is so small that it stays on its thread."""
        return self.work < SMALL


@functools.lru_cache(maxsize=256)
def plan(op: Bilinear, x: Shape, weight: Shape) -> Plan:
    """The plan for operands of these shapes."""
    kernel, groups = op.weight_kernel()
    rank = len(kernel)
    axes = op.sliding(x[len(x) - rank :])
    wide, narrow = tuple(axis.size for axis, _ in axes), tuple(length for _, length in axes)
    return Plan(
        images=math.prod(x[: len(x) - rank - 1]),
        groups=groups,
        wide_channels=weight[1],
        narrow_channels=weight[0] // groups,
        wide_cells=math.prod(wide),
        narrow_cells=math.prod(narrow),
        taps=math.prod(kernel),
        axes=axes,
        padded=any(not axis.taps(outputs=length).real.all() for axis, length in axes),
        transposed=type(op) is ConvTranspose,
    )
