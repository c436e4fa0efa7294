"""Remember which grades were exported last, so that `autograder status` sees which have changed since."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from autograder.course.files import read_record, require_writable, write_record
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.rows import Row

KEYS = {"arguments", "grades"}
RECORD = "exported.json"
"""The file in the course's state: by assignment the arguments of the export and a hash of its grades."""


def hash_grades(rows: list[Row]) -> str:
    """Return a hash of all that an export contains of these rows."""
    return hashlib.sha256(json.dumps([asdict(row) for row in rows], sort_keys=True).encode()).hexdigest()


def hash_all(course: Course, assignments: list[str]) -> dict[str, str]:
    """Return the hash of the grades of each assignment that has any, before they are exported.

    Raises:
        BadInputError: the gradebook cannot be read, or the record of exports cannot be written.
    """
    require_writable(course.state)
    graded = gradebook.read_all(course, assignments).items()
    return {name: hash_grades(rows) for name, rows in graded if rows}


def remember(course: Course, hashes: dict[str, str], arguments: list[str]) -> None:
    """Note that grades were exported.

    Args:
        course: the course.
        hashes: the hash of the exported grades, by assignment.
        arguments: the arguments of `autograder export`, to repeat it.
    """
    new = {name: {"arguments": arguments, "grades": grades} for name, grades in hashes.items()}
    course.make_private()
    write_record(course.state / RECORD, last_exports(course) | new)


def last_exports(course: Course) -> dict[str, dict[str, Any]]:
    """Return the arguments and the hash of the last export, by assignment."""
    entries = read_record(course.state / RECORD).items()
    return {name: entry for name, entry in entries if isinstance(entry, dict) and entry.keys() >= KEYS}
