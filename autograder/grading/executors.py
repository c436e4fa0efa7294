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
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autograder.course.errors import BadInputError
from autograder.course.workers import cores
from autograder.grading import cages
from autograder.grading.pair import Pair, Task
from autograder.grading.verdict import Verdict
from autograder.release import versions

if TYPE_CHECKING:
    from distributed import Client

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
    A task that takes its worker down again and again is given up, and told. Workers may come and go.
    """
    with _client(workers) as client:
        from distributed import as_completed

        todo = iter(tasks)
        keys: dict[object, str] = {}
        done = as_completed(with_results=True, raise_errors=False)

        def keep_busy() -> None:
            room = 2 * max(1, sum(client.nthreads().values())) - len(keys)
            for key, task in itertools.islice(todo, max(0, room)):
                future = client.submit(_on_a_worker, task, tier, pure=False)
                keys[future.key] = key
                done.add(future)

        keep_busy()
        for future, result in done:
            failed = future.status != "finished"
            future.release()
            yield keys.pop(future.key), Verdict("failed", note=_told(result)) if failed else result
            keep_busy()


@contextmanager
def _client(workers: int) -> Iterator[Client]:
    """Connects to the scheduler that is named, or starts one here.

    Raises:
        BadInputError: it does not answer, or has no workers.
    """
    try:
        import dask as configuration
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise BadInputError(f"--executor dask needs Dask ({error}). Run: pip install distributed") from error
    configuration.config.set({"distributed.scheduler.allowed-failures": 1})
    address = os.environ.get(SCHEDULER)
    own = None if address else LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
    try:
        with Client(own or address, timeout=CONNECT_SECONDS) as client:
            try:
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError as error:
                raise BadInputError(
                    f"the Dask scheduler at {address} has no workers. Start some, then run this again."
                ) from error
            yield client
    except OSError as error:
        raise BadInputError(f"no Dask scheduler answers at {address} ({error}).") from error
    finally:
        if own:
            own.close()


def tier_of(executor: str, allow_unsafe: bool) -> str:
    """The tier to grade at: that of this machine, or the weakest among the workers of a cluster.

    Raises:
        BadInputError: it is C or D, and nobody said that this is meant; or a worker would grade otherwise.
    """
    if executor != "dask" or not os.environ.get(SCHEDULER):
        return cages.required(allow_unsafe)
    with _client(1) as client:
        workers = client.run(_standing)
    ours = versions.of_everything()
    if other := [worker for worker, (version, _) in workers.items() if version != ours]:
        raise BadInputError(
            f"{other[0]} has another version of the grader, its libraries or Python than this machine. Run "
            "this command in the same image or environment as the workers."
        )
    return cages.required(allow_unsafe, max((held for _, held in workers.values()), key=lambda h: h.tier))


def _standing() -> tuple[str, cages.Held]:
    """What a worker grades with: its version of everything, and the tier that it holds."""
    return versions.of_everything(), cages.strongest()


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
    yield from EXECUTORS[executor](tasks, tier, workers or cores())
