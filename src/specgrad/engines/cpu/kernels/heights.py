"""Of how many rows of windows, and of windows of how many rows, a stack is made: for `stacks`, and for whoever plans them."""

STACK = 4  # windows that are folded down together, and the fewest rows that they have
TALLEST = 16  # rows that they have at most; beyond it blocks, whose cost does not grow with the window, are faster
GROUP = 4  # rows of cells of which the winners are found across together
