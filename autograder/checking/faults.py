"""Judge the outcome of a case: write a sentence about its fault, or return None if it is right."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from autograder.cage import tensors
from autograder.checking.candidate import describe_unjudged
from autograder.checking.comparison import describe, differs, same_form
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Trial

MADE_FIRST = ("module", "parameters", "steps", "asked", "trained")
"""The first words of the probes that make an object from the first argument and then use it."""


@dataclass(frozen=True)
class Raised:
    """The expected observation of a case in which a right answer raises `error`."""

    error: str


def observed_in(criterion: Criterion, outcome: Outcome) -> Any:
    seen = {"value": outcome.value, "arguments": outcome.arguments, "cost": outcome.cost}
    return seen[criterion.observes]


def judge(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    """Return the fault of a trial, or None; a value that raises an error during the comparison is a fault."""
    try:
        return fault_in(exercise, criterion, trial)
    except Exception as error:
        return describe_unjudged(error)


def fault_in(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    """Return a sentence about the fault of a trial, or None; an odd value may raise any error here."""
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
        return _describe_error(exercise, trial)
    if criterion.test and (
        criterion.measure or criterion.observes == "cost" or _can_be_judged(outcome.value, trial.expected)
    ):
        return criterion.test(trial)
    if criterion.observes == "arguments":
        return _changed_argument(exercise, trial)
    return _difference(exercise, criterion, trial.case, outcome.value, trial.expected)


def _describe_error(exercise: Exercise, trial: Trial) -> str:
    """Return a sentence about an unexpected exception, with advice for the student where we have some."""
    outcome, probe = trial.outcome, trial.case.probe
    if outcome.error in ("Unsendable", "Unfit"):
        return outcome.message
    sentence = f"your code raised {outcome.message}"
    if re.match(r"AttributeError: cannot assign \w+ before Module.__init__", outcome.message):
        return f"{sentence}. Let `__init__` begin with `super().__init__()`"
    if unknown := re.match(r"NameError: name '(\w+)' is not defined", outcome.message):
        if unknown[1] in exercise.brings:
            return f"{sentence}. Run the cell with bring(...): it defines `{unknown[1]}`"
        advice = (
            f", or write `self.{unknown[1]}` if your class has it" if probe.startswith(MADE_FIRST) else ""
        )
        callables = (exercise.reference, getattr(exercise.reference, "forward", None))
        names = [
            name for function in callables if function for name in inspect.signature(function).parameters
        ]
        if unknown[1] in names:
            return f"{sentence}. Write `{unknown[1]}` among the parameters of your function"
        if meant := difflib.get_close_matches(unknown[1], names, 1):
            return f"{sentence}. Do you mean `{meant[0]}`?"
        return f"{sentence}. Define or import `{unknown[1]}` before it is used here{advice}"
    call = rf"TypeError: {exercise.function_name}(?:\.__init__)?\(\) (?:got|missing|takes)\b.*?"
    if parameters := re.fullmatch(rf"({call})(?: \(line \d+: def .*)?", outcome.message):
        return (
            f"your code raised {parameters[1]}. Keep the parameters of the notebook: `{exercise.signature}`"
        )
    if torch_message := re.match(r"RuntimeError: ([^:(]*in-?place operation)", outcome.message):
        plain = replace(trial.case, probe="module" if probe.startswith("module") else "call")
        before = tuple(tensors.arrays(plain.args, plain.kwargs))
        changed = _changed_argument(
            exercise, replace(trial, case=plain, outcome=trial.call(plain), expected=before)
        )
        line = re.search(r" \(line \d+: .*\)$", outcome.message)
        what = f"its input `{changed.split('`')[1]}`" if changed else "a tensor"
        return (
            f"your code changes {what} in place, and the gradient still needs its old numbers"
            f"{line[0] if line else ''}. "
            "Write `x = x + y` for `x += y`; where you write into a tensor, make a new one. "
            f"(Torch: {torch_message[1]})"
        )
    return sentence


def _can_be_judged(got: Any, expected: Any) -> bool:
    """Return whether a value has the form that a criterion's test relies on, in a dict entry by entry."""
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and got.keys() == expected.keys()
        return alike and all(_can_be_judged(got[key], expected[key]) for key in expected)
    return same_form(got, expected)


def _changed_argument(exercise: Exercise, trial: Trial) -> str | None:
    """Return a sentence about the first argument that the call changed in place, or None."""
    for place, (before, after) in enumerate(zip(trial.expected, trial.outcome.arguments, strict=False)):
        if changed := differs(after, before, 0.0):
            names = [
                name for name, value in _named_arguments(exercise, trial.case) if tensors.is_array(value)
            ]
            changed = changed.replace("expected", "it had").replace("got", "now")
            return f"`{names[place]}` was changed in place: {changed}" if names[place:] else None
    return None


def _named_arguments(exercise: Exercise, case: Case) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a case's arguments, each with its name in the student's code."""
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


def counts_as_equal(exercise: Exercise, case: Case, got: Any, expected: Any) -> bool:
    """Return whether the exercise's own `same` accepts one result for the other."""
    return bool(exercise.same and same_form(got, expected) and exercise.same(got, expected, case))


def _difference(exercise: Exercise, criterion: Criterion, case: Case, got: Any, expected: Any) -> str | None:
    if counts_as_equal(exercise, case, got, expected):
        return None
    tolerance = criterion.tolerance or case.tolerance
    why = differs(got, expected, tolerance)
    if not why:
        return None
    if exercise.same and all(map(tensors.is_tensor, (got, expected))) and got.is_floating_point():
        why = differs(got.to(expected), expected, tolerance) or why  # the numbers, whatever the dtype
    if isinstance(expected, tuple) and (names := _result_names(exercise, len(expected))):
        why = re.sub(r"^result (\d+) of \d+", lambda m: f"`{names[int(m[1]) - 1]}` ({m[0]})", why)
    why = re.sub(
        r"\bargument (\d+)((?:\[\d+\])*)", lambda m: _argument_name(exercise, case, int(m[1]), m[2]), why
    )
    return why.replace("in `", "the gradient with respect to `", 1) if "gradients" in case.probe else why


def _result_names(exercise: Exercise, count: int) -> list[str]:
    """Return the names of `count` results in the example of the reference, or an empty list."""
    example = re.search(rf">>> (.+) = {exercise.function_name}\(", exercise.reference.__doc__ or "")
    names = example[1].split(", ") if example else []
    return names if len(names) == count else []


def _argument_name(exercise: Exercise, case: Case, place: int, inside: str) -> str:
    """Return an argument's name in the exercise, such as `x` or `shards[2]`, given its place in the probe."""
    function = exercise.reference
    called = function.forward if case.probe.startswith("module") else function  # type: ignore[attr-defined]
    names = [name for name in inspect.signature(called).parameters if name != "self"]
    return f"`{names[place]}{inside}`" if place < len(names) else f"argument {place + 1}{inside}"
