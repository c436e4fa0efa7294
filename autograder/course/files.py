"""Files that are whole or absent: written beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from autograder.course.errors import BadInputError

Files = dict[str, bytes]
"""Files by their path: what is about to be written, or lies in an archive."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors after which no other file can be written either."""


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def write_if_changed(path: Path, data: bytes) -> bool:
    """Writes a file unless it already holds exactly that; says whether it wrote."""
    if read_if_there(path) == data:
        return False
    write_atomically(path, data)
    return True


def read_if_there(path: Path) -> bytes | None:
    """Return what the file holds, or None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def require_writable(folder: Path) -> None:
    """Makes sure that files can be made in a folder, or in the one that it would be made in.

    A file is really made, since permission bits say nothing to root or on a read-only disk; it is gone again
    at once.

    Raises:
        BadInputError: what is in the way.
    """
    nearest = folder
    while not os.path.lexists(nearest) and nearest.parent != nearest:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise BadInputError(f"{folder} must be a folder, but {nearest} is a file. Move that file away.")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise BadInputError(
            f"{folder} must be writable, but no file can be made in {nearest} ({error.strerror}). "
            "Give yourself permission to write there, or work in a copy of the course."
        ) from error


def read_seed(state: Path) -> int | None:
    """The seed that a course has drawn for its hidden cases, or None if it has none yet.

    Raises:
        BadInputError: the file holds something else.
    """
    path = state / "seed"
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise BadInputError(f"{path} must hold one number. Delete it, and a new seed is drawn.") from error


@contextlib.contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Hold a lock while the block runs. The file stays; the lock ends with this process at the latest.

    Raises:
        BadInputError: another process holds the lock, or this disk has none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise BadInputError(f"{what} is already running in this course. Wait until it has ended.") from error
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be locked ({error.strerror or error}), so a second {what} would go unnoticed. "
            "Give yourself permission to write that file, or work in a copy of the course on another disk."
        ) from error
    try:
        yield
    finally:
        lock.release()
