"""Makes a sample class: ``python -m autograder.proof.samples.make DIR``.

Right answers in several styles and mistakes of every kind are handed in, and every accident that befalls a
notebook: blank, broken, endless, noisy, stripped. (The whole bank is graded by `autograder verify`.) Beside
``DIR/submitted`` it writes ``DIR/expected.json``, the points that each student must get, found from the
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
from autograder.proof.samples.notebooks import Notebook, Scores, as_bytes, handed_in
from autograder.release import publish

EVERY_ACCIDENT = "ch02_qkv"
SOME = 8
"""All accidents befall the class of one assignment, each eighth befalls that of any other."""
RIGHT, WRONG = 2, 4
"""So many students have everything right, each in a style of their own; so many have a mistake everywhere."""


def make(course: Course, folder: Path) -> dict[str, dict[str, Scores]]:
    """Writes the class and what is expected of it: points by student, assignment and exercise."""
    expected: dict[str, dict[str, Scores]] = {}
    for place, assignment in enumerate(exercises.assignments()):
        declared = exercises.of_assignment(assignment)
        accidents = ALL if assignment == EVERY_ACCIDENT else ALL[place::SOME]
        for name, data in publish.notebooks(course, assignment).items():
            class_of = students(json.loads(data), declared, accidents)
            for number, (student, notebook, scores) in enumerate(class_of):
                own = folder / "submitted" / student / assignment
                write_atomically(own / f"{name}.ipynb", as_bytes(notebook))
                stamp = f"2026-03-{1 + number % 28:02d} 18:00:00.000000 UTC\n"
                write_atomically(own / "timestamp.txt", stamp.encode())
                expected.setdefault(student, {})[assignment] = scores
    write_atomically(folder / "expected.json", json.dumps(expected, indent=1, sort_keys=True).encode())
    return expected


def students(
    blank: Notebook, declared: list[Exercise], accidents: tuple[Change, ...] | None = None
) -> Iterator[tuple[str, Notebook, Scores]]:
    """The students of an assignment: name, notebook, expected points.

    Args:
        blank: the released notebook.
        declared: its exercises.
        accidents: what befalls notebooks; all there are if left out.
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
    """For each student an answer to every exercise: taken far apart, since a bank is sorted by kind."""
    count = min(at_most, max(len(bank) for bank in banks.values()))
    for number in range(count):
        yield {name: bank[number * len(bank) // count] for name, bank in banks.items()}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit("usage: python -m autograder.proof.samples.make DIR")
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)  # the cases are small: threads would only wait for one another
    try:
        expected = make(Course.at(Path()), folder)
    except BadInputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    print(f"{len(expected)} students in {folder / 'submitted'}")


if __name__ == "__main__":
    main()
