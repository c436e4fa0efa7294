"""Where submissions are graded: the one seam at which a cluster can be put in.

An executor takes (key, task) pairs and yields (key, verdict) pairs in the order in which they are done. It
writes nothing: that is the caller's, and only the caller's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from autograder.grading.pair import Pair, Task
from autograder.grading.verdict import Verdict

Keyed = tuple[str, Task]
Executor = Callable[[Iterable[Keyed], int], Iterator[tuple[str, Verdict]]]


def local(tasks: Iterable[Keyed], workers: int = 1) -> Iterator[tuple[str, Verdict]]:
    """One after another, in one pair."""
    with Pair() as pair:
        for key, task in tasks:
            yield key, pair.grade(task)


def processes(tasks: Iterable[Keyed], workers: int) -> Iterator[tuple[str, Verdict]]:
    """In `workers` pairs of processes; a thread each only waits for its pair."""
    own = threading.local()
    pairs: list[Pair] = []

    def grade(task: Task) -> Verdict:
        if not hasattr(own, "pair"):
            own.pair = Pair()
            pairs.append(own.pair)
        verdict: Verdict = own.pair.grade(task)
        return verdict

    waiting: dict[Future[Verdict], str] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="pair") as pool:
        try:
            for key, task in tasks:
                waiting[pool.submit(grade, task)] = key
                if len(waiting) > 2 * workers:
                    yield from _done(waiting)
            while waiting:
                yield from _done(waiting)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for pair in pairs:
                pair.close()


def _done(waiting: dict[Future[Verdict], str]) -> Iterator[tuple[str, Verdict]]:
    finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in finished:
        yield waiting.pop(future), future.result()


EXECUTORS: dict[str, Executor] = {"local": local, "processes": processes}


def grade_all(
    tasks: Iterable[Keyed], executor: str = "processes", workers: int | None = None
) -> Iterator[tuple[str, Verdict]]:
    """Yields (key, verdict) for every task, as they are done.

    Args:
        tasks: read only as fast as they are graded, so that a large class does not fill the memory.
        executor: a name in `EXECUTORS`.
        workers: how many at once; by default one for each core.
    """
    yield from EXECUTORS[executor](tasks, workers or os.cpu_count() or 1)
