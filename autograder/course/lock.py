"""Let one command at a time grade, write feedback, move or forget, and none while an id is half moved."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager

from filelock import FileLock, Timeout

from autograder.course.errors import BadInputError
from autograder.course.files import read_record
from autograder.course.layout import Course

LOCK = "lock"
"""The file in the course's state that is locked. The lock ends with its process at the latest."""
TABLES = "tables.lock"
"""The file that is locked while class.csv or groups.csv is read, changed and written."""
MOVE = "moving.json"
"""The file in the course's state with the plan of a move of one id to another, until the move is finished."""


@contextlib.contextmanager
def hold_lock(course: Course, name: str = LOCK, wait: float = 0) -> Iterator[None]:
    """Hold a lock of a course while the block runs; the lock file stays.

    Args:
        course: the course.
        name: the name of the lock file.
        wait: the seconds to wait for a process that holds the lock.

    Raises:
        BadInputError: another process holds the lock, or the file cannot be locked on this disk.
    """
    course.make_private()
    path = course.state / name
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait)
    except Timeout as error:
        raise BadInputError(
            "another command of autograder is already running in this course. Wait until it has ended."
        ) from error
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be locked ({error.strerror or error}), so a second command would go unnoticed. "
            "Give yourself permission to write that file, or work in a copy of the course on another disk."
        ) from error
    try:
        yield
    finally:
        lock.release()


def hold_tables(course: Course) -> AbstractContextManager[None]:
    """Hold the lock for changes of class.csv and groups.csv; wait up to 30 seconds for it."""
    return hold_lock(course, TABLES, wait=30)


def interrupted_move(course: Course) -> str:
    """Return a message about an interrupted move of one id to another, or an empty text."""
    plan = read_record(course.state / MOVE)
    if not plan:
        return ""
    old, new = plan["old"], plan["new"]
    command = shlex.join(["autograder", "merge", old, new])
    return f"moving {old} to {new} was interrupted. Finish that first: {command}"


def require_no_move(course: Course) -> None:
    """Check that no move of one id to another was interrupted: work is under both ids until it is finished.

    Raises:
        BadInputError: a move was interrupted.
    """
    if message := interrupted_move(course):
        raise BadInputError(message)
