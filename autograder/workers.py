"""Ties the processes of a pool to the life of the one that started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

SET_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def end_with_parent() -> None:
    """Has this process end when its parent does, however that ends; else a pool would wait for ever."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent and parent.pid != os.getppid():  # it has ended already
        os._exit(1)
