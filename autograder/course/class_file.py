"""Keep what nbgrader's gradebook has no place for in `class.csv`: groups, and more time before a submission.

The file is in the course's folder. It has a line for each student with something to remember: the columns
`student` and `groups`, and for each assignment in which somebody has more time a column such as
`extension ch02_qkv`, in days. A teacher may edit it in a spreadsheet; other columns are kept.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from autograder.course.errors import BadInputError
from autograder.course.files import write_atomically
from autograder.course.layout import Course
from autograder.course.lock import hold_tables
from autograder.course.tables import guard, read_table, unguard

NAME = "class.csv"
STUDENT, GROUPS, EXTENSION = "student", "groups", "extension "
MOST_DAYS = 3650


@dataclass
class ClassFile:
    """The lines of `class.csv` by student; each line has its values by column.

    `write` keeps the separator and the encoding of the file; it uses UTF-8 if that encoding lacks a letter.
    """

    course: Course
    lines: dict[str, dict[str, str]] = field(default_factory=dict)
    mark: bytes = b""
    encoding: str = "utf-8"
    separator: str = ","
    names_separator: bool = False
    """Whether the first line names the separator for Excel, such as ``sep=;``."""

    @classmethod
    def read(cls, course: Course) -> ClassFile:
        """Return the content of the file, without lines if the file does not exist.

        Raises:
            BadInputError: the file cannot be read, names a student twice, or a number of days is wrong.
        """
        path = course.root / NAME
        here = cls(course)
        if not path.exists():
            return here
        expected = f"a table with the columns {STUDENT}, {GROUPS} and {EXTENSION}ASSIGNMENT"
        table = read_table(path, expected, [STUDENT])
        here.mark, here.encoding = table.text.mark, table.text.encoding
        here.separator = table.text.separator
        here.names_separator = table.text.values(0)[0].casefold().startswith("sep=")
        for number, given in table.lines:
            line = {_heading(name): value for name, value in given.items()}
            line |= {name: unguard(line[name]) for name in (STUDENT, GROUPS) if name in line}
            student = line[STUDENT]
            if not student or student in here.lines:
                trouble = f"names {student} a second time" if student else "names no student"
                raise BadInputError(f"line {number} of {path} {trouble}. Write one line for each student.")
            here.lines[student] = line
            for column in filter(_is_extension, line):
                _days(line[column], f"line {number} of {path}, {column}")
        return here

    @classmethod
    @contextlib.contextmanager
    def changing(cls, course: Course) -> Iterator[ClassFile]:
        """Yield the content of the file and write it after the block. Other commands wait to change it.

        Raises:
            BadInputError: the file cannot be read, or another command takes too long.
        """
        with hold_tables(course):
            here = cls.read(course)
            yield here
            here.write()

    def groups(self, student: str) -> tuple[str, ...]:
        """Return the groups of a student."""
        return split_groups(self.lines.get(student, {}).get(GROUPS, ""))

    def set_groups(self, student: str, groups: tuple[str, ...]) -> None:
        """Replace the groups of a student."""
        self._set(student, GROUPS, "; ".join(groups))

    def extension(self, student: str, assignment: str) -> timedelta | None:
        """Return the time that a student has beyond the due date, or None if the file says nothing."""
        text = self.lines.get(student, {}).get(EXTENSION + assignment, "")
        return timedelta(days=_days(text, NAME)) if text else None

    def set_extension(self, student: str, assignment: str, days: float) -> None:
        """Give a student days beyond the due date; with 0, remove what the file says.

        Raises:
            BadInputError: the number of days is out of range.
        """
        _days(f"{days:g}", "the extension")
        self._set(student, EXTENSION + assignment, f"{days:g}" if days else "")

    def extensions(self, student: str) -> dict[str, float]:
        """Return the days beyond the due date that a student has, by assignment."""
        line = self.lines.get(student, {})
        days = {name.removeprefix(EXTENSION): value for name, value in line.items() if _is_extension(name)}
        return {assignment: _days(value, NAME) for assignment, value in days.items() if value}

    def forget(self, student: str) -> None:
        """Remove the line of a student."""
        self.lines.pop(student, None)

    def move(self, old: str, new: str) -> None:
        """Give the line of one student to another, who keeps each value that he or she has already."""
        line, present = self.lines.pop(old, {}), self.lines.get(new, {})
        groups = dict.fromkeys(split_groups(present.get(GROUPS, "")) + split_groups(line.get(GROUPS, "")))
        merged = line | {name: value for name, value in present.items() if value} | {STUDENT: new}
        if line or present:
            self.lines[new] = merged | {GROUPS: "; ".join(groups)}

    def _set(self, student: str, column: str, value: str) -> None:
        if value or student in self.lines:
            self.lines.setdefault(student, {STUDENT: student})[column] = value

    def write(self) -> None:
        """Write the file in one step, unless it does not exist and has no lines."""
        path = self.course.root / NAME
        if not self.lines and not path.exists():
            return
        seen = {name for line in self.lines.values() for name in line}
        others = sorted(name for name in seen if not _is_extension(name) and name not in (STUDENT, GROUPS))
        extensions = {
            name
            for line in self.lines.values()
            for name, value in line.items()
            if _is_extension(name) and value
        }
        out = io.StringIO(f"sep={self.separator}\n" if self.names_separator else "")
        out.seek(0, io.SEEK_END)
        columns = [STUDENT, GROUPS, *others, *sorted(extensions)]
        writer = csv.writer(out, delimiter=self.separator, lineterminator="\n")
        writer.writerow(columns)
        for _, line in sorted(self.lines.items()):
            safe = line | {name: guard(line.get(name, "")) for name in (STUDENT, GROUPS)}
            writer.writerow([safe.get(column, "") for column in columns])
        try:
            data = self.mark + out.getvalue().encode(self.encoding)
        except UnicodeEncodeError:  # a name that is not in Windows-1252
            data = codecs.BOM_UTF8 + out.getvalue().encode()
        write_atomically(path, data)


def split_groups(text: str) -> tuple[str, ...]:
    """Return the names of groups in a cell, which commas or semicolons separate."""
    return tuple(dict.fromkeys(name.strip() for name in re.split("[,;]", text) if name.strip()))


def _heading(column: str) -> str:
    """Return a heading as we write it: capitals do not count in the headings that we know."""
    if column.casefold() == GROUPS:
        return GROUPS
    is_extension = column[: len(EXTENSION)].casefold() == EXTENSION
    return EXTENSION + column[len(EXTENSION) :] if is_extension else column


def _is_extension(column: str) -> bool:
    return column.startswith(EXTENSION)


def _days(text: str, where: str) -> float:
    try:
        days = float(text.replace(",", ".")) if text else 0.0
    except ValueError:
        days = -1.0
    if not 0 <= days <= MOST_DAYS:
        raise BadInputError(f"{where}: expected a number of days up to {MOST_DAYS}, got {text!r}.")
    return days
