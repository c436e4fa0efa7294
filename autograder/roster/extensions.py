"""Give students more time, before or after they hand in, and set the price of late days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from nbgrader import api

from autograder.course.class_file import ClassFile
from autograder.course.layout import Course
from autograder.course.lock import hold_lock
from autograder.grading import gradebook
from autograder.grading.late import LateRule, write_rule
from autograder.roster import people


@dataclass(frozen=True)
class Change:
    """The late penalty of a graded submission that has changed, before and after."""

    student: str
    assignment: str
    before: float
    after: float


@dataclass(frozen=True)
class Extended:
    """More time for a student, with the new due date, if there is one, and the changed penalties."""

    student: str
    assignment: str
    days: float
    until: datetime | None
    changes: tuple[Change, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the extension as JSON data."""
        return asdict(self) | {"until": self.until.isoformat() if self.until else None}


def extend(course: Course, student: str, assignment: str, days: float) -> Extended:
    """Give a student days beyond the due date, in `class.csv` and in the gradebook; 0 takes them back.

    The submission need not exist: grading reads `class.csv`.

    Raises:
        BadInputError: nobody has this id, or the number of days is out of range.
    """
    person = people.require_known(course, student)
    known = people.read(course)
    ids = {other.student for other in known.known if known.find(other.student) == person}
    with ClassFile.changing(course) as here:
        for other in ids - {person.student}:  # an extension under another id would count first
            here.set_extension(other, assignment, 0)
        here.set_extension(person.student, assignment, days)
    with gradebook.opened(course) as writer:
        submissions = [
            submission
            for submission in writer.book.db.query(api.SubmittedAssignment).all()
            if submission.student_id in ids and submission.name == assignment
        ]
        for submission in submissions:
            submission.extension = None
        changes = penalise(writer, submissions)
    due = gradebook.due_dates(course).get(assignment)
    until = due + timedelta(days=days) if due else None
    return Extended(person.student, assignment, days, until, changes)


def set_late_rule(course: Course, rule: LateRule) -> tuple[Change, ...]:
    """Set the price of late days, and update the penalties of all graded work.

    Raises:
        BadInputError: the rule is out of range, `nbgrader_config.py` has a rule of its own, or another
            command is grading with the present rule.
    """
    with hold_lock(course):
        course = write_rule(course, rule)
        if not gradebook.exists(course):
            return ()
        with gradebook.opened(course) as writer:
            return penalise(writer, writer.book.db.query(api.SubmittedAssignment).all())


def penalise(
    writer: gradebook.GradebookWriter, submissions: Iterable[api.SubmittedAssignment]
) -> tuple[Change, ...]:
    """Update the late penalties of submissions, and return the changes."""
    changes = []
    for submission in submissions:
        before = _penalty(submission)
        writer.penalise(submission.name, submission.student_id)
        after = _penalty(submission)
        if before != after:
            changes.append(Change(submission.student_id, submission.name, before, after))
    return tuple(sorted(changes, key=lambda change: (change.assignment, change.student)))


def _penalty(submission: api.SubmittedAssignment) -> float:
    return sum(notebook.late_submission_penalty or 0.0 for notebook in submission.notebooks)
