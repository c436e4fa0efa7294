"""Read a table of people: headings, then a line for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.course import delimited
from autograder.course.errors import BadInputError


@dataclass(frozen=True)
class TextTable:
    """A table: its headings, its lines (the number of each and its values by heading) and the file's text."""

    columns: list[str]
    lines: list[tuple[int, dict[str, str]]]
    text: delimited.Table


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a cell that begins with one of these for a formula."""


def guard(cell: str) -> str:
    """Return a cell with an apostrophe before it if a spreadsheet would take it for a formula.

    A formula with apostrophes before it gets one more, so that `unguard` returns the same cell.
    """
    return f"'{cell}" if cell.lstrip("'").startswith(FORMULA) else cell


def unguard(cell: str) -> str:
    """Return a cell without the apostrophe of `guard`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA) else cell


def read_table(path: Path, expected: str, required: Iterable[str] = ()) -> TextTable:
    """Return the table in a file that a spreadsheet or a platform saved as text.

    Args:
        path: the file.
        expected: the kind of file that an error message asks for.
        required: the columns that the table must have; capitals do not count.

    Raises:
        BadInputError: the file cannot be read, it is not a table, or it lacks a column.
    """
    table = delimited.read(path)
    rows = [(number + 1, table.values(number)) for number in range(len(table.lines))]
    if rows and rows[0][1][0].casefold().startswith("sep="):  # Excel's first line may name the separator
        rows = rows[1:]
    if not rows or not any(rows[0][1]):
        raise BadInputError(f"{path} has no line of headings. Expected {expected}.")
    columns = rows[0][1]
    twice = {name for name in columns if name and columns.count(name) > 1}
    if twice:
        raise BadInputError(f"{path} has the column {min(twice)!r} twice. Rename or delete one of them.")
    headings = {name.casefold(): name for name in columns}
    for name in required:
        if name.casefold() not in headings:
            has = ", ".join(filter(None, columns))
            raise BadInputError(f"{path} has no column {name!r}; it has {has}. Expected {expected}.")
        columns[columns.index(headings[name.casefold()])] = name
    lines = [
        (number, dict(zip(columns, [*values, *[""] * len(columns)], strict=False)))
        for number, values in rows[1:]
        if any(values)
    ]
    return TextTable(columns, lines, table)
