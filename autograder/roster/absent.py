"""Find the students without points for an assignment, each with the reason; no points is not zero points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.course.class_file import ClassFile
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.batch import problems
from autograder.grading.rows import Row
from autograder.roster import handouts, people

NOT_HANDED_IN = "not handed in"


@dataclass(frozen=True)
class Absent:
    """A student of the class without points for an assignment, with the reason."""

    student: str
    name: str
    why: str


def find_absent(course: Course, assignment: str, rows: Iterable[Row]) -> tuple[Absent, ...]:
    """Return the students who have no points for an assignment, and whose work is not a known problem.

    Nobody is absent from an assignment that nobody has handed in yet.

    Args:
        course: the course.
        assignment: the name of the assignment.
        rows: the rows of the gradebook for this assignment.

    Raises:
        BadInputError: the gradebook or `class.csv` cannot be read.
    """
    roster = people.read(course)
    graded = {row.student for row in rows if row.assignment == assignment}
    tried = graded | problems(course, assignment).keys()
    handed_in = _handed_in(course, assignment)
    if not tried | handed_in:
        return ()
    tried |= {person.student for name in tried if (person := roster.find(name))}
    to_grade = handed_in | {person.student for name in handed_in if (person := roster.find(name))}
    due, more_time = gradebook.due_dates(course).get(assignment), ClassFile.read(course).extension
    found = []
    for person in handouts.find_students(course, assignment, roster.people):
        if person.student in tried:
            continue
        why = NOT_HANDED_IN
        if person.student in to_grade:
            why = "handed in, but not graded yet: run autograder grade"
        elif due:
            extra = more_time(person.student, assignment)
            why += f"; due {due + extra if extra else due:%Y-%m-%d %H:%M} UTC"
            why += ", with more time" if extra else ""
        found.append(Absent(person.student, person.name, why))
    return tuple(found)


def _handed_in(course: Course, assignment: str) -> set[str]:
    folder = course.folder("submitted_directory", "submitted")
    return {path.parent.name for path in folder.glob(f"*/{assignment}") if _holds_files(path)}


def _holds_files(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and any(folder.iterdir())
    except OSError:  # `grade` gives the reason
        return True
