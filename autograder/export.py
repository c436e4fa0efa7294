"""Grades as a table for a spreadsheet."""

from __future__ import annotations

import csv
import io

from autograder import exercises
from autograder.errors import BadInputError
from autograder.grading import gradebook
from autograder.grading.gradebook import Row
from autograder.layout import Course

FORMATS = ("csv",)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def table(course: Course, assignments: list[str], format: str) -> str:
    """The grades of the assignments: one line a student and assignment handed in.

    Args:
        course: the course.
        assignments: which.
        format: one of `FORMATS`.

    Raises:
        BadInputError: the format is unknown, or nothing is graded.
    """
    if format not in FORMATS:
        raise BadInputError(f"no format is called {format!r}. There is: {', '.join(FORMATS)}.")
    rows = [row for assignment in assignments for row in gradebook.read(course, assignment)]
    if not rows:
        raise BadInputError(
            f"nothing of {', '.join(assignments)} is graded yet. Run: autograder grade --submissions DIR"
        )
    return as_csv(rows)


def as_csv(rows: list[Row]) -> str:
    """The rows as CSV. Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    cells: dict[tuple[str, str], None] = {}
    for row in rows:
        for grade_id in in_order(row):
            cells[row.assignment, grade_id] = None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    exercise_columns = [f"{assignment}/{grade_id}" for assignment, grade_id in cells]
    writer.writerow(
        ["student", "assignment", *exercise_columns, "total", "max", "needs manual grade", "late seconds"]
    )
    for row in rows:
        scores = [
            _number(row.scores[grade_id]) if row.assignment == assignment and grade_id in row.scores else ""
            for assignment, grade_id in cells
        ]
        writer.writerow(
            [
                harmless(row.student),
                harmless(row.assignment),
                *scores,
                _number(row.total),
                _number(row.max_total),
                "yes" if row.needs_manual_grade else "no",
                _number(row.late_seconds),
            ]
        )
    return out.getvalue()


def in_order(row: Row) -> list[str]:
    """The graded cells of an assignment: its exercises as in the notebook, then what a person grades."""
    known = [name.split("/")[1] for name in exercises.names() if name.startswith(f"{row.assignment}/")]
    return sorted(row.scores, key=lambda name: (known.index(name) if name in known else len(known), name))


def harmless(text: str) -> str:
    """The text on one line, so that no spreadsheet takes it for a formula."""
    line = " ".join(text.splitlines())
    return f"'{line}" if text.startswith(_FORMULA) else line


def _number(value: float) -> str:
    return f"{value:g}"
