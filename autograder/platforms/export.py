"""Export grades as a table for a spreadsheet or a platform, or as files for Gradescope."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.files import read_record, require_writable, write_if_changed
from autograder.course.layout import Course
from autograder.course.student_ids import require_valid
from autograder.course.tables import FORMULA
from autograder.course.visible import visible
from autograder.grading import gradebook, written
from autograder.grading.batch import problems
from autograder.grading.rows import Row
from autograder.platforms import gradescope
from autograder.platforms.fill_gradebook import Filled, fill
from autograder.platforms.gradebook_formats import PLATFORMS
from autograder.roster import people as roster
from autograder.roster.absent import NOT_HANDED_IN, find_absent

FORMATS = ("csv", *PLATFORMS, "gradescope")
RESULTS = "results.json"


def table(course: Course, assignments: list[str]) -> tuple[str, list[str]]:
    """Return a table with one line for each student and assignment, and notes for the teacher.

    Raises:
        BadInputError: nothing is graded.
    """
    rows = _rows(course, assignments)
    remarks, notes = _not_graded(course, assignments, rows)
    return as_csv(rows, remarks), notes


def platform_table(
    course: Course,
    assignments: list[str],
    platform: str,
    template: Path | None,
    columns: str = "",
    assignment_column: str = "",
) -> Filled:
    """Return a platform's own table with the grades of one assignment, and notes for the teacher.

    Args:
        course: the course.
        assignments: the name of the assignment, as the only element.
        platform: a name in `PLATFORMS`.
        template: the table from the platform.
        columns: the columns that are not found automatically, such as ``student=3``.
        assignment_column: the heading or the number of the column of grades.

    Raises:
        BadInputError: nothing is graded, or the table is not the right one.
    """
    if template is None or len(assignments) != 1:
        raise BadInputError(
            f"--format {platform} fills the platform's own file for one assignment. Name the assignment, and "
            f"with --into {PLATFORMS[platform].file}."
        )
    rows = _rows(course, assignments)
    known_as = {
        person.student: tuple(filter(None, (person.number, person.email)))
        for person in roster.read(course).known
    }
    filled = fill(
        platform,
        template,
        assignments[0],
        rows,
        columns=columns,
        assignment_column=assignment_column,
        known_as=known_as,
    )
    filled.notes += _not_graded(course, assignments, rows)[1]
    return filled


def results(course: Course, assignments: list[str], folder: Path) -> tuple[list[Path], list[str]]:
    """Write Gradescope's ``<student>/<assignment>/results.json`` into a folder.

    Returns:
        The paths of the files, and notes for the teacher.

    Raises:
        BadInputError: nothing is graded, or the folder holds files with other names.
    """
    rows = _rows(course, assignments)
    for row in rows:
        require_valid(row.student)  # it becomes the name of a folder
    require_writable(folder)
    others = [path for path in folder.rglob("*") if path.is_file() and path.name != RESULTS]
    if others:
        raise BadInputError(f"{folder} holds other files, such as {others[0].name}. Name an empty folder.")
    paths = []
    for row in rows:
        graded = (course.autograded / row.student / row.assignment).glob("*.ipynb")
        notebooks = [read_record(path) for path in sorted(graded)]
        by_notebook = [written.reports_in(notebook).get("reports", {}) for notebook in notebooks]
        reports = {name: report for named in by_notebook for name, report in named.items()}
        remarks = "\n".join(str(remark) for notebook in notebooks for remark in written.remarks_in(notebook))
        path = folder / row.student / row.assignment / RESULTS
        data = json.dumps(gradescope.of_gradebook(row, reports, remarks), indent=1)
        write_if_changed(path, data.encode())
        paths.append(path)
    return paths, _not_graded(course, assignments, rows)[1]


def _rows(course: Course, assignments: list[str]) -> list[Row]:
    rows = [row for assignment in assignments for row in gradebook.read(course, assignment)]
    if not rows:
        raise BadInputError(f"no work for {', '.join(assignments)} is graded yet. Run: autograder grade")
    return rows


def _not_graded(
    course: Course, assignments: list[str], rows: list[Row]
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Return remarks on ungraded submissions by (assignment, student), and notes."""
    rows_by_key = {(row.assignment, row.student): row for row in rows}
    remarks: dict[tuple[str, str], str] = {}
    for assignment in assignments:
        for student, problem in problems(course, assignment).items():
            row = rows_by_key.get((assignment, student))
            kept = f"keeps {row.total:g} from the earlier version; the new one is " if row else ""
            remarks[assignment, student] = f"{kept}not graded: {problem}"
    without = [f"{student}, {assignment}" for assignment, student in remarks.keys() - rows_by_key.keys()]
    notes = []
    for assignment in assignments:
        absent = find_absent(course, assignment, rows)
        remarks |= {(assignment, person.student): person.why for person in absent}
        names = [person.student for person in absent if person.why.startswith(NOT_HANDED_IN)]
        without += [f"{p.student}, {assignment}" for p in absent if p.student not in names]
        if names:
            have = "1 student has" if len(names) == 1 else f"{len(names)} students have"
            notes.append(f"{have} not handed in {assignment} and got no points: {'; '.join(names)}")
    if without:
        are = "1 submission is" if len(without) == 1 else f"{len(without)} submissions are"
        notes.append(f"{are} not graded: {'; '.join(sorted(without))}")
    notes += [
        f"{student}, {assignment}: {remark}"
        for (assignment, student), remark in remarks.items()
        if (assignment, student) in rows_by_key
    ]
    return remarks, notes


def as_data(course: Course, assignments: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the table as JSON data: points are None where there are none, with the reason as the remark.

    Raises:
        BadInputError: nothing is graded.
    """
    rows = _rows(course, assignments)
    remarks, notes = _not_graded(course, assignments, rows)
    keys = [(row.assignment, row.student) for row in rows]
    data = [
        asdict(row) | {"total": row.total, "max": row.max_total, "remark": remarks.get(key)}
        for key, row in zip(keys, rows, strict=True)
    ]
    data += [
        {"student": student, "assignment": assignment, "total": None, "remark": remark}
        for (assignment, student), remark in sorted(remarks.items())
        if (assignment, student) not in keys
    ]
    return data, notes


def as_csv(rows: list[Row], remarks: dict[tuple[str, str], str] | None = None) -> str:
    """Return the rows as CSV, with an apostrophe before text that a spreadsheet would take for a formula.

    Args:
        rows: the grades.
        remarks: the remarks by (assignment, student); a student without a row gets a line without points.
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
                f"{row.late_seconds:.0f}",
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
    """Return the graded cells of a row: exercises in the notebook's order, then manually graded cells."""
    known = [name.split("/")[1] for name in exercises.names() if name.startswith(f"{row.assignment}/")]
    return sorted(row.scores, key=lambda name: (known.index(name) if name in known else len(known), name))


def harmless(text: str) -> str:
    """Return the text as one line without control characters, which no spreadsheet takes for a formula."""
    line = visible(" ".join(text.splitlines()))
    return f"'{line}" if text.startswith(FORMULA) else line


def _number(value: float) -> str:
    return f"{value:g}"
