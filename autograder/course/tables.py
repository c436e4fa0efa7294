"""Read a table that a spreadsheet or a platform saved as text, whatever its encoding and its separator."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.course.errors import BadInputError

SEPARATORS = ",;\t"
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Byte order marks at the beginning of a file, each with its encoding."""
_LARGEST = 32 << 20


@dataclass(frozen=True)
class TextTable:
    """A table: its headings, and its lines as values by heading, each with its number in the file."""

    columns: list[str]
    lines: list[tuple[int, dict[str, str]]]


def read_table(path: Path, expected: str) -> TextTable:
    """Return the table in a file of UTF-8, UTF-16 or Windows-1252, with commas, semicolons or tabs.

    Args:
        path: the file.
        expected: the kind of file that an error message asks for.

    Raises:
        BadInputError: the file cannot be read, or it is not a table.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}). Expected {expected}.") from error
    if len(data) > _LARGEST:
        raise BadInputError(f"{path} has more than {_LARGEST >> 20} MiB. Expected {expected}.")
    if data.startswith(b"PK"):
        raise BadInputError(f"{path} is a spreadsheet or an archive. Save the table as CSV, then name that.")
    rows = _rows(decode(data, path, expected))
    heading = next(rows, None)
    if heading is None or not any(heading[1]):
        raise BadInputError(f"{path} has no line of headings. Expected {expected}.")
    columns = [name.strip() for name in heading[1]]
    twice = {name for name in columns if name and columns.count(name) > 1}
    if twice:
        raise BadInputError(f"{path} has the column {min(twice)!r} twice. Rename or delete one of them.")
    lines = []
    for number, row in rows:
        if any(row):
            values = [value.strip() for value in row]
            lines.append((number, dict(zip(columns, [*values, *[""] * len(columns)], strict=False))))
    return TextTable(columns, lines)


def decode(data: bytes, path: Path, expected: str) -> str:
    """Return the text of a file: by its byte order mark, else UTF-16 by its zeros, else UTF-8 or cp1252."""
    encodings = [encoding for mark, encoding in _MARKS.items() if data.startswith(mark)]
    if not encodings and b"\0" in data:
        little = data[1::2].count(0) >= data[::2].count(0)
        encodings = ["utf-16-le" if little else "utf-16-be"]
    for encoding in encodings or ["utf-8", "cp1252"]:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise BadInputError(
        f"{path} is not text in UTF-8, UTF-16 or Windows-1252. Expected {expected}, saved as CSV."
    )


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with their line numbers; Excel's first line ``sep=;`` may name the separator."""
    first, _, rest = text.partition("\n")
    named = first.strip().casefold()
    skipped = named.startswith("sep=") and len(named) <= 5
    if skipped:
        separator, text = named[4:] or "\t", rest
    else:
        unquoted = "".join(first.split('"')[::2])
        separator = max(SEPARATORS, key=unquoted.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for row in reader:
            yield reader.line_num + skipped, row
    except csv.Error as error:
        raise BadInputError(f"line {reader.line_num} of the table cannot be read ({error}).") from error
