"""Where in a crew's array of integers each of them stands; a cache line apart where different threads write them."""

LINE = 8  # integers of a cache line
GATE, CODE, OPERANDS, OVER, WAKE, DONE, OWNED = 0, LINE, LINE + 1, LINE + 2, 2 * LINE, 3 * LINE, 4 * LINE
ASLEEP = 5 * LINE
SIZE = 6 * LINE
