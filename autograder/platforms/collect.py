"""Brings what a learning platform hands out into ``submitted/<student>/<assignment>/<notebook>.ipynb``.

An archive is somebody else's data: no path of it is used as a path, nothing in it is followed or executed,
nothing larger than a notebook may be is read. What was collected before and is replaced is kept.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.course import student_ids
from autograder.course.errors import BadInputError
from autograder.course.files import require_writable, write_atomically, write_if_changed
from autograder.course.layout import Course
from autograder.grading.matching import MAX_BYTES
from autograder.release import publish

MOST_FILES = 100_000
METADATA = "submission_metadata.yml"
IGNORED = {".git", ".ipynb_checkpoints", "__MACOSX", "node_modules"}

PLATFORMS = {
    "canvas": r"(?P<name>[^/_]+)_(?:(?P<late>LATE)_)?(?P<id>\d+)_(?P<order>\d+)_(?P<file>[^/]+)",
    "moodle": r"(?P<name>[^/_]+)_(?P<id>\d+)_assignsubmission_[a-z]+(?:_?/|_)(?:.*/)?(?P<file>[^/]+)",
    "gradescope": r"submission_(?P<id>\d+)/(?:.*/)?(?P<file>[^/]+)",
    "exchange": r"(?P<name>[^/+]+)\+[^/+]+\+(?P<time>[^/+]+?)(?:\+[^/]*)?/(?P<file>[^/]+)",
    "github": r"(?P<name>[^/]+-[^/]+)/(?:.*/)?(?P<file>[^/]+)",
    "folder": r"(?P<name>[^/]+)/(?:.*/)?(?P<file>[^/]+)",
}
"""How each platform names what it hands out, below the folders that all of it lies in. The first that fits
most notebooks is taken, unless one is named."""

_DRIVE = re.compile(r"[A-Za-z]:")
_COPY = re.compile(r"(?:-\d+| ?\(\d+\)|_\d+)$")
"""What platforms and browsers add to a name that was there already."""


@dataclass(frozen=True)
class File:
    """A file of an archive or a folder, not read yet."""

    path: PurePosixPath
    size: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Handed:
    """A notebook that a student handed in."""

    student: str
    file: File
    stem: str
    order: tuple[int, str] = (0, "")
    timestamp: str | None = None
    late: bool = False


@dataclass
class Collected:
    """What became of an archive."""

    platform: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON data."""
        return asdict(self)


def collect(
    course: Course, assignment: str, source: Path, into: Path, platform: str | None = None
) -> Collected:
    """Takes the notebooks of one assignment out of an archive or a folder.

    Args:
        course: the course.
        assignment: which assignment was handed in.
        source: a zip archive as the platform gives it, or a folder.
        into: the folder of submissions.
        platform: a name in `PLATFORMS`; by default it is recognised.

    Raises:
        BadInputError: the source cannot be read or is not understood. Nothing has changed then.
    """
    wanted = sorted(publish.notebooks(course, assignment))
    if platform is not None and platform not in PLATFORMS:
        raise BadInputError(f"no platform is called {platform!r}. There are: {', '.join(PLATFORMS)}.")
    own = (course.root, course.solutions, course.notebooks)
    if any(folder.resolve().is_relative_to(source.resolve()) for folder in own):
        raise BadInputError(
            f"{source} is the course itself, and not what students handed in. Name the platform's archive, "
            "or the folder that it was unpacked into."
        )
    done = Collected(platform or "")
    with _Source(source) as files:
        found = _below_what_they_share(list(files.safe(done.remarks)), assignment)
        notebooks = [file for file in found if _is_notebook(file)]
        if not notebooks:
            raise BadInputError(f"{source} holds no notebook. Name the archive that the platform gives.")
        done.platform = platform or _recognised(found, notebooks)
        handed = _handed(done, found, notebooks)
        others = {path.stem for path in course.solutions.glob("*/*.ipynb")} - {*wanted}
        chosen = {
            student: _chosen(done, student, own, wanted, others) for student, own in sorted(handed.items())
        }
        require_writable(into)
        for student, picked in chosen.items():
            for name, one in picked.items():
                _put(done, course, into / student / assignment, f"{name}.ipynb", one)
    return done


class _Source:
    """A zip archive or a folder as a list of files."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.archive: zipfile.ZipFile | None = None

    def __enter__(self) -> _Source:
        if self.source.is_dir():
            return self
        if not self.source.exists():
            raise BadInputError(f"{self.source} does not exist.")
        try:
            self.archive = zipfile.ZipFile(self.source)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise BadInputError(
                f"{self.source} is no zip archive ({error}). Expected one, or a folder."
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        if self.archive:
            self.archive.close()

    def safe(self, remarks: list[str]) -> Iterator[File]:
        """The files whose names lead nowhere else; a remark says what was left out."""
        for number, (path, file, why) in enumerate(self._all()):
            if number >= MOST_FILES:
                raise BadInputError(f"{self.source} holds more than {MOST_FILES:,} files.")
            if IGNORED & set(path.parts):
                continue
            if path.is_absolute() or ".." in path.parts or _DRIVE.match(path.parts[0]):
                why = "its name leads out of the archive"
            if why or file is None:
                remarks.append(f"left out {str(path)!r}: {why}")
            else:
                yield file

    def _all(self) -> Iterator[tuple[PurePosixPath, File | None, str | None]]:
        if self.archive is None:
            yield from self._of_folder()
            return
        archive = self.archive
        for info in archive.infolist():
            path = PurePosixPath(info.filename.replace("\\", "/"))
            if info.is_dir() or not path.parts:
                continue
            why = None
            if stat.S_ISLNK(info.external_attr >> 16):
                why = "it is a link, and links are not followed"
            elif info.flag_bits & 1:
                why = "it is encrypted"
            yield path, File(path, info.file_size, partial(_unpacked, archive, info)), why

    def _of_folder(self) -> Iterator[tuple[PurePosixPath, File | None, str | None]]:
        for folder, folders, names in os.walk(self.source):
            folders[:] = sorted(set(folders) - IGNORED)
            for name in sorted(names):
                file = Path(folder, name)
                path = PurePosixPath(file.relative_to(self.source).as_posix())
                about = file.lstat()
                if not stat.S_ISREG(about.st_mode):
                    yield path, None, "it is no plain file, and links are not followed"
                else:
                    yield path, File(path, about.st_size, file.read_bytes), None


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, and no more than a notebook may have, whatever its header says."""
    with archive.open(info) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise zipfile.BadZipFile("it unpacks to more than a notebook may have")
    return data


def _below_what_they_share(files: list[File], assignment: str) -> list[File]:
    """The files without the folders that all of them lie in, unless such a folder says whose they are."""
    while files:
        tops = {file.path.parts[0] for file in files}
        telling = any(re.fullmatch(PLATFORMS[name], f"{top}/x.ipynb") for top in tops for name in _TELLING)
        notebooks = [file.path.parts for file in files if _is_notebook(file)]
        if (
            not notebooks
            or len(tops) > 1
            or telling
            or any(len(n) < 3 or n[1] == assignment for n in notebooks)
        ):
            break
        files = [File(PurePosixPath(*f.path.parts[1:]), f.size, f.read) for f in files]
    return files


_TELLING = ("moodle", "gradescope", "exchange")


def _recognised(files: list[File], notebooks: list[File]) -> str:
    """The platform whose way of naming fits more than half of the notebooks."""
    tops = {file.path.parts[0] for file in notebooks if len(file.path.parts) > 1}
    for name in PLATFORMS:
        fits = sum(bool(re.fullmatch(PLATFORMS[name], str(file.path))) for file in notebooks)
        if name == "gradescope" and not any(file.path.name == METADATA for file in files):
            continue
        if name == "github" and (len(tops) < 2 or not _prefix(tops)):
            continue
        if 2 * fits > len(notebooks):
            return name
    raise BadInputError(
        f"it is not clear whose notebooks these are: {', '.join(str(f.path) for f in notebooks[:3])}. "
        f"Name the platform with --from ({', '.join(PLATFORMS)}), or put them into <student>/ folders."
    )


def _prefix(names: set[str]) -> str:
    """What names of repositories begin with alike: ``attention-`` of ``attention-ada``, ``attention-bob``."""
    first, last = min(names), max(names)
    alike = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("-", 0, alike) + 1]


def _handed(done: Collected, files: list[File], notebooks: list[File]) -> dict[str, list[Handed]]:
    """What each student handed in."""
    pattern, people = re.compile(PLATFORMS[done.platform]), _people(done.platform, files)
    prefix = _prefix({f.path.parts[0] for f in notebooks}) if done.platform == "github" else ""
    handed: dict[str, list[Handed]] = defaultdict(list)
    instead: dict[str, set[str]] = defaultdict(set)
    for file in files:
        match = pattern.fullmatch(str(file.path))
        if not match:
            if _is_notebook(file):
                done.problems.append(f"{file.path}: the name does not say whose it is; put it in by hand")
            continue
        parts = match.groupdict()
        number, name, time = parts.get("id") or "", parts.get("name") or "", parts.get("time")
        told = people.get(f"submission_{number}", {})
        if people and not told.get("students"):
            done.problems.append(f"{file.path}: {METADATA} does not say whose it is; put it in by hand")
            continue
        students = told.get("students") or [_named(done.platform, name.removeprefix(prefix), number)]
        for student in students:
            if not _is_notebook(file):
                instead[student].add(PurePosixPath(parts["file"]).name)
                continue
            if not student_ids.is_valid(student):
                why = f"{student!r} cannot be a student's id: {student_ids.RULE}"
                done.problems.append(f"{file.path}: {why}; put it in by hand under another")
                continue
            handed[student].append(
                Handed(
                    student,
                    file,
                    PurePosixPath(parts["file"]).stem,
                    (int(parts.get("order") or 0), time or str(told.get("time", ""))),
                    time or told.get("time"),
                    bool(parts.get("late")),
                )
            )
    for student in sorted(set(instead) - set(handed)):
        there = ", ".join(name if name.isprintable() else repr(name) for name in sorted(instead[student]))
        done.problems.append(f"{student}: no notebook that could be taken; there is {there}")
    return handed


def _is_notebook(file: File) -> bool:
    return file.path.suffix.casefold() == ".ipynb"


def _named(platform: str, name: str, number: str) -> str:
    """The student's id: where platforms give a name that two may share, with the number that they do not."""
    return f"{name}_{number}" if platform in ("canvas", "moodle", "gradescope") else name


_SUBMISSION = re.compile(r"submission_\d+")


def _people(platform: str, files: list[File]) -> dict[str, dict[str, Any]]:
    """For each of Gradescope's submissions the students' ids and the time."""
    if platform != "gradescope":
        return {}
    import yaml

    depths = [n for file in files for n, part in enumerate(file.path.parts) if _SUBMISSION.fullmatch(part)]
    beside = min(depths, default=0)  # deeper lies what a student handed in by that name
    told_by = (file for file in files if file.path.name == METADATA and len(file.path.parts) == beside + 1)
    metadata = next(told_by, None)
    if metadata is None or metadata.size > MAX_BYTES:
        return {}
    try:
        told = yaml.safe_load(metadata.read())
    except (yaml.YAMLError, OSError, zipfile.BadZipFile, ValueError, RecursionError) as error:
        raise BadInputError(f"{METADATA} cannot be read ({error}).") from error
    people: dict[str, dict[str, Any]] = {}
    try:
        for submission, about in told.items():
            people[str(submission)] = {
                "students": [_person(one) for one in about.get(":submitters", ())],
                "time": _iso(about.get(":created_at")),
            }
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BadInputError(
            f"{METADATA} is not laid out as Gradescope lays it out ({error}). Take the archive as it came."
        ) from error
    return people


def _person(about: dict[str, Any]) -> str:
    """The id that a school gives, else what stands before the @, else the name."""
    email = str(about.get(":email") or "").split("@")[0]
    return str(about.get(":sid") or email or about.get(":name") or "")


def _iso(time: object) -> str | None:
    if isinstance(time, datetime):
        return time.astimezone(UTC).isoformat() if time.tzinfo else time.replace(tzinfo=UTC).isoformat()
    return str(time) if time else None


def _chosen(
    done: Collected, student: str, handed: list[Handed], wanted: list[str], others: set[str]
) -> dict[str, Handed]:
    """For each notebook of the assignment the one to grade; what cannot be decided is a problem.

    A notebook by another name is taken where it is the only one, unless it is named after another assignment.
    """
    chosen: dict[str, Handed] = {}
    for name in wanted:
        own = [one for one in handed if _COPY.sub("", one.stem).casefold() == name.casefold()]
        own = [one for one in handed if one.stem == name] or own
        named = {_COPY.sub("", one.stem) for one in handed}
        if not own and len(wanted) == 1 and len({one.stem for one in handed}) == 1 and not named & others:
            own = handed
            done.remarks.append(f"{student}: {handed[0].file.path.name} is taken for {name}.ipynb")
        if not own:
            there = ", ".join(sorted({f"{one.stem}.ipynb" for one in handed}))
            done.problems.append(f"{student}: {name}.ipynb is missing; there is {there}")
            continue
        newest = max(one.order for one in own)
        last = [one for one in own if one.order == newest]
        data = {_read(done, one) for one in last}
        if len(data) > 1:
            paths = ", ".join(str(one.file.path) for one in last)
            done.problems.append(f"{student}: several notebooks for {name}.ipynb, none the latest: {paths}")
        elif data != {None}:
            chosen[name] = last[0]
            if last[0].late:
                done.remarks.append(f"{student}: the platform says that it was late")
    return chosen


def _read(done: Collected, one: Handed) -> bytes | None:
    if one.file.size > MAX_BYTES:
        done.problems.append(
            f"{one.student}: {one.file.path.name} has {one.file.size:,} bytes; {MAX_BYTES:,} are read at most"
        )
        return None
    try:
        return one.file.read()
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        done.problems.append(
            f"{one.student}: {one.file.path.name} cannot be read ({error}); ask for it again"
        )
        return None


def _put(done: Collected, course: Course, folder: Path, name: str, one: Handed) -> None:
    """Writes a notebook, unless a later one is there; one that it replaces is kept."""
    data, path, stamp = one.file.read(), folder / name, folder / "timestamp.txt"
    before = stamp.read_text(errors="replace").strip() if stamp.is_file() else ""
    if path.is_file() and path.read_bytes() == data:
        done.unchanged.append(one.student)
        return
    if path.is_file() and one.timestamp and before > one.timestamp:
        done.remarks.append(f"{one.student}: kept what is there, which was handed in later ({before})")
        return
    if path.is_file():
        when = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%S")
        kept = course.state / "replaced" / folder.name / one.student / f"{when}-{name}"
        course.make_private()
        write_atomically(kept, path.read_bytes())
        done.replaced.append(one.student)
    else:
        done.written.append(one.student)
    write_atomically(path, data)
    if one.timestamp:
        write_if_changed(stamp, f"{one.timestamp}\n".encode())
    elif stamp.is_file():
        done.remarks.append(
            f"{one.student}: the new version comes without a time, and that of the one before ({before}) is "
            "dropped; if it was late, write timestamp.txt"
        )
        stamp.unlink()
