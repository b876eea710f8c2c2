"""Maxima of small channels_last images on a CUDA device that are to be differentiated: by torch's
own kernels, which cost the host less than ours, with the one defect mended that they have there.

Where all cells of a window are -inf, torch names the first cell of the plane instead of the first
of the window (`defects`). A kernel of ours puts those places right before anything reads them;
nothing of it runs on the way back. Most maxima are of what a relu gave, and need no mending.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..engines.gpu.calls import Call, hooked
from ..engines.gpu.kernels.arguments import Sizes, tile
from ..engines.gpu.kernels.mend import name_first
from ..engines.torch_private import active_transform, current_device, dispatch_modes, is_dual, private
from .parsing import each

MOST = 4096  # shapes that are remembered
BLOCK = 1024
RELU = "ReluBackward0"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
with_indices: Any = private("_C._nn.max_pool2d_with_indices", torch.ops.aten.max_pool2d_with_indices)
saving_hooks: Any = private("_C._autograd._top_saved_tensors_default_hooks", lambda _: True)
"""What is called with tensors that are saved, or None; unknown: something."""


class Mended:
    """max_pool2d with some arguments, of images that `takes` takes."""

    def __init__(self, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> None:
        self.given = kernel, stride, padding, dilation, ceil_mode
        self.calls: dict[Any, Call] = {}

    @staticmethod
    def is_needless(x: Tensor) -> bool:
        """Whether the cells come from relus, by a concatenation or one maximum at most, so that
        none is -inf. Who writes -inf over the result of a relu has no gradient from there: its
        backward lets nothing pass, or refuses. What else was written over (`_version`) is mended.
        Who asks torch for deterministic algorithms has ours."""
        if torch.are_deterministic_algorithms_enabled():
            return False
        node = x.grad_fn
        if type(node).__name__ == RELU:
            return True
        if node is None or x._version:
            return False
        sources = {type(source).__name__ for source, _ in node.next_functions}
        return type(node).__name__ in ("MaxPool2DWithIndicesBackward0", "CatBackward0") and sources == {RELU}

    def takes(self, x: Tensor) -> bool:
        """Whether nothing but ordinary autograd sees a call, and it saves the places themselves: a
        hook would be given them before they are mended. Who asks torch for deterministic algorithms
        has ours."""
        return (
            x.ndim == 4
            and x.dtype in DTYPES
            and x.is_contiguous(memory_format=torch.channels_last)
            and dispatch_modes() == 0
            and active_transform() is None
            and not is_dual()
            and saving_hooks(False) is None
            and not torch.are_deterministic_algorithms_enabled()
            and current_device() == x.get_device()
        )

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor
        y, places = with_indices(x, *self.given)
        self.mend(x.shape, y, places)
        return y

    def mend(self, shape: torch.Size, y: Tensor, places: Tensor) -> None:
        """Put the places of maxima of -inf right."""
        key = shape, y.dtype, y.get_device()
        call = self.calls.get(key) or self.add(key, y)
        addresses = y.data_ptr(), places.data_ptr()
        if call.launch is None or hooked():
            call((y, places), (addresses[0] | addresses[1]) % 16 == 0)
        else:
            call.launch(0, addresses)

    def add(self, key: Any, y: Tensor) -> Call:
        """The kernel for another shape."""
        if len(self.calls) >= MOST:
            self.calls.clear()
        strides: Any = each(self.given[1], 2)
        pads: Any = each(self.given[2], 2)
        _, channels, rows, columns = y.shape
        sizes = Sizes(outputs=y.numel(), inner=channels, rows_out=rows, columns_out=columns, columns=key[0][3])
        windows = {"STRIDE": strides[0], "BEFORE": pads[0], "COLUMN_STRIDE": strides[1], "COLUMN_BEFORE": pads[1]}
        made = tile(ACC=None, BLOCK=BLOCK, **windows)
        self.calls[key] = Call(name_first, max(-(-y.numel() // BLOCK), 1), sizes, made, 4)
        return self.calls[key]
