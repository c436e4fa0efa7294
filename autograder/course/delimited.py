"""Read and write a table as text. Each cell that is not changed keeps its bytes.

Platforms and spreadsheets differ in encoding, byte order mark, separator, quotes and line ends. A table that
goes back to the platform keeps all of them, so that the platform reads it as it reads its own file.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from autograder.course.errors import BadInputError

SEPARATORS = (",", ";", "\t")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""The first bytes of Excel's workbooks, .xlsx and the older .xls."""


@dataclass
class Table:
    """A table with its cells as they are in the file, quotes included.

    Args:
        mark: the byte order mark.
        encoding: the name of the encoding.
        separator: one of `SEPARATORS`.
        lines: the cells of each line.
        ends: the end of each line.
    """

    mark: bytes
    encoding: str
    separator: str
    lines: list[list[str]]
    ends: list[str]

    def values(self, line: int) -> list[str]:
        """Return the values of a line, without quotes and surrounding spaces."""
        return [_value(cell).strip() for cell in self.lines[line]]

    def set(self, line: int, column: int, value: str) -> None:
        """Replace one cell. The new cell has quotes if the old cell has them or the value needs them."""
        cells = self.lines[line]
        cells += [""] * (column + 1 - len(cells))
        if cells[column].startswith('"') or any(mark in value for mark in (self.separator, '"', "\r", "\n")):
            value = '"' + value.replace('"', '""') + '"'
        cells[column] = value

    def keep(self, columns: list[int]) -> None:
        """Remove all other columns."""
        self.lines = [[cells[column] for column in columns if column < len(cells)] for cells in self.lines]

    def as_bytes(self) -> bytes:
        """Return the file."""
        pairs = zip(self.lines, self.ends, strict=True)
        text = "".join(f"{self.separator.join(cells)}{end}" for cells, end in pairs)
        return self.mark + text.encode(self.encoding)


def read(path: Path) -> Table:
    """Read a table whose first line has the headings.

    Raises:
        BadInputError: the file cannot be read, or is not text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror or error}).") from error
    if data.startswith(_WORKBOOKS):
        raise BadInputError(
            f"{path} is a workbook of a spreadsheet program. Download the file as CSV, or save it as CSV."
        )
    mark, encoding, text = _decode(path, data)
    tables = [_split(text, separator) for separator in SEPARATORS]
    lines, ends = max(tables, key=lambda table: len(table[0][0]))
    return Table(mark, encoding, SEPARATORS[tables.index((lines, ends))], lines, ends)


def _decode(path: Path, data: bytes) -> tuple[bytes, str, str]:
    """Return the byte order mark, the encoding and the text."""
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", ""))
    if encoding:
        encodings = [encoding]
    elif b"\0" in data[:2]:
        encodings = ["utf-16-be" if data[:1] == b"\0" else "utf-16-le"]
    else:
        encodings = ["utf-8", "cp1252"]
    for name in encodings:
        try:
            return mark, name, data[len(mark) :].decode(name)
        except UnicodeDecodeError as error:
            problem = error
    raise BadInputError(
        f"{path} is not text in UTF-8, UTF-16 or Windows-1252 ({problem.reason} at byte {problem.start}). "
        "Save it as CSV in UTF-8."
    )


def _split(text: str, separator: str) -> tuple[list[list[str]], list[str]]:
    """Return the cells of each line, and the end of each line."""
    rest = rf"[^{separator}\r\n]*"
    cell = re.compile(rf'("[^"]*(?:""[^"]*)*"{rest}|{rest})(\r\n|[{separator}\r\n]|\Z)')
    lines: list[list[str]] = [[]]
    ends: list[str] = []
    for match in cell.finditer(text):
        lines[-1].append(match[1])
        if match[2] != separator:
            ends.append(match[2])
            if match.end() == len(text):
                break
            lines.append([])
    return lines, ends


def _value(cell: str) -> str:
    match = re.fullmatch(r'"([^"]*(?:""[^"]*)*)"(.*)', cell, re.DOTALL)
    return match[1].replace('""', '"') + match[2] if match else cell
