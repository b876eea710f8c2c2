"""Where in a crew's array of integers each of them stands; a cache line apart where different threads write them."""

LINE = 8  # integers of a cache line
GATE, CODE, OPERANDS, OVER, WAKE, DONE, OWNED = 0, LINE, LINE + 1, LINE + 2, 2 * LINE, 3 * LINE, 4 * LINE
ASLEEP = 5 * LINE
SIZE = 6 * LINE

# and in the counter of a call: how many tasks are taken, if by one thread, how many others may come, whether one says so, and how many shares there are. Then, in a line of its own each,
# the shares: how many of its tasks are taken, which comes first, how many there are, and how far apart they are
OTHERS, SAYS, SHARES = 1, 2, 3
BEGIN, LENGTH, STEP = 1, 2, 3
