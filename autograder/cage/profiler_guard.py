"""Python's profiler as a watch over a student's function, and the note that somebody switched it off.

Who searches the memory of the process for the watch is refused.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_switches: list[bool] = []
"""For each switch of the profiler since a watch began, whether it was this module's own."""
_ours = False
REFUSED = ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.addaudithook")
"""Searches of the memory, by whatever name they are called, and code that Python would run unwatched."""


def note_switches() -> None:
    """Notes every switch of the profiler from now on, by whatever way, for as long as this process lives.

    From then on nobody searches the memory either: Python asks here before it does.
    """
    sys.addaudithook(_asked)


def _asked(event: str, args: tuple[Any, ...]) -> None:
    if event == "sys.setprofile":
        _switches.append(_ours)
    elif event in REFUSED:
        raise RuntimeError(f"{event} is not to be had while your work is graded: no answer needs it")


def switch(to: Any) -> None:
    """Sets the profiler, as what belongs to the grader may."""
    global _ours
    _ours = True
    try:
        sys.setprofile(to)
    finally:
        _ours = False


@contextlib.contextmanager
def kept(see: Callable[..., None]) -> Iterator[list[bool]]:
    """Watches with `see`; at the end the list that it gives holds True if somebody else set the profiler.

    Python collects no garbage meanwhile: it would do so while `see` runs, and what a student wrote for the
    end of an object would run unseen.
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
        switch(before if callable(before) else None)  # a cProfile that was left on cannot be put back
        threading.setprofile(None)
        if collects:
            gc.enable()
