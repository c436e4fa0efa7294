"""Examine a candidate: give points for each criterion of an exercise, and the reason for each lost point."""

from __future__ import annotations

import re

from autograder.checking.candidate import Candidate, run_case, watched_at_first
from autograder.checking.declaration import SLIP, Answer, Exercise, Outcome, Trial
from autograder.checking.diagnosis import Bank, Examined
from autograder.checking.explanation import SmallestCases, explain_failure
from autograder.checking.faults import judge
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
"""Errors that end the examination, each with the status and the note of the report."""


def examine(exercise: Exercise, candidate: Candidate, seed: int) -> Report:
    """Try every case of every criterion, explain the failures and return the report; see `Examination`."""
    return Examination(exercise, seed).report_on(candidate)


class Examination:
    """An exercise with the cases of one seed, ready to examine any number of candidates; see `Oracle`.

    Args:
        exercise: the declaration.
        seed: the seed that draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.oracle = Oracle(exercise, seed)
        self.smallest = SmallestCases(self.oracle)

    def report_on(self, candidate: Candidate, shrinking: bool = True) -> Report:
        """Return the report on a candidate.

        A failure is explained by the first of these that applies: a misconception of the bank with the same
        outcomes in every failing case; a property that the outcome breaks; the first difference. The report
        shows the failure in a smaller case, unless `shrinking` is false.
        """
        return self._report(self._try_cases(candidate), shrinking)

    def report_on_bank(self, calls: tuple[str, ...]) -> list[Report]:
        """Return the reports on all answers of the bank; an answer that calls one of `calls` is forbidden.

        A mistake's outcomes are also used to explain other answers, so each mistake is called only once. To
        save time, an answer is watched only in its first call of each probe; see `watched_at_first`.
        """
        tried = []
        for answer in self.exercise.answers:
            called: dict[tuple[str, int], Outcome] = {}
            tried.append(self._try_cases(watched_at_first(answer.function, calls), called))
            if answer in self.exercise.misconceptions:
                self.oracle.remember(answer, called)
        return [self._report(examined, shrinking=False) for examined in tried]

    def _report(self, examined: list[Examined] | Report, shrinking: bool) -> Report:
        if isinstance(examined, Report):
            return examined
        bank, patience = Bank(self.oracle, examined), Patience() if shrinking else Patience(0)
        failures: list[Failure | None] = []
        for each in examined:
            named = {failure.misconception for failure in failures if failure}
            failures.append(
                explain_failure(each, bank, self.smallest, patience, named) if each.failed else None
            )
        earned = _award_points(examined, [bank.named(each) if each.failed else () for each in examined])
        return Report(
            self.exercise.name,
            self.exercise.points,
            tuple(
                CriterionResult(each.criterion.says, each.criterion.points, points, failure)
                for each, points, failure in zip(examined, earned, failures, strict=True)
            ),
        )

    def _try_cases(
        self, candidate: Candidate, called: dict[tuple[str, int], Outcome] | None = None
    ) -> list[Examined] | Report:
        """Try every case of every criterion, or return a report on why the cases cannot be tried.

        Store the outcome of each call in `called`.
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
                outcome = called[key] = called[key] if key in called else run_case(call, case)
                if outcome.forbidden:
                    return Report.without_points(
                        exercise,
                        "forbidden",
                        forbidden_calls.describe_violation(outcome.forbidden),
                        forbidden=outcome.forbidden,
                    )
                written = written or outcome.error is None
                in_part = written and outcome.error == "NotImplementedError"
                if outcome.error in _NOT_EXAMINED and not in_part:
                    status, note = _NOT_EXAMINED[outcome.error]
                    if other := re.search(r" in your `(\w+)`$", outcome.message):
                        note = f"It calls your `{other[1]}`, which is not written yet: write that first."
                    return Report.without_points(exercise, status, note.format(case.says, outcome.message))
                trials.append(Trial(case, outcome, self.oracle.expected(criterion, case), call))
            faults = [judge(exercise, criterion, trial) for trial in trials]
            examined.append(Examined(criterion, trials, faults))
        return examined

    def learn(self, mistake: str, criterion: str) -> None:
        """Find the smallest case for a mistake that a student made, since other students will make it too."""
        for answer in self.exercise.misconceptions:
            for each, _ in self.oracle.drawn:
                if answer.name in mistake.split(" or ") and each.says == criterion and each.shrinks:
                    self.smallest.find(answer, each)


def _award_points(examined: list[Examined], named: list[tuple[Answer, ...]]) -> list[float]:
    """Return the points of each criterion: all if it is met, a share after a slip, 0 if the core fails.

    Args:
        examined: the examined criteria, the core first.
        named: the mistakes that explain each criterion's failure; empty if it is met or has no explanation.
    """
    shares = [
        1.0 if not each.failed else SLIP if mistakes and all(m.gravity == "slip" for m in mistakes) else 0.0
        for each, mistakes in zip(examined, named, strict=True)
    ]
    return [
        share * each.criterion.points if shares[0] else 0.0
        for each, share in zip(examined, shares, strict=True)
    ]
