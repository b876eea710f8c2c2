"""Where in a crew's array of integers each of them stands; a cache line apart where different threads write them."""

LINE = 8  # integers of a cache line
GATE, CODE, OPERANDS, OVER, WAKE, DONE, OWNED = 0, LINE, LINE + 1, LINE + 2, 2 * LINE, 3 * LINE, 4 * LINE
ASLEEP = 5 * LINE
SIZE = 6 * LINE

# and in the counter of a call: how many tasks are taken, if by one thread, how many others may come, whether one says so, how many tasks there are, and whether the last ones come first; then, each in a line of its
# own, how many are taken of each share
TAKEN, OTHERS, SAYS, TASKS, BACKWARDS = 0, 1, 2, 3, 4
