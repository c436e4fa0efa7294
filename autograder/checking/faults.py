"""Judge one outcome of one case: what is wrong with it, in a sentence, or None."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from autograder.cage import tensors
from autograder.checking.candidate import unjudged
from autograder.checking.comparison import describe, differs, same_form
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Trial

MADE_FIRST = ("module", "parameters", "steps", "asked", "trained")
"""How the probes begin that make an object, with their first argument."""


@dataclass(frozen=True)
class Raised:
    """Stands for a value where the right thing is to raise that error."""

    error: str


def observed_in(criterion: Criterion, outcome: Outcome) -> Any:
    seen = {"value": outcome.value, "arguments": outcome.arguments, "cost": outcome.cost}
    return seen[criterion.observes]


def judged(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    """What is wrong with an outcome; one that raises an error while it is looked at is wrong."""
    try:
        return fault_in(exercise, criterion, trial)
    except Exception as error:
        return unjudged(error)


def fault_in(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    outcome = trial.outcome
    if isinstance(trial.expected, Raised):
        if outcome.error == trial.expected.error:
            return None
        wanted = trial.expected.error
        if outcome.error:
            return f"expected a {wanted} here, got {outcome.message}"
        if wanted in repr(outcome.value):
            return f"your code returned a {wanted}; write `raise {wanted}(...)`, not `return`"
        return f"expected a {wanted} to be raised here; your code returned {describe(outcome.value)}"
    if outcome.error:
        return _unasked_error(exercise, trial)
    if criterion.test and (
        criterion.measure or criterion.observes == "cost" or _can_be_judged(outcome.value, trial.expected)
    ):
        return criterion.test(trial)
    if criterion.observes == "arguments":
        return _changed(exercise, trial)
    return _unequal(exercise, criterion, trial.case, outcome.value, trial.expected)


def _unasked_error(exercise: Exercise, trial: Trial) -> str:
    """What a student should know of an exception that nobody asked for."""
    outcome, probe = trial.outcome, trial.case.probe
    if outcome.error in ("Unsendable", "Unfit"):
        return outcome.message
    said = f"your code raised {outcome.message}"
    if re.match(r"AttributeError: cannot assign \w+ before Module.__init__", outcome.message):
        return f"{said}. Let `__init__` begin with `super().__init__()`"
    if unknown := re.match(r"NameError: name '(\w+)' is not defined", outcome.message):
        own = f", or write `self.{unknown[1]}` if your class has it" if probe.startswith(MADE_FIRST) else ""
        asked = (exercise.reference, getattr(exercise.reference, "forward", None))
        names = [name for function in asked if function for name in inspect.signature(function).parameters]
        if meant := difflib.get_close_matches(unknown[1], names, 1):
            return f"{said}. Do you mean `{meant[0]}`?"
        return f"{said}. Define or import `{unknown[1]}` before it is used here{own}"
    if torch_says := re.match(r"RuntimeError: ([^:(]*in-?place operation)", outcome.message):
        plain = replace(trial.case, probe="module" if probe.startswith("module") else "call")
        before = tuple(tensors.arrays(plain.args, plain.kwargs))
        changed = _changed(exercise, replace(trial, case=plain, outcome=trial.call(plain), expected=before))
        what = f"its input `{changed.split('`')[1]}`" if changed else "a tensor"
        return (
            f"your code changes {what} in place, and the gradient still needs the numbers that stood there. "
            "Write `x = x + y` for `x += y`; where you write into a tensor, make a new one. "
            f"(Torch: {torch_says[1]})"
        )
    return said


def _can_be_judged(got: Any, expected: Any) -> bool:
    """Whether a test may take it for what it should be: of what a probe tells, each part by its own form."""
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and got.keys() == expected.keys()
        return alike and all(_can_be_judged(got[key], expected[key]) for key in expected)
    return same_form(got, expected)


def _changed(exercise: Exercise, trial: Trial) -> str | None:
    """Which array among the arguments the call has changed, and where."""
    for place, (before, after) in enumerate(zip(trial.expected, trial.outcome.arguments, strict=False)):
        if changed := differs(after, before, 0.0):
            names = [
                name for name, value in _named_arguments(exercise, trial.case) if tensors.is_array(value)
            ]
            changed = changed.replace("expected", "it had").replace("got", "now")
            return f"`{names[place]}` was changed in place: {changed}" if names[place:] else None
    return None


def _named_arguments(exercise: Exercise, case: Case) -> Iterator[tuple[str, Any]]:
    """The leaves of a case's arguments, each with what the student's code calls it."""
    function = exercise.reference
    if case.probe.startswith("module"):
        parameters = ["its arguments", "", *list(inspect.signature(function.forward).parameters)[1:]]  # type: ignore[attr-defined]
    elif case.probe.startswith("steps"):
        for method, *given in case.args[1]:
            called = inspect.signature(getattr(function, method)).parameters if given else ()
            yield from tensors.leaves(dict(zip(list(called)[1:], given, strict=False)))
        return
    else:
        parameters = list(inspect.signature(function).parameters)
    yield from tensors.leaves(dict(zip(parameters, case.args, strict=False)) | case.kwargs)


def taken_for_the_same(exercise: Exercise, case: Case, got: Any, expected: Any) -> bool:
    """Whether the exercise itself takes one result for the other."""
    return bool(exercise.same and same_form(got, expected) and exercise.same(got, expected, case))


def _unequal(exercise: Exercise, criterion: Criterion, case: Case, got: Any, expected: Any) -> str | None:
    if taken_for_the_same(exercise, case, got, expected):
        return None
    why = differs(got, expected, criterion.tolerance or case.tolerance)
    if not why:
        return None
    if isinstance(expected, tuple) and (names := _result_names(exercise, len(expected))):
        why = re.sub(r"^result (\d+) of \d+", lambda m: f"`{names[int(m[1]) - 1]}` ({m[0]})", why)
    why = re.sub(
        r"\bargument (\d+)((?:\[\d+\])*)", lambda m: _argument_name(exercise, case, int(m[1]), m[2]), why
    )
    return why.replace("in `", "the gradient with respect to `", 1) if "gradients" in case.probe else why


def _result_names(exercise: Exercise, count: int) -> list[str]:
    """What the reference's own example calls that many results; none if it does not say."""
    example = re.search(rf">>> (.+) = {exercise.function_name}\(", exercise.reference.__doc__ or "")
    names = example[1].split(", ") if example else []
    return names if len(names) == count else []


def _argument_name(exercise: Exercise, case: Case, place: int, inside: str) -> str:
    """What the exercise calls an argument, from the place by which a probe knows it: `x`, `shards[2]`."""
    function = exercise.reference
    called = function.forward if case.probe.startswith("module") else function  # type: ignore[attr-defined]
    names = [name for name in inspect.signature(called).parameters if name != "self"]
    return f"`{names[place]}{inside}`" if place < len(names) else f"argument {place + 1}{inside}"
