"""Name the places in a course where something about a student is kept: folders, our own tables, answers.

`move`, `forget` and `personal_data` go through these places, so that a new place is added here once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader import api
from sqlalchemy import select

from autograder.course.files import read_record
from autograder.course.layout import Course
from autograder.grading import gradebook


@dataclass(frozen=True)
class Work:
    """The folder of one student's files for one assignment.

    Args:
        place: what the files are: submitted, autograded, feedback or replaced.
        assignment: the name of the assignment.
        folder: the folder.
    """

    place: str
    assignment: str
    folder: Path


PLACES = ("submitted", "autograded", "feedback", "replaced")
"""The kinds of folders that hold a student's files."""


NAMES = "names"
"""The folder with a JSON file for each assignment.

For each changed id, the file has the names that the platform's archive gives to the student.
"""


RECORDS = ("problems", "problem_folders", "collected", "tried", NAMES)
"""The folders with a JSON file for each assignment.

The files have problems, the folders of submissions with these problems, collected versions, graded
versions, and names in archives.
"""


def folder_of(course: Course, place: str, student: str, assignment: str) -> Path:
    """Return the folder of one student's files for one assignment."""
    if place == "replaced":
        return course.state / place / assignment / student
    return course.folder(f"{place}_directory", place) / student / assignment


def is_name(student: str) -> bool:
    """Return whether a folder can have this name: `forget` deletes such folders, and no others."""
    return student not in ("", ".", "..") and "/" not in student and "\0" not in student


def homes(course: Course, student: str) -> list[Path]:
    """Return the folders that have a student's name."""
    if not is_name(student):
        return []
    tops = [course.folder(f"{place}_directory", place) / student for place in PLACES if place != "replaced"]
    tops += [folder / student for folder in sorted((course.state / "replaced").glob("*"))]
    return [top for top in tops if os.path.lexists(top)]


def works(course: Course, student: str) -> list[Work]:
    """Return the student's folders that hold files, and links in place of folders.

    A file beside these folders is not work.
    """
    found = []
    for top in homes(course, student):
        is_replaced = top.parent.parent == course.state / "replaced"
        for folder in [top] if is_replaced else sorted(top.iterdir()) if top.is_dir() else []:
            place = "replaced" if is_replaced else _place_of(course, top)
            assignment = folder.parent.name if is_replaced else folder.name
            if folder.is_symlink() or (folder.is_dir() and any(folder.iterdir())):
                found.append(Work(place, assignment, folder))
    return found


def _place_of(course: Course, home: Path) -> str:
    return next(p for p in PLACES if course.folder(f"{p}_directory", p) == home.parent)


def entered(course: Course, student: str) -> set[str]:
    """Return the assignments for which the gradebook has a submission of a student."""
    if not gradebook.exists(course):
        return set()
    query = select(api.Assignment.name).join(api.SubmittedAssignment)
    with gradebook.reading(course) as session:
        return set(session.scalars(query.where(api.SubmittedAssignment.student_id == student)))


def records(course: Course) -> list[Path]:
    """Return our JSON files with entries by student: the keys are ``id`` or ``id/name``."""
    by_id = [path for name in RECORDS for path in sorted((course.state / name).glob("*.json"))]
    return [course.state / "feedback.json", *by_id]


def owner(key: str) -> str:
    """Return the student of an entry in a record."""
    return key.split("/")[0]


def entries_of(path: Path, student: str) -> dict[str, Any]:
    """Return the entries of a student in a record."""
    return {key: what for key, what in read_record(path).items() if owner(key) == student}


def packed_feedback(course: Course, student: str) -> list[Path]:
    """Return the archives of pages that may hold a page of a student."""
    ends = tuple(f"-{work.assignment}" for work in works(course, student))
    return [path for path in sorted(course.reports.glob("feedback-*")) if path.stem.endswith(ends)]


def variants(course: Course, student: str) -> list[Path]:
    """Return the releases and answers that were made for a student alone."""
    if not is_name(student):
        return []
    folders = (course.root / "variants" / student, course.state / "variants" / student)
    return [folder for folder in folders if folder.is_dir()]
