"""A kernel with a common mistake: specgrad check examples/check_wrong.py:subject --operator MaxPool
--quick"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from specgrad.conformance import NotOffered


class ZeroPadded:
    """1-D max_pool that pads with zeros, so that padding wins over negative cells."""

    name = "zero padded"

    def forward(self, op, inputs):
        if op.name != "max_pool" or op.ceil_mode or op.axes or op.dilation != (1,) or op.padding == "same":
            raise NotOffered("other than plain 1-D max_pool")
        (x,) = inputs
        padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [*op.padding])
        return sliding_window_view(padded, op.kernel_size[0], -1)[..., :: op.stride[0], :].max(-1)


subject = ZeroPadded()
