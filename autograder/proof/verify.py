"""Prove that the grader is right: it rejects and names every mistake and accepts every right style.

Each answer of the bank is examined twice: in this process on the public cases, as `check` does for students,
and by the grader in its cage on hidden cases. The grader also grades the solution notebooks and the blank
notebooks.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder import exercises
from autograder.checking.declaration import Answer, Exercise
from autograder.checking.examination import Examination
from autograder.checking.report import Report
from autograder.course.workers import Progress, begin_worker, cores
from autograder.grading import cages
from autograder.grading.executors import grade_all
from autograder.grading.pair import Task, file_task, notebook_task
from autograder.grading.session import Limits
from autograder.grading.verdict import Verdict
from autograder.student import PUBLIC_SEED

HIDDEN_SEED = 1405006
"""The seed of the hidden cases for a course that has not drawn a seed yet."""


@dataclass(frozen=True)
class Entry:
    """The results of one answer of the bank under its seeds: two, or one if the grader does not grade it.

    Args:
        exercise: the name of the exercise.
        name: the name of the answer in the bank.
        is_misconception: whether the answer is wrong.
        as_expected: whether a wrong answer is rejected, or a right one accepted, under every seed.
        diagnosed: whether the report names this mistake under every seed.
        named: under each seed, the mistake that the report names, or None.
        weighed: whether the points fit the gravity of the mistake under every seed; see `points_fit`.
        says: the description of the answer in the bank.
        fails: for each criterion of the exercise, in order, whether the answer fails it under the first seed:
            the answer's row in the kill matrix.
        messages: under each seed, what the report says, where it does not name this mistake.
    """

    exercise: str
    name: str
    is_misconception: bool
    as_expected: bool
    diagnosed: bool
    named: tuple[str | None, ...]
    weighed: bool = True
    says: str = ""
    fails: tuple[bool, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def named_under_first_seed(self) -> bool:
        """Return whether the report names this mistake under the first seed, which students also have."""
        return self.is_misconception and self.named[0] == self.name


@dataclass(frozen=True)
class Notebook:
    """The points of the solution notebooks and of the blank notebooks of an assignment."""

    assignment: str
    solution_score: float
    blank_score: float
    max_score: float
    note: str = ""

    @property
    def as_expected(self) -> bool:
        return self.solution_score == self.max_score > 0 and self.blank_score == 0 and not self.note


@dataclass
class Proof:
    """The results of all answers and notebooks."""

    entries: list[Entry] = field(default_factory=list)
    notebooks: list[Notebook] = field(default_factory=list)

    @property
    def misconceptions(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.is_misconception]

    @property
    def styles(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.is_misconception]

    @property
    def holds(self) -> bool:
        named = all(entry.named_under_first_seed for entry in self.misconceptions)
        answers = all(entry.as_expected for entry in self.entries)
        weighed = all(entry.weighed for entry in self.misconceptions)
        return named and answers and weighed and all(notebook.as_expected for notebook in self.notebooks)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the proof."""
        return {
            "exercises": len({entry.exercise for entry in self.entries}),
            "misconceptions": len(self.misconceptions),
            "rejected": sum(entry.as_expected for entry in self.misconceptions),
            "diagnosed": sum(entry.diagnosed for entry in self.misconceptions),
            "styles": len(self.styles),
            "accepted": sum(entry.as_expected for entry in self.styles),
            "solution_score": sum(notebook.solution_score for notebook in self.notebooks),
            "max_score": sum(notebook.max_score for notebook in self.notebooks),
            "blank_score": sum(notebook.blank_score for notebook in self.notebooks),
        }

    def matrix(self) -> list[dict[str, Any]]:
        """Return the kill matrix: for each exercise its criteria and the entries of its bank."""
        return [
            {
                "exercise": name,
                "criteria": [criterion.says for criterion in exercises.find(name).criteria],
                "answers": [asdict(entry) for entry in self.entries if entry.exercise == name],
            }
            for name in dict.fromkeys(entry.exercise for entry in self.entries)
        ]


def try_all(
    names: list[str],
    hidden_seed: int,
    progress: Progress = lambda done, total: None,
    workers: int | None = None,
    caged: int | None = None,
) -> list[Entry]:
    """Examine the bank of each of these exercises, as `check` does and by the grader in its cage.

    Args:
        names: exercises, as ``assignment/function``.
        hidden_seed: the seed of the grader's cases.
        progress: is called with the number of reports made and their total.
        workers: processes at once; by default one for each core.
        caged: the number of mistakes and of right answers of each exercise that the grader grades in its
            cage; by default all.
    """
    workers = workers or cores()
    tasks = list(_to_grade(names, hidden_seed, caged))
    total, done = sum(len(exercises.find(name).answers) for name in names) + len(tasks), 0
    checked: dict[str, list[Report]] = {}
    graded: dict[str, Report] = {}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), begin_worker) as pool:
        # the last exercises of the course are the longest: they begin first
        running = {pool.submit(_checked, name): name for name in reversed(names)}
        for future in as_completed(running):
            checked[running[future]] = future.result()
            progress(done := done + len(future.result()), total)
    for key, verdict in grade_all(tasks, cages.strongest().tier, workers=workers):
        graded[key] = _only_report(key, verdict)
        progress(done := done + 1, total)
    return [
        entry
        for name in names
        for entry in entries(
            exercises.find(name),
            checked[name],
            [graded.get(f"{name}/{answer.name}") for answer in exercises.find(name).answers],
        )
    ]


def _checked(name: str) -> list[Report]:
    return checked(exercises.find(name), PUBLIC_SEED)


def checked(exercise: Exercise, seed: int) -> list[Report]:
    """Examine each answer of the exercise's bank in this process, as `check` does, and return the reports."""
    return Examination(exercise, seed).report_on_bank((*exercise.forbidden, "tfcore"))


def drawn(exercise: Exercise, number: int | None, seed: int) -> list[Answer]:
    """Return all answers of the bank or, drawn by the seed, this number of mistakes and of right answers."""
    draw, kinds = random.Random(f"{seed} {exercise.name}"), (exercise.misconceptions, exercise.styles)
    return [
        answer
        for kind in kinds
        for answer in (kind if number is None else draw.sample(kind, min(number, len(kind))))
    ]


def _to_grade(names: list[str], seed: int, caged: int | None) -> Iterator[tuple[str, Task]]:
    for name in names:
        exercise = exercises.find(name)
        for answer in drawn(exercise, caged, seed):
            source = answer.pasted(exercise.function_name).encode()
            task = file_task(name, source, is_notebook=False, seed=seed, limits=Limits(), shrinking=False)
            yield f"{name}/{answer.name}", task


def _only_report(key: str, verdict: Verdict) -> Report:
    if verdict.status != "graded":
        raise RuntimeError(f"{key} was not graded: {verdict.note}")
    (cell,) = verdict.cells
    assert cell.report
    return cell.report


def points_fit(answer: Answer, report: Report) -> bool:
    """Return whether the points fit the gravity: over half of them for a slip, under half if useless."""
    share = report.score / report.max_score
    return share > 0.5 if answer.gravity == "slip" else share < 0.5 or answer.gravity != "useless"


def entries(exercise: Exercise, *reports: Sequence[Report | None]) -> Iterator[Entry]:
    """Yield the entry of each answer of the exercise, from the reports on its bank under each seed.

    A report is None if the answer was not graded under that seed.
    """
    for answer, *each_report in zip(exercise.answers, *reports, strict=True):
        under_seeds = [report for report in each_report if report]
        wrong = answer in exercise.misconceptions
        yield Entry(
            exercise.name,
            answer.name,
            is_misconception=wrong,
            as_expected=all(report.passed != wrong for report in under_seeds),
            diagnosed=wrong and all(report.diagnosis == answer.name for report in under_seeds),
            named=tuple(report.diagnosis for report in under_seeds),
            weighed=all(points_fit(answer, report) for report in under_seeds),
            says=answer.says,
            fails=tuple(criterion.failure is not None for criterion in under_seeds[0].criteria),
            messages=tuple("" if each.diagnosis == answer.name else each.message for each in under_seeds),
        )


KINDS = ("the solution", "the blank notebook")


def try_notebooks(
    solutions: dict[str, list[tuple[bytes, bytes]]], seed: int, workers: int | None = None
) -> Iterator[Notebook]:
    """Grade the solution notebooks and the blank notebooks in the cage.

    Args:
        solutions: for each assignment, its notebooks as (solution, release).
        seed: the seed of the hidden cases.
        workers: processes at once; by default one for each core.
    """
    tasks = [
        (f"{kind} of {assignment}", notebook_task(assignment, released, data, seed, Limits()))
        for assignment, notebooks in solutions.items()
        for solution, released in notebooks
        for kind, data in zip(KINDS, (solution, released), strict=True)
    ]
    graded: dict[str, list[Verdict]] = {}
    for key, verdict in grade_all(tasks, cages.strongest().tier, workers=workers):
        graded.setdefault(key, []).append(verdict)
    for assignment, notebooks in solutions.items():
        solved, blank = (graded.get(f"{kind} of {assignment}", []) for kind in KINDS)
        notes = [verdict.note for verdict in (*solved, *blank) if verdict.status != "graded"]
        yield Notebook(
            assignment,
            solution_score=sum(verdict.score for verdict in solved),
            blank_score=sum(verdict.score for verdict in blank),
            max_score=sum(verdict.max_score for verdict in solved),
            note="; ".join(notes if notebooks else ["it has no notebook"]),
        )
