"""Grade one exercise in plain Python files and notebooks, for people who work outside the course."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.checking.report import Report
from autograder.course.errors import BadInputError
from autograder.grading import cages, matching
from autograder.grading.pair import Pair, file_task
from autograder.grading.session import Limits


@dataclass(frozen=True)
class Checked:
    """A file with the report on its answer."""

    file: str
    report: Report

    @property
    def passed(self) -> bool:
        return self.report.passed

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "exercise": self.report.exercise,
            "file": self.file,
            "passed": self.passed,
            "score": self.report.score,
            "max_score": self.report.max_score,
            "diagnosis": self.report.diagnosis,
            "forbidden": self.report.forbidden,
            "message": self.report.message,
        }


def check(
    name: str, files: list[Path], seed: int | None, limits: Limits, allow_unsafe: bool = False
) -> Iterator[Checked]:
    """Grade the files one after another, and yield the result of each file as soon as it is graded.

    Args:
        name: the name of the exercise.
        files: ``.py`` or ``.ipynb`` files; all are read before the first is graded.
        seed: draws the hidden cases; a random seed, if None.
        limits: the time and memory that each file may use.
        allow_unsafe: grade also on a machine without walls.

    Raises:
        BadInputError: the exercise is unknown, a file cannot be read, or this machine has no walls.
    """
    exercise = exercises.find(name)
    contents = {file: _read(file) for file in files}
    seed = secrets.randbits(62) if seed is None else seed
    with Pair(cages.required(allow_unsafe)) as pair:
        for file in files:
            is_notebook = file.suffix == ".ipynb"
            verdict = pair.grade(file_task(exercise.name, contents[file], is_notebook, seed, limits))
            report = verdict.cells[0].report if verdict.cells else None
            again = ". Run the command again" if verdict.status == "failed" else ""
            why = f"Not graded: {verdict.note}{again}"
            yield Checked(str(file), report or Report.without_points(exercise, "stopped", why))


def _read(file: Path) -> bytes:
    if file.suffix not in (".py", ".ipynb"):
        raise BadInputError(f"{file}: expected a .py or .ipynb file, got {file.suffix or 'no suffix'!r}.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInputError(f"{file} cannot be read ({error.strerror}). Name a file that exists.") from error
    try:
        if file.suffix == ".ipynb":
            matching.read_notebook(data)
        else:
            data.decode()
    except (matching.UnreadableError, UnicodeDecodeError) as error:
        kind = "a notebook" if file.suffix == ".ipynb" else "Python in UTF-8"
        raise BadInputError(f"{file} is not {kind}: {error}.") from error
    if len(data) > matching.MAX_BYTES:
        raise BadInputError(f"{file} has {len(data):,} bytes; at most {matching.MAX_BYTES:,} are read.")
    return data
