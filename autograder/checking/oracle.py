"""Compute the outcomes of the reference and of the bank's mistakes in each case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.cage import tensors
from autograder.checking.candidate import Candidate, local
from autograder.checking.comparison import same_form
from autograder.checking.declaration import (
    Answer,
    Case,
    Criterion,
    Exercise,
    Function,
    Outcome,
    Property,
    Trial,
)
from autograder.checking.faults import Raised


class Oracle:
    """The cases of an exercise under one seed, with the outcomes of the reference and of the bank's mistakes.

    The reference and each mistake are called at most once for each case, for any number of candidates;
    `compute_expected` and `compute_mistaken` call them in advance.

    Args:
        exercise: the declaration.
        seed: the seed that draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.drawn = list(exercise.draw(seed))
        self._expected: dict[tuple[str, str], Any] = {}
        self._mistaken: dict[tuple[str, str, int], Outcome] = {}
        self._reference = in_float64(exercise.reference)

    def expected(self, criterion: Criterion, case: Case) -> Any:
        """Return the observation that a right answer gives in a case."""
        key = (criterion.says, case.says)
        if key not in self._expected:
            self._expected[key] = self.observed(criterion, case)
        return self._expected[key]

    def observed(self, criterion: Criterion, case: Case) -> Any:
        """Call the reference with a case and return the observation; for "arguments", return the inputs."""
        if criterion.observes == "arguments":
            return tuple(tensors.arrays(case.args, case.kwargs))
        outcome = criterion.through(self._reference)(case)
        if criterion.observes == "cost":
            return outcome.cost
        return Raised(outcome.error) if outcome.error else outcome.value

    def broken(self, criterion: Criterion, trial: Trial) -> tuple[Property | None, str | None]:
        """Return the first property that a trial breaks, with a sentence about how it is broken."""
        in_steps = trial.case.probe in ("steps", "module_chunks")
        comparable = in_steps or same_form(trial.value, trial.expected)
        if criterion.observes == "value" and comparable:
            for law in self.exercise.properties:
                if sentence := ask_safely(law.broken, trial):
                    return law, sentence
        return None, None

    def mistake_outcome(self, mistake: Answer, criterion: Criterion, case: Case) -> Outcome:
        """Return the outcome of a mistake of the bank in a case."""
        key = (mistake.name, *call_key(criterion, case))
        if key not in self._mistaken:
            self._mistaken[key] = criterion.through(local(mistake.function))(case)
        return self._mistaken[key]

    def compute_expected(self) -> None:
        """Call the reference in every case in advance."""
        for criterion, cases in self.drawn:
            for case in cases:
                self.expected(criterion, case)

    def compute_mistaken(self) -> None:
        """Call the mistakes in every case in advance, except for costs and trainings."""
        for criterion, cases in self.drawn:
            for case in cases:
                if criterion.observes != "cost" and case.probe != "trained":
                    for mistake in self.exercise.misconceptions:
                        self.mistake_outcome(mistake, criterion, case)

    def remember(self, mistake: Answer, called: dict[tuple[str, int], Outcome]) -> None:
        """Store the outcomes of a mistake that was examined as an answer, so that it is not called again."""
        self._mistaken |= {(mistake.name, *key): outcome for key, outcome in called.items()}


def call_key(criterion: Criterion, case: Case) -> tuple[str, int]:
    """Return the key of a call: criteria share the call of a shared case, unless they have a `measure`."""
    return criterion.says if criterion.measure else "", id(case)


def in_float64(function: Function) -> Candidate:
    """Return a candidate that computes the reference in float64, so that its own rounding does not matter.

    Tensors are returned in the dtype of the inputs, as a right answer does.
    """
    call = local(function)

    def widen(value: Any) -> Any:
        if tensors.is_tensor(value) and value.is_floating_point():
            return value.double()
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else value

    def widened(case: Case) -> Outcome:
        arguments = (*case.args, *case.kwargs.values())
        narrow = [x for x in tensors.arrays(*arguments) if tensors.is_tensor(x) and x.is_floating_point()]
        dtype = min((x.dtype for x in narrow), key=lambda d: d.itemsize, default=None)

        def back(value: Any) -> Any:
            floating = tensors.is_tensor(value) and value.is_floating_point()
            return value.to(dtype) if floating and dtype else value

        args, kwargs = tensors.mapped(widen, case.args), tensors.mapped(widen, case.kwargs)
        outcome = call(replace(case, args=args, kwargs=kwargs))
        return replace(outcome, value=tensors.mapped(back, outcome.value))

    return widened


def ask_safely(question: Callable[[Any], Any], subject: Any) -> Any:
    """Return `question(subject)`, or None if it raises any error."""
    try:
        with np.errstate(all="ignore"):
            return question(subject)
    except Exception:
        return None
