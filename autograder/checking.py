"""Examines a candidate against an exercise: points by criterion, and the reason for each point lost."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder.cage import calling
from autograder.exercise import Answer, Case, Criterion, Exercise, Function, Outcome, Seed, Trial
from autograder.forbidden import told
from autograder.report import CriterionResult, Failure, Report, Status
from autograder.values import describe, differs, same_form, tolerance_for

Candidate = Callable[[Case], Outcome]
"""Calls the code under examination, wherever it runs."""


_NOT_EXAMINED: dict[str | None, tuple[Status, str]] = {
    "NotImplementedError": ("blank", "Not written yet. Replace the line that raises NotImplementedError."),
    "Undefined": ("missing", "Nothing to grade: {1}."),
    "TimeUp": (
        "stopped",
        "Your function did not come back in time ({0}). Does every loop end, and is the work small?",
    ),
    "KernelDied": ("stopped", "The process that ran your code was lost before this could be graded: {1}."),
}
"""Errors after which no other case is tried."""


@dataclass(frozen=True)
class _Examined:
    """A criterion with its trials and, for each, the sentence about what is wrong or None."""

    criterion: Criterion
    trials: list[Trial]
    faults: list[str | None]

    @property
    def failed(self) -> bool:
        return any(self.faults)


def local(function: Function, forbidden: tuple[str, ...] = ()) -> Candidate:
    """A candidate in this very process: the student's own function, or one from the bank."""

    def call(case: Case) -> Outcome:
        args = [_argument(value) for value in case.args]
        kwargs = {key: _argument(value) for key, value in case.kwargs.items()}
        told = calling.call(function, args, kwargs, list(forbidden))
        return Outcome(**{**told, "arguments": tuple(told["arguments"])})

    return call


def _argument(value: Any) -> Any:
    return np.random.default_rng(value.value) if isinstance(value, Seed) else calling.private_copy(value)


def examine(exercise: Exercise, candidate: Candidate, seed: int) -> Report:
    """Tries every case of every criterion and explains what failed.

    The explanation is sought in this order: a misconception of the bank whose outcomes are the candidate's
    in every case of the failed criterion; a property that the outcome breaks; the first difference.

    Args:
        exercise: the declaration.
        candidate: the code under examination.
        seed: draws the cases.
    """
    reference = _in_float64(exercise.reference)
    examined: list[_Examined] = []
    for criterion, cases in exercise.draw(seed):
        trials: list[Trial] = []
        call, right = criterion.through(candidate), criterion.through(reference)
        for case in cases:
            outcome = call(case)
            if outcome.forbidden:
                return Report.without_points(
                    exercise, "forbidden", told(outcome.forbidden), forbidden=outcome.forbidden
                )
            if outcome.error in _NOT_EXAMINED:
                status, note = _NOT_EXAMINED[outcome.error]
                return Report.without_points(exercise, status, note.format(case.says, outcome.message))
            trials.append(Trial(case, outcome, _observe(criterion, case, right(case)), call))
        examined.append(_Examined(criterion, trials, [_fault(exercise, criterion, t) for t in trials]))

    core_failed = examined[0].failed
    bank = _Bank(exercise, examined)
    results = []
    for one in examined:
        failure = _explain(exercise, one, bank) if one.failed else None
        earned = 0.0 if one.failed or core_failed else one.criterion.points
        results.append(CriterionResult(one.criterion.says, one.criterion.points, earned, failure))
    return Report(exercise.name, exercise.points, tuple(results))


def _in_float64(function: Function) -> Candidate:
    """The reference as an oracle: float32 inputs are widened first, so that its own rounding is no issue."""
    call = local(function)

    def widen(value: Any) -> Any:
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else value

    def widened(case: Case) -> Outcome:
        return call(
            Case(case.says, tuple(map(widen, case.args)), {k: widen(v) for k, v in case.kwargs.items()})
        )

    return widened


def _observe(criterion: Criterion, case: Case, reference: Outcome) -> Any:
    """What a right answer shows: the reference's value, or the arguments as they were."""
    if criterion.observes == "arguments":
        return tuple(a for a in [*case.args, *case.kwargs.values()] if isinstance(a, np.ndarray))
    return _Raised(reference.error) if reference.error else reference.value


@dataclass(frozen=True)
class _Raised:
    """Stands for a value where the right thing is to raise that error."""

    error: str


def _observed(criterion: Criterion, outcome: Outcome) -> Any:
    return outcome.arguments if criterion.observes == "arguments" else outcome.value


def _fault(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    outcome = trial.outcome
    if isinstance(trial.expected, _Raised):
        if outcome.error == trial.expected.error:
            return None
        wanted = trial.expected.error
        if outcome.error:
            return f"expected a {wanted} here, got {outcome.message}"
        if wanted in repr(outcome.value):
            return f"your code returned a {wanted}; write `raise {wanted}(...)`, not `return`"
        return f"expected a {wanted} to be raised here; your code returned {describe(outcome.value)}"
    if outcome.error:
        return outcome.message if outcome.error == "Unsendable" else f"your code raised {outcome.message}"
    if criterion.test and (criterion.measure or same_form(outcome.value, trial.expected)):
        return criterion.test(trial)
    if criterion.observes == "arguments":
        return _changed(exercise, trial)
    return _unequal(exercise, trial.case, outcome.value, trial.expected)


def _changed(exercise: Exercise, trial: Trial) -> str | None:
    """Which array among the arguments the call has changed, and where."""
    case = trial.case
    parameters = inspect.signature(exercise.reference).parameters
    named = [*zip(parameters, case.args, strict=False), *case.kwargs.items()]
    names = [name for name, value in named if isinstance(value, np.ndarray)]
    for name, before, after in zip(names, trial.expected, trial.outcome.arguments, strict=False):
        if changed := differs(after, before, 0.0):
            changed = changed.replace("expected", "it had").replace("got", "now")
            return f"`{name}` was changed in place: {changed}"
    return None


def _unequal(exercise: Exercise, case: Case, got: Any, expected: Any, exactly: bool = False) -> str | None:
    if exercise.same and not exactly and same_form(got, expected) and exercise.same(got, expected, case):
        return None
    return differs(got, expected, tolerance_for((*case.args, *case.kwargs.values())))


class _Bank:
    """The misconceptions tried on the same cases, each only when a failure has to be explained."""

    def __init__(self, exercise: Exercise, examined: list[_Examined]) -> None:
        self.exercise = exercise
        self.examined = examined
        self.seen: dict[tuple[str, str, str], Outcome] = {}

    def _outcome(self, mistake: Answer, criterion: Criterion, case: Case) -> Outcome:
        """What the mistake does in a case, called once: a measure may stand for hundreds of calls."""
        key = (mistake.name, criterion.says, case.says)
        if key not in self.seen:
            self.seen[key] = criterion.through(local(mistake.function))(case)
        return self.seen[key]

    def explaining(self, one: _Examined) -> Answer | None:
        """The misconception whose outcomes are the candidate's in all cases of this criterion.

        Where several are, the one that agrees in most cases of the whole exercise, exactly if possible. Where
        outcomes are random, so that agreement says less, it must agree in the core as well.
        """
        looked_at = [self.examined[0], one] if self.exercise.same else [one]
        matches = [
            m
            for m in self.exercise.misconceptions
            if all(all(self._agreement(m, part)) for part in looked_at) and self._fails(m, one)
        ]
        if len(matches) < 2:
            return matches[0] if matches else None
        return max(matches, key=lambda m: (self._total(m, exactly=True), self._total(m)))

    def _fails(self, mistake: Answer, one: _Examined) -> bool:
        """Whether the mistake fails too; what passes a lenient test explains no failure of it."""
        call = one.criterion.through(local(mistake.function))
        tried = (
            replace(trial, outcome=self._outcome(mistake, one.criterion, trial.case), call=call)
            for trial in one.trials
        )
        return any(_fault(self.exercise, one.criterion, trial) for trial in tried)

    def _total(self, mistake: Answer, exactly: bool = False) -> int:
        return sum(sum(self._agreement(mistake, one, exactly)) for one in self.examined)

    def _agreement(self, mistake: Answer, one: _Examined, exactly: bool = False) -> Iterator[bool]:
        """Case by case, lazily: most mistakes are ruled out by the first."""
        return (
            self._agrees(self._outcome(mistake, one.criterion, trial.case), trial, one.criterion, exactly)
            for trial in one.trials
        )

    def _agrees(self, mistaken: Outcome, trial: Trial, criterion: Criterion, exactly: bool) -> bool:
        if mistaken.error or trial.outcome.error:
            return mistaken.error == trial.outcome.error and (
                isinstance(trial.expected, _Raised) or _complaint(mistaken) == _complaint(trial.outcome)
            )
        got, expected = _observed(criterion, trial.outcome), _observed(criterion, mistaken)
        if isinstance(expected, list):
            expected = tuple(expected)
        return _unequal(self.exercise, trial.case, got, expected, exactly) is None


def _complaint(outcome: Outcome) -> str:
    """The message of an error without the line that raised it."""
    return outcome.message.partition(" (line ")[0]


def _explain(exercise: Exercise, one: _Examined, bank: _Bank) -> Failure:
    """The smallest failing case, with the misconception, the broken property or the bare difference."""
    failing = [(t, fault) for t, fault in zip(one.trials, one.faults, strict=True) if fault]
    trial, fault = min(failing, key=lambda pair: _size(pair[0].case))
    numpy_state = np.random.get_state()  # the student's, and a mistake of the bank may draw from it
    mistake = bank.explaining(one)
    np.random.set_state(numpy_state)
    broken = None
    if one.criterion.observes == "value" and same_form(trial.value, trial.expected):
        broken = next((said for p in exercise.properties if (said := _broken(p.broken, trial))), None)
    return Failure(
        case=trial.case.says,
        arguments=", ".join(
            [describe(_plain(a)) for a in trial.case.args]
            + [f"{k}={describe(_plain(v))}" for k, v in trial.case.kwargs.items()]
        ),
        fault=fault,
        broken=broken,
        misconception=mistake.name if mistake else None,
        hint=mistake.says if mistake else None,
    )


def _plain(value: Any) -> Any:
    return f"generator({value.value})" if isinstance(value, Seed) else value


def _broken(broken: Callable[[Trial], str | None], trial: Trial) -> str | None:
    """A property asked of any outcome; one that cannot be asked, whatever the reason, is not broken."""
    try:
        with np.errstate(all="ignore"):
            return broken(trial)
    except Exception:
        return None


def _size(case: Case) -> int:
    return sum(a.size if isinstance(a, np.ndarray) else 1 for a in (*case.args, *case.kwargs.values()))
