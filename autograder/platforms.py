"""Grades in the form in which a learning platform takes them in.

Platforms want back the file that they gave: Canvas its exported gradebook, Moodle its grading worksheet.
Their columns say who is who, so a grade is put where the platform's own names lead, and nowhere else.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

from autograder.errors import BadInputError
from autograder.grading.gradebook import Row

Line = dict[str, str]


@dataclass(frozen=True)
class Platform:
    """How a platform's file is laid out.

    Args:
        known_by: the columns that may hold what a student's folder is called, or end with it after a number;
            the last is a name that people choose themselves, and counts least.
        kept: the columns that the platform wants to see again; all, if empty.
        grade: the column of grades; None where it is called after the assignment.
        file: what the file is and where the platform gives it.
    """

    known_by: tuple[str, ...]
    kept: tuple[str, ...]
    grade: str | None
    file: str


PLATFORMS = {
    "canvas": Platform(
        known_by=("SIS Login ID", "SIS User ID", "ID", "Student"),
        kept=("Student", "ID", "SIS User ID", "SIS Login ID", "Section"),
        grade=None,
        file="the gradebook that Canvas exports (Grades, Export)",
    ),
    "moodle": Platform(
        known_by=("ID number", "Username", "Email address", "Identifier", "Full name"),
        kept=(),
        grade="Grade",
        file="the grading worksheet of the assignment (View all submissions, Download grading worksheet)",
    ),
}


@dataclass
class Filled:
    """The platform's file with grades in it."""

    text: str
    given: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def fill(platform: str, template: Path, assignment: str, rows: list[Row]) -> Filled:
    """Puts the grades of one assignment into a platform's file.

    Args:
        platform: a name in `PLATFORMS`.
        template: the file that the platform gave; it is only read.
        assignment: whose grades.
        rows: the grades.

    Raises:
        BadInputError: the file is not what it should be.
    """
    how = PLATFORMS[platform]
    lines, columns = _read(template, how)
    column = how.grade or _column_of(assignment, columns, template)
    if column not in columns:
        raise BadInputError(f"{template} has no column {column!r}. Expected {how.file}.")
    people, official = _people(lines, how.known_by), _people(lines, how.known_by[:-1])
    filled = Filled("")
    for row in rows:
        name = row.student.casefold()
        found = official.get(name) or people.get(_number(name)) or people.get(name, [])
        if len(found) == 1:
            found[0][column] = f"{row.total:g}"
            filled.given.append(row.student)
        else:
            why = "nobody" if not found else "several people"
            filled.notes.append(f"{row.student}: {why} in {template.name}; put {row.total:g} in by hand")
    if waiting := sum(bool(row.needs_manual_grade) for row in rows):
        filled.notes.append(
            f"{waiting} of {len(rows)} have answers that nobody has read yet; their grades lack those points"
        )
    kept = [name for name in columns if not how.kept or name in (*how.kept, column)]
    out = io.StringIO()
    writer = csv.DictWriter(out, kept, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    filled.text = out.getvalue()
    return filled


def _read(template: Path, how: Platform) -> tuple[list[Line], list[str]]:
    try:
        text = template.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{template} cannot be read ({error}). Expected {how.file}.") from error
    reader = csv.DictReader(io.StringIO(text))
    columns = list(reader.fieldnames or [])
    lines = [{name: line.get(name) or "" for name in columns} for line in reader]
    if not set(how.known_by) & set(columns):
        raise BadInputError(
            f"{template} has none of the columns {', '.join(how.known_by)}. Expected {how.file}."
        )
    return lines, columns


def _column_of(assignment: str, columns: list[str], template: Path) -> str:
    """The column called after an assignment; Canvas adds a number, ``ch02_qkv (4711)``."""
    plain = {name: re.sub(r" \(\d+\)$", "", name).casefold() for name in columns}
    found = [name for name, called in plain.items() if called == assignment.casefold()]
    if len(found) == 1:
        return found[0]
    raise BadInputError(
        f"{template} has {len(found) or 'no'} columns called {assignment!r}. Call the assignment so there."
    )


def _people(lines: list[Line], columns: tuple[str, ...]) -> dict[str, list[Line]]:
    """The lines by everything that a student may be called."""
    people: dict[str, list[Line]] = {}
    for line in lines:
        names = {line.get(column, "").strip().casefold() for column in columns}
        names |= {name.split("@")[0] for name in names} | {_number(name) for name in names}
        for name in names - {""}:
            people.setdefault(name, []).append(line)
    return people


def _number(name: str) -> str:
    """A platform's number for somebody: 4711 of ``Participant 4711`` and of ``lovelaceada_4711``."""
    found = re.search(r"(?:^|[ _])(\d+)$", name)
    return found[1] if found else ""
