"""Fill a learning platform's own file with grades.

A platform imports a file that it exported before: Canvas its gradebook, Moodle its grading worksheet. The
file's columns identify the students, so each grade goes to the line with the student's name, and nowhere
else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course.errors import BadInputError
from autograder.grading.gradebook import Row

Line = dict[str, str]


@dataclass(frozen=True)
class Platform:
    """The layout of a platform's file.

    Args:
        known_by: the columns that may hold the name of a student's folder or its number. The last column is a
            name that people choose themselves; it is used only if no other column fits.
        kept: the columns that the platform needs for the import; all columns, if empty.
        grade: the column of grades; None if the column is named after the assignment.
        most: the column of the maximum points, or in Canvas's file the line of this name.
        open: the column that shows whether a grade can be changed; None if there is no such column.
        file: the name of the file and the way to export it.
    """

    known_by: tuple[str, ...]
    kept: tuple[str, ...]
    grade: str | None
    most: str
    open: str | None
    file: str


PLATFORMS = {
    "canvas": Platform(
        known_by=("SIS Login ID", "SIS User ID", "ID", "Student"),
        kept=("Student", "ID", "SIS User ID", "SIS Login ID", "Section"),
        grade=None,
        most="Points Possible",
        open=None,
        file="the gradebook that Canvas exports (Grades, Export)",
    ),
    "moodle": Platform(
        known_by=("ID number", "Username", "Email address", "Identifier", "Full name"),
        kept=(),
        grade="Grade",
        most="Maximum grade",
        open="Grade can be changed",
        file="the grading worksheet of the assignment (View all submissions, Download grading worksheet)",
    ),
}


@dataclass
class Filled:
    """A platform's file with grades in it, the students who got one, and notes for the teacher."""

    text: str
    given: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def fill(platform: str, template: Path, assignment: str, rows: list[Row]) -> Filled:
    """Fill a platform's file with the grades of one assignment.

    Args:
        platform: a name in `PLATFORMS`.
        template: the file from the platform, which is not changed.
        assignment: the name of the assignment.
        rows: the rows of the gradebook.

    Raises:
        BadInputError: the file is not a file of this platform and assignment.
    """
    layout = PLATFORMS[platform]
    lines, columns = _read_template(template, layout)
    column = layout.grade or _column_of(assignment, columns, template)
    if column not in columns:
        raise BadInputError(f"{template} has no column {column!r}. Expected {layout.file}.")
    people, official = _lines_by_name(lines, layout.known_by), _lines_by_name(lines, layout.known_by[:-1])
    filled = Filled("")
    for row in rows:
        name = row.student.casefold()
        matches = official.get(name) or people.get(_number(name)) or people.get(name, [])
        if len(matches) == 1 and _value_of(matches[0], layout.open).casefold() in ("no", "0", "false"):
            problem = f"{template.name} does not allow changes to this grade"
            filled.notes.append(f"{row.student}: {problem}; {row.total:g} was not entered")
        elif len(matches) == 1:
            matches[0][column] = f"{row.total:g}"
            filled.given.append(row.student)
        else:
            count = "no line" if not matches else "several lines"
            filled.notes.append(f"{row.student}: {count} in {template.name}; enter {row.total:g} by hand")
    if waiting := sum(bool(row.needs_manual_grade) for row in rows):
        filled.notes.append(
            f"{waiting} of {len(rows)} students have answers that nobody has read yet; their grades "
            "lack these points"
        )
    filled.notes += _check_max_points(layout, lines, column, rows, template)
    kept = [name for name in columns if not layout.kept or name in (*layout.kept, column)]
    out = io.StringIO()
    writer = csv.DictWriter(out, kept, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    filled.text = out.getvalue()
    return filled


def _read_template(template: Path, layout: Platform) -> tuple[list[Line], list[str]]:
    try:
        text = template.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{template} cannot be read ({error}). Expected {layout.file}.") from error
    reader = csv.DictReader(io.StringIO(text))
    columns = list(reader.fieldnames or [])
    lines = [{name: line.get(name) or "" for name in columns} for line in reader]
    if not set(layout.known_by) & set(columns):
        raise BadInputError(
            f"{template} has none of the columns {', '.join(layout.known_by)}. Expected {layout.file}."
        )
    return lines, columns


def _value_of(line: Line, column: str | None) -> str:
    """Return the value in a column, ignoring the case of its name, or an empty text without such a column."""
    values = (value for name, value in line.items() if column and name.casefold() == column.casefold())
    return next(values, "")


def _check_max_points(
    layout: Platform, lines: list[Line], column: str, rows: list[Row], template: Path
) -> Iterator[str]:
    """Yield a note if the platform's maximum points differ from the gradebook's. No grade is scaled."""
    max_lines = [line for line in lines if line.get("Student", "").strip() == layout.most]
    values = (
        {line[column] for line in max_lines}
        if max_lines
        else {_value_of(line, layout.most) for line in lines}
    )
    theirs = {points for value in values if (points := _points(value)) is not None}
    ours = {row.max_total for row in rows}
    if theirs and theirs != ours:
        has, have = (" and ".join(f"{most:g}" for most in sorted(points)) for points in (theirs, ours))
        yield (
            f"{template.name} is out of {has} points and these grades are out of {have}; they were not "
            f"scaled. Set the platform's assignment to {have} points, or scale the grades there"
        )


def _points(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _column_of(assignment: str, columns: list[str], template: Path) -> str:
    """Return the column named after an assignment; Canvas adds a number, ``ch02_qkv (4711)``."""
    plain = {name: re.sub(r" \(\d+\)$", "", name).casefold() for name in columns}
    matches = [name for name, title in plain.items() if title == assignment.casefold()]
    if len(matches) == 1:
        return matches[0]
    raise BadInputError(
        f"{template} has {len(matches) or 'no'} columns called {assignment!r}. Use this name on the platform."
    )


def _lines_by_name(lines: list[Line], columns: tuple[str, ...]) -> dict[str, list[Line]]:
    """Return the lines by each name and number of their students."""
    people: dict[str, list[Line]] = {}
    for line in lines:
        names = {line.get(column, "").strip().casefold() for column in columns}
        names |= {name.split("@")[0] for name in names} | {_number(name) for name in names}
        for name in names - {""}:
            people.setdefault(name, []).append(line)
    return people


def _number(name: str) -> str:
    """Return a platform's number for a person: 4711 in ``Participant 4711`` and in ``lovelaceada_4711``."""
    match = re.search(r"(?:^|[ _])(\d+)$", name)
    return match[1] if match else ""
