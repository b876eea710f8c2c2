"""What torch's maxima of channels_last images name wrongly, put right."""

import triton
import triton.language as tl


@triton.jit
def name_first(y, places, cells, channels, length, column_length, column_size, stride, column_stride, before,
               column_before, BLOCK: tl.constexpr):  # fmt: skip
    """Where a maximum is -inf, its place becomes the first real cell of its window; y and places
    lie as (batch, rows, columns, channels), windows are not dilated."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    lowest = tl.load(y + at, at < cells, 0.0).to(tl.float32) == float("-inf")
    window = at // channels
    above = window // column_length
    column = tl.maximum((window - above * column_length) * column_stride - column_before, 0)
    row = tl.maximum((above % length) * stride - before, 0)
    tl.store(places + at, row * column_size + column, lowest)
