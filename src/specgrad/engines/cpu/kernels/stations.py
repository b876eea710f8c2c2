"""Where in the row of a pass of a chain each number stands: after the ten integers of its axis come those of the rows that its first pass folds along
with the lines in them (how many there are and are made, taps, stride, before, dilation, and how far apart their parts of `zeros` are), and how many
rows are laid out end to end."""

ROWS, GROUP = 10, 17
LINES, CELLS, WINDOWS, ZEROS, MASS, READ, EXTREMES, SUMS, WIDTH = 18, 19, 20, 21, 22, 23, 24, 25, 26
