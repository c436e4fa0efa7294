"""Stop a call in this process after so many seconds of processor time."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from autograder.cage.calling import TimeUp


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` in the block after `seconds` of processor time, and again after each further second.

    On Windows and outside the main thread the block has no limit, since no signal arrives there. Afterwards
    the earlier handler and timer are restored, the timer without the time that has passed.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def time_up(signum: int, frame: Any) -> None:
        if running:
            raise TimeUp("the time limit passed")

    start = time.process_time()
    handler = signal.signal(signal.SIGPROF, time_up)
    left, interval = signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        if left:
            passed = time.process_time() - start
            signal.setitimer(signal.ITIMER_PROF, max(left - passed, 1e-3), interval)
