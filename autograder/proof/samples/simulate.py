"""Simulate a class of any size, to rehearse a term: a seed draws the students and their mistakes.

The class is laid out like an nbgrader exchange, ``DIR/<assignment>/<student>+<assignment>+<time>/``, so that
it is collected like a real class. ``DIR/truth.json`` lists the kind and the mistakes of each student. The
same seed gives the same class, byte for byte.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from autograder import exercises
from autograder.checking.declaration import Answer, Exercise
from autograder.course.errors import BadInputError
from autograder.course.files import require_writable
from autograder.course.layout import Course
from autograder.course.student_ids import require_valid
from autograder.course.workers import Progress
from autograder.proof.samples.students import Answers, Sheet, Student, of_every_kind
from autograder.release import publish
from autograder.release.declared_cells import as_bytes

KINDS = {"honest": 0.45, "mistaken": 0.25, "partial": 0.15, "broken": 0.10, "hostile": 0.05}
"""The share of each kind of student in the class."""
MISTAKES = (0.3, 0.2, 0.1)
"""The shares of the mistaken students with the first, second and third planted mistake of an exercise."""
LATE = 0.1
"""The share of the class that hands in after the due date."""
FIRST_DUE = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
"""The due date of the first assignment of the course; each later assignment is due a week after the last."""
TIME = "%Y-%m-%d %H:%M:%S UTC"


def simulate(
    course: Course,
    assignments: list[str],
    folder: Path,
    students: int,
    seed: int,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Write a class and the truth about it, all or nothing, and return the truth.

    Args:
        course: the course of the assignments.
        assignments: the names of the assignments.
        folder: the folder to make.
        students: the number of students.
        seed: the seed of every draw.
        progress: is called with the number of finished assignments and their total.

    Raises:
        BadInputError: the folder exists or cannot be made, or an assignment does not have one notebook.
    """
    if folder.exists() or folder.is_symlink():
        raise BadInputError(
            f"{folder} is there already and is not changed. Remove it, or name another folder."
        )
    require_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    truth: dict[str, Any] = {"students": students, "seed": seed, "assignments": {}}
    with tempfile.TemporaryDirectory(prefix=".simulate-", dir=folder.parent) as scratch:
        whole = Path(scratch, "class")
        for done, assignment in enumerate(assignments):
            progress(done, len(assignments))
            truth["assignments"][assignment] = _write_assignment(
                course, assignment, whole / assignment, students, seed
            )
        (whole / "truth.json").write_bytes(as_bytes(truth))
        whole.rename(folder)
    return truth


def _write_assignment(
    course: Course, assignment: str, folder: Path, students: int, seed: int
) -> dict[str, Any]:
    """Write the submissions of one assignment and return the truth about them."""
    if assignment not in exercises.assignments():
        raise BadInputError(f"{assignment} has no exercises that the grader knows. Name other assignments.")
    notebooks = publish.notebooks(course, assignment)
    if len(notebooks) != 1:
        raise BadInputError(
            f"{assignment} has {len(notebooks)} notebooks; a class can be simulated only for one notebook."
        )
    ((name, released),) = notebooks.items()
    declared, rng = exercises.of_assignment(assignment), Random(f"{seed} {assignment}")
    kinds = _kinds(students, seed)
    planted = _planted(declared, kinds.count("mistaken"), seed, rng)
    submissions = of_every_kind(kinds, planted, Sheet(name, json.loads(released), declared, rng))
    due = FIRST_DUE + timedelta(weeks=exercises.assignments().index(assignment))
    late = set(rng.sample(range(students), round(LATE * students)))
    people: dict[str, Student] = {}
    for number, (student, (file, data)) in enumerate(submissions):
        name_of_student = require_valid(f"student-{number + 1:03d}")
        hours = rng.uniform(1, 60)
        student.late = number in late
        student.handed_in = (due + timedelta(hours=hours if student.late else -hours)).strftime(TIME)
        submission = folder / f"{name_of_student}+{assignment}+{student.handed_in}"
        submission.mkdir(parents=True)
        (submission / file).write_bytes(data)
        people[name_of_student] = student
    return {
        "due": due.strftime(TIME),
        "kinds": {kind: kinds.count(kind) for kind in KINDS},
        "late": len(late),
        "misconceptions": _count_mistakes(people.values()),
        "students": {name: asdict(student) for name, student in people.items()},
    }


def shares(parts: list[float], count: int) -> list[int]:
    """Return whole numbers in the proportion of the parts, rounded by the largest remainders.

    >>> shares([0.45, 0.25, 0.15, 0.10, 0.05], 200), shares([0.5, 0.3], 2)
    ([90, 50, 30, 20, 10], [1, 1])
    """
    exact = [part * count for part in parts]
    whole = [int(value + 1e-9) for value in exact]
    left = round(sum(exact)) - sum(whole)
    for place in sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])[:left]:
        whole[place] += 1
    return whole


def _kinds(students: int, seed: int) -> list[str]:
    """Return the kind of each student, the same in every assignment."""
    kinds = [
        kind
        for kind, count in zip(KINDS, shares([*KINDS.values()], students), strict=True)
        for _ in range(count)
    ]
    Random(f"{seed} kinds").shuffle(kinds)
    return kinds


def _planted(declared: list[Exercise], mistaken: int, seed: int, rng: Random) -> list[Answers]:
    """Return for each mistaken student the mistakes by exercise, in the proportions of `MISTAKES`.

    The mistakes are dealt like cards: each student gets at least one, and never two of one exercise.
    """
    dealt: list[Answers] = [{} for _ in range(mistaken)]
    place = 0
    for exercise in declared:
        mistakes = _mistakes_in_order(exercise, seed)[: len(MISTAKES)]
        for mistake, count in zip(mistakes, shares([*MISTAKES], mistaken), strict=True):
            for _ in range(count):
                dealt[place % mistaken][exercise.function_name] = mistake
                place += 1
    rng.shuffle(dealt)
    return dealt


def _mistakes_in_order(exercise: Exercise, seed: int) -> list[Answer]:
    """Return the mistakes of an exercise in an order drawn by the seed.

    A new mistake in the bank does not change the order of the others.
    """
    return sorted(
        exercise.misconceptions, key=lambda mistake: Random(f"{seed} {exercise.name} {mistake.name}").random()
    )


def _count_mistakes(people: Iterable[Student]) -> dict[str, dict[str, int]]:
    """Return by exercise the number of students with each mistake."""
    pairs = Counter(pair for student in people for pair in student.misconceptions.items())
    counts: dict[str, dict[str, int]] = {}
    for (exercise, mistake), count in pairs.items():
        counts.setdefault(exercise, {})[mistake] = count
    return counts
