"""Count the processors for a pool of processes, and end each process of a pool with its parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable

MOST_WORKERS = 256
Progress = Callable[[int, int], None]
"""A function that receives the progress as (done, total)."""
SET_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def cores() -> int:
    """Return how many processors this process may use; a cluster may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def end_with_parent() -> None:
    """End this process as soon as its parent ends for any reason; otherwise a pool may wait for ever."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent and parent.pid != os.getppid():  # the parent has already ended
        os._exit(1)
