"""Provide the function that students call in a notebook: `check(softmax)`."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder import exercises
from autograder.checking.candidate import local
from autograder.checking.comparison import describe
from autograder.checking.declaration import Function
from autograder.checking.examination import examine
from autograder.checking.report import Report
from autograder.course.visible import visible
from autograder.reading import forbidden_calls

PUBLIC_SEED = 2017
CALL_SECONDS = 20.0
"""The processor seconds for one call: more than the grader allows, since a student's machine may be slow."""


def check(function: Function, exercise: str | None = None) -> Report:
    """Examine your function on the public cases, print the report and return it.

    Args:
        function: your function (or class), under the name that the notebook gives it.
        exercise: the exercise's name, if your function has another name.

    Raises:
        TypeError: `function` is not a function or a class.
        UnknownExerciseError: no exercise has that name.
        KeyboardInterrupt: you stopped the check.
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
            report = examine(declared, local(function, calls, CALL_SECONDS), PUBLIC_SEED)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "check was stopped. If it ran for a long time, see whether every loop in your code ends"
        ) from None
    if report.forbidden:
        written = _written(function, namespace, calls)
        report = replace(report, note=forbidden_calls.describe_violation(report.forbidden, written))
    print(visible(report.wrapped()))
    return report


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread in the block: for the small tensors of the cases, more threads are slower."""
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
    """Return the forbidden name as it is written in the student's cells, which IPython keeps in `In`."""
    cells = [cell for cell in namespace.get("In", ()) if isinstance(cell, str)]
    if not cells:
        with contextlib.suppress(OSError, TypeError):
            cells = [inspect.getsource(function)]
    imports = [f"import {v.__name__} as {n}" for n, v in namespace.items() if inspect.ismodule(v)]
    return forbidden_calls.find([*imports, *cells], getattr(function, "__name__", ""), calls)


def _name(function: Function, namespace: dict[str, Any]) -> str:
    """Return a function's name in the exercises: its own name, or a name that the notebook assigned it to."""
    known = {name.split("/")[1] for name in exercises.names()}
    own_name = str(getattr(function, "__name__", type(function).__name__))
    bound = [name for name, value in namespace.items() if value is function and name in known]
    return own_name if own_name in known or not bound else bound[0]
