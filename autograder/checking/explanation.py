"""Explain a failure: by a mistake of the bank, a property that is broken or the bare difference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autograder.checking.candidate import local
from autograder.checking.comparison import as_code, in_words
from autograder.checking.declaration import Answer, Case, Criterion, Exercise, Lent, Property, Seed, Trial
from autograder.checking.diagnosis import Bank, Examined
from autograder.checking.faults import MADE_FIRST, Raised, fault_in, judged
from autograder.checking.oracle import Oracle, guarded
from autograder.checking.report import Failure
from autograder.checking.shrink import MOST_TRIED, Patience, shrunk

SHORT = 240
"""A call is shown when it fits into so many characters."""

MOST_LOOKED_AT = 4
"""Failing cases of a criterion in which a broken property is sought, the smallest first."""


class SmallestCases:
    """The smallest case that shows each mistake of the bank, found once."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self._smallest: dict[tuple[str, str], Case | None] = {}

    def of(self, mistake: Answer, criterion: Criterion) -> Case | None:
        """The smallest case in which a mistake of the bank is seen to fail a criterion; None if it passes."""
        key = (mistake.name, criterion.says)
        if key not in self._smallest:
            (cases,) = (cases for other, cases in self.oracle.drawn if other is criterion)
            call = criterion.through(local(mistake.function))
            trials = [
                Trial(
                    case,
                    self.oracle.mistaken(mistake, criterion, case),
                    self.oracle.expected(criterion, case),
                    call,
                )
                for case in cases
            ]
            faults = [judged(self.oracle.exercise, criterion, trial) for trial in trials]
            one = Examined(criterion, trials, faults)
            self._smallest[key] = None
            if one.failed:
                trial, fault, law, _ = _shown(one, self.oracle)
                fails_alike = _FailsAlike(self.oracle, criterion, trial, fault, law)
                self._smallest[key] = shrunk(trial.case, fails_alike, Patience(MOST_TRIED))
        return self._smallest[key]


def explained(
    one: Examined, bank: Bank, smallest: SmallestCases, patience: Patience, named: set[str | None]
) -> Failure:
    """Explain a failure by the mistakes that fit, a broken property or the bare difference, in a small case.

    A mistake that is among those `named` already is not explained again: a report shows no more of it. The
    case that is smallest for a mistake is tried first.
    """
    oracle = smallest.oracle
    numpy_state = np.random.get_state()  # the student's, and a mistake of the bank may draw from it
    mistakes = bank.named(one)
    name = " or ".join(mistake.name for mistake in mistakes) or None
    again = name is not None and name in named
    trial, fault, law, broken = (*one.failing[0], None, None) if again else _shown(one, oracle)
    if not again and one.criterion.shrinks and patience.cases:
        fails_alike, smaller = _FailsAlike(oracle, one.criterion, trial, fault, law), None
        if mistakes:
            agrees = [partial(bank.agrees, mistake, one.criterion) for mistake in mistakes]
            fails_alike = replace(fails_alike, agrees=lambda other: all(agree(other) for agree in agrees))
            smaller = smallest.of(mistakes[0], one.criterion)
        if smaller is None or (smaller is not trial.case and not fails_alike(smaller)):
            smaller = shrunk(trial.case, fails_alike, patience)
        if smaller is not trial.case:
            trial, found = fails_alike.tried(smaller)
            fault = found or fault
            broken = guarded(law.broken, trial) if law else None
    np.random.set_state(numpy_state)
    return Failure(
        case=trial.case.says,
        call=call_of(oracle.exercise, trial.case),
        fault=fault,
        broken=broken,
        misconception=name,
        hint=("Either: " * (len(mistakes) > 1) + " Or: ".join(mistake.says for mistake in mistakes)) or None,
    )


def _shown(one: Examined, oracle: Oracle) -> tuple[Trial, str, Property | None, str | None]:
    """Return the case to show with its fault: the smallest that breaks a property, else the smallest."""
    smallest, *others = one.failing
    for trial, fault in [smallest, *others[: MOST_LOOKED_AT - 1]]:
        law, broken = oracle.broken(one.criterion, trial)
        if law:
            return trial, fault, law, broken
    return *smallest, None, None


@dataclass(frozen=True)
class _FailsAlike:
    """Whether another case fails for the reason for which one has failed."""

    oracle: Oracle
    criterion: Criterion
    trial: Trial
    fault: str
    law: Property | None
    agrees: Callable[[Trial], bool] = lambda other: True

    def __call__(self, case: Case) -> bool:
        return bool(guarded(self._fails_alike, case))

    def tried(self, case: Case) -> tuple[Trial, str | None]:
        """The case tried, and what is wrong in it."""
        call = self.trial.call
        trial = Trial(case, call(case), self.oracle.observed(self.criterion, case), call)
        return trial, fault_in(self.oracle.exercise, self.criterion, trial)

    def _fails_alike(self, case: Case) -> bool:
        domain = self.oracle.exercise.domain
        if domain and not domain(case):
            return False
        other, found = self.tried(case)
        return bool(
            found
            and in_words(found) == in_words(self.fault)
            and other.outcome.error == self.trial.outcome.error
            and not other.outcome.forbidden
            and isinstance(other.expected, Raised) == isinstance(self.trial.expected, Raised)
            and self.agrees(other)
            and (not self.law or self.law.broken(other))
        )


def call_of(exercise: Exercise, case: Case) -> str:
    """The call of a case as it could be typed, large arrays by their shapes; empty if even that is long."""
    function, name = exercise.reference, exercise.function_name
    for most in (12, 0):
        if case.probe.startswith(MADE_FIRST):
            said = f"{name}({_typed([], (), case.args[0], most)})"
            if case.probe.startswith("steps"):
                said += ", then " + ", ".join(f"`.{move}`" for move, *_ in case.args[1])
            if case.probe.startswith("module"):
                names = list(inspect.signature(function.forward).parameters)[1:]  # type: ignore[attr-defined]
                said += f"({_typed(names, case.args[2:], case.kwargs, most)})"
                said += ", with parameters that the check sets" if case.args[1] else ""
        else:
            names = list(inspect.signature(function).parameters)
            said = f"{name}({_typed(names, case.args, case.kwargs, most)})"
        if len(said) <= SHORT:
            return said
    return ""


def _typed(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], most: int) -> str:
    made = {"numpy": "np.random.default_rng", "torch": "torch.Generator().manual_seed"}

    def code(value: Any) -> str:
        if isinstance(value, Seed):
            return f"{made[value.library]}({value.value})"
        return f"<{value}>" if isinstance(value, Lent) else as_code(value, most)

    given = dict(zip(names, args, strict=False)) | kwargs
    return ", ".join(f"{name}={code(value)}" for name, value in given.items())
