"""The tasks of all families, spread over processes; after a budget the results so far are kept."""

from __future__ import annotations

import importlib
import itertools
import math
import multiprocessing
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from ..threads import get_num_threads
from .statement import Found, Verdict

Task = tuple[str, Any]


def tasks(family: str, subjects: Sequence[Any] = ()) -> list[Task]:
    """The tasks of a family, for these operators or emitters of kernels, or for all.

    The order is mixed, so that the first tasks are a fair sample.
    """
    found = importlib.import_module(f"{__package__}.{family}").tasks()
    random.Random(0).shuffle(found)
    kinds: dict[Any, list[Any]] = {}
    for task in found:
        kinds.setdefault(getattr(task, "emitter", type(getattr(task, "op", None))), []).append(task)
    return [(family, task) for task in mixed(some for kind, some in kinds.items() if not subjects or kind in subjects)]


def mixed(lists: Iterable[Sequence[Any]]) -> list[Any]:
    """The first elements of all lists, then the second elements, and so on."""
    turns = itertools.zip_longest(*lists)
    return [one for turn in turns for one in turn if one is not None]


def decide(task: Task, deadline: float = math.inf) -> list[Found]:
    """The verdicts of one task; an exception counts as an undecided statement."""
    family, what = task
    try:
        return list(importlib.import_module(f"{__package__}.{family}").run(what, deadline))
    except Exception as error:
        verdict = Verdict("undecided", 0.0, reason=f"{type(error).__name__}: {error}")
        return [Found(str(what), "can be stated", True, str(what), verdict)]


def run(todo: Sequence[Task], budget: float | None = None, client: Any = None) -> Iterator[tuple[str, list[Found]]]:
    """Decide tasks in several processes, until all are done or `budget` seconds are over.

    With a client of a cluster, its workers decide.
    """
    deadline = math.inf if budget is None else time.time() + budget
    done: queue.SimpleQueue[Future[list[Found]]] = queue.SimpleQueue()
    if client is None:
        pool: Any = ProcessPoolExecutor(get_num_threads(), multiprocessing.get_context("spawn"), _begin)
    else:
        pool = client.get_executor(pure=False)
    try:
        families = {pool.submit(decide, task, deadline): task[0] for task in todo}
        for future in families:
            future.add_done_callback(done.put)
        for _ in todo:
            future = done.get(timeout=None if budget is None else max(deadline - time.time(), 0))
            yield families[future], future.result()
    except queue.Empty:
        return
    finally:
        if client is None:
            pool.shutdown(cancel_futures=True)
        else:
            client.close()  # cancels running tasks


def _begin() -> None:
    """Ignore SIGINT, which the parent process handles, and end when the parent ends for any
    reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
