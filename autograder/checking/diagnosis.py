"""Find the mistakes of the bank that have the same outcomes as the candidate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autograder.cage import tensors
from autograder.checking.candidate import local
from autograder.checking.comparison import agree, without_numbers
from autograder.checking.declaration import Answer, Case, Criterion, Outcome, Trial
from autograder.checking.faults import Raised, counts_as_equal, fault_in, observed_in
from autograder.checking.oracle import Oracle
from autograder.checking.shrink import size

MOST_NAMED = 2
"""The most mistakes named for one failure; if more fit equally well, none is named."""

SIDE_CONDITIONS = ("device", "dtype", "gradients")
"""Conditions that an answer can fail whether its formula is right or has a mistake of its own."""


@dataclass(frozen=True)
class Examined:
    """A criterion with its trials and their faults; the fault of a right outcome is None."""

    criterion: Criterion
    trials: list[Trial]
    faults: list[str | None]

    @property
    def failed(self) -> bool:
        return any(self.faults)

    @cached_property
    def failing(self) -> list[tuple[Trial, str]]:
        """The failing trials with their faults: small cases first, and NaN last, which shows least."""
        pairs = [(trial, fault) for trial, fault in zip(self.trials, self.faults, strict=True) if fault]
        return sorted(pairs, key=lambda pair: ("got nan" in pair[1], size(pair[0].case)))

    @cached_property
    def kind(self) -> str:
        """What failed: "value", "arguments" or "cost", or the side condition under which values failed.

        A criterion in which a call raised is never of the kind "arguments" or "cost".
        """
        trials = [trial for trial, _ in self.failing]
        observed = self.criterion.observes
        if observed != "value" and not any(trial.outcome.error for trial in trials):
            return observed
        return _side_condition([trial.case for trial in trials]) or "value"

    @property
    def long(self) -> bool:
        """True if its cases take long: they train a model, or a meter counts every operation."""
        return self.criterion.observes == "cost" or any(t.case.probe == "trained" for t in self.trials)


class Bank:
    """The misconceptions of an exercise, compared with one candidate's trials.

    A misconception is called only when a failure needs an explanation.
    """

    def __init__(self, oracle: Oracle, examined: list[Examined]) -> None:
        self.exercise = oracle.exercise
        self.examined = examined
        self._outcome = oracle.mistake_outcome
        self._named: dict[str, tuple[Answer, ...]] = {}

    def named(self, result: Examined) -> tuple[Answer, ...]:
        """Return the mistakes that explain a failed criterion: one, two where either fits, or none.

        Values, changed arguments and costs are explained separately, since an answer may have two faults.
        A mistake is named only if it does the same as the candidate in every failing case of its kind, and
        under a side condition also in every case in which the values alone failed.
        """
        kind = result.kind
        if kind not in self._named:
            kinds = {kind, "value"} if kind in SIDE_CONDITIONS else {kind}
            failed = [other for other in self.examined if other.failed and other.kind in kinds]
            matches = self._most_alike([m for m in self.exercise.misconceptions if self._fits(m, failed)])
            self._named[kind] = tuple(matches) if len(matches) <= MOST_NAMED else ()
        return self._named[kind]

    def _fits(self, mistake: Answer, failed: list[Examined]) -> bool:
        """Return whether a mistake does the same as the candidate in all cases of the failed criteria.

        If only costs or trainings failed, agreement there proves little, so all other cases must agree too.
        If outcomes are random, agreement proves less, so the core must agree too. A mistake that fails a
        criterion which the candidate meets never fits.
        """
        core, short = self.examined[0], [result for result in failed if not result.long]
        if short:
            compared = [core, *short] if self.exercise.same else short
        else:
            compared = [result for result in self.examined if not result.long]
            compared += [result for result in failed if result.criterion.observes != "cost"]
        passed = [result for result in self.examined if not (result.failed or result.long)]
        passed = [result for result in passed if result is core or result.criterion.observes == "value"]
        return (
            all(all(self._agreement(mistake, result)) for result in compared)
            and all(self._fails(mistake, result) for result in failed)
            and not any(self._fails(mistake, result) for result in passed)
        )

    def _most_alike(self, matches: list[Answer]) -> list[Answer]:
        """Return the mistakes that agree in most cases, or the only mistake that agrees to the last digit."""
        matches = self._with_most(matches, long=False)
        if len(matches) > 1:
            short = [result for result in self.examined if not result.long]
            exact = [m for m in matches if all(all(self._agreement(m, result, True)) for result in short)]
            matches = exact if len(exact) == 1 else self._with_most(matches, long=True)
        return matches

    def _with_most(self, matches: list[Answer], long: bool) -> list[Answer]:
        """Return the matches that agree in most cases of the long criteria, or of the short criteria."""
        if len(matches) < 2:
            return matches
        compared = [result for result in self.examined if result.long == long]
        totals = [sum(sum(self._agreement(m, result)) for result in compared) for m in matches]
        return [m for m, total in zip(matches, totals, strict=True) if total == max(totals)]

    def agrees(self, mistake: Answer, criterion: Criterion, trial: Trial) -> bool:
        """Return whether the mistake does the same as the candidate in a trial, whose case may be new."""
        mistaken = criterion.through(local(mistake.function))(trial.case)
        return self._agrees(mistake, mistaken, trial, criterion, exactly=False)

    def _fails(self, mistake: Answer, result: Examined) -> bool:
        """Return whether the mistake fails the criterion too: a mistake that passes explains no failure.

        If costs failed, the mistake must also cost too much in the same way: its faults have the same words
        as the candidate's faults, and its largest tensor has the same shape.
        """
        call = result.criterion.through(local(mistake.function))
        tried = [
            replace(trial, outcome=self._outcome(mistake, result.criterion, trial.case), call=call)
            for trial in result.trials
        ]
        faults = [fault_in(self.exercise, result.criterion, trial) for trial in tried]
        if result.kind != "cost":
            return any(faults)
        return any(faults) and all(
            without_numbers(fault or "") == without_numbers(other or "")
            and trial.outcome.cost.get("largest_shape") == ours.outcome.cost.get("largest_shape")
            for fault, other, trial, ours in zip(faults, result.faults, tried, result.trials, strict=True)
            if other
        )

    def _agreement(self, mistake: Answer, result: Examined, exactly: bool = False) -> Iterator[bool]:
        """Yield for each case whether the mistake agrees; most mistakes are ruled out by the first case."""
        return (
            self._agrees(
                mistake,
                self._outcome(mistake, result.criterion, trial.case),
                trial,
                result.criterion,
                exactly,
            )
            for trial in result.trials
        )

    def _agrees(
        self, mistake: Answer, mistaken: Outcome, trial: Trial, criterion: Criterion, exactly: bool
    ) -> bool:
        if mistaken.error and trial.outcome.error and _message(mistaken) != _message(trial.outcome):
            # the candidate's calls of torch are watched, and then torch fails at other lines
            mistaken = criterion.through(local(mistake.function, self.exercise.forbidden))(trial.case)
        if mistaken.error or trial.outcome.error:
            return mistaken.error == trial.outcome.error and (
                isinstance(trial.expected, Raised) or _fails_at_the_same(mistake, mistaken, trial.outcome)
            )
        got, expected = observed_in(criterion, trial.outcome), observed_in(criterion, mistaken)
        if criterion.observes == "cost":
            if got != expected or _requests(trial.outcome) != _requests(mistaken):
                return False
            got, expected = trial.value, mistaken.value
        if isinstance(expected, list) and isinstance(trial.expected, tuple):
            expected = tuple(expected)
        alike = not exactly and counts_as_equal(self.exercise, trial.case, got, expected)
        return alike or agree(got, expected, criterion.tolerance or trial.case.tolerance)


def _side_condition(cases: list[Case]) -> str | None:
    """Return the side condition that all these cases add to an ordinary call, or None."""
    probes = {case.probe.rpartition("_")[2] for case in cases}
    if probes == {"elsewhere"}:
        return "device"
    if probes == {"gradients"}:
        return "gradients"
    given = (tensors.arrays(case.args, case.kwargs) for case in cases)
    dtypes = [
        {str(x.dtype) for x in arrays if tensors.is_tensor(x) and x.is_floating_point()} for arrays in given
    ]
    return "dtype" if all(each and "torch.float32" not in each for each in dtypes) else None


def _requests(outcome: Outcome) -> list[Any]:
    """Return the requests to `Lent` objects, with the shape of a tensor in place of its numbers."""

    def form(value: Any) -> Any:
        shape = getattr(value, "shape", None)
        return value if isinstance(value, int | float | str) else (type(value).__name__, shape)

    return [(name, tensors.mapped(form, args)) for name, args in outcome.asked]


def _fails_at_the_same(mistake: Answer, mistaken: Outcome, outcome: Outcome) -> bool:
    """Return whether two errors have the same message, and both lines contain the hint's library calls."""
    calls = [call for call in _LIBRARY_CALL.findall(mistake.says) if call in mistaken.message]
    return _message(mistaken) == _message(outcome) and all(call in outcome.message for call in calls)


_LIBRARY_CALL = re.compile(r"\b(?:F|np|torch|nn|math)\.[a-zA-Z_.]*[a-zA-Z_]")


def _message(outcome: Outcome) -> str:
    """Return the message of an error without the line of code that raised it."""
    return outcome.message.partition(" (line ")[0]
