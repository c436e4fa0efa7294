"""Know what a right answer shows in each case, and what each mistake of the bank does there."""

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
    """The cases of an exercise under one seed, and what the reference and the bank's mistakes do in them.

    The reference is asked once a case and each mistake at most once, however many candidates are examined;
    `prepare` asks them all beforehand.

    Args:
        exercise: the declaration.
        seed: draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.drawn = list(exercise.draw(seed))
        self._expected: dict[tuple[str, str], Any] = {}
        self._mistaken: dict[tuple[str, str, int], Outcome] = {}
        self._reference = in_float64(exercise.reference)

    def expected(self, criterion: Criterion, case: Case) -> Any:
        """What a right answer shows in a case."""
        key = (criterion.says, case.says)
        if key not in self._expected:
            self._expected[key] = self.observed(criterion, case)
        return self._expected[key]

    def observed(self, criterion: Criterion, case: Case) -> Any:
        """The same, asked of the reference anew, unless all that counts is the arguments as they were."""
        if criterion.observes == "arguments":
            return tuple(tensors.arrays(case.args, case.kwargs))
        outcome = criterion.through(self._reference)(case)
        if criterion.observes == "cost":
            return outcome.cost
        return Raised(outcome.error) if outcome.error else outcome.value

    def broken(self, criterion: Criterion, trial: Trial) -> tuple[Property | None, str | None]:
        """The first property that a trial breaks, and how."""
        looks = trial.case.probe == "steps" or same_form(trial.value, trial.expected)
        if criterion.observes == "value" and looks:
            for law in self.exercise.properties:
                if said := guarded(law.broken, trial):
                    return law, said
        return None, None

    def mistaken(self, mistake: Answer, criterion: Criterion, case: Case) -> Outcome:
        """What a mistake of the bank does in a case."""
        key = (mistake.name, *call_key(criterion, case))
        if key not in self._mistaken:
            self._mistaken[key] = criterion.through(local(mistake.function))(case)
        return self._mistaken[key]

    def prepare(self) -> None:
        """Finds what the reference and every mistake do, but for lessons and costs, which take long."""
        for criterion, cases in self.drawn:
            for case in cases:
                self.expected(criterion, case)
                if criterion.observes != "cost" and case.probe != "trained":
                    for mistake in self.exercise.misconceptions:
                        self.mistaken(mistake, criterion, case)

    def remember(self, mistake: Answer, called: dict[tuple[str, int], Outcome]) -> None:
        """Keep what came of a mistake that was called as an answer, so that it is called once for both."""
        self._mistaken |= {(mistake.name, *key): outcome for key, outcome in called.items()}


def call_key(criterion: Criterion, case: Case) -> tuple[str, int]:
    """Tells one call from another: criteria that share a case share it, unless they measure it themselves."""
    return criterion.says if criterion.measure else "", id(case)


def in_float64(function: Function) -> Candidate:
    """The reference as an oracle: narrow inputs are widened first, so that its own rounding is no issue.

    Tensors come back in the dtype of the inputs, which a right answer keeps.
    """
    call = local(function)

    def widen(value: Any) -> Any:
        if tensors.is_tensor(value) and value.is_floating_point():
            return value.double()
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else value

    def widened(case: Case) -> Outcome:
        given = (*case.args, *case.kwargs.values())
        narrow = [x for x in tensors.arrays(*given) if tensors.is_tensor(x) and x.is_floating_point()]
        dtype = min((x.dtype for x in narrow), key=lambda d: d.itemsize, default=None)

        def back(value: Any) -> Any:
            floating = tensors.is_tensor(value) and value.is_floating_point()
            return value.to(dtype) if floating and dtype else value

        args, kwargs = tensors.mapped(widen, case.args), tensors.mapped(widen, case.kwargs)
        outcome = call(replace(case, args=args, kwargs=kwargs))
        return replace(outcome, value=tensors.mapped(back, outcome.value))

    return widened


def guarded(asked: Callable[[Any], Any], of: Any) -> Any:
    """A question about any outcome; one that cannot be asked, whatever the reason, has the answer None."""
    try:
        with np.errstate(all="ignore"):
            return asked(of)
    except Exception:
        return None
