"""What is worked out once: tables of shapes and plans for all calls alike, up to a number of
results and of cells in all.

`functools.lru_cache` counts results alone, and the tables of one long line are as large as many
images: of signals that all differ in length, hundreds would be kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

CELLS = 1 << 22  # cells of tables that are kept; and of larger ones, as many as four of the last
_caches: list[Any] = []
_kept = 0


class cached_property(Generic[T]):  # noqa: N801
    """`functools.cached_property` as from Python 3.12: before, it had a lock, which a thread that
    does not survive a fork left closed."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self.find, self.name, self.__doc__ = find, find.__name__, find.__doc__

    @overload
    def __get__(self, holder: None, owner: Any = None) -> cached_property[T]: ...
    @overload
    def __get__(self, holder: object, owner: Any = None) -> T: ...
    def __get__(self, holder: Any, owner: Any = None) -> cached_property[T] | T:
        if holder is None:
            return self
        found = holder.__dict__[self.name] = self.find(holder)
        return found


def cached(most: int, weigh: Callable[[Any], int] | None = None) -> Callable[[F], F]:
    """`functools.lru_cache(most)`, where `weigh` tells how many cells the tables of a result have,
    those found for it later included.

    When there are too many everything is forgotten: that is rare, and no hit pays for it.
    """

    def wrap(make: F) -> F:
        @functools.wraps(make)
        def weighed(*arguments: Any) -> Any:
            result = make(*arguments)
            if weigh is not None:
                make_room(weigh(result))
            return result

        cache: Any = functools.lru_cache(maxsize=most)(weighed)
        _caches.append(cache)
        return cache  # type: ignore[no-any-return]

    return wrap


def make_room(cells: int) -> None:
    """Forget everything where tables of so many more cells would be too many."""
    global _kept
    _kept += cells
    if _kept > max(CELLS, 4 * cells):
        for cache in _caches:
            cache.cache_clear()
        _kept = cells
