"""Where submissions are graded: the one seam at which a cluster can be put in.

An executor takes (key, task) pairs and yields (key, verdict) pairs in the order in which they are done. It
writes nothing: that is the caller's, and only the caller's.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from autograder.errors import BadInputError
from autograder.grading.pair import Pair, Task
from autograder.grading.verdict import Verdict

Keyed = tuple[str, Task]
Executor = Callable[[Iterable[Keyed], str, int], Iterator[tuple[str, Verdict]]]

SCHEDULER = "DASK_SCHEDULER_ADDRESS"
"""Where Dask itself looks for the address of its scheduler."""
CONNECT_SECONDS = 30


def local(tasks: Iterable[Keyed], tier: str, workers: int = 1) -> Iterator[tuple[str, Verdict]]:
    """One after another, in one pair."""
    with Pair(tier) as pair:
        for key, task in tasks:
            yield key, pair.grade(task)


def processes(tasks: Iterable[Keyed], tier: str, workers: int) -> Iterator[tuple[str, Verdict]]:
    """In `workers` pairs of processes; a thread each only waits for its pair."""
    pairs = _Pairs()
    waiting: dict[Future[Verdict], str] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="pair") as pool:
        try:
            for key, task in tasks:
                waiting[pool.submit(pairs.grade, task, tier)] = key
                if len(waiting) > 2 * workers:
                    yield from _done(waiting)
            while waiting:
                yield from _done(waiting)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            pairs.close()


def _done(waiting: dict[Future[Verdict], str]) -> Iterator[tuple[str, Verdict]]:
    finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in finished:
        yield waiting.pop(future), future.result()


class _Pairs:
    """A pair for each thread that asks for one."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[Pair] = []

    def grade(self, task: Task, tier: str) -> Verdict:
        """The verdict of this thread's pair."""
        if not hasattr(self._own, "pair"):
            self._own.pair = Pair(tier)
            self._all.append(self._own.pair)
        verdict: Verdict = self._own.pair.grade(task)
        return verdict

    def close(self) -> None:
        """Ends them all."""
        for pair in self._all:
            pair.close()


def dask(tasks: Iterable[Keyed], tier: str, workers: int) -> Iterator[tuple[str, Verdict]]:
    """On the workers of a Dask cluster, or on `workers` of its processes here if no scheduler is named.

    Dask may run a task twice, when it has lost a worker; the first verdict that comes is the one that counts.
    A task that takes its worker down again and again is given up, and told.
    """
    try:
        import dask as configuration
        from distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise BadInputError(f"--executor dask needs Dask ({error}). Run: pip install distributed") from error
    configuration.config.set({"distributed.scheduler.allowed-failures": 1})
    address = os.environ.get(SCHEDULER)
    own = None if address else LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
    try:
        with Client(own or address, timeout=CONNECT_SECONDS) as client:
            todo, keys = iter(tasks), {}
            done = as_completed(with_results=True, raise_errors=False)

            def submit(count: int) -> None:
                for key, task in itertools.islice(todo, count):
                    future = client.submit(_on_a_worker, task, tier, pure=False)
                    keys[future.key] = key
                    done.add(future)

            submit(2 * max(1, sum(client.nthreads().values())))
            for future, result in done:
                failed = future.status != "finished"
                future.release()
                yield keys.pop(future.key), Verdict("failed", note=_told(result)) if failed else result
                submit(1)
    except OSError as error:
        raise BadInputError(f"no Dask scheduler answers at {address} ({error}).") from error
    finally:
        if own:
            own.close()


_here = _Pairs()


def _on_a_worker(task: Task, tier: str) -> Verdict:
    return _here.grade(task, tier)


def _told(result: object) -> str:
    """What Dask says of a task that came to nothing: an exception, or its type, value and traceback."""
    error = result[1] if isinstance(result, tuple) else result
    return f"the cluster could not grade it ({error}); grade again"


EXECUTORS: dict[str, Executor] = {"local": local, "processes": processes, "dask": dask}


def grade_all(
    tasks: Iterable[Keyed], tier: str, executor: str = "processes", workers: int | None = None
) -> Iterator[tuple[str, Verdict]]:
    """Yields (key, verdict) for every task, as they are done.

    Args:
        tasks: read only as fast as they are graded, so that a large class does not fill the memory.
        tier: the walls around each; see `autograder.grading.cages`.
        executor: a name in `EXECUTORS`.
        workers: how many at once; by default one for each core.
    """
    yield from EXECUTORS[executor](tasks, tier, workers or os.cpu_count() or 1)
