"""The proof that the grader is right: every mistake rejected and named, every right style accepted.

The bank is tried in this process on the cases that students see and on hidden ones; the solution notebooks
and the blank ones go through the real grader.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder import exercises
from autograder.checking import Examination, local
from autograder.exercise import Answer, Exercise
from autograder.report import Report
from autograder.student import PUBLIC_SEED

HIDDEN_SEED = 1405006
"""Draws the hidden cases where a course has drawn no seed of its own yet."""


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
    examination = Examination(exercise, seed)
    for is_misconception, answers in ((True, exercise.misconceptions), (False, exercise.styles)):
        for answer in answers:
            candidate = local(answer.function, (*exercise.forbidden, "tfcore"))
            yield Tried(exercise, answer, is_misconception, examination.of(candidate, shrinking=False))


@dataclass(frozen=True)
class Entry:
    """One answer of the bank under several seeds: it counts only if it is right under each.

    ``fails`` has a mark for each criterion of the exercise, in order: whether the answer fails it under the
    first seed. It is the answer's row in the kill matrix.
    """

    exercise: str
    name: str
    is_misconception: bool
    as_it_should: bool
    diagnosed: bool
    told: tuple[str | None, ...]
    says: str = ""
    fails: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Notebook:
    """A solution notebook and the blank one, graded: what a teacher would see."""

    assignment: str
    solution_score: float
    blank_score: float
    max_score: float
    note: str = ""

    @property
    def as_it_should(self) -> bool:
        return self.solution_score == self.max_score > 0 and self.blank_score == 0 and not self.note


@dataclass
class Proof:
    """All that was tried."""

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
        return all(e.as_it_should for e in self.entries) and all(n.as_it_should for n in self.notebooks)

    def as_dict(self) -> dict[str, Any]:
        """The proof in figures."""
        return {
            "exercises": len({entry.exercise for entry in self.entries}),
            "misconceptions": len(self.misconceptions),
            "rejected": sum(entry.as_it_should for entry in self.misconceptions),
            "diagnosed": sum(entry.diagnosed for entry in self.misconceptions),
            "styles": len(self.styles),
            "accepted": sum(entry.as_it_should for entry in self.styles),
            "solution_score": sum(notebook.solution_score for notebook in self.notebooks),
            "max_score": sum(notebook.max_score for notebook in self.notebooks),
            "blank_score": sum(notebook.blank_score for notebook in self.notebooks),
        }

    def matrix(self) -> list[dict[str, Any]]:
        """The kill matrix: for each exercise its criteria, and for each answer of its bank which it fails."""
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
    seeds: tuple[int, ...],
    progress: Callable[[int, int], None] = lambda done, total: None,
    workers: int | None = None,
) -> list[Entry]:
    """The bank of every exercise named, under every seed; in several processes, unless `workers` is 1."""
    workers = workers or os.cpu_count() or 1
    found: dict[str, list[Entry]] = {}
    if workers == 1:
        for done, name in enumerate(names, 1):
            found[name] = _tried(name, seeds)
            progress(done, len(names))
    else:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _one_thread) as pool:
            running = {pool.submit(_tried, name, seeds): name for name in names}
            for done, future in enumerate(as_completed(running), 1):
                found[running[future]] = future.result()
                progress(done, len(names))
    return [entry for name in names for entry in found[name]]


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _tried(name: str, seeds: tuple[int, ...]) -> list[Entry]:
    return list(try_exercise(exercises.find(name), seeds))


def try_exercise(exercise: Exercise, seeds: tuple[int, ...]) -> Iterator[Entry]:
    """The bank of one exercise under every seed."""
    for together in zip(*(list(try_bank(exercise, seed)) for seed in seeds), strict=True):
        yield Entry(
            exercise.name,
            together[0].answer.name,
            together[0].is_misconception,
            all(one.as_it_should for one in together),
            all(one.diagnosed for one in together),
            tuple(one.report.diagnosis for one in together),
            together[0].answer.says,
            tuple(criterion.failure is not None for criterion in together[0].report.criteria),
        )


def try_notebooks(solutions: dict[str, list[tuple[bytes, bytes]]], seed: int) -> Iterator[Notebook]:
    """Grades solution and blank notebooks with the real grader.

    Args:
        solutions: for each assignment, its notebooks as (solution, release).
        seed: draws the hidden cases.
    """
    from autograder.grading.pair import Pair, notebook_task
    from autograder.grading.session import Limits

    with Pair() as pair:
        for assignment, notebooks in solutions.items():
            solved = blank = highest = 0.0
            notes = [] if notebooks else ["it has no notebook"]
            for solution, released in notebooks:
                for data in (solution, released):
                    verdict = pair.grade(notebook_task(assignment, released, data, seed, Limits()))
                    if verdict.status != "graded":
                        notes.append(verdict.note)
                    elif data is solution:
                        solved, highest = solved + verdict.score, highest + verdict.max_score
                    else:
                        blank += verdict.score
            yield Notebook(assignment, solved, blank, highest, "; ".join(notes))
