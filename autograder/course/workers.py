"""Count the processors for a pool of processes, and end each process of a pool with its parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

MOST_WORKERS = 256
Progress = Callable[[int, int], None]
"""A function that receives the progress as (done, total)."""
SET_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def cores() -> int:
    """Return how many processors this process may use; a cluster may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def processes_with(modules: list[str]) -> BaseContext:
    """Return the way to start processes; where the machine can fork, they share one import of modules."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(modules)
    return context


def start_server(modules: list[str]) -> None:
    """Start the process that will fork the pool, so that it imports the modules while this process works."""
    if processes_with(modules).get_start_method() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


def end_with_parent() -> None:
    """End this process as soon as its parent ends for any reason; otherwise a pool may wait for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent and parent.pid != os.getppid():  # a server has forked this process, or the parent has ended
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def begin_worker() -> None:
    """Begin a process of a pool that computes with torch: it ends with its parent and uses one thread."""
    end_with_parent()
    import torch

    torch.set_num_threads(1)


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
