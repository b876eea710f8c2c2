"""Narrow planes side by side: block b holds, for each cell, that cell of so many planes `together`, so that its rows are long.

The last block begins where it still is full: planes in it that the block before has too are made twice, with the same numbers.
"""

from __future__ import annotations

from .access import at
from .compiling import compiled, inline
from .rows import transpose


@inline
def bring_together(array, blocks, start, stop, planes, cells, together):
    """The blocks from `start` to `stop` of planes that have so many cells each."""
    for block in range(start, stop):
        first = min(block * together, planes - together)
        transpose(at(array, first * cells), together, cells, at(blocks, (block - start) * together * cells))


@inline
def take_apart(blocks, array, start, stop, planes, cells, together):
    """What `bring_together` undoes."""
    for block in range(start, stop):
        first = min(block * together, planes - together)
        transpose(at(blocks, (block - start) * together * cells), cells, together, at(array, first * cells))


@compiled
def side_by_side(source, target, planes, cells, together, start, stop):
    """target = the blocks of the source's planes."""
    bring_together(source, target, start, stop, planes, cells, together)


@compiled
def one_by_one(source, target, planes, cells, together, start, stop):
    """What `side_by_side` undoes."""
    take_apart(source, target, start, stop, planes, cells, together)
