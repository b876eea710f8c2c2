"""Narrow planes side by side: block b holds, for each cell, that cell of so many planes `together`, so that its rows are long.

The last block begins where it still is full: planes in it that the block before has too are made twice, with the same numbers.
"""

from __future__ import annotations

from .access import at
from .compiling import compiled
from .rows import transpose


@compiled
def side_by_side(source, target, planes, cells, together, start, stop):
    """target = the blocks from `start` to `stop` of planes that have so many cells each."""
    for block in range(start, stop):
        first = min(block * together, planes - together)
        transpose(at(source, first * cells), together, cells, at(target, (block - start) * together * cells))


@compiled
def one_by_one(source, target, planes, cells, together, start, stop):
    """What `side_by_side` undoes."""
    for block in range(start, stop):
        first = min(block * together, planes - together)
        transpose(at(source, (block - start) * together * cells), cells, together, at(target, first * cells))
