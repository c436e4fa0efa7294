"""Check a diagnosis by outcomes alone: does the named mistake do the same as the answer?"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder import checking
from autograder.cage import tensors
from autograder.cage.probes import NONE
from autograder.checking import Candidate, Examination, local
from autograder.exercise import Case, Criterion, Exercise, Outcome, Trial


def unlike_in(examination: Examination, candidate: Candidate, name: str) -> str | None:
    """Return a case that the candidate fails and in which a mistake of the bank does something else.

    Args:
        examination: draws the cases and knows the right results.
        candidate: calls the answer whose report names the mistake.
        name: the mistake's name in the bank.
    """
    exercise = examination.exercise
    (mistake,) = (answer for answer in exercise.misconceptions if answer.name == name)
    for criterion, cases in examination.drawn:
        ours, theirs = criterion.through(candidate), criterion.through(local(mistake.function))
        for case in cases:
            trial = Trial(case, ours(case), examination.expected(criterion, case), ours)
            fails = checking._judged(exercise, criterion, trial)
            if fails and not _alike(exercise, criterion, trial, theirs(case)):
                return f"{criterion.says}: {case.says}"
    return None


def _alike(exercise: Exercise, criterion: Criterion, trial: Trial, other: Outcome) -> bool:
    """Return whether two outcomes of a case are the same, as far as the criterion observes them."""
    one, case = trial.outcome, trial.case
    if one.error or other.error:
        where_one_is_due = isinstance(trial.expected, checking._Raised)
        return one.error == other.error and (where_one_is_due or _complaint(one) == _complaint(other))
    tolerance = criterion.tolerance or case.tolerance
    if criterion.observes == "arguments":
        return near(list(one.arguments), list(other.arguments), tolerance)
    if criterion.observes == "cost" and one.cost != other.cost:
        return False
    return near(one.value, other.value, tolerance) or _the_same(exercise, case, one, other)


def _complaint(outcome: Outcome) -> str:
    return outcome.message.partition(" (line ")[0]


def _the_same(exercise: Exercise, case: Case, one: Outcome, other: Outcome) -> bool:
    return bool(exercise.same and exercise.same(one.value, other.value, case))


def _is_no_gradient(one: Any, other: Any) -> bool:
    """Return whether one value is no gradient and the other a gradient of zeros, which mean the same."""
    given = [value for value in (one, other) if not (isinstance(value, str) and value == NONE)]
    return len(given) == 1 and tensors.is_array(given[0]) and not tensors.numbers(given[0]).any()


def near(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two values have the same form, and numbers that differ by no more than the tolerance.

    Args:
        one: what was returned: an array, a number, or a list, tuple or dict of such.
        other: the same by another answer.
        tolerance: how far a number x may be off, as a part of max(1, abs(x)).
    """
    if isinstance(one, dict) and isinstance(other, dict):
        parts = ((one[key], other.get(key)) for key in one)
        alike = (near(*part, tolerance) or _is_no_gradient(*part) for part in parts)
        return one.keys() == other.keys() and all(alike)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(near(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if tensors.is_tensor(one) != tensors.is_tensor(other):
        return False
    if tensors.is_tensor(one) and (one.dtype, one.device) != (other.dtype, other.device):
        return False
    if not all(tensors.is_array(x) or isinstance(x, int | float | np.generic) for x in (one, other)):
        return type(one) is type(other) and bool(one == other)
    left, right = (np.asarray(tensors.numbers(x), np.float64) for x in (one, other))
    if left.shape != right.shape:
        return False
    with np.errstate(all="ignore"):
        close = np.abs(left - right) <= tolerance * np.maximum(1, np.abs(right))
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | (close & np.isfinite(right))
    return bool(same.all())
