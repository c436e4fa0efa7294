"""The proof that the grader is right: every mistake rejected and named, every right style accepted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autograder.checking import examine, local
from autograder.exercise import Answer, Exercise
from autograder.report import Report
from autograder.student import PUBLIC_SEED


@dataclass(frozen=True)
class Tried:
    """One answer of the bank, examined: a misconception must fail and be named, a style must pass."""

    exercise: Exercise
    answer: Answer
    is_misconception: bool
    report: Report

    @property
    def as_it_should(self) -> bool:
        return self.report.passed != self.is_misconception

    @property
    def diagnosed(self) -> bool:
        return self.is_misconception and self.report.diagnosis == self.answer.name


def try_bank(exercise: Exercise, seed: int = PUBLIC_SEED) -> Iterable[Tried]:
    """Every misconception and every style of the exercise, examined as a student's answer would be."""
    for is_misconception, answers in ((True, exercise.misconceptions), (False, exercise.styles)):
        for answer in answers:
            candidate = local(answer.function, (*exercise.forbidden, "tfcore"))
            yield Tried(exercise, answer, is_misconception, examine(exercise, candidate, seed))
