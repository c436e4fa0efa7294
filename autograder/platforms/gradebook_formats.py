"""Grades in the form in which a learning platform takes them in.

Platforms want back the file that they gave: Canvas its exported gradebook, Moodle its grading worksheet.
Their columns say who is who, so a grade is put where the platform's own names lead, and nowhere else.
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
    """How a platform's file is laid out.

    Args:
        known_by: the columns that may hold what a student's folder is called, or end with it after a number;
            the last is a name that people choose themselves, and counts least.
        kept: the columns that the platform wants to see again; all, if empty.
        grade: the column of grades; None where it is called after the assignment.
        most: where the most that can be given stands: a column, or in Canvas's file the line of that name.
        open: the column that says whether a grade can be changed, if there is one.
        file: what the file is and where the platform gives it.
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
        if len(found) == 1 and _at(found[0], how.open).casefold() in ("no", "0", "false"):
            told = f"{template.name} says that this grade cannot be changed"
            filled.notes.append(f"{row.student}: {told}; it is left, and {row.total:g} is not in it")
        elif len(found) == 1:
            found[0][column] = f"{row.total:g}"
            filled.given.append(row.student)
        else:
            why = "nobody" if not found else "several people"
            filled.notes.append(f"{row.student}: {why} in {template.name}; put {row.total:g} in by hand")
    if waiting := sum(bool(row.needs_manual_grade) for row in rows):
        filled.notes.append(
            f"{waiting} of {len(rows)} have answers that nobody has read yet; their grades lack those points"
        )
    filled.notes += _of_another_most(how, lines, column, rows, template)
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


def _at(line: Line, column: str | None) -> str:
    """What stands in a column, however its capitals are; nothing where there is none."""
    return next((told for name, told in line.items() if column and name.casefold() == column.casefold()), "")


def _of_another_most(
    how: Platform, lines: list[Line], column: str, rows: list[Row], template: Path
) -> Iterator[str]:
    """A note where the platform gives other points than these rows: it takes numbers as they are."""
    titled = [line for line in lines if line.get("Student", "").strip() == how.most]
    said = {line[column] for line in titled} if titled else {_at(line, how.most) for line in lines}
    theirs = {points for told in said if (points := _points(told)) is not None}
    ours = {row.max_total for row in rows}
    if theirs and theirs != ours:
        has, have = (" and ".join(f"{most:g}" for most in sorted(one)) for one in (theirs, ours))
        yield (
            f"{template.name} is out of {has} points and these grades are out of {have}; they are given as "
            "they are. Set the platform's assignment to that, or scale them there"
        )


def _points(told: str) -> float | None:
    try:
        return float(told.strip().replace(",", "."))
    except ValueError:
        return None


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
