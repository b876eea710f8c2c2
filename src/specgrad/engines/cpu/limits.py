"""The numbers by which the schedule chooses and cuts: sizes of vectors, tiles and tasks, and the
largest windows of each walk.

They are read as `limits.TILE`, so that tests may set others, under which small arrays have several
tiles and tasks.
"""

VECTOR = 64  # bytes of a vector, whatever registers the machine has
LANES = 32  # bytes of a vector of cells behind a place, at least, where lanes run along these
UNROLLED = 256  # taps of an axis that are joined without a loop, at most
REACH = 1024  # cells from the first tap of an axis to the last, at most, where rows are copied or kept
TILE = 256  # columns of windows in a tile, at most
LINES = 1 << 15  # cells of the lines of a tile
SMALL = 50  # taps of a window that is folded in registers, times its stride, at most: more compile slowly
TOTALS = 4  # vectors that a way back adds up at a time, at most
TOGETHER = 4  # rows of windows that are folded together in registers
NEIGHBOURS = 16  # taps of a window, behind which cells lie, that are folded at once, at most
GATHERED = 16  # taps of a window of which each cell gathers what it won, at most
DENSE = 2  # taps that a vector of cells looks at per window that it holds, at most, where each cell gathers
NEAR = 4  # cells that windows move by, at most, where lanes run along windows
NEAREST = 1 << 14  # bytes of planes that are filled side by side: they stay in a processor's nearest cache
LEAST, MOST = 1 << 13, 1 << 17  # cells that a task takes
