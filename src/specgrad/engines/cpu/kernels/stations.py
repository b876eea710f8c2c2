"""Where in the row of a pass of a chain each number stands, after the ten integers that the pass itself is told."""

LINES, CELLS, WINDOWS, ZEROS, MASS, READ, EXTREMES, SUMS, WIDTH = 10, 11, 12, 13, 14, 15, 16, 17, 18
