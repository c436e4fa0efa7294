"""Read and write the people of a class: nbgrader's table of students, with the groups of `class.csv`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from autograder.course.class_file import ClassFile
from autograder.course.class_list import Person, Roster
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.rows import ABOUT_STUDENT, read_students


def read(course: Course) -> Roster:
    """Return the students in the gradebook, sorted by id; nobody before there is a gradebook.

    Raises:
        BadInputError: the gradebook or `class.csv` cannot be read.
    """
    if not gradebook.exists(course):
        return Roster(())
    with gradebook.reading(course) as session:
        return read_students(session, ClassFile.read(course))


def require_known(course: Course, student: str) -> Person:
    """Return the person with an id or another known name.

    Raises:
        BadInputError: nobody has this id or name; the message lists similar ids.
    """
    roster = read(course)
    person = roster.find(student)
    if person:
        return person
    if not roster.known:
        raise BadInputError(
            f"nobody in this course is known yet, so {student!r} may be a typing error: nothing is graded "
            "and no class list is imported. Run: autograder roster import FILE, or autograder grade"
        )
    raise BadInputError(
        f"no student of this course is called {student!r}.{similar(roster, student)} "
        "See: autograder roster list"
    )


def similar(roster: Roster, student: str) -> str:
    """Return a question that names the ids that are nearly the same, or an empty text."""
    close = difflib.get_close_matches(student, [known.student for known in roster.known], 3)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def write(course: Course, people: Iterable[Person]) -> None:
    """Enter people into the gradebook and their groups into `class.csv`; an empty value changes nothing.

    Raises:
        BadInputError: one of the two cannot be written.
    """
    with ClassFile.changing(course) as here, gradebook.opened(course) as writer:
        for person in people:
            given = person.first_name, person.last_name, person.email, person.number
            known = {name: value for name, value in zip(ABOUT_STUDENT, given, strict=True) if value}
            writer.book.update_or_create_student(person.student, **known)
            if person.groups:
                here.set_groups(person.student, person.groups)
