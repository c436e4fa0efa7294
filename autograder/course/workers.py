"""The processes of a pool: how many there may be, and how they end with the one that started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable

MOST_WORKERS = 256
Progress = Callable[[int, int], None]
"""Hears how much is done, and of how much."""
SET_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def cores() -> int:
    """How many processors this process may use; a cluster may give it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def end_with_parent() -> None:
    """Has this process end when its parent does, however that ends; else a pool would wait for ever."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent and parent.pid != os.getppid():  # it has ended already
        os._exit(1)
