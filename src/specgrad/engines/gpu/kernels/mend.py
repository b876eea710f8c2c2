"""What torch's maxima of channels_last images name wrongly, put right."""

import triton
import triton.language as tl


@triton.jit
def name_first(y, places, sizes, tile: tl.constexpr):
    """Where a maximum is -inf, its place becomes the first real cell of its window; y and places
    lie as (batch, rows, columns, channels), windows are not dilated."""
    at = tl.program_id(0).to(tl.int64) * tile.BLOCK + tl.arange(0, tile.BLOCK)
    lowest = tl.load(y + at, at < sizes.outputs, 0.0).to(tl.float32) == float("-inf")
    window = at // sizes.inner
    above = window // sizes.columns_out
    column = tl.maximum((window - above * sizes.columns_out) * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE, 0)
    row = tl.maximum((above % sizes.rows_out) * tile.STRIDE - tile.BEFORE, 0)
    tl.store(places + at, row * sizes.columns + column, lowest)
