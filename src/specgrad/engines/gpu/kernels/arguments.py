"""What kernels are given beside tensors: the sizes of a call, and the tile that it is compiled
for.

Triton takes a named tuple as one argument. Each number of `Sizes` is specialised by itself, as an
argument of its own would be; what a kernel does not read is None, which is not passed, and is no
number if it is read after all. A `Tile` is one constant.
"""

from typing import Any, NamedTuple

import triton.language as tl

from ..calls import INTERPRETED


class Sizes(NamedTuple):
    """Numbers of a call. `steps` are between neighbours in memory, in elements or in vectors of
    them; `_out` is of windows, the same name without it of cells."""

    lanes: Any = None
    outputs: Any = None
    cells: Any = None
    blocks: Any = None
    outer: Any = None
    groups: Any = None
    """Of the outer batch, whose axes were merged into two."""
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
    """Lanes of a row."""
    row_dilation: Any = None
    column_dilation: Any = None
    row_taps: Any = None
    column_taps: Any = None
    row_start: Any = None
    """The padded row that the first program starts with."""
    row_blocks: Any = None
    depths_out: Any = None
    depths: Any = None
    depths_before: Any = None
    depths_after: Any = None
    depth_blocks: Any = None
    depth_candidates: Any = None
    """Windows that read a cell, at most."""
    row_candidates: Any = None
    column_candidates: Any = None
    per: Any = None
    """Rows or planes of a program that walks along them."""


class Tables(NamedTuple):
    """Tables of a plan, as `Plan` makes them."""

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
    """Constants of a kernel; `tile` makes one."""

    ACC: Any
    """The type of the computation."""
    BLOCK: int = 1
    """Lanes of a program."""
    WIDE: bool = False
    """Whether offsets need 64 bits."""
    EVEN: bool = False
    """Whether all lanes exist."""
    KIND: str = ""
    COUNTED: str = "all"
    """What a sum is divided by: "all", a number; "exists" or "real", the taps that do."""
    DEPTH_TAPS: int = 1
    TAPS: int = 1
    """Of rows, as STRIDE, BEFORE, SIZE (0: not known) and LENGTH are."""
    STRIDE: int = 1
    BEFORE: int = 0
    SIZE: int = 0
    LENGTH: int = 0
    READERS: int = 1
    """Rows of windows that read a row of cells."""
    COLUMN_TAPS: int = 1
    COLUMN_STRIDE: int = 1
    COLUMN_BEFORE: int = 0
    COLUMN_SIZE: int = 0
    COLUMN_LENGTH: int = 0
    COLUMN_READERS: int = 1
    LOW_TAPS: int = 1
    """Taps of the axes that were folded before, in the unit of which codes count rows."""
    LOW: bool = False
    """Whether `low` has the codes of these axes."""
    DEEP: bool = False
    """Whether windows have depth."""
    WHOLE: bool = True
    """Whether each window has a real cell."""
    PADDED: bool = False
    """Whether some windows have others."""
    ROWS: int = 1
    """Rows of a program."""
    CELLS: int = 1
    """Rows of cells of a program."""
    STEP: int = 1
    """Rows that are read before one is written."""
    V: int = 1
    """Neighbouring columns of a lane."""
    W: int = 1
    """Columns that are read at once."""
    LEAD: int = 0
    """Columns that are read before the first that is needed."""
    DENSE: bool = False
    """Whether all V columns are written, side by side."""
    FIXED: bool = True
    """Whether V is a multiple of the stride."""
    SHARE: str = ""
    NEED: int = 0
    """A bit for each row that some window reads."""
    ALONE: bool = False
    """Whether a program has all rows."""
    AHEAD: bool = False
    """Whether the next step's rows are fetched."""
    PAIRED: bool = False
    """Whether codes go two in a word."""
    SPARSE: bool = False
    """Whether cells that won nothing are left out."""
    CROSS_TAPS: int = 0
    """Columns along which cotangents go in the same call."""
    CROSS_BEFORE: int = 0
    LEFT: int = 0
    """Lanes at either end, or lines of them, that are other programs'."""
    RIGHT: int = 0
    N: int = 1
    """A power of two, not less than LEFT + RIGHT."""
    SLOTS: int = 0
    """Rows of a ring, and the words that ask for its memory."""
    ASKED: str = ""
    PLANES: int = 1
    """Planes of a program, of ROWS × COLUMNS."""
    COLUMNS: int = 1
    ZERO: bool = False
    """Whether padding counts as 0; of ties, whether they share."""
    RAGGED: bool = False
    """Whether some taps do not exist."""
    KEEP: bool = False
    INDEX: bool = False
    EXACT: bool = False
    """Whether all taps of all windows are real."""
    PLANE: bool = False
    """Whether each window is a plane that lies as one line."""
    ACROSS: bool = False
    """Whether neighbours in memory are of different windows."""
    UNROLL: int = 1
    OUTPUTS: int = 1
    """Windows of a program."""
    CHUNKS: int = 1


def tile(**words: Any) -> Tile:
    """A tile as kernels take it: of Triton's constants, where they are compiled."""
    made = Tile(**words)
    return made if INTERPRETED else Tile(*map(tl.constexpr, made))
