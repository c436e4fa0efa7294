"""Read students and their points from nbgrader's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from nbgrader import api
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from autograder.course.class_file import ClassFile
from autograder.course.class_list import Person, Roster

ABOUT_STUDENT = ("first_name", "last_name", "email", "lms_user_id")
"""The columns of nbgrader's table of students that describe one."""


@dataclass(frozen=True)
class Row:
    """The points of one student for one assignment; a teacher's score replaces the grader's."""

    student: str
    assignment: str
    scores: dict[str, float] = field(default_factory=dict)
    max_scores: dict[str, float] = field(default_factory=dict)
    needs_manual_grade: tuple[str, ...] = ()
    late_seconds: float = 0.0
    late_penalty: float = 0.0
    comments: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return after_penalty(sum(self.scores.values()), self.late_penalty)

    @property
    def max_total(self) -> float:
        return sum(self.max_scores.values())


def after_penalty(score: float, penalty: float) -> float:
    """Return the points after the penalty, rounded to six decimals, and 0 instead of -0.

    >>> after_penalty(0.1 + 0.2 + 0.3, 0.1 + (0.2 + 0.3))
    0.0
    """
    return round(score - penalty, 6) + 0.0


def find_rows(session: Session, assignments: list[str]) -> Iterable[Row]:
    """Return the rows of several assignments, with one query for each table.

    Leave out submissions that have test cells but no points: nbgrader enters a submission before it runs the
    notebook.
    """
    assignment, handed_in, notebook = api.Assignment, api.SubmittedAssignment, api.SubmittedNotebook
    chosen = select(handed_in.id).join(assignment).where(assignment.name.in_(assignments))
    times = handed_in.timestamp, handed_in.extension, assignment.duedate
    columns: tuple[Any, ...] = (handed_in.id, handed_in.student_id, assignment.name, *times)
    query = select(*columns).join(assignment).where(handed_in.id.in_(chosen))
    rows = {
        key: Row(student, name, late_seconds=_seconds_late(*dates))
        for key, student, name, *dates in session.execute(query)
    }
    of_chosen = notebook.assignment_id.in_(chosen)
    penalty = notebook.late_submission_penalty
    for key, taken_off in session.execute(select(notebook.assignment_id, penalty).where(of_chosen)):
        rows[key] = replace(rows[key], late_penalty=rows[key].late_penalty + (taken_off or 0.0))
    waiting: dict[str, list[str]] = {}
    with_tests, with_points = set(), set()
    answers = _find_answers(session)
    grade = api.Grade
    given = api.GradeCell.__table__.c.cell_type, grade.auto_score, grade.manual_score, grade.extra_credit
    grades = select_grades(grade.score, grade.needs_manual_grade, *given).where(of_chosen)
    for key, book, name, score, is_waiting, kind, *points, max_score in session.execute(grades):
        if kind == "code" and (book, name) not in answers:
            with_tests.add(key)
        if any(value is not None for value in points):
            with_points.add(key)
        scores, max_scores = rows[key].scores, rows[key].max_scores
        scores[name] = scores.get(name, 0.0) + float(score)  # cells of two notebooks may have the same name
        max_scores[name] = max_scores.get(name, 0.0) + float(max_score)
        if is_waiting:
            waiting.setdefault(key, []).append(name)
    for key, names in waiting.items():
        rows[key] = replace(rows[key], needs_manual_grade=tuple(sorted(names)))
    for key, _, name, comment in session.execute(
        select_cells(api.Comment, api.Comment.comment).where(of_chosen)
    ):
        if comment:
            rows[key].comments[name] = comment
    return [row for key, row in rows.items() if key in with_points or key not in with_tests]


def _find_answers(session: Session) -> set[tuple[str, str]]:
    """Return the notebook and the name of each answer: a graded answer in a code cell is not a test."""
    of_notebook = api.Notebook.id == api.SolutionCell.notebook_id
    query = select(api.Notebook.name, api.SolutionCell.name).join(api.Notebook, of_notebook)
    return {(notebook, name) for notebook, name in session.execute(query)}


def select_cells(table: Any, *columns: Any) -> Any:
    """Return a query for columns of grades or comments, with the submission, the notebook and the cell."""
    cell = api.BaseCell.__table__
    return (
        select(api.SubmittedNotebook.assignment_id, api.Notebook.name, cell.c.name, *columns)
        .select_from(table)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.id == table.notebook_id)
        .join(api.Notebook, api.Notebook.id == api.SubmittedNotebook.notebook_id)
        .join(cell, cell.c.id == table.cell_id)
    )


def select_grades(*columns: Any) -> Any:
    """Return a query like `select_cells` for columns of grades; the last column is the maximum points."""
    graded, task = api.GradeCell.__table__, api.TaskCell.__table__
    query = select_cells(api.Grade, *columns, func.coalesce(graded.c.max_score, task.c.max_score))
    query = query.outerjoin(graded, graded.c.id == api.Grade.cell_id)
    return query.outerjoin(task, task.c.id == api.Grade.cell_id)


def _seconds_late(handed_in: datetime | None, extension: timedelta | None, due: datetime | None) -> float:
    """Return by how many seconds a submission is late, as nbgrader counts: 0 without a time or a due date."""
    if handed_in is None or due is None:
        return 0.0
    return max(0.0, (handed_in - due - (extension or timedelta())).total_seconds())


def read_students(session: Session, class_file: ClassFile) -> Roster:
    """Return the students in the gradebook, sorted by id, with their groups."""
    return Roster(
        tuple(
            Person(
                row.id,
                row.first_name or "",
                row.last_name or "",
                row.email or "",
                row.lms_user_id or "",
                class_file.groups(row.id),
            )
            for row in session.scalars(select(api.Student).order_by(api.Student.id))
        )
    )
