"""Read what the gradebook holds on each submitted notebook: the points of each cell, and the comments."""

from __future__ import annotations

from dataclasses import dataclass

from nbgrader import api
from sqlalchemy import select
from sqlalchemy.orm import selectinload, undefer

from autograder.course.layout import Course
from autograder.grading import gradebook


@dataclass(frozen=True)
class Mark:
    """The points of one cell; a score that a teacher gave replaces the grader's."""

    name: str
    cell_type: str
    score: float
    max_score: float
    extra_credit: float | None
    manual_score: float | None
    needs_manual_grade: bool


@dataclass(frozen=True)
class NotebookMarks:
    """The marks of one submitted notebook, and the teacher's comments by the grade_id of the answer."""

    notebook: str
    student: str
    score: float
    max_score: float
    late_penalty: float
    marks: tuple[Mark, ...]
    comments: dict[str, str]

    @classmethod
    def of(cls, submitted: api.SubmittedNotebook) -> NotebookMarks:
        """Return the marks of a notebook in nbgrader's gradebook."""
        return cls(
            notebook=submitted.name,
            student=submitted.student.id,
            score=submitted.score,
            max_score=submitted.max_score,
            late_penalty=submitted.late_submission_penalty or 0.0,
            marks=tuple(
                Mark(
                    name=grade.name,
                    cell_type=grade.cell.cell_type,
                    score=grade.score,
                    max_score=grade.cell.max_score,
                    extra_credit=grade.extra_credit,
                    manual_score=grade.manual_score,
                    needs_manual_grade=grade.needs_manual_grade,
                )
                for grade in sorted(submitted.grades, key=lambda grade: grade.name)
            ),
            comments={c.name: c.manual_comment for c in submitted.comments if c.manual_comment},
        )


def read_marks(course: Course, assignment: str) -> list[NotebookMarks]:
    """Return the marks of each submitted notebook of an assignment, by student.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    submitted = api.SubmittedNotebook
    query = (
        select(submitted)
        .join(api.SubmittedAssignment)
        .join(api.Assignment)
        .where(api.Assignment.name == assignment)
        .options(
            undefer(submitted.score),
            undefer(submitted.max_score),
            selectinload(submitted.notebook),
            selectinload(submitted.assignment).selectinload(api.SubmittedAssignment.student),
            selectinload(submitted.grades)
            .selectinload(api.Grade.cell)
            .selectin_polymorphic([api.GradeCell, api.TaskCell]),
            selectinload(submitted.comments).selectinload(api.Comment.cell),
        )
    )
    with gradebook.reading(course) as session:
        marks = [NotebookMarks.of(notebook) for notebook in session.scalars(query)]
    return sorted(marks, key=lambda one: (one.student, one.notebook))
