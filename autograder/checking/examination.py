"""Examines a candidate against an exercise: points by criterion, and the reason for each point lost."""

from __future__ import annotations

from autograder.checking.candidate import Candidate, local, outcome_of
from autograder.checking.declaration import SLIP, Answer, Exercise, Outcome, Trial
from autograder.checking.diagnosis import Bank, Examined
from autograder.checking.explanation import SmallestCases, explained
from autograder.checking.faults import judged
from autograder.checking.oracle import Oracle, call_key
from autograder.checking.report import CriterionResult, Failure, Report, Status
from autograder.checking.shrink import Patience
from autograder.reading import forbidden_calls

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


def examine(exercise: Exercise, candidate: Candidate, seed: int) -> Report:
    """Tries every case of every criterion and explains what failed; see `Examination`."""
    return Examination(exercise, seed).of(candidate)


class Examination:
    """An exercise under one seed, ready to examine any number of candidates; see `Oracle`.

    Args:
        exercise: the declaration.
        seed: draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.oracle = Oracle(exercise, seed)
        self.smallest = SmallestCases(self.oracle)

    def of(self, candidate: Candidate, shrinking: bool = True) -> Report:
        """The report on a candidate.

        The explanation of a failure is sought in this order: a misconception of the bank whose outcomes are
        the candidate's in every failing case; a property that the outcome breaks; the first difference. The
        case that shows it is made smaller first, unless `shrinking` is false.
        """
        return self._report(self._tried(candidate), shrinking)

    def of_bank(self, calls: tuple[str, ...]) -> list[Report]:
        """The reports on every answer of the bank, where none may call `calls`.

        A mistake is called as an answer and held against the others as an explanation: once for both.
        """
        tried = []
        for answer in self.exercise.answers:
            called: dict[tuple[str, int], Outcome] = {}
            tried.append(self._tried(local(answer.function, calls), called))
            if answer in self.exercise.misconceptions:
                self.oracle.remember(answer, called)
        return [self._report(examined, shrinking=False) for examined in tried]

    def _report(self, examined: list[Examined] | Report, shrinking: bool) -> Report:
        if isinstance(examined, Report):
            return examined
        bank, patience = Bank(self.oracle, examined), Patience() if shrinking else Patience(0)
        failures: list[Failure | None] = []
        for one in examined:
            named = {failure.misconception for failure in failures if failure}
            failures.append(explained(one, bank, self.smallest, patience, named) if one.failed else None)
        earned = _earned(examined, [bank.named(one) if one.failed else () for one in examined])
        return Report(
            self.exercise.name,
            self.exercise.points,
            tuple(
                CriterionResult(one.criterion.says, one.criterion.points, points, failure)
                for one, points, failure in zip(examined, earned, failures, strict=True)
            ),
        )

    def _tried(
        self, candidate: Candidate, called: dict[tuple[str, int], Outcome] | None = None
    ) -> list[Examined] | Report:
        """Every case of every criterion, or a report that says why they cannot be tried.

        What came of each call stands in `called` afterwards.
        """
        exercise = self.exercise
        examined: list[Examined] = []
        called = {} if called is None else called
        written = False
        for criterion, cases in self.oracle.drawn:
            trials: list[Trial] = []
            call = criterion.through(candidate)
            for case in cases:
                key = call_key(criterion, case)
                outcome = called[key] = called[key] if key in called else outcome_of(call, case)
                if outcome.forbidden:
                    return Report.without_points(
                        exercise,
                        "forbidden",
                        forbidden_calls.told(outcome.forbidden),
                        forbidden=outcome.forbidden,
                    )
                written = written or outcome.error is None
                in_part = written and outcome.error == "NotImplementedError"
                if outcome.error in _NOT_EXAMINED and not in_part:
                    status, note = _NOT_EXAMINED[outcome.error]
                    return Report.without_points(exercise, status, note.format(case.says, outcome.message))
                trials.append(Trial(case, outcome, self.oracle.expected(criterion, case), call))
            faults = [judged(exercise, criterion, trial) for trial in trials]
            examined.append(Examined(criterion, trials, faults))
        return examined

    def learn(self, mistake: str, criterion: str) -> None:
        """Finds the smallest case of a mistake that was made, since it will be made again."""
        for answer in self.exercise.misconceptions:
            for one, _ in self.oracle.drawn:
                if answer.name in mistake.split(" or ") and one.says == criterion and one.shrinks:
                    self.smallest.of(answer, one)


def _earned(examined: list[Examined], named: list[tuple[Answer, ...]]) -> list[float]:
    """Return the points of each criterion: all if it is met, a part after a slip, none without the core.

    Args:
        examined: the criteria, the core first.
        named: the mistakes that explain each; none where it is met or nothing explains it.
    """
    shares = [
        1.0 if not one.failed else SLIP if mistakes and all(m.gravity == "slip" for m in mistakes) else 0.0
        for one, mistakes in zip(examined, named, strict=True)
    ]
    return [
        share * one.criterion.points if shares[0] else 0.0
        for one, share in zip(examined, shares, strict=True)
    ]
