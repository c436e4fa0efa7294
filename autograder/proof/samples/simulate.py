"""A class of any size to try a term with: who has what is drawn from a seed, and the truth is written down.

Notebooks lie as nbgrader's exchange hands them over, ``DIR/<assignment>/<student>+<assignment>+<time>/``, so
that they are collected like real ones. ``DIR/truth.json`` says what was planted in whom. The same seed gives
the same class, byte for byte.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
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
from autograder.proof.samples.notebooks import as_bytes
from autograder.proof.samples.students import Answers, Sheet, Student, of_every_kind
from autograder.release import publish

KINDS = {"honest": 0.45, "mistaken": 0.25, "partial": 0.15, "broken": 0.10, "hostile": 0.05}
"""What part of the class is of each kind."""
MISTAKES = (0.3, 0.2, 0.1)
"""What part of the mistaken make the first, the second and the third planted mistake of an exercise."""
LATE = 0.1
"""What part of the class hands in after the date."""
FIRST_DUE = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
"""When the first assignment of the course is due; each other is due a week after the one before it."""
TIME = "%Y-%m-%d %H:%M:%S UTC"


def simulate(
    course: Course,
    assignments: list[str],
    folder: Path,
    students: int,
    seed: int,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Writes a class and the truth about it, all or nothing; gives the truth.

    Args:
        course: whose assignments they are.
        assignments: which of them.
        folder: is made.
        students: how many.
        seed: draws all that is drawn.
        told: hears of the progress.

    Raises:
        BadInputError: the folder is there already or cannot be made, or an assignment is not one notebook.
    """
    if folder.exists() or folder.is_symlink():
        raise BadInputError(f"{folder} is there already and stays as it is. Remove it, or name another.")
    require_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    truth: dict[str, Any] = {"students": students, "seed": seed, "assignments": {}}
    with tempfile.TemporaryDirectory(prefix=".simulate-", dir=folder.parent) as scratch:
        whole = Path(scratch, "class")
        for done, assignment in enumerate(assignments):
            told(done, len(assignments))
            truth["assignments"][assignment] = _one(course, assignment, whole / assignment, students, seed)
        (whole / "truth.json").write_bytes(as_bytes(truth))
        whole.rename(folder)
    return truth


def _one(course: Course, assignment: str, folder: Path, students: int, seed: int) -> dict[str, Any]:
    """Writes the class of one assignment; gives what is true of it."""
    notebooks = publish.notebooks(course, assignment)
    if len(notebooks) != 1:
        raise BadInputError(f"{assignment} has {len(notebooks)} notebooks; a class is simulated for one.")
    ((name, released),) = notebooks.items()
    declared, rng = exercises.of_assignment(assignment), Random(f"{seed} {assignment}")
    kinds = _kinds(students, seed)
    planted = _planted(declared, kinds.count("mistaken"), seed, rng)
    made = of_every_kind(kinds, planted, Sheet(name, json.loads(released), declared, rng))
    due = FIRST_DUE + timedelta(weeks=exercises.assignments().index(assignment))
    late = set(rng.sample(range(students), round(LATE * students)))
    people: dict[str, Student] = {}
    for number, (student, (file, data)) in enumerate(made):
        who = require_valid(f"student-{number + 1:03d}")
        hours = rng.uniform(1, 60)
        student.late = number in late
        student.handed_in = (due + timedelta(hours=hours if student.late else -hours)).strftime(TIME)
        own = folder / f"{who}+{assignment}+{student.handed_in}"
        own.mkdir(parents=True)
        (own / file).write_bytes(data)
        people[who] = student
    return {
        "due": due.strftime(TIME),
        "kinds": {kind: kinds.count(kind) for kind in KINDS},
        "late": len(late),
        "misconceptions": _counted(people.values()),
        "students": {who: asdict(student) for who, student in people.items()},
    }


def shares(parts: list[float], count: int) -> list[int]:
    """Whole numbers in the proportion of the parts; what is left over goes to those that lost most.

    >>> shares([0.45, 0.25, 0.15, 0.10, 0.05], 200), shares([0.5, 0.3], 2)
    ([90, 50, 30, 20, 10], [1, 1])
    """
    exact = [part * count for part in parts]
    whole = [int(one + 1e-9) for one in exact]
    left = round(sum(exact)) - sum(whole)
    for place in sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])[:left]:
        whole[place] += 1
    return whole


def _kinds(students: int, seed: int) -> list[str]:
    """What each student is, the same in every assignment."""
    kinds = [
        kind
        for kind, count in zip(KINDS, shares([*KINDS.values()], students), strict=True)
        for _ in range(count)
    ]
    Random(f"{seed} kinds").shuffle(kinds)
    return kinds


def _planted(declared: list[Exercise], mistaken: int, seed: int, rng: Random) -> list[Answers]:
    """For each of the mistaken a mistake in one exercise or more, in the proportions of `MISTAKES`.

    They are dealt like cards: nobody gets two of one exercise, and nobody goes without.
    """
    dealt: list[Answers] = [{} for _ in range(mistaken)]
    place = 0
    for exercise in declared:
        mistakes = _some(exercise, seed)[: len(MISTAKES)]
        for mistake, count in zip(mistakes, shares([*MISTAKES], mistaken), strict=True):
            for _ in range(count):
                dealt[place % mistaken][exercise.function_name] = mistake
                place += 1
    rng.shuffle(dealt)
    return dealt


def _some(exercise: Exercise, seed: int) -> list[Answer]:
    """The mistakes of an exercise in an order that the seed draws, and that a new one hardly changes."""
    return sorted(
        exercise.misconceptions, key=lambda mistake: Random(f"{seed} {exercise.name} {mistake.name}").random()
    )


def _counted(people: Iterable[Student]) -> dict[str, dict[str, int]]:
    """By exercise, how many have each mistake."""
    pairs = Counter(pair for student in people for pair in student.misconceptions.items())
    found: dict[str, dict[str, int]] = {}
    for (exercise, mistake), count in pairs.items():
        found.setdefault(exercise, {})[mistake] = count
    return found
