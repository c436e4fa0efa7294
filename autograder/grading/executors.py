"""Grade tasks in this process, in several processes, or on a cluster: each executor is one of these places.

An executor takes (key, task) pairs and yields (key, verdict) pairs in the order in which they are done. An
executor writes no files; only its caller does.
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
"""The environment variable from which Dask itself reads the address of its scheduler."""
CONNECT_SECONDS = 30


def local(tasks: Iterable[Keyed], tier: str, workers: int = 1) -> Iterator[tuple[str, Verdict]]:
    """Grade the tasks one after another, in one pair of processes."""
    with Pair(tier) as pair:
        for key, task in tasks:
            yield key, pair.grade(task)


def processes(tasks: Iterable[Keyed], tier: str, workers: int) -> Iterator[tuple[str, Verdict]]:
    """Grade the tasks in `workers` pairs of processes; each pair has a thread that waits for its verdicts."""
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
    """The pairs of processes of several threads, one pair for each thread."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._all: list[Pair] = []

    def grade(self, task: Task, tier: str) -> Verdict:
        """Return the verdict of this thread's pair. If the pair has another tier, start a new pair first."""
        pair: Pair | None = getattr(self._thread, "pair", None)
        if pair is None or pair.tier != tier:
            if pair:
                pair.close()
            pair = self._thread.pair = Pair(tier)
            self._all.append(pair)
        return pair.grade(task)

    def close(self) -> None:
        """End all pairs."""
        for pair in self._all:
            pair.close()


def dask(tasks: Iterable[Keyed], tier: str, workers: int) -> Iterator[tuple[str, Verdict]]:
    """Grade the tasks on a Dask cluster, or in `workers` Dask processes here if no scheduler is named.

    Dask runs a task again if its worker is lost; the first verdict counts. A task whose workers end again and
    again gets a failed verdict. Workers may be added and removed during a run.
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
            yield keys.pop(future.key), Verdict("failed", note=_failure_note(result)) if failed else result
            keep_busy()


@contextmanager
def _client(workers: int) -> Iterator[Client]:
    """Connect to the named scheduler, or start a scheduler here.

    Raises:
        BadInputError: the scheduler does not answer, or has no workers.
    """
    try:
        import dask as configuration
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise BadInputError(f"--executor dask needs Dask ({error}). Run: pip install distributed") from error
    configuration.config.set({"distributed.scheduler.allowed-failures": 1})
    address = os.environ.get(SCHEDULER)
    local_cluster = None if address else LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
    try:
        with Client(local_cluster or address, timeout=CONNECT_SECONDS) as client:
            try:
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError as error:
                raise BadInputError(
                    f"the Dask scheduler at {address} has no workers. Start some, then run this again."
                ) from error
            yield client
    except OSError as error:
        if error.errno:  # an error of a disk; Dask's own errors have no number
            raise
        raise BadInputError(f"no Dask scheduler answers at {address} ({error}).") from error
    finally:
        if local_cluster:
            local_cluster.close()


def tier_of(executor: str, allow_unsafe: bool) -> str:
    """Return the tier to grade at: the tier of this machine, or the weakest tier among a cluster's workers.

    Raises:
        BadInputError: the tier is C or D and `allow_unsafe` is not given, or a worker has another version.
    """
    if executor != "dask" or not os.environ.get(SCHEDULER):
        return cages.required(allow_unsafe)
    with _client(1) as client:
        try:
            workers = client.run(_version_and_tier)
        except OSError as error:
            raise BadInputError(f"a worker of the Dask cluster cannot grade ({error}).") from error
    ours = versions.hash_everything()
    if other := [worker for worker, (version, _) in workers.items() if version != ours]:
        raise BadInputError(
            f"{other[0]} has another version of the grader, its libraries or Python than this machine. Run "
            "this command in the same image or environment as the workers."
        )
    return cages.required(allow_unsafe, max((held for _, held in workers.values()), key=lambda h: h.tier))


def _version_and_tier() -> tuple[str, cages.Held]:
    """Return the hash of this worker's code and the strongest tier of its machine."""
    return versions.hash_everything(), cages.strongest()


_pairs_here = _Pairs()


def _on_a_worker(task: Task, tier: str) -> Verdict:
    return _pairs_here.grade(task, tier)


def _failure_note(result: object) -> str:
    """Return a note on a failed task; Dask gives an exception, or its type, value and traceback."""
    error = result[1] if isinstance(result, tuple) else result
    return f"the cluster could not grade it ({error})"


EXECUTORS: dict[str, Executor] = {"local": local, "processes": processes, "dask": dask}


def grade_all(
    tasks: Iterable[Keyed], tier: str, executor: str = "processes", workers: int | None = None
) -> Iterator[tuple[str, Verdict]]:
    """Yield (key, verdict) for every task, in the order in which they are done.

    Args:
        tasks: pairs (key, task); they are read as fast as they are graded, to save memory.
        tier: the walls around each submission; see `autograder.grading.cages`.
        executor: a name in `EXECUTORS`.
        workers: the number of tasks graded at once; by default one for each core.
    """
    yield from EXECUTORS[executor](tasks, tier, workers or cores())
