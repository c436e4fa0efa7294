"""Watch a student's function with Python's profiler, and notice if the student's code switches it off.

Searching the memory of the process, which would find the watch, is refused.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_switches: list[bool] = []
"""For each switch of the profiler since a watch began: True if this module made it."""
_ours = False
REFUSED = ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.addaudithook")
"""Audit events of memory searches, and of installing code that Python would run unwatched."""


def note_switches() -> None:
    """Record every switch of the profiler from now on, until this process ends.

    From now on searches of the memory are refused as well.
    """
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == "sys.setprofile":
        _switches.append(_ours)
    elif event in REFUSED:
        raise RuntimeError(f"{event} is not available while your work is graded: no answer needs it")


def switch(to: Any) -> None:
    """Set the profiler in the name of the grader."""
    global _ours
    _ours = True
    try:
        sys.setprofile(to)
    finally:
        _ours = False


@contextlib.contextmanager
def watch_calls(see: Callable[..., None]) -> Iterator[list[bool]]:
    """Run `see` at every call in the block; the yielded list then has True if other code set the profiler.

    Garbage collection is off in the block: it could run a student's finalizers while `see` runs, and `see`
    would miss their calls.
    """
    switched_off: list[bool] = []
    before = sys.getprofile()
    threading.setprofile(see)
    _switches.clear()
    collects = gc.isenabled()
    gc.disable()
    switch(see)
    try:
        yield switched_off
    finally:
        switched_off += [True] * (not all(_switches))
        switch(before if callable(before) else None)  # a cProfile that was left on cannot be restored
        threading.setprofile(None)
        if collects:
            gc.enable()
