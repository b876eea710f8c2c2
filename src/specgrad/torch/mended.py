"""Maxima of small channels_last images on a CUDA device that need a gradient: by torch's own
kernels, which take less host time than ours, with their one defect corrected.

If all cells of a window are -inf, torch's index is the first cell of the plane instead of the first
cell of the window (`defects`). A kernel of ours corrects these indices before anything reads them.
The backward is torch's own. Most maxima pool the result of a relu and need no correction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..engines.gpu.calls import Call, hooked
from ..engines.gpu.kernels.arguments import Sizes, tile
from ..engines.gpu.kernels.mend import name_first
from ..engines.torch_private import active_transform, current_device, dispatch_modes, is_deterministic, is_dual, private
from .parsing import each

MOST = 4096  # cached shapes
BLOCK = 1024
RELU = "ReluBackward0"
WITHOUT_NEW_CELLS = ("MaxPool2DWithIndicesBackward0", "CatBackward0")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
with_indices: Any = private("_C._nn.max_pool2d_with_indices", torch.ops.aten.max_pool2d_with_indices)
saving_hooks: Any = private("_C._autograd._top_saved_tensors_default_hooks", lambda _: True)
"""The hooks that are called with saved tensors, or None; if torch cannot say: some."""


class Mended:
    """max_pool2d with some arguments, for the images that `takes` accepts."""

    def __init__(self, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> None:
        self.given = kernel, stride, padding, dilation, ceil_mode
        self.calls: dict[Any, Call] = {}

    @staticmethod
    def is_needless(x: Tensor) -> bool:
        """Whether the cells are results of relus, directly or through one concatenation or one
        maximum, so that none is -inf.

        If -inf was written into the result of a relu, the relu's backward gives zero there or
        raises an error, so a wrong index does not matter. Other tensors that were written to
        (`_version`) are corrected. With deterministic algorithms our kernels run instead."""
        if is_deterministic():
            return False
        node = x.grad_fn
        kind = type(node).__name__
        if kind == RELU:
            return True
        if kind not in WITHOUT_NEW_CELLS or x._version:
            return False
        return all(type(source).__name__ == RELU for source, _ in node.next_functions)  # type: ignore[union-attr]

    def takes(self, x: Tensor) -> bool:
        """Whether only ordinary autograd takes part in a call, without hooks for saved tensors: a
        hook would get the indices before they are corrected. With deterministic algorithms our
        kernels run instead."""
        return (
            x.ndim == 4
            and x.dtype in DTYPES
            and x.is_contiguous(memory_format=torch.channels_last)
            and dispatch_modes() == 0
            and active_transform() is None
            and not is_dual()
            and saving_hooks(False) is None
            and not is_deterministic()
            and current_device() == x.get_device()
        )

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor
        y, places = with_indices(x, *self.given)
        self.mend(x.shape, y, places)
        return y

    def mend(self, shape: torch.Size, y: Tensor, places: Tensor) -> None:
        """Correct the indices of windows that are all -inf."""
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
