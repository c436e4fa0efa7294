"""Read a zip archive or a folder that students may have filled.

An archive is untrusted data: no path of an archive is used as a path, no link is followed,
nothing is executed, and no file that is too large for a notebook is read.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

from autograder.course.errors import BadInputError
from autograder.grading.matching import MAX_BYTES

MOST_FILES = 100_000
IGNORED = {".git", ".ipynb_checkpoints", "__MACOSX", "node_modules"}
"""Folders that programs make beside a student's work."""
_LITTER = re.compile(r"\..*|Thumbs\.db|desktop\.ini", re.IGNORECASE)
"""Files that programs make beside a student's work."""
UNREADABLE = (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError)
"""Errors of reading a file that is damaged, or packed or encrypted in an unknown way."""
_DRIVE = re.compile(r"[A-Za-z]:")
_UTF8_NAME, _ENCRYPTED = 0x800, 1
_EXTENDED_TIME = 0x5455


@dataclass(frozen=True)
class File:
    """A file of an archive or a folder whose content is not read yet.

    Args:
        path: the path inside the archive.
        size: the number of bytes that the archive claims.
        read: reads the content.
        changed: the time of the last change in UTC, if the archive gives it with its time zone.
        entry: the whole path, where `path` leaves out the folders that all files share.
    """

    path: PurePosixPath
    size: int
    read: Callable[[], bytes]
    changed: datetime | None = None
    entry: str = ""

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix.casefold() == ".ipynb"


@dataclass(frozen=True)
class LeftOut:
    """An entry of an archive that is not read, and the reason."""

    path: PurePosixPath
    reason: str
    expected: bool = False
    """True for the files of programs, such as git, which need no remark for the teacher."""


class Archive:
    """The entries of a zip archive or a folder."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._zip: zipfile.ZipFile | None = None

    def __enter__(self) -> Archive:
        if self.source.is_dir():
            return self
        if not self.source.exists():
            raise BadInputError(f"{self.source} does not exist.")
        try:
            self._zip = zipfile.ZipFile(self.source)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise BadInputError(
                f"{self.source} is not a zip archive ({error}). Name a zip archive or a folder."
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._zip:
            self._zip.close()

    @property
    def newest_entry(self) -> str:
        """The newest time of an entry, in the time zone of whoever made the archive; empty for a folder."""
        times = [info.date_time for info in self._zip.infolist()] if self._zip else []
        year, month, day, hour, minute, second = max(times, default=(0, 0, 0, 0, 0, 0))
        return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}" if year else ""

    def entries(self) -> Iterator[File | LeftOut]:
        """Yield every entry but the folders, as a file or with the reason why it is left out.

        Raises:
            BadInputError: there are too many.
        """
        for number, entry in enumerate(self._of_folder() if self._zip is None else self._of_zip(self._zip)):
            if number >= MOST_FILES:
                raise BadInputError(f"{self.source} holds more than {MOST_FILES:,} files.")
            path = entry.path
            if ignored := IGNORED & set(path.parts):
                yield LeftOut(path, f"programs keep their own files in {min(ignored)}", expected=True)
            elif _LITTER.fullmatch(path.name) and path.suffix.casefold() != ".ipynb":
                yield LeftOut(path, "a program made it", expected=True)
            elif path.is_absolute() or ".." in path.parts or _DRIVE.match(path.parts[0]):
                yield LeftOut(path, "its path leads out of the archive")
            else:
                yield entry

    @staticmethod
    def _of_zip(archive: zipfile.ZipFile) -> Iterator[File | LeftOut]:
        for info in archive.infolist():
            path = PurePosixPath(_name(info).replace("\\", "/"))
            if info.is_dir() or not path.parts:
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield LeftOut(path, "it is a link, and links are not followed")
            elif info.flag_bits & _ENCRYPTED:
                yield LeftOut(path, "it is encrypted")
            else:
                read_member = partial(_unpacked, archive, info)
                yield File(path, info.file_size, read_member, _changed(info), str(path))

    def _of_folder(self) -> Iterator[File | LeftOut]:
        errors: list[OSError] = []
        for folder, folders, names in os.walk(self.source, onerror=errors.append):
            here = PurePosixPath(Path(folder).relative_to(self.source).as_posix())
            links = [name for name in folders if os.path.islink(Path(folder, name))]
            for name in sorted(IGNORED & set(folders)):
                yield LeftOut(here / name, "", expected=True)
            folders[:] = sorted(set(folders) - IGNORED - set(links))
            for name in sorted([*names, *links]):
                file = Path(folder, name)
                try:
                    status = file.lstat()
                except OSError as error:
                    errors.append(error)
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield File(here / name, status.st_size, file.read_bytes, entry=str(here / name))
                else:
                    yield LeftOut(here / name, "it is not a regular file, and links are not followed")
        for failure in errors:
            path = PurePosixPath(Path(failure.filename).relative_to(self.source).as_posix())
            if not path.parts:
                raise BadInputError(f"{self.source} cannot be opened ({failure.strerror}).")
            yield LeftOut(path, f"it cannot be opened ({failure.strerror})")


def read(file: File) -> bytes:
    """Return the content of a file, up to the size limit of a notebook.

    Raises:
        ValueError: the file is too large.
    """
    if file.size > MAX_BYTES:
        raise ValueError(f"{file.size:,} bytes; the limit is {MAX_BYTES:,} bytes")
    return file.read()


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member. Read at most the size limit of a notebook, whatever the header claims."""
    with archive.open(info) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise zipfile.BadZipFile("its unpacked size exceeds the limit of a notebook")
    return data


def _name(info: zipfile.ZipInfo) -> str:
    """Return the name of a member; many programs write UTF-8 without the mark that zip has for it."""
    if info.flag_bits & _UTF8_NAME:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf8")
    except UnicodeError:
        return info.filename


def _changed(info: zipfile.ZipInfo) -> datetime | None:
    """Return the time of a member in UTC, which only Info-ZIP's "extended timestamp" states.

    The field is described in the file ``extrafld.txt`` of Info-ZIP: a byte of flags, then seconds since 1970.
    """
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == _EXTENDED_TIME and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack("<i", extra[5:9])[0], UTC)
        extra = extra[4 + size :]
    return None
