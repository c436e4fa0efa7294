"""Make a sample class: ``python -m autograder.proof.samples.make DIR``.

The class hands in right answers in several styles, mistakes of every kind, and a notebook for each accident:
blank, broken, endless, noisy, stripped. (`autograder verify` grades the whole bank.) The module also writes
``DIR/expected.json``: the points that each student in ``DIR/submitted`` must get, computed from the
declarations alone. The same declarations give the same files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from autograder import exercises
from autograder.checking.declaration import Answer, Exercise
from autograder.course.errors import BadInputError
from autograder.course.files import write_atomically
from autograder.course.layout import Course
from autograder.proof.samples.accidents import ALL, Change
from autograder.proof.samples.notebooks import Notebook, Scores, handed_in
from autograder.release import publish
from autograder.release.declared_cells import as_bytes

EVERY_ACCIDENT = "ch02_qkv"
SOME = 8
"""One assignment has all accidents; every other assignment has an eighth of them."""
RIGHT, WRONG = 2, 2
"""The number of students with only right answers, in several styles, and of students with only mistakes."""


def make(course: Course, folder: Path) -> dict[str, dict[str, Scores]]:
    """Write the class and return the expected points by student, assignment and exercise."""
    expected: dict[str, dict[str, Scores]] = {}
    for place, assignment in enumerate(exercises.assignments()):
        declared = exercises.of_assignment(assignment)
        accidents = ALL if assignment == EVERY_ACCIDENT else ALL[place::SOME]
        for name, data in publish.notebooks(course, assignment).items():
            submissions = students(json.loads(data), declared, accidents)
            for number, (student, notebook, scores) in enumerate(submissions):
                submitted = folder / "submitted" / student / assignment
                write_atomically(submitted / f"{name}.ipynb", as_bytes(notebook))
                stamp = f"2026-03-{1 + number % 28:02d} 18:00:00.000000 UTC\n"
                write_atomically(submitted / "timestamp.txt", stamp.encode())
                expected.setdefault(student, {})[assignment] = scores
    write_atomically(folder / "expected.json", json.dumps(expected, indent=1, sort_keys=True).encode())
    return expected


def students(
    blank: Notebook, declared: list[Exercise], accidents: tuple[Change, ...] | None = None
) -> Iterator[tuple[str, Notebook, Scores]]:
    """Yield each student of an assignment: name, notebook, expected points.

    Args:
        blank: the released notebook.
        declared: its exercises.
        accidents: the changes, each to the notebook of one student; by default all.
    """
    for number, styles in enumerate(spread({e.function_name: e.styles for e in declared}, RIGHT), 1):
        yield f"style-{number:02d}", *handed_in(blank, declared, styles)
    for number, wrong in enumerate(spread({e.function_name: e.misconceptions for e in declared}, WRONG), 1):
        yield f"mistake-{number:02d}", *handed_in(blank, declared, wrong)
    right = {e.function_name: e.styles[0] for e in declared}
    yield "blank", *handed_in(blank, declared, {})
    half = dict(list(right.items())[: len(right) // 2])
    yield "half-done", *handed_in(blank, declared, half)
    for change in ALL if accidents is None else accidents:
        notebook, scores = handed_in(blank, declared, right)
        change(notebook, scores, declared)
        yield change.__name__.replace("_", "-"), notebook, scores


def spread(banks: dict[str, list[Answer]], at_most: int) -> Iterator[dict[str, Answer]]:
    """Yield for each student one answer to every exercise.

    The answers of an exercise are far apart in its bank, since similar answers are next to each other.
    """
    count = min(at_most, max(len(bank) for bank in banks.values()))
    for number in range(count):
        yield {name: bank[number * len(bank) // count] for name, bank in banks.items()}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit("usage: python -m autograder.proof.samples.make DIR")
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)  # the cases are small: more threads would only wait for each other
    try:
        expected = make(Course.at(Path()), folder)
    except BadInputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    print(f"{len(expected)} students in {folder / 'submitted'}")


if __name__ == "__main__":
    main()
