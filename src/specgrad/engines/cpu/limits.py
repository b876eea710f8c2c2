"""Constants of the schedule: sizes of vectors, tiles and tasks, and the largest window of each
walk.

They are read as `limits.TILE`, so that tests can set smaller constants, with which small arrays
have several tiles and tasks.
"""

VECTOR = 64  # bytes of a vector, whatever registers the machine has
LANES = 32  # bytes of a vector of cells behind a place, at least, where lanes run along these
UNROLLED = 256  # taps of an axis that are joined without a loop, at most
REACH = 1024  # cells from the first tap of an axis to the last, at most, where rows are copied or kept
TILE = 256  # columns of windows in a tile, at most
LINES = 1 << 15  # cells of 4 bytes or more in the lines of a tile, and as many bytes of smaller ones
SMALL = 50  # taps of a window that is folded in registers, times its stride, at most: more compile slowly
TOTALS = 4  # vectors that a way back adds up at a time, at most
TOGETHER = 4  # rows of windows that are folded together in registers
NEIGHBOURS = 16  # taps of a window, behind which cells lie, that are folded at once, at most
AGAIN = 8  # windows that read a cell, on average, at most, where each folds all of its own
ROWS = 32  # rows of a bin before channels that are reduced first, at most: more meet in one set of a cache
GATHERED = 16  # taps of a window of which each cell gathers what it won, at most
DENSE = 2  # taps that a vector of cells looks at per window that it holds, at most, where each cell gathers
FLAT = 1.25  # the same where whole planes gather, in vectors, those that copy rows of windows included
FULL = 0.75  # how full the vectors of a row are, at least, where planes gather row by row
PLANE = 1 << 17  # bytes of a plane that gathers as a whole, at most
PLACES = 1 << 16  # cells of a table of where the windows of a plane lie, at most, that holds inner cells too
NEAR = 4  # cells that windows move by, at most, where lanes run along windows
FAR = 64  # cells that windows move by, at most, where their rows are read by vectors, which hold what lies between
NEAREST = 1 << 14  # bytes of planes that are filled side by side: they stay in a processor's nearest cache
LEAST, MOST = 1 << 13, 1 << 17  # cells that a task takes
PIECE = 1 << 16  # cells that NumPy computes, moves or adds up at a time, on each thread
