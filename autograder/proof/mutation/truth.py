"""Check a diagnosis by its outcomes: does the named mistake give the same results as the answer?"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.cage import tensors
from autograder.cage.probes import NONE
from autograder.checking.candidate import Candidate, local
from autograder.checking.declaration import Criterion, Exercise, Outcome, Trial
from autograder.checking.examination import Examination
from autograder.checking.faults import Raised, judge


def unlike_in(examination: Examination, candidate: Candidate, name: str) -> str | None:
    """Return a case that the candidate fails and in which the named mistake has another outcome.

    Return None if there is no such case.

    Args:
        examination: draws the cases and knows the right results.
        candidate: calls the answer whose report names the mistake.
        name: the mistake's name in the bank.
    """
    exercise = examination.exercise
    (mistake,) = (answer for answer in exercise.misconceptions if answer.name == name)
    for criterion, cases in examination.oracle.drawn:
        ours, theirs = criterion.through(candidate), criterion.through(local(mistake.function))
        for case in cases:
            trial = Trial(case, ours(case), examination.oracle.expected(criterion, case), ours)
            fails = judge(exercise, criterion, trial)
            if fails and not _same_outcome(exercise, criterion, trial, theirs(case)):
                return f"{criterion.says}: {case.says}"
    return None


def _same_outcome(exercise: Exercise, criterion: Criterion, trial: Trial, other: Outcome) -> bool:
    """Return whether two outcomes of a case agree in everything that the criterion observes."""
    outcome, tolerance = trial.outcome, criterion.tolerance or trial.case.tolerance
    if outcome.error or other.error:
        messages = {each.message.partition(" (line ")[0] for each in (outcome, other)}
        error_expected = isinstance(trial.expected, Raised)
        return outcome.error == other.error and (error_expected or len(messages) == 1)
    if criterion.observes == "arguments":
        return near(outcome.arguments, other.arguments, tolerance)
    if criterion.observes == "cost" and outcome.cost != other.cost:
        return False
    same = exercise.same and exercise.same(outcome.value, other.value, trial.case)
    return bool(same or near(outcome.value, other.value, tolerance))


def near(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two values have the same form, and numbers that differ by no more than the tolerance.

    Args:
        one: the result of an answer: an array, a number, or a list, tuple or dict of arrays and numbers.
            The message of an error in it is not compared.
        other: the result of another answer.
        tolerance: the absolute tolerance, and the relative tolerance, of each number.
    """
    left, right = (
        [(name, leaf) for name, leaf in tensors.leaves(value) if not name.endswith("['message']")]
        for value in (one, other)
    )
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(a == b and _same(x, y, tolerance) for (a, x), (b, y) in pairs)


def _same(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two leaves are equal within the tolerance; a missing gradient equals one of zeros."""
    if not all(tensors.is_array(x) or isinstance(x, int | float | np.generic) for x in (one, other)):
        present = [x for x in (one, other) if not (isinstance(x, str) and x == NONE)]
        if len(present) == 1:
            return tensors.is_array(present[0]) and not tensors.numbers(present[0]).any()
        return type(one) is type(other) and bool(one == other)
    if tensors.is_tensor(one) != tensors.is_tensor(other):
        return False
    if tensors.is_tensor(one) and (one.dtype, one.device) != (other.dtype, other.device):
        return False
    left, right = (np.asarray(tensors.numbers(x), np.float64) for x in (one, other))
    return left.shape == right.shape and np.allclose(left, right, tolerance, tolerance, equal_nan=True)
