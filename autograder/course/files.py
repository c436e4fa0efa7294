"""Write files so that they are complete or absent: write a temporary file, then rename it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder.course.errors import BadInputError

Files = dict[str, bytes]
"""The bytes of files by their path, to be written or from an archive."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk, after which other files cannot be written either."""


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file so that a reader sees the old file or the new file, never a part of it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with replacing(path) as temporary, open(os.open(temporary, flags, mode), "wb") as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces the file at `path` if the block raises nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_if_changed(path: Path, data: bytes) -> bool:
    """Write a file unless it already holds exactly `data`; return whether it was written."""
    if read_if_there(path) == data:
        return False
    write_atomically(path, data)
    return True


def read_if_there(path: Path) -> bytes | None:
    """Return the bytes of a file, or None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def read_record(path: Path) -> dict[str, Any]:
    """Return the entries of a JSON file that we wrote; none if the file is missing or damaged."""
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def write_record(path: Path, entries: Mapping[str, Any]) -> None:
    """Write the entries of one of our JSON files, unless the file holds exactly these."""
    write_if_changed(path, json.dumps(entries, indent=1, sort_keys=True).encode())


def require_writable(folder: Path) -> None:
    """Check that files can be made in a folder, or in its nearest existing parent.

    This makes a temporary file, since permission bits do not show whether root may write or whether a disk is
    read-only.

    Raises:
        BadInputError: a file is in the way, or the folder is not writable.
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
    """Return the seed that a course has drawn for its hidden cases, or None if it has none yet.

    Raises:
        BadInputError: the file does not hold a number.
    """
    path = state / "seed"
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise BadInputError(f"{path} must hold one number. Delete it, and a new seed is drawn.") from error
