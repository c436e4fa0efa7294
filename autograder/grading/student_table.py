"""Read nbgrader's table of students as the people of a class."""

from __future__ import annotations

from nbgrader import api
from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.course.class_file import ClassFile
from autograder.course.class_list import Person, Roster

ABOUT_STUDENT = ("first_name", "last_name", "email", "lms_user_id")
"""The columns of nbgrader's table of students that describe one."""


def read(session: Session, class_file: ClassFile) -> Roster:
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
