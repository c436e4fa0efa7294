"""What a student calls in the notebook: `check(softmax)`."""

from __future__ import annotations

import contextlib
import inspect
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder import exercises
from autograder.cage.calling import TimeUp
from autograder.cage.probes import LONGER
from autograder.checking.candidate import Candidate, local
from autograder.checking.comparison import describe
from autograder.checking.declaration import Case, Function, Outcome
from autograder.checking.examination import examine
from autograder.checking.report import Report
from autograder.course.visible import visible
from autograder.reading import forbidden_calls

PUBLIC_SEED = 2017
CALL_SECONDS = 20.0
"""Processor seconds that one call may take: more than the grader gives, for a slow machine."""


def check(function: Function, exercise: str | None = None) -> Report:
    """Examines your function at once on cases that anyone may see, prints the report and returns it.

    Args:
        function: your function (or class), under the name that the notebook gives it.
        exercise: the exercise's name, if your function is called something else.

    Raises:
        TypeError: that is no function.
        UnknownExerciseError: no exercise has that name.
        KeyboardInterrupt: you stopped it.
    """
    if not callable(function):
        raise TypeError(
            f"check expects your function itself, as in check(softmax); it got {describe(function)}"
        )
    namespace = sys._getframe(1).f_globals
    declared = exercises.find(exercise or _name(function, namespace))
    calls = (*declared.forbidden, "tfcore")
    try:
        with _one_thread():
            report = examine(declared, _in_time(local(function, calls)), PUBLIC_SEED)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "check was stopped. Had it run for long? Then see whether every loop in your code ends"
        ) from None
    if report.forbidden:
        written = _written(function, namespace, calls)
        report = replace(report, note=forbidden_calls.told(report.forbidden, written))
    print(visible(report.wrapped()))
    return report


def _in_time(candidate: Candidate) -> Candidate:
    """The candidate, each of its calls stopped at the limit as the grader does."""

    def call(case: Case) -> Outcome:
        try:
            with _limited(LONGER.get(case.probe, 1) * CALL_SECONDS):
                return candidate(case)
        except TimeUp as late:
            return Outcome(error="TimeUp", message=str(late))

    return call


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises `TimeUp` after so many processor seconds, and each second from then on.

    There is no limit on Windows or outside the main thread, where no signal arrives. The handler and the
    timer that were there are put back, the timer less the time that has passed.
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


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors as small as those of the cases are slower with several threads than with one."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 1
    try:
        if torch:
            torch.set_num_threads(1)
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


def _written(function: Function, namespace: dict[str, Any], calls: tuple[str, ...]) -> str | None:
    """The forbidden name in the student's own source: the cells, which IPython keeps in `In`."""
    cells = [cell for cell in namespace.get("In", ()) if isinstance(cell, str)]
    if not cells:
        with contextlib.suppress(OSError, TypeError):
            cells = [inspect.getsource(function)]
    imports = [f"import {v.__name__} as {n}" for n, v in namespace.items() if inspect.ismodule(v)]
    return forbidden_calls.find([*imports, *cells], getattr(function, "__name__", ""), calls)


def _name(function: Function, namespace: dict[str, Any]) -> str:
    """What a function is called: its own name, or that of the exercise it is assigned to."""
    known = {name.split("/")[1] for name in exercises.names()}
    own = str(getattr(function, "__name__", type(function).__name__))
    bound = [name for name, value in namespace.items() if value is function and name in known]
    return own if own in known or not bound else bound[0]
