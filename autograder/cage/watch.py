"""Python's profiler as a watch over a student's function, and the note that somebody switched it off."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_switches: list[bool] = []
"""For each switch of the profiler since a watch began, whether it was this module's own."""
_ours = False


def note_switches() -> None:
    """Notes every switch of the profiler from now on, by whatever way, for as long as this process lives."""
    sys.addaudithook(lambda event, args: _switches.append(_ours) if event == "sys.setprofile" else None)


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
    """Watches with `see`; at the end the list that it gives holds True if somebody else set the profiler."""
    switched_off: list[bool] = []
    before = sys.getprofile()
    threading.setprofile(see)
    _switches.clear()
    switch(see)
    try:
        yield switched_off
    finally:
        switched_off += [True] * (not all(_switches))
        switch(before)
        threading.setprofile(None)
