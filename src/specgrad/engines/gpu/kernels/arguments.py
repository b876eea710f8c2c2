"""Arguments of kernels other than tensors: the sizes of a call, and the tile for which it is
compiled.

Triton takes a named tuple as one argument, and specialises each number of `Sizes` separately. A
field that a kernel does not use is None, is not passed, and fails if used. A `Tile` is one
constant.
"""

from typing import Any, NamedTuple

import triton.language as tl

from ..calls import INTERPRETED


class Sizes(NamedTuple):
    """Numbers of a call. `step_…` are the distances of neighbours in memory, in elements or
    vectors; names with `_out` count windows, names without count cells."""

    lanes: Any = None
    outputs: Any = None
    cells: Any = None
    blocks: Any = None
    outer: Any = None
    groups: Any = None
    """The size of the inner of two axes into which the outer batch was merged."""
    inner: Any = None
    depth_taps: Any = None
    step_outer: Any = None
    step_group: Any = None
    step_depth: Any = None
    step_row: Any = None
    step_column: Any = None
    step_inner: Any = None
    rows: Any = None
    rows_out: Any = None
    rows_before: Any = None
    rows_after: Any = None
    columns: Any = None
    columns_out: Any = None
    columns_before: Any = None
    columns_after: Any = None
    column_groups: Any = None
    """Lanes per row."""
    row_dilation: Any = None
    column_dilation: Any = None
    row_taps: Any = None
    column_taps: Any = None
    row_start: Any = None
    """The padded row at which the first program starts."""
    row_blocks: Any = None
    depths_out: Any = None
    depths: Any = None
    depths_before: Any = None
    depths_after: Any = None
    depth_blocks: Any = None
    depth_candidates: Any = None
    """The largest number of windows that read a cell."""
    row_candidates: Any = None
    column_candidates: Any = None
    per: Any = None
    """Rows or planes per program, in kernels that stream."""


class Tables(NamedTuple):
    """Tables of a plan, as made by `Plan`."""

    depths: Any = None
    rows: Any = None
    columns: Any = None
    depth_readers: Any = None
    row_readers: Any = None
    column_readers: Any = None
    row_spans: Any = None
    numbers: Any = None
    scale: Any = None


class Tile(NamedTuple):
    """Compile-time constants of a kernel, made by `tile`."""

    ACC: Any
    """The dtype of the computation."""
    BLOCK: int = 1
    """Lanes per program."""
    WIDE: bool = False
    """Whether offsets need 64 bits."""
    EVEN: bool = False
    """Whether all lanes exist."""
    KIND: str = ""
    COUNTED: str = "all"
    """The divisor of a sum: "all", one number; "exists" or "real", the number of existing or real
    taps."""
    DEPTH_TAPS: int = 1
    TAPS: int = 1
    """The taps of rows; STRIDE, BEFORE, SIZE (0: unknown) and LENGTH are of rows too."""
    STRIDE: int = 1
    BEFORE: int = 0
    SIZE: int = 0
    LENGTH: int = 0
    READERS: int = 1
    """The number of rows of windows that read a row of cells."""
    COLUMN_TAPS: int = 1
    COLUMN_STRIDE: int = 1
    COLUMN_BEFORE: int = 0
    COLUMN_SIZE: int = 0
    COLUMN_LENGTH: int = 0
    COLUMN_READERS: int = 1
    LOW_TAPS: int = 1
    """The taps of axes that were reduced before; codes count rows in this unit."""
    LOW: bool = False
    """Whether `low` has the codes of those axes."""
    DEEP: bool = False
    """Whether windows have depth."""
    WHOLE: bool = True
    """Whether every window has a real cell."""
    PADDED: bool = False
    """Whether some windows have padding."""
    ROWS: int = 1
    """Rows per program."""
    CELLS: int = 1
    """Rows of cells per program."""
    STEP: int = 1
    """Rows read before one is written."""
    V: int = 1
    """Neighbouring columns per lane."""
    W: int = 1
    """Columns read at once."""
    LEAD: int = 0
    """Columns read before the first needed one."""
    DENSE: bool = False
    """Whether all V columns exist and are contiguous when written."""
    FIXED: bool = True
    """Whether V is a multiple of the stride."""
    SHARE: str = ""
    NEED: int = 0
    """One bit per row: whether some window reads the row."""
    ALONE: bool = False
    """Whether a program has all rows."""
    AHEAD: bool = False
    """Whether the next step's rows are prefetched."""
    PAIRED: bool = False
    """Whether two codes share a word."""
    SPARSE: bool = False
    """Whether cells that won nothing are not written."""
    CROSS_TAPS: int = 0
    """Taps of columns, if the call also spreads along columns."""
    CROSS_BEFORE: int = 0
    LEFT: int = 0
    """Lanes at either end, or lines of lanes, that belong to neighbouring programs."""
    RIGHT: int = 0
    N: int = 1
    """A power of two, at least LEFT + RIGHT."""
    SLOTS: int = 0
    """Rows of a ring; ASKED is the assembly that allocates the ring."""
    ASKED: str = ""
    PLANES: int = 1
    """Planes per program, each ROWS × COLUMNS."""
    COLUMNS: int = 1
    ZERO: bool = False
    """Whether padding counts as 0; for ties, whether they share."""
    RAGGED: bool = False
    """Whether some taps do not exist."""
    KEEP: bool = False
    INDEX: bool = False
    EXACT: bool = False
    """Whether all taps of all windows are real."""
    PLANE: bool = False
    """Whether each window is a plane that is contiguous in memory."""
    ACROSS: bool = False
    """Whether neighbours in memory belong to different windows."""
    UNROLL: int = 1
    OUTPUTS: int = 1
    """Windows per program."""
    CHUNKS: int = 1


def tile(**words: Any) -> Tile:
    """A tile as kernels take it: compiled kernels need Triton's constants."""
    made = Tile(**words)
    return made if INTERPRETED else Tile(*map(tl.constexpr, made))
