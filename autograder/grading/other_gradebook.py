"""Read a gradebook that stock nbgrader made: students, submissions and marks, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from nbgrader import api
from sqlalchemy import Connection, select

from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.rows import ABOUT_STUDENT, select_cells, select_grades

Cell = tuple[str, str]
"""The names of a notebook and of a cell in it."""


@dataclass
class Marks:
    """The points and comments for one cell of one submission; None for each that is not there."""

    auto_score: float | None = None
    manual_score: float | None = None
    extra_credit: float | None = None
    auto_comment: str | None = None
    manual_comment: str | None = None
    needs_manual_grade: bool | None = None
    max_score: float | None = None

    def given(self) -> dict[str, float | str]:
        """Return the points and comments that there are, by name."""
        names = [f.name for f in fields(self) if f.name not in ("needs_manual_grade", "max_score")]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass
class Handed:
    """One submission with the marks of its cells."""

    timestamp: datetime | None
    extension: timedelta | None
    late_penalty: float | None = None
    flagged: bool = False
    cells: dict[Cell, Marks] = field(default_factory=dict)


@dataclass
class OtherGradebook:
    """A whole gradebook."""

    students: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """The names and addresses by student."""
    due: dict[str, datetime | None] = field(default_factory=dict)
    """The due date by assignment."""
    submissions: dict[tuple[str, str], Handed] = field(default_factory=dict)
    """The submissions by assignment and student."""


def read(course: Course) -> OtherGradebook:
    """Return the content of a course's gradebook.

    Raises:
        BadInputError: the gradebook cannot be read.
    """
    with gradebook.connected(course) as connection:
        return _read(connection)


def _read(connection: Connection) -> OtherGradebook:
    book = OtherGradebook()
    student, handed_in, notebook = api.Student, api.SubmittedAssignment, api.SubmittedNotebook
    columns = [getattr(student, name) for name in ABOUT_STUDENT]
    for name, *about in connection.execute(select(student.id, *columns)):
        book.students[name] = dict(zip(ABOUT_STUDENT, about, strict=True))
    book.due = {
        name: due for name, due in connection.execute(select(api.Assignment.name, api.Assignment.duedate))
    }
    handed: dict[str, Handed] = {}
    about_work: tuple[Any, ...] = (
        handed_in.id,
        handed_in.student_id,
        handed_in.timestamp,
        handed_in.extension,
    )
    query = select(api.Assignment.name, *about_work).join_from(handed_in, api.Assignment)
    for assignment, key, name, timestamp, extension in connection.execute(query):
        handed[key] = book.submissions[assignment, name] = Handed(timestamp, extension)
    about_notebook = notebook.assignment_id, notebook.late_submission_penalty, notebook.flagged
    for key, penalty, flagged in connection.execute(select(*about_notebook)):
        work = handed[key]
        work.flagged |= bool(flagged)
        if penalty is not None:
            work.late_penalty = (work.late_penalty or 0.0) + penalty
    _read_grades(connection, handed)
    _read_comments(connection, handed)
    return book


def _read_grades(connection: Connection, handed: dict[str, Handed]) -> None:
    names = ("auto_score", "manual_score", "extra_credit", "needs_manual_grade")
    query = select_grades(*(getattr(api.Grade, name) for name in names))
    for key, notebook, cell, *values in connection.execute(query):
        marks = handed[key].cells.setdefault((notebook, cell), Marks())
        for name, value in zip((*names, "max_score"), values, strict=True):
            setattr(marks, name, value)


def _read_comments(connection: Connection, handed: dict[str, Handed]) -> None:
    comment = api.Comment
    query = select_cells(comment, comment.auto_comment, comment.manual_comment)
    for key, notebook, cell, auto, manual in connection.execute(query):
        marks = handed[key].cells.setdefault((notebook, cell), Marks())
        marks.auto_comment, marks.manual_comment = auto, manual
