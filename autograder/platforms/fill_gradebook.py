"""Put grades into a platform's own table.

The table's columns identify the students, so each grade goes to the line with the student's name, and nowhere
else. All other cells keep their bytes; `autograder.platforms.gradebook_formats` declares the platforms.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from autograder.course import delimited
from autograder.course.class_list import number_in
from autograder.course.delimited import Table
from autograder.course.errors import BadInputError
from autograder.grading.rows import Row
from autograder.platforms.gradebook_formats import PLATFORMS, Platform

ROLES = ("student", "max", "open")
"""The columns that a teacher can name; ``open`` shows whether a grade can be changed."""


@dataclass
class Filled:
    """A platform's table with grades in it, the students who got one, and notes for the teacher."""

    data: bytes = b""
    text: str = ""
    given: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """The places of the columns in a table, counted from 0."""

    ids: tuple[int, ...]
    names: tuple[int, ...]
    numbered: tuple[int, ...]
    grade: int
    most: int | None
    open: int | None
    by_position: bool = False


def fill(
    platform: str,
    template: Path,
    assignment: str,
    rows: list[Row],
    *,
    columns: str = "",
    assignment_column: str = "",
    known_as: Mapping[str, tuple[str, ...]] | None = None,
) -> Filled:
    """Put the grades of one assignment into a platform's table.

    Args:
        platform: a name in `PLATFORMS`.
        template: the table from the platform, which is not changed.
        assignment: the name of the assignment.
        rows: the rows of the gradebook.
        columns: the columns that the platform's declaration does not find, such as ``student=3,max=Points``.
        assignment_column: the heading or the number of the column of grades.
        known_as: other names of a student on the platform, such as the e-mail address.

    Raises:
        BadInputError: the file is not a table of this platform and assignment.
    """
    layout = PLATFORMS[platform]
    table = delimited.read(template)
    heads = table.values(0)
    where = _find_columns(layout, heads, template, assignment, columns, assignment_column)
    lines = [number for number in range(1, len(table.lines)) if any(table.values(number))]
    filled = Filled()
    notes = []
    if where.by_position:
        places = " and ".join(f"{place + 1} ({heads[place]!r})" for place in where.ids)
        notes.append(f"the headings are not known; students were looked up in column {places}")
    notes += _check_max_points(layout, table, lines, where, rows, template)
    point = _decimal_point(table, lines, where)
    people = _lines_by_name(table, lines, where)
    official = _lines_by_name(table, lines, where, own_names=False)
    found = [_matches(row.student, (known_as or {}).get(row.student, ()), people, official) for row in rows]
    claimed = Counter(places[0] for places in found if len(places) == 1)
    for row, matches in zip(rows, found, strict=True):
        grade = f"{row.total:g}".replace(".", point)
        if len(matches) != 1:
            count = "no line" if not matches else "several lines"
            filled.notes.append(f"{row.student}: {count} in {template.name}; enter {grade} by hand")
        elif claimed[matches[0]] > 1:
            filled.notes.append(
                f"{row.student}: another id has the same line in {template.name}; {grade} was not entered. "
                "Unite the two ids with autograder merge"
            )
        elif _is_closed(layout, table.values(matches[0]), where):
            problem = f"{template.name} does not allow changes to this grade"
            filled.notes.append(f"{row.student}: {problem}; {grade} was not entered")
        else:
            table.set(matches[0], where.grade, grade)
            for heading, value in layout.set_too:
                for place in _find(heads, (heading,)):
                    table.set(matches[0], place, value)
            filled.given.append(row.student)
    filled.notes += [*_note_unread(rows), *notes]
    if layout.kept:
        table.keep(_kept(layout, heads, where))
    filled.data = table.as_bytes()
    filled.text = filled.data[len(table.mark) :].decode(table.encoding)
    return filled


def _note_unread(rows: list[Row]) -> Iterator[str]:
    if waiting := sum(bool(row.needs_manual_grade) for row in rows):
        yield (
            f"{waiting} of {len(rows)} students have answers that nobody has read yet; their grades lack "
            "these points"
        )


def _find_columns(
    layout: Platform, heads: list[str], template: Path, assignment: str, columns: str, assignment_column: str
) -> Columns:
    """Return the columns that the teacher names, else those with declared headings or at declared places."""
    named = _named_columns(columns, heads, template)
    ids = tuple(named.get("student", ())) or _find(heads, layout.ids)
    by_position = not ids and bool(layout.position)
    if by_position:
        ids = tuple(place for place in layout.position if place < len(heads))
    if not ids or len(heads) < 2:
        expected = ", ".join(layout.ids[:4])
        raise BadInputError(
            f"{template} has none of the columns {expected}. Expected {layout.file}."
            if layout.ids
            else f"it is not clear which column of {template} identifies the students. Name it with "
            f"--columns student=HEADING, or student=NUMBER. The headings: {_listed(heads)}."
        )
    numbered = ids if by_position and layout.numbered else _find(heads, layout.numbered)
    most, open_ = (
        next(iter(named.get(role) or _find(heads, known)), None)
        for role, known in (("max", layout.most), ("open", layout.open))
    )
    grade = _grade_column(layout, heads, template, assignment, assignment_column)
    if grade in ids:
        raise BadInputError(
            f"the column {heads[grade]!r} of {template} identifies the students. Name the column of grades "
            "with --assignment-column."
        )
    names = () if "student" in named else _find(heads, layout.names)
    return Columns(ids, names, numbered, grade, most, open_, by_position)


def _named_columns(columns: str, heads: list[str], template: Path) -> dict[str, list[int]]:
    """Return the columns of a text such as ``student=Matrikelnummer,student=3,max=Punkte``."""
    named: dict[str, list[int]] = {}
    for part in filter(None, (part.strip() for part in columns.split(","))):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if role not in ROLES or not equals:
            raise BadInputError(
                f"--columns has {part!r}. Expected ROLE=HEADING or ROLE=NUMBER, with the roles "
                f"{', '.join(ROLES)}, separated by commas."
            )
        named.setdefault(role, []).append(_column_called(name, heads, template, "--columns"))
    return named


def _column_called(name: str, heads: list[str], template: Path, option: str) -> int:
    """Return the column with this heading, or with this number, counted from 1."""
    matches = _find(heads, (name,))
    if len(matches) == 1:
        return matches[0]
    if not matches and name.isdecimal() and 1 <= int(name) <= len(heads):
        return int(name) - 1
    raise BadInputError(
        f"{template} has {_columns(matches)} called {name!r}. Name one heading with {option}, or its number "
        f"from 1 to {len(heads)}. The headings: {_listed(heads)}."
    )


def _grade_column(
    layout: Platform, heads: list[str], template: Path, assignment: str, assignment_column: str
) -> int:
    titles = [_title(layout, head) for head in heads]
    if assignment_column:
        by_title = _find(titles, (assignment_column,))
        if len(by_title) == 1:
            return by_title[0]
        return _column_called(assignment_column, heads, template, "--assignment-column")
    matches = _find(heads, layout.grade) if layout.grade else _find(titles, (assignment,))
    if len(matches) == 1:
        return matches[0]
    if layout.grade:
        raise BadInputError(
            f"{template} has {_columns(matches)} {layout.grade[0]!r}. Expected {layout.file}; or name the "
            f"column of grades with --assignment-column. The headings: {_listed(heads)}."
        )
    raise BadInputError(
        f"{template} has {_columns(matches)} called {assignment!r}. Use this name on the platform, or name "
        f"the column with --assignment-column. The headings: {_listed(heads)}."
    )


def _title(layout: Platform, head: str) -> str:
    match = re.fullmatch(layout.title, head)
    return match["title"] if match else head


def _columns(matches: tuple[int, ...]) -> str:
    return f"{len(matches)} columns" if matches else "no column"


def _listed(heads: list[str]) -> str:
    some = [f"{number} {head!r}" for number, head in enumerate(heads, 1)]
    return ", ".join(some if len(some) <= 20 else [*some[:20], f"and {len(some) - 20} more"])


def _find(heads: list[str], wanted: tuple[str, ...]) -> tuple[int, ...]:
    """Return the places of the headings in the order of `wanted`, whatever their case and apostrophes."""
    known = {_same(word): place for place, word in reversed(list(enumerate(wanted)))}
    found = [place for place, head in enumerate(heads) if _same(head) in known]
    return tuple(sorted(found, key=lambda place: known[_same(heads[place])]))


def _same(text: str) -> str:
    """Return a text in the form in which two texts are compared."""
    return unicodedata.normalize("NFC", " ".join(text.split())).casefold().replace("’", "'")


def _is_closed(layout: Platform, values: list[str], where: Columns) -> bool:
    if where.open is None or where.open >= len(values):
        return False
    return _same(values[where.open]) in {_same(word) for word in (*layout.closed, "no", "0", "false")}


def _kept(layout: Platform, heads: list[str], where: Columns) -> list[int]:
    known = set(_find(heads, layout.kept))
    ids = set() if known & set(_find(heads, layout.ids)) else set(where.ids)
    last = {len(heads) - 1} if layout.keeps_last else set()
    return sorted(known | ids | last | {where.grade})


def _lines_by_name(
    table: Table, lines: list[int], where: Columns, own_names: bool = True
) -> dict[str, list[int]]:
    """Return the lines by each name and number of their students; `own_names` adds the names they choose."""
    people: dict[str, list[int]] = {}
    for number in lines:
        values = table.values(number)
        found: set[str] = set()
        for place in (place for place in where.ids if place < len(values)):
            value = _same(values[place].lstrip("#"))
            found |= {value, value.split("@")[0], *re.findall(r"(?:^|[ _])(\d+)$", value)}
            if place in where.numbered and (digits := re.search(r"\d+$", value)):
                found.add(digits[0])
        if own_names:
            chosen = [_same(values[place]) for place in where.names if place < len(values)]
            found |= {*chosen, *map(number_in, chosen)}
            for first, last in permutations(chosen, 2):
                found |= {f"{first} {last}", f"{first}, {last}"}
        for name in found - {""}:
            people.setdefault(name, []).append(number)
    return people


def _matches(
    student: str, also: tuple[str, ...], people: dict[str, list[int]], official: dict[str, list[int]]
) -> list[int]:
    """Return the student's lines by an official name, else a platform's number, else a chosen name."""
    name = _same(student)
    by_other_name = sorted({line for other in also for line in official.get(_same(other), [])})
    return official.get(name) or by_other_name or people.get(number_in(name)) or people.get(name, [])


def _check_max_points(
    layout: Platform, table: Table, lines: list[int], where: Columns, rows: list[Row], template: Path
) -> Iterator[str]:
    """Yield a note if the platform's maximum points differ from the gradebook's. No grade is scaled."""
    heading = re.fullmatch(layout.title, table.values(0)[where.grade])
    texts = {heading["most"] or ""} if heading and "most" in heading.groupdict() else set()
    for values in (table.values(number) for number in lines):
        if where.most is not None:
            texts.add(values[where.most] if where.most < len(values) else "")
        if layout.most_line and any(layout.most_line in values[p] for p in where.names if p < len(values)):
            texts.add(values[where.grade] if where.grade < len(values) else "")
    theirs = {points for text in texts if (points := _points(text)) is not None}
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


def _decimal_point(table: Table, lines: list[int], where: Columns) -> str:
    """Return the decimal mark of the numbers in the table: a comma only if no number has a point."""
    marks = set()
    for values in (table.values(number) for number in lines):
        for place in (where.grade, where.most):
            if place is not None and place < len(values):
                match = re.fullmatch(r"\d+([.,])\d+", values[place])
                marks |= {match[1]} if match else set()
    return "," if marks == {","} else "."
