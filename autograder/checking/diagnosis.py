"""Find the mistakes of the bank whose outcomes are the candidate's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from autograder.cage import tensors
from autograder.checking.candidate import local
from autograder.checking.comparison import agree, in_words
from autograder.checking.declaration import Answer, Criterion, Outcome, Trial
from autograder.checking.faults import Raised, fault_in, observed_in, taken_for_the_same
from autograder.checking.oracle import Oracle
from autograder.checking.shrink import size

MOST_NAMED = 2
"""Where more mistakes than this fit equally well, none of them is named."""


@dataclass(frozen=True)
class Examined:
    """A criterion with its trials and, for each, the sentence about what is wrong or None."""

    criterion: Criterion
    trials: list[Trial]
    faults: list[str | None]

    @property
    def failed(self) -> bool:
        return any(self.faults)

    @property
    def failing(self) -> list[tuple[Trial, str]]:
        """The failing cases with their faults: the smallest first, and NaN last, which says least."""
        found = [(t, fault) for t, fault in zip(self.trials, self.faults, strict=True) if fault]
        return sorted(found, key=lambda pair: ("got nan" in pair[1], size(pair[0].case)))

    @property
    def kind(self) -> str:
        """What failed: "value", "arguments" or "cost". Where calls raised, their inputs say nothing more."""
        raised = any(trial.outcome.error for trial, _ in self.failing)
        return "value" if raised else self.criterion.observes

    @property
    def long(self) -> bool:
        """Whether trying it takes long: a cost, counted operation by operation, or a lesson."""
        return self.criterion.observes == "cost" or any(t.case.probe == "trained" for t in self.trials)


class Bank:
    """The misconceptions tried on the same cases, each only when a failure has to be explained."""

    def __init__(self, oracle: Oracle, examined: list[Examined]) -> None:
        self.exercise = oracle.exercise
        self.examined = examined
        self._outcome = oracle.mistaken
        self._named: dict[str, tuple[Answer, ...]] = {}

    def named(self, one: Examined) -> tuple[Answer, ...]:
        """Return the mistakes that explain a failure: one, two where either fits, or none.

        Values, changed arguments and costs are explained apart, since an answer may well have two faults: but
        a mistake is named only if it does what the candidate does in every failing case of its kind.
        """
        kind = one.kind
        if kind not in self._named:
            failed = [other for other in self.examined if other.failed and other.kind == kind]
            matches = self._most_alike([m for m in self.exercise.misconceptions if self._fits(m, failed)])
            self._named[kind] = tuple(matches) if len(matches) <= MOST_NAMED else ()
        return self._named[kind]

    def _fits(self, mistake: Answer, failed: list[Examined]) -> bool:
        """Whether a mistake does what the candidate does in all cases of the criteria that failed.

        A cost or a lesson alone says little: then all the rest must be the same. Where outcomes are random,
        so that agreement says less, the core must be the same as well. A mistake that fails a criterion which
        the candidate meets is another's, whatever else agrees.
        """
        core, short = self.examined[0], [one for one in failed if not one.long]
        if short:
            looked_at = [core, *short] if self.exercise.same else short
        else:
            looked_at = [one for one in self.examined if not one.long]
            looked_at += [one for one in failed if one.criterion.observes != "cost"]
        met = [one for one in self.examined if not (one.failed or one.long)]
        met = [one for one in met if one is core or one.criterion.observes == "value"]
        return (
            all(all(self._agreement(mistake, one)) for one in looked_at)
            and all(self._fails(mistake, one) for one in failed)
            and not any(self._fails(mistake, one) for one in met)
        )

    def _most_alike(self, matches: list[Answer]) -> list[Answer]:
        """Keep those that agree in most cases; of those, the only one that agrees to the last digit."""
        matches = self._with_most(matches, long=False)
        if len(matches) > 1:
            short = [one for one in self.examined if not one.long]
            exact = [m for m in matches if all(all(self._agreement(m, one, True)) for one in short)]
            matches = exact if len(exact) == 1 else self._with_most(matches, long=True)
        return matches

    def _with_most(self, matches: list[Answer], long: bool) -> list[Answer]:
        """Keep the matches that agree in most cases of the long criteria, or of the others."""
        if len(matches) < 2:
            return matches
        asked = [one for one in self.examined if one.long == long]
        totals = [sum(sum(self._agreement(m, one)) for one in asked) for m in matches]
        return [m for m, total in zip(matches, totals, strict=True) if total == max(totals)]

    def agrees(self, mistake: Answer, criterion: Criterion, trial: Trial) -> bool:
        """Whether the mistake does in a case what the candidate did; the case may be a new one."""
        mistaken = criterion.through(local(mistake.function))(trial.case)
        return self._agrees(mistake, mistaken, trial, criterion, exactly=False)

    def _fails(self, mistake: Answer, one: Examined) -> bool:
        """Whether the mistake fails too; what passes a lenient test explains no failure of it.

        It pays too much in the same way: its faults are the candidate's but for numbers, and so is the shape
        of its largest tensor.
        """
        call = one.criterion.through(local(mistake.function))
        tried = [
            replace(trial, outcome=self._outcome(mistake, one.criterion, trial.case), call=call)
            for trial in one.trials
        ]
        faults = [fault_in(self.exercise, one.criterion, trial) for trial in tried]
        if one.kind != "cost":
            return any(faults)
        return any(faults) and all(
            in_words(fault or "") == in_words(other or "")
            and trial.outcome.cost.get("largest_shape") == ours.outcome.cost.get("largest_shape")
            for fault, other, trial, ours in zip(faults, one.faults, tried, one.trials, strict=True)
            if other
        )

    def _agreement(self, mistake: Answer, one: Examined, exactly: bool = False) -> Iterator[bool]:
        """Case by case, lazily: most mistakes are ruled out by the first."""
        return (
            self._agrees(
                mistake, self._outcome(mistake, one.criterion, trial.case), trial, one.criterion, exactly
            )
            for trial in one.trials
        )

    def _agrees(
        self, mistake: Answer, mistaken: Outcome, trial: Trial, criterion: Criterion, exactly: bool
    ) -> bool:
        if mistaken.error and trial.outcome.error and _complaint(mistaken) != _complaint(trial.outcome):
            # torch fails elsewhere where its calls are watched, as the candidate's are
            mistaken = criterion.through(local(mistake.function, self.exercise.forbidden))(trial.case)
        if mistaken.error or trial.outcome.error:
            return mistaken.error == trial.outcome.error and (
                isinstance(trial.expected, Raised) or _fails_at_the_same(mistake, mistaken, trial.outcome)
            )
        got, expected = observed_in(criterion, trial.outcome), observed_in(criterion, mistaken)
        if criterion.observes == "cost":
            if got != expected or _questions(trial.outcome) != _questions(mistaken):
                return False
            got, expected = trial.value, mistaken.value
        if isinstance(expected, list) and isinstance(trial.expected, tuple):
            expected = tuple(expected)
        alike = not exactly and taken_for_the_same(self.exercise, trial.case, got, expected)
        return alike or agree(got, expected, criterion.tolerance or trial.case.tolerance)


def _questions(outcome: Outcome) -> list[Any]:
    """What was asked of the objects lent: names, numbers, and of tensors the shapes."""

    def form(value: Any) -> Any:
        shape = getattr(value, "shape", None)
        return value if isinstance(value, int | float | str) else (type(value).__name__, shape)

    return [(name, tensors.mapped(form, args)) for name, args in outcome.asked]


def _fails_at_the_same(mistake: Answer, mistaken: Outcome, outcome: Outcome) -> bool:
    """Whether two errors have the same message, and any library call of the hint is in both failing lines."""
    calls = [call for call in _LIBRARY_CALL.findall(mistake.says) if call in mistaken.message]
    return _complaint(mistaken) == _complaint(outcome) and all(call in outcome.message for call in calls)


_LIBRARY_CALL = re.compile(r"\b(?:F|np|torch|nn|math)\.[a-zA-Z_.]*[a-zA-Z_]")


def _complaint(outcome: Outcome) -> str:
    """The message of an error without the line that raised it."""
    return outcome.message.partition(" (line ")[0]
