"""Copy submissions from a learning platform to ``submitted/<student>/<assignment>/<notebook>.ipynb``.

An archive is untrusted data: this module uses no path of an archive as a path, follows no link, executes no
file and reads no file that is too large for a notebook. It keeps each notebook that it replaces.
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
"""The pattern of each platform's paths, below the folders that all files share. By default the first pattern
that fits most notebooks determines the platform."""

_DRIVE = re.compile(r"[A-Za-z]:")
_COPY = re.compile(r"(?:-\d+| ?\(\d+\)|_\d+)$")
"""The suffix that platforms and browsers add to a file name that exists already."""


@dataclass(frozen=True)
class File:
    """A file of an archive or a folder whose content is not read yet."""

    path: PurePosixPath
    size: int
    read: Callable[[], bytes]


@dataclass(frozen=True)
class HandedIn:
    """A submitted notebook of a student."""

    student: str
    file: File
    stem: str
    order: tuple[int, str] = (0, "")
    timestamp: str | None = None
    late: bool = False


@dataclass
class Collected:
    """The result of collecting an archive: the students by outcome, remarks and problems."""

    platform: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return asdict(self)


def collect(
    course: Course, assignment: str, source: Path, into: Path, platform: str | None = None
) -> Collected:
    """Copy the notebooks of one assignment from an archive or a folder to the folder of submissions.

    Args:
        course: the course.
        assignment: the name of the assignment.
        source: the zip archive from the platform, or a folder.
        into: the folder of submissions.
        platform: a name in `PLATFORMS`; by default the paths of the files determine it.

    Raises:
        BadInputError: the source cannot be read or its layout is unknown. No file has changed then.
    """
    wanted = sorted(publish.notebooks(course, assignment))
    if platform is not None and platform not in PLATFORMS:
        raise BadInputError(f"no platform is called {platform!r}. There are: {', '.join(PLATFORMS)}.")
    course_folders = (course.root, course.solutions, course.notebooks)
    if any(folder.resolve().is_relative_to(source.resolve()) for folder in course_folders):
        raise BadInputError(
            f"{source} is the course itself and does not hold submissions. Name the platform's archive, "
            "or the folder that you unpacked it into."
        )
    done = Collected(platform or "")
    with _Source(source) as files:
        collected = _without_shared_folders(list(files.safe(done.remarks)), assignment)
        notebooks = [file for file in collected if _is_notebook(file)]
        if not notebooks:
            raise BadInputError(f"{source} holds no notebook. Name the archive from the platform.")
        done.platform = platform or _recognise_platform(collected, notebooks)
        handed = _submissions_by_student(done, collected, notebooks)
        others = {path.stem for path in course.solutions.glob("*/*.ipynb")} - {*wanted}
        chosen = {
            student: _choose_notebooks(done, student, submissions, wanted, others)
            for student, submissions in sorted(handed.items())
        }
        require_writable(into)
        for student, by_name in chosen.items():
            for name, notebook in by_name.items():
                _write_notebook(done, course, into / student / assignment, f"{name}.ipynb", notebook)
    return done


class _Source:
    """The files of a zip archive or a folder."""

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
                f"{self.source} is not a zip archive ({error}). Name a zip archive or a folder."
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        if self.archive:
            self.archive.close()

    def safe(self, remarks: list[str]) -> Iterator[File]:
        """Yield the files whose paths stay inside the source; add a remark for each file that is left out."""
        for number, (path, file, why) in enumerate(self._all()):
            if number >= MOST_FILES:
                raise BadInputError(f"{self.source} holds more than {MOST_FILES:,} files.")
            if IGNORED & set(path.parts):
                continue
            if path.is_absolute() or ".." in path.parts or _DRIVE.match(path.parts[0]):
                why = "its path leads out of the archive"
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
                status = file.lstat()
                if not stat.S_ISREG(status.st_mode):
                    yield path, None, "it is not a regular file, and links are not followed"
                else:
                    yield path, File(path, status.st_size, file.read_bytes), None


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member. Read at most the size limit of a notebook, whatever the header claims."""
    with archive.open(info) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise zipfile.BadZipFile("its unpacked size exceeds the limit of a notebook")
    return data


def _without_shared_folders(files: list[File], assignment: str) -> list[File]:
    """Remove the folders that all files share from their paths, unless a folder names a student."""
    while files:
        tops = {file.path.parts[0] for file in files}
        names_student = any(
            re.fullmatch(PLATFORMS[name], f"{top}/x.ipynb") for top in tops for name in _FOLDER_NAMES_STUDENT
        )
        notebooks = [file.path.parts for file in files if _is_notebook(file)]
        if (
            not notebooks
            or len(tops) > 1
            or names_student
            or any(len(parts) < 3 or parts[1] == assignment for parts in notebooks)
        ):
            break
        files = [File(PurePosixPath(*f.path.parts[1:]), f.size, f.read) for f in files]
    return files


_FOLDER_NAMES_STUDENT = ("moodle", "gradescope", "exchange")


def _recognise_platform(files: list[File], notebooks: list[File]) -> str:
    """Return the platform whose pattern fits more than half of the notebooks."""
    tops = {file.path.parts[0] for file in notebooks if len(file.path.parts) > 1}
    for name in PLATFORMS:
        matches = sum(bool(re.fullmatch(PLATFORMS[name], str(file.path))) for file in notebooks)
        if name == "gradescope" and not any(file.path.name == METADATA for file in files):
            continue
        if name == "github" and (len(tops) < 2 or not _common_prefix(tops)):
            continue
        if 2 * matches > len(notebooks):
            return name
    raise BadInputError(
        f"it is not clear whose notebooks these are: {', '.join(str(f.path) for f in notebooks[:3])}. "
        f"Name the platform with --from ({', '.join(PLATFORMS)}), or put them into <student>/ folders."
    )


def _common_prefix(names: set[str]) -> str:
    """Return the common prefix of repositories: ``attention-`` of ``attention-ada`` and ``attention-bob``."""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("-", 0, same) + 1]


def _submissions_by_student(
    done: Collected, files: list[File], notebooks: list[File]
) -> dict[str, list[HandedIn]]:
    """Return the submitted notebooks of each student."""
    pattern, people = re.compile(PLATFORMS[done.platform]), _people(done.platform, files)
    prefix = _common_prefix({f.path.parts[0] for f in notebooks}) if done.platform == "github" else ""
    handed: dict[str, list[HandedIn]] = defaultdict(list)
    other_files: dict[str, set[str]] = defaultdict(set)
    for file in files:
        match = pattern.fullmatch(str(file.path))
        if not match:
            if _is_notebook(file):
                done.problems.append(
                    f"{file.path}: the name does not identify a student; copy the file by hand"
                )
            continue
        parts = match.groupdict()
        number, name, time = parts.get("id") or "", parts.get("name") or "", parts.get("time")
        submission = people.get(f"submission_{number}", {})
        if people and not submission.get("students"):
            done.problems.append(
                f"{file.path}: {METADATA} does not identify a student; copy the file by hand"
            )
            continue
        students = submission.get("students") or [
            _student_id(done.platform, name.removeprefix(prefix), number)
        ]
        for student in students:
            if not _is_notebook(file):
                other_files[student].add(PurePosixPath(parts["file"]).name)
                continue
            if not student_ids.is_valid(student):
                why = f"{student!r} cannot be a student's id: {student_ids.RULE}"
                done.problems.append(f"{file.path}: {why}; copy the file by hand under another id")
                continue
            handed[student].append(
                HandedIn(
                    student,
                    file,
                    PurePosixPath(parts["file"]).stem,
                    (int(parts.get("order") or 0), time or str(submission.get("time", ""))),
                    time or submission.get("time"),
                    bool(parts.get("late")),
                )
            )
    for student in sorted(set(other_files) - set(handed)):
        names = ", ".join(name if name.isprintable() else repr(name) for name in sorted(other_files[student]))
        done.problems.append(f"{student}: handed in no usable notebook, but {names}")
    return handed


def _is_notebook(file: File) -> bool:
    return file.path.suffix.casefold() == ".ipynb"


def _student_id(platform: str, name: str, number: str) -> str:
    """Return the student's id: the name, with the number if two students of a platform may share a name."""
    return f"{name}_{number}" if platform in ("canvas", "moodle", "gradescope") else name


_SUBMISSION = re.compile(r"submission_\d+")


def _people(platform: str, files: list[File]) -> dict[str, dict[str, Any]]:
    """Return the students' ids and the time of each submission in Gradescope's metadata."""
    if platform != "gradescope":
        return {}
    import yaml

    depths = [n for file in files for n, part in enumerate(file.path.parts) if _SUBMISSION.fullmatch(part)]
    depth = min(depths, default=0)  # a deeper file of this name belongs to a submission
    candidates = (file for file in files if file.path.name == METADATA and len(file.path.parts) == depth + 1)
    metadata = next(candidates, None)
    if metadata is None or metadata.size > MAX_BYTES:
        return {}
    try:
        submissions = yaml.safe_load(metadata.read())
    except (yaml.YAMLError, OSError, zipfile.BadZipFile, ValueError, RecursionError) as error:
        raise BadInputError(f"{METADATA} cannot be read ({error}).") from error
    people: dict[str, dict[str, Any]] = {}
    try:
        for submission, about in submissions.items():
            people[str(submission)] = {
                "students": [_person_id(person) for person in about.get(":submitters", ())],
                "time": _iso(about.get(":created_at")),
            }
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BadInputError(
            f"{METADATA} is not laid out as Gradescope lays it out ({error}). "
            "Name the archive as you downloaded it."
        ) from error
    return people


def _person_id(about: dict[str, Any]) -> str:
    """Return the school's id of a person, else the email address up to the @, else the name."""
    email = str(about.get(":email") or "").split("@")[0]
    return str(about.get(":sid") or email or about.get(":name") or "")


def _iso(time: object) -> str | None:
    if isinstance(time, datetime):
        return time.astimezone(UTC).isoformat() if time.tzinfo else time.replace(tzinfo=UTC).isoformat()
    return str(time) if time else None


def _choose_notebooks(
    done: Collected, student: str, handed: list[HandedIn], wanted: list[str], others: set[str]
) -> dict[str, HandedIn]:
    """Return the notebook to grade for each notebook of the assignment; record unclear cases as problems.

    A student's only notebook may have any name except the name of another assignment.
    """
    chosen: dict[str, HandedIn] = {}
    for name in wanted:
        copies = [item for item in handed if _COPY.sub("", item.stem).casefold() == name.casefold()]
        matches = [item for item in handed if item.stem == name] or copies
        stems = {_COPY.sub("", item.stem) for item in handed}
        if not matches and len(wanted) == 1 and len({h.stem for h in handed}) == 1 and not stems & others:
            matches = handed
            done.remarks.append(f"{student}: {handed[0].file.path.name} is collected as {name}.ipynb")
        if not matches:
            names = ", ".join(sorted({f"{item.stem}.ipynb" for item in handed}))
            done.problems.append(f"{student}: {name}.ipynb is missing; handed in: {names}")
            continue
        newest = max(item.order for item in matches)
        latest = [item for item in matches if item.order == newest]
        data = {_read(done, item) for item in latest}
        if len(data) > 1:
            paths = ", ".join(str(item.file.path) for item in latest)
            done.problems.append(
                f"{student}: several notebooks for {name}.ipynb, none is the latest: {paths}"
            )
        elif data != {None}:
            chosen[name] = latest[0]
            if latest[0].late:
                done.remarks.append(f"{student}: the platform marks the submission as late")
    return chosen


def _read(done: Collected, notebook: HandedIn) -> bytes | None:
    student, file = notebook.student, notebook.file
    if file.size > MAX_BYTES:
        done.problems.append(
            f"{student}: {file.path.name} has {file.size:,} bytes; the limit is {MAX_BYTES:,} bytes"
        )
        return None
    try:
        return file.read()
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        done.problems.append(f"{student}: {file.path.name} cannot be read ({error}); ask for the file again")
        return None


def _write_notebook(done: Collected, course: Course, folder: Path, name: str, notebook: HandedIn) -> None:
    """Write a notebook unless the folder holds a later one; keep the notebook that it replaces."""
    data, path, stamp = notebook.file.read(), folder / name, folder / "timestamp.txt"
    before = stamp.read_text(errors="replace").strip() if stamp.is_file() else ""
    if path.is_file() and path.read_bytes() == data:
        done.unchanged.append(notebook.student)
        return
    if path.is_file() and notebook.timestamp and before > notebook.timestamp:
        done.remarks.append(
            f"{notebook.student}: kept the present notebook, which was handed in later ({before})"
        )
        return
    if path.is_file():
        when = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%S")
        kept = course.state / "replaced" / folder.name / notebook.student / f"{when}-{name}"
        course.make_private()
        write_atomically(kept, path.read_bytes())
        done.replaced.append(notebook.student)
    else:
        done.written.append(notebook.student)
    write_atomically(path, data)
    if notebook.timestamp:
        write_if_changed(stamp, f"{notebook.timestamp}\n".encode())
    elif stamp.is_file():
        done.remarks.append(
            f"{notebook.student}: the new version has no time, and the time of the replaced version "
            f"({before}) was removed; if the new version was late, write timestamp.txt"
        )
        stamp.unlink()
