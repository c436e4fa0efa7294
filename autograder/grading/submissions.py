"""Find submissions in nbgrader's layout: ``DIR/<student>/<assignment>/<notebook>.ipynb``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course import student_ids
from autograder.course.errors import BadInputError
from autograder.course.times import read_time
from autograder.course.visible import one_line
from autograder.grading.matching import MAX_BYTES

TIME = "timestamp.txt"
"""The file beside the notebook that says when it was handed in."""
SECRET = "submission_secret.txt"
"""The file beside the notebook in which nbgrader's exchange keeps a submission's secret."""


@dataclass(frozen=True)
class Submission:
    """One submitted notebook."""

    student: str
    assignment: str
    notebook: str
    path: Path
    timestamp: str | None = None
    secret: str | None = None
    """The secret with which nbgrader's exchange gives the feedback only to the student who submitted this."""

    def read(self) -> bytes:
        """Return the bytes of the notebook.

        Raises:
            BadInputError: the file is too large, cannot be read, or is a link.
        """
        try:
            about = self.path.lstat()
            if not stat.S_ISREG(about.st_mode):
                raise BadInputError(
                    "it is not a plain file (links are not followed); ask for the notebook itself"
                )
            if about.st_size > MAX_BYTES:
                raise BadInputError(
                    f"the file has {about.st_size:,} bytes; at most {MAX_BYTES:,} are read. Clear its "
                    "outputs, or ask for it without them"
                )
            return self.path.read_bytes()
        except OSError as error:
            raise BadInputError(
                f"it cannot be read ({error.strerror}); make it readable, or ask for it again"
            ) from error


@dataclass(frozen=True)
class Problem:
    """A submission that cannot be graded, with the reason and the remedy."""

    student: str
    assignment: str
    what: str
    kept: float | None = None
    """The points from an earlier version, which stay in the gradebook."""

    @property
    def message(self) -> str:
        """Return the reason and the remedy, and the points that the student keeps until then."""
        if self.kept is None:
            return self.what
        return f"{self.what}. {self.student} keeps {self.kept:g} from the earlier version"


@dataclass
class Found:
    """The content of a folder of submissions."""

    folder: Path = Path()
    submissions: list[Submission] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def assignments(self) -> set[str]:
        """Return the assignments with submissions, whether these can be graded or not."""
        readable = {submission.assignment for submission in self.submissions}
        return readable | {problem.assignment for problem in self.problems}


def find(folder: Path, wanted: dict[str, Iterable[str]], named: list[str]) -> Found:
    """Return the submissions in a folder, sorted by student.

    Args:
        folder: the folder of the class, with one folder for each student.
        wanted: the assignments, each with the names of its notebooks.
        named: the assignments that the user named; each must have at least one submission.

    Raises:
        BadInputError: the folder does not exist, or has no submission.
    """
    if not folder.is_dir():
        trouble = "is a file" if folder.exists() else "does not exist"
        raise BadInputError(
            f"{folder} {trouble}. --submissions names a folder that holds "
            "<student>/<assignment>/<notebook>.ipynb."
        )
    found = scan(folder, wanted)
    for assignment in named or ([] if found.assignments else list(wanted)):
        if assignment not in found.assignments:
            raise BadInputError(
                f"{folder} holds no submission of {assignment}: expected "
                f"{folder}/<student>/{assignment}/{assignment}.ipynb. Name the folder that holds the "
                "students' folders."
            )
    return found


def scan(folder: Path, wanted: dict[str, Iterable[str]]) -> Found:
    """Return the submissions in a folder that exists, sorted by student; see `find`.

    A student's folder that cannot be read is a problem for each assignment that others have handed in.
    """
    found = Found(folder)
    maybe_handed_in: list[Problem] = []
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        if why := _reason_to_skip(entry, wanted):
            found.remarks.append(f"skipped {entry.name!r}: {why}")
            continue
        for assignment, names in wanted.items():
            path = Path(entry.path) / assignment
            try:
                _add_submissions(found, entry.name, assignment, sorted(names), path)
            except OSError as error:
                reason = f"{error.filename or path} cannot be read ({error.strerror}); make it readable"
                is_there = os.path.lexists(path)
                problems = found.problems if is_there else maybe_handed_in
                problems.append(Problem(entry.name, assignment, reason))
    handed_in = found.assignments or wanted
    found.problems += [problem for problem in maybe_handed_in if problem.assignment in handed_in]
    return found


def _reason_to_skip(entry: os.DirEntry[str], wanted: Iterable[str]) -> str | None:
    """Return the reason why an entry is not a student's folder, or None."""
    if entry.is_symlink():
        return "it is a link, and links are not followed"
    if not entry.is_dir():
        return "it is not a student's folder"
    holds = any(os.path.isdir(os.path.join(entry.path, assignment)) for assignment in wanted)
    return None if holds or student_ids.is_valid(entry.name) else student_ids.RULE


def _add_submissions(found: Found, student: str, assignment: str, names: list[str], folder: Path) -> None:
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(about.st_mode):
        found.problems.append(Problem(student, assignment, f"{folder} is not a folder; ask for it again"))
        return
    if not student_ids.is_valid(student):
        reason = f"the folder's name cannot be a student's id: {student_ids.RULE}. Rename it"
        found.problems.append(Problem(student, assignment, reason))
        return
    timestamp, remark = read_timestamp(folder / TIME)
    secret = _read_line(folder / SECRET)
    if remark:
        found.remarks.append(f"{student}, {assignment}: {remark}")
    for name in names:
        path = folder / f"{name}.ipynb"
        if os.path.lexists(path):
            found.submissions.append(Submission(student, assignment, name, path, timestamp, secret))
        else:
            others = sorted(p.name for p in folder.iterdir() if p.suffix == ".ipynb")
            content = ", ".join(map(one_line, others)) or "no notebook"
            found.problems.append(
                Problem(
                    student,
                    assignment,
                    f"{path.name} is missing; the folder holds {content}. Rename it, or ask for it again",
                )
            )


def _read_line(path: Path) -> str | None:
    """Return the text of a small file beside a notebook, or None; a link is not followed."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return file.read(200).decode("utf-8-sig", errors="replace").strip()
    except OSError:
        return ""


def read_timestamp(path: Path) -> tuple[str | None, str | None]:
    """Return the time of submission, and a remark if it cannot be read."""
    text = _read_line(path)
    if text is None:
        return None, None
    if not text:
        return None, f"{TIME} is empty or unreadable, so the submission does not count as late"
    from nbgrader.utils import parse_utc

    try:
        time = read_time(text).replace(tzinfo=None)
        return (text if parse_utc(text) == time else f"{time:%Y-%m-%d %H:%M:%S} UTC"), None
    except (ValueError, OverflowError, TypeError):
        return None, f"{TIME} holds {text!r}, which is not a time, so the submission does not count as late"
