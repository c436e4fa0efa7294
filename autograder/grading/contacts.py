"""Read what nbgrader's gradebook has about each student."""

from __future__ import annotations

from dataclasses import dataclass

from nbgrader import api
from sqlalchemy import select

from autograder.course.layout import Course
from autograder.grading import gradebook


@dataclass(frozen=True)
class Contact:
    """The gradebook's entry of a student. All fields but the id may be empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""


def read_contacts(course: Course) -> dict[str, Contact]:
    """Return the students of the gradebook by id.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    table = api.Student
    columns = (table.id, table.first_name, table.last_name, table.email, table.lms_user_id)
    with gradebook.reading(course) as session:
        rows = [Contact(*(value or "" for value in row)) for row in session.execute(select(*columns))]
    return {student.id: student for student in rows}
