"""Read the points of students from nbgrader's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from nbgrader import api
from sqlalchemy import func, select
from sqlalchemy.orm import Session


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
    """Return the points that are left, without the error of sums in another order, and never -0.

    >>> after_penalty(0.1 + 0.2 + 0.3, 0.1 + (0.2 + 0.3))
    0.0
    """
    return round(score - penalty, 6) + 0.0


def find_rows(session: Session, assignments: list[str]) -> Iterable[Row]:
    """Return the rows of several assignments, with one query for each table.

    nbgrader enters a submission before it runs it. Work with code but without points is left out.
    """
    assignment, handed_in, notebook = api.Assignment, api.SubmittedAssignment, api.SubmittedNotebook
    graded, task = api.GradeCell.__table__, api.TaskCell.__table__
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
    most = func.coalesce(graded.c.max_score, task.c.max_score)
    grade = api.Grade
    given = graded.c.cell_type, grade.auto_score, grade.manual_score, grade.extra_credit
    columns = (notebook.assignment_id, api.BaseCell.name, grade.score, most, grade.needs_manual_grade, *given)
    query = (
        select(*columns)
        .select_from(grade)
        .join(notebook)
        .join(api.BaseCell.__table__, api.BaseCell.id == grade.cell_id)
        .outerjoin(graded, graded.c.id == grade.cell_id)
        .outerjoin(task, task.c.id == grade.cell_id)
    )
    waiting: dict[str, list[str]] = {}
    with_code, with_points = set(), set()
    for key, name, score, max_score, is_waiting, kind, *points in session.execute(query.where(of_chosen)):
        if kind == "code":
            with_code.add(key)
        if any(value is not None for value in points):
            with_points.add(key)
        rows[key].scores[name], rows[key].max_scores[name] = float(score), float(max_score)
        if is_waiting:
            waiting.setdefault(key, []).append(name)
    for key, names in waiting.items():
        rows[key] = replace(rows[key], needs_manual_grade=tuple(sorted(names)))
    columns = notebook.assignment_id, api.BaseCell.name, api.Comment.comment
    query = (
        select(*columns)
        .select_from(api.Comment)
        .join(notebook)
        .join(api.BaseCell.__table__, api.BaseCell.id == api.Comment.cell_id)
    )
    for key, name, comment in session.execute(query.where(of_chosen)):
        if comment:
            rows[key].comments[name] = comment
    return [row for key, row in rows.items() if key in with_points or key not in with_code]


def _seconds_late(handed_in: datetime | None, extension: timedelta | None, due: datetime | None) -> float:
    """Return by how many seconds a submission is late, as nbgrader counts: 0 without a time or a due date."""
    if handed_in is None or due is None:
        return 0.0
    return max(0.0, (handed_in - due - (extension or timedelta())).total_seconds())
