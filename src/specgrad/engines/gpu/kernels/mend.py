"""Correction of the indices of torch's max pooling of channels_last images."""

import triton
import triton.language as tl


@triton.jit
def name_first(y, places, sizes, tile: tl.constexpr):
    """Where a maximum is -inf, set its index to the first real cell of its window; y and places are
    (batch, rows, columns, channels), without dilation."""
    at = tl.program_id(0).to(tl.int64) * tile.BLOCK + tl.arange(0, tile.BLOCK)
    lowest = tl.load(y + at, at < sizes.outputs, 0.0).to(tl.float32) == float("-inf")
    window = at // sizes.inner
    above = window // sizes.columns_out
    column = tl.maximum((window - above * sizes.columns_out) * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE, 0)
    row = tl.maximum((above % sizes.rows_out) * tile.STRIDE - tile.BEFORE, 0)
    tl.store(places + at, row * sizes.columns + column, lowest)
