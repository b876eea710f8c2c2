"""A NumPy kernel to check: specgrad check examples/check_numpy.py:subject"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from specgrad.conformance import NotOffered


class NumpyMaxPool:
    """max_pool by strided views: any rank, no ceil_mode; padding by -inf."""

    name = "numpy max pool"
    conventions = ("empty window is -inf",)  # what this kernel documents: shown as such, not as wrong

    def forward(self, op, inputs):
        if op.name != "max_pool" or op.ceil_mode or op.axes is not None or inputs[0].dtype.kind != "f":
            raise NotOffered("other than max_pool of floats on the last axes, without ceil_mode")
        (x,) = inputs
        rank = len(op.kernel_size)
        if rank == 0:
            return x.copy()
        shape = op.output_shape(x.shape)  # refuses what does not fit
        axes = op.spatial(x.shape[x.ndim - rank :])
        around = [(0, 0)] * (x.ndim - rank) + [(axis.before, axis.after) for axis in axes]
        padded = np.pad(x, around, constant_values=-np.inf)
        spans = tuple(axis.extent for axis in axes)
        windows = sliding_window_view(padded, spans, axis=tuple(range(x.ndim - rank, x.ndim)))
        every = (
            ...,
            *(slice(None, None, axis.stride) for axis in axes),
            *(slice(None, None, axis.dilation) for axis in axes),
        )
        taps = windows[every].reshape(*shape, int(np.prod(op.kernel_size)))
        first = np.take_along_axis(taps, np.argmax(taps, axis=-1)[..., None], axis=-1)[..., 0]
        return np.where(np.isnan(taps).any(-1), np.nan, first).astype(x.dtype)


subject = NumpyMaxPool()
