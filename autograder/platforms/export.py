"""Grades as a table for a spreadsheet, or as files for Gradescope."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.files import require_writable, write_if_changed
from autograder.course.layout import Course
from autograder.grading import gradebook, written
from autograder.grading.batch import problems
from autograder.grading.gradebook import Row
from autograder.platforms import gradescope
from autograder.platforms.gradebook_formats import PLATFORMS, fill

FORMATS = ("csv", *PLATFORMS, "gradescope")
RESULTS = "results.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def table(
    course: Course, assignments: list[str], format: str, template: Path | None = None
) -> tuple[str, list[str]]:
    """The grades of the assignments, one line a student and assignment handed in, and notes for the teacher.

    Args:
        course: the course.
        assignments: which.
        format: one of `FORMATS`, but for Gradescope's, which is no table.
        template: for a platform's format, the file that the platform gave.

    Raises:
        BadInputError: the format is unknown, nothing is graded, or the platform's file is another.
    """
    if format not in ("csv", *PLATFORMS):
        raise BadInputError(f"no format is called {format!r}. There are: {', '.join(FORMATS)}.")
    rows = _rows(course, assignments)
    remarks, notes = _not_graded(course, assignments, rows)
    if format == "csv":
        return as_csv(rows, remarks), notes
    if template is None or len(assignments) != 1:
        raise BadInputError(
            f"--format {format} fills the platform's own file for one assignment. Name the assignment, and "
            f"with --into {PLATFORMS[format].file}."
        )
    filled = fill(format, template, assignments[0], rows)
    return filled.text, [*filled.notes, *notes]


def results(course: Course, assignments: list[str], folder: Path) -> tuple[list[Path], list[str]]:
    """Writes Gradescope's ``<student>/<assignment>/results.json`` into a folder.

    Returns:
        The files, and notes for the teacher.

    Raises:
        BadInputError: nothing is graded, or files that were not made here lie in the folder.
    """
    rows = _rows(course, assignments)
    require_writable(folder)
    others = [path for path in folder.rglob("*") if path.is_file() and path.name != RESULTS]
    if others:
        raise BadInputError(
            f"{folder} holds other things, such as {others[0].name}. Name a folder of its own."
        )
    made = []
    for row in rows:
        graded = (course.autograded / row.student / row.assignment).glob("*.ipynb")
        notebooks = [written.notebook(path) for path in sorted(graded)]
        told = [written.reports_in(one).get("reports", {}) for one in notebooks]
        reports = {name: report for one in told for name, report in one.items()}
        remarks = "\n".join(str(remark) for one in notebooks for remark in written.remarks_in(one))
        path = folder / row.student / row.assignment / RESULTS
        data = json.dumps(gradescope.of_gradebook(row, reports, remarks), indent=1)
        write_if_changed(path, data.encode())
        made.append(path)
    return made, _not_graded(course, assignments, rows)[1]


def _rows(course: Course, assignments: list[str]) -> list[Row]:
    rows = [row for assignment in assignments for row in gradebook.read(course, assignment)]
    if not rows:
        raise BadInputError(
            f"nothing of {', '.join(assignments)} is graded yet. Run: autograder grade --submissions DIR"
        )
    return rows


def _not_graded(
    course: Course, assignments: list[str], rows: list[Row]
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """A remark for each submission that could not be graded, by assignment and student, and notes on all."""
    held = {(row.assignment, row.student): row for row in rows}
    remarks: dict[tuple[str, str], str] = {}
    for assignment in assignments:
        for student, what in problems(course, assignment).items():
            row = held.get((assignment, student))
            kept = f"keeps {row.total:g} from the earlier version; the new one is " if row else ""
            remarks[assignment, student] = f"{kept}not graded: {what}"
    without = [f"{student}, {assignment}" for assignment, student in remarks.keys() - held.keys()]
    notes = []
    if without:
        are = "1 submission is" if len(without) == 1 else f"{len(without)} submissions are"
        notes.append(f"{are} not graded: {'; '.join(sorted(without))}")
    notes += [
        f"{student}, {assignment}: {remark}"
        for (assignment, student), remark in remarks.items()
        if (assignment, student) in held
    ]
    return remarks, notes


def as_csv(rows: list[Row], remarks: dict[tuple[str, str], str] | None = None) -> str:
    """The rows as CSV. Text that a spreadsheet would take for a formula gets an apostrophe before it.

    Args:
        rows: what is graded.
        remarks: by assignment and student; who has no row gets a line without points.
    """
    remarks = remarks or {}
    cells: dict[tuple[str, str], None] = {}
    for row in rows:
        for grade_id in cells_in_order(row):
            cells[row.assignment, grade_id] = None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    exercise_columns = [f"{assignment}/{grade_id}" for assignment, grade_id in cells]
    after = ["total", "max", "needs manual grade", "late seconds", "late penalty", "remark"]
    writer.writerow(["student", "assignment", *exercise_columns, *after])
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
                _number(row.late_penalty),
                harmless(remarks.get((row.assignment, row.student), "")),
            ]
        )
    for assignment, student in sorted(remarks.keys() - {(row.assignment, row.student) for row in rows}):
        empty = [""] * (len(exercise_columns) + len(after) - 1)
        remark = harmless(remarks[assignment, student])
        writer.writerow([harmless(student), harmless(assignment), *empty, remark])
    return out.getvalue()


def cells_in_order(row: Row) -> list[str]:
    """The graded cells of an assignment: its exercises as in the notebook, then what a person grades."""
    known = [name.split("/")[1] for name in exercises.names() if name.startswith(f"{row.assignment}/")]
    return sorted(row.scores, key=lambda name: (known.index(name) if name in known else len(known), name))


def harmless(text: str) -> str:
    """The text on one line, so that no spreadsheet takes it for a formula."""
    line = " ".join(text.splitlines())
    return f"'{line}" if text.startswith(_FORMULA) else line


def _number(value: float) -> str:
    return f"{value:g}"
