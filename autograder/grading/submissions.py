"""Finds what was handed in: ``DIR/<student>/<assignment>/<notebook>.ipynb``, as nbgrader lays it out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course import student_ids
from autograder.course.errors import BadInputError
from autograder.course.visible import one_line
from autograder.grading.matching import MAX_BYTES

SECRET = "submission_secret.txt"
"""Where nbgrader's exchange keeps a submission's secret, beside the notebook."""


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in."""

    student: str
    assignment: str
    notebook: str
    path: Path
    timestamp: str | None = None
    secret: str | None = None
    """By which nbgrader's exchange gives the feedback to who handed this in, and to nobody else."""

    def read(self) -> bytes:
        """Its bytes.

        Raises:
            BadInputError: it is too large, cannot be read, or is a link.
        """
        try:
            about = self.path.lstat()
            if not stat.S_ISREG(about.st_mode):
                raise BadInputError(
                    "it is no plain file (a link is not followed); ask for the notebook itself"
                )
            if about.st_size > MAX_BYTES:
                raise BadInputError(
                    f"the file has {about.st_size:,} bytes; at most {MAX_BYTES:,} are read. Clear its "
                    "outputs, or ask for it without them"
                )
            return self.path.read_bytes()
        except OSError as error:
            raise BadInputError(f"it cannot be read ({error.strerror}); correct its permissions") from error


@dataclass(frozen=True)
class Problem:
    """A submission that cannot be graded, and what to do."""

    student: str
    assignment: str
    what: str
    kept: float | None = None
    """The points that stay from an earlier version, if one was graded."""

    @property
    def told(self) -> str:
        """What to do, and what stays until then."""
        if self.kept is None:
            return self.what
        return f"{self.what}. {self.student} keeps {self.kept:g} from the earlier version"


@dataclass
class Found:
    """What lies in a folder of submissions."""

    submissions: list[Submission] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def assignments(self) -> set[str]:
        """Of which anything was handed in, whether it can be graded or not."""
        return {one.assignment for one in self.submissions} | {one.assignment for one in self.problems}


def find(folder: Path, wanted: dict[str, Iterable[str]], named: list[str]) -> Found:
    """The submissions in a folder, by student.

    Args:
        folder: one folder a student in it.
        wanted: the assignments, each with the names of its notebooks.
        named: the assignments that were asked for by name: each must have been handed in by somebody.

    Raises:
        BadInputError: the folder is none, or nothing in it is a submission.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise BadInputError(
            f"{folder} {what}. --submissions names a folder that holds "
            "<student>/<assignment>/<notebook>.ipynb."
        )
    found = Found()
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        if why := _odd(entry, wanted):
            found.remarks.append(f"skipped {entry.name!r}: {why}")
            continue
        for assignment, names in wanted.items():
            _look(found, entry.name, assignment, sorted(names), Path(entry.path) / assignment)
    for assignment in named or ([] if found.assignments else list(wanted)):
        if assignment not in found.assignments:
            raise BadInputError(
                f"{folder} holds no submission of {assignment}: expected "
                f"{folder}/<student>/{assignment}/{assignment}.ipynb. Name the folder that the students' "
                "folders lie in."
            )
    return found


def _odd(entry: os.DirEntry[str], wanted: Iterable[str]) -> str | None:
    """Why an entry is no student's folder, or None."""
    if entry.is_symlink():
        return "it is a link, and links are not followed"
    if not entry.is_dir():
        return "it is no folder of a student"
    holds = any(os.path.isdir(os.path.join(entry.path, assignment)) for assignment in wanted)
    return None if holds or student_ids.is_valid(entry.name) else student_ids.RULE


def _look(found: Found, student: str, assignment: str, names: list[str], folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        if os.path.lexists(folder):
            found.problems.append(Problem(student, assignment, f"{folder} is no folder; ask for it again"))
        return
    if not student_ids.is_valid(student):
        what = f"the folder's name cannot be a student's id: {student_ids.RULE}. Rename it"
        found.problems.append(Problem(student, assignment, what))
        return
    timestamp, remark = _timestamp(folder / "timestamp.txt")
    secret = _line(folder / SECRET)
    if remark:
        found.remarks.append(f"{student}, {assignment}: {remark}")
    for name in names:
        path = folder / f"{name}.ipynb"
        if os.path.lexists(path):
            found.submissions.append(Submission(student, assignment, name, path, timestamp, secret))
        else:
            others = sorted(p.name for p in folder.iterdir() if p.suffix == ".ipynb")
            there = f"there is {', '.join(map(one_line, others))}" if others else "it holds no notebook"
            found.problems.append(
                Problem(
                    student, assignment, f"{path.name} is missing; {there}. Rename it, or ask for it again"
                )
            )


def _line(path: Path) -> str | None:
    """What a small file beside a notebook says, or None where there is none; a link is not followed."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(200).decode(errors="replace").strip()


def _timestamp(path: Path) -> tuple[str | None, str | None]:
    """When it was handed in, and a remark where that cannot be understood."""
    told = _line(path)
    if told is None:
        return None, None
    from nbgrader.utils import parse_utc

    try:
        return (
            (told, None) if told and parse_utc(told) else (None, "timestamp.txt is empty, so it is not late")
        )
    except (ValueError, OverflowError, TypeError):
        return None, f"timestamp.txt says {told!r}, which is no time, so it does not count as late"
