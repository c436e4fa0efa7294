"""Find out where a term is: the steps done for each assignment, and the next command.

This module only reads: it runs no notebook, imports no exercise, and needs no more queries for more students.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from autograder.course.class_file import ClassFile
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import gradebook, written
from autograder.grading.batch import problems, tried
from autograder.grading.late import count_stale
from autograder.grading.rows import Row
from autograder.grading.submissions import Found, Submission, scan
from autograder.platforms import exported
from autograder.reports.feedback import current_pages

DEFAULT_SUBMISSIONS = "submitted"
MARKING = "jupyter lab"
"""The command that starts formgrader, which is a part of JupyterLab."""


@dataclass(frozen=True)
class AssignmentStatus:
    """How far one assignment is; all numbers but `pages` are numbers of students."""

    assignment: str
    released: bool
    handed_in: int
    late: int
    to_grade: int
    """Students whose notebook or time of submission is new or has changed since grading."""
    not_gradable: int
    graded: int
    by_hand: int
    """Students with an answer to mark by hand."""
    stale_penalties: int
    """Students whose late penalty is older than their marks."""
    pages: int
    """The pages of feedback that are up to date."""
    pages_expected: int
    exported: str
    """``no``, ``yes``, or ``changed`` if grades have changed since they were exported."""
    export_arguments: list[str] | None
    """The arguments of the last export."""


def read_status(course: Course, assignments: list[str], submissions: Path) -> list[AssignmentStatus]:
    """Return how far each assignment is.

    Args:
        course: the course.
        assignments: the names of the assignments.
        submissions: the folder of the submissions.

    Raises:
        BadInputError: the gradebook cannot be read.
    """
    has_gradebook = gradebook.exists(course)
    nothing: dict[str, list[Any]] = {name: [] for name in assignments}
    rows = gradebook.read_all(course, assignments) if has_gradebook else nothing
    due = gradebook.due_dates(course) if has_gradebook else {}
    found = _scan(course, assignments, submissions)
    pages = current_pages(course, assignments) if has_gradebook else nothing
    record, class_file = exported.last_exports(course), ClassFile.read(course)
    return [
        _status_of(
            course, name, rows[name], found, due.get(name), len(pages[name]), record.get(name), class_file
        )
        for name in assignments
    ]


def count_to_grade(course: Course, assignments: list[str], submissions: Path) -> int:
    """Return the number of submissions that are not graded, or have changed since they were graded."""
    found, rows = _scan(course, assignments, submissions), gradebook.read_all(course, assignments)
    return sum(
        len(
            _to_grade(course, name, found, {row.student for row in rows[name]}, problems(course, name).keys())
        )
        for name in assignments
    )


def _scan(course: Course, assignments: list[str], submissions: Path) -> Found:
    names: dict[str, Iterable[str]] = {
        name: [path.stem for path in (course.solutions / name).glob("*.ipynb")] for name in assignments
    }
    return scan(submissions, names) if submissions.is_dir() else Found()


def _status_of(
    course: Course,
    name: str,
    rows: list[Row],
    found: Found,
    due: datetime | None,
    pages: int,
    export: dict[str, Any] | None,
    class_file: ClassFile,
) -> AssignmentStatus:
    work = [submission for submission in found.submissions if submission.assignment == name]
    not_found = {problem.student for problem in found.problems if problem.assignment == name}
    handed_in = {submission.student for submission in work} | not_found
    graded = {row.student: row for row in rows}
    not_graded = problems(course, name).keys()
    to_grade = _to_grade(course, name, found, graded.keys(), not_graded)
    sources = [(course.autograded / student / name).glob("*.ipynb") for student in graded]
    return AssignmentStatus(
        assignment=name,
        released=any((course.notebooks / name).glob("*.ipynb")),
        handed_in=len(handed_in),
        late=_count_late(work, graded, to_grade, due, class_file),
        to_grade=len(to_grade),
        not_gradable=len(((not_graded & handed_in) | not_found) - to_grade),
        graded=len(graded),
        by_hand=sum(bool(row.needs_manual_grade) for row in rows),
        stale_penalties=count_stale(course, rows),
        pages=pages,
        pages_expected=sum(1 for folder in sources for _ in folder),
        exported=_compare(export, rows),
        export_arguments=export["arguments"] if export else None,
    )


def _compare(export: dict[str, Any] | None, rows: list[Row]) -> str:
    if export is None:
        return "no"
    return "yes" if export["grades"] == exported.hash_grades(rows) else "changed"


def _to_grade(
    course: Course, assignment: str, found: Found, graded: Set[str], not_graded: Set[str]
) -> set[str]:
    """Return the students with a notebook that nobody has graded, or whose time has changed since.

    Args:
        course: the course.
        assignment: the name of the assignment.
        found: the submissions of all assignments.
        graded: the students who are graded.
        not_graded: the students whose last notebook could not be graded; an earlier one may be graded.
    """
    students = set()
    versions = tried(course, assignment)  # the hash of each notebook; stock nbgrader stores none
    for submission in (one for one in found.submissions if one.assignment == assignment):
        student = submission.student
        tried_last = versions.get(f"{student}/{submission.notebook}")
        is_new = tried_last and tried_last != _hash(submission)
        folder = course.autograded / student / submission.assignment
        is_current = student in graded - not_graded
        has_other_time = tried_last and is_current and not written.has_time(folder, submission.timestamp)
        if student not in graded | not_graded or is_new or has_other_time:
            students.add(student)
    return students


def _hash(submission: Submission) -> str | None:
    try:
        return hashlib.sha256(submission.read()).hexdigest()
    except BadInputError:  # `grade` gives the reason
        return None


def _count_late(
    work: list[Submission],
    graded: dict[str, Row],
    to_grade: set[str],
    due: datetime | None,
    class_file: ClassFile,
) -> int:
    """Count late students: by the gradebook, with extensions, or by the time file of work not yet graded."""
    from nbgrader.utils import parse_utc

    late = {student for student, row in graded.items() if row.late_seconds and student not in to_grade}
    for submission in work:
        is_new = submission.student in to_grade or submission.student not in graded
        if due and is_new and submission.timestamp:
            more = class_file.extension(submission.student, submission.assignment) or timedelta()
            if parse_utc(submission.timestamp) > due + more:
                late.add(submission.student)
    return len(late)


def next_command(
    status: AssignmentStatus, submissions: str, folder: str | None, db: str | None
) -> str | None:
    """Return the command that comes next in the order of a term, or None if nothing is left to do.

    Args:
        status: how far the assignment is.
        submissions: the folder of the submissions.
        folder: the course's folder, if it is not the working folder.
        db: the gradebook's address, if the user named one.
    """
    name = status.assignment
    source = [] if submissions == DEFAULT_SUBMISSIONS else ["--submissions", submissions]
    address = ["--db", db] if db else []
    if not (status.released or status.handed_in or status.graded):
        words = ["release", name]
    elif not (status.handed_in or status.graded):
        words = ["collect", name, "ARCHIVE", *source]
    elif status.to_grade or not status.graded or (status.stale_penalties and not status.by_hand):
        words = ["grade", name, *source, *address]
    elif status.by_hand:
        return f"cd {shlex.quote(folder)} && {MARKING}" if folder else MARKING
    elif status.pages < status.pages_expected:
        words = ["feedback", name, *address]
    elif status.exported != "yes":
        words = ["export", *(status.export_arguments or [name, "--output", f"{name}.csv"]), *address]
    else:
        return None
    return shlex.join(["autograder", *words, *(["--course", folder] if folder else [])])
