"""Looks for what a student must not get: solutions, hidden cases, the secret seed, instructors' files.

`autograder release` asks before it writes; `autograder audit` asks of a folder or of a bundle, a zip file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from autograder.course.errors import BadInputError
from autograder.course.files import Files, read_seed
from autograder.course.layout import CONFIG, Course

_LEFT_OVER = re.compile(r"(BEGIN|END) (SOLUTION|MARK SCHEME|HIDDEN TESTS)|<!-- varies")
_SECRET_NAME = re.compile(
    rf"rubric|solution|mark.?scheme|answer|grader|gradebook|verdict|expected\.json|\.py$|{re.escape(CONFIG)}",
    re.IGNORECASE,
)
_SECRET_FOLDER = (".autograder", "solutions", "source", "submitted", "autograded", "feedback", "reports")
_SOLUTION = re.compile(r"BEGIN SOLUTION[^\n]*\n(.*?)\n[^\n]*END SOLUTION", re.DOTALL)
_SCHEME = re.compile(r"BEGIN MARK SCHEME[^\n]*\n(.*?)\n[^\n]*END MARK SCHEME", re.DOTALL)
_GRADER = re.compile(r"\bautograder\.(exercises|checking|verify|grading|exercise|shrink)\b")
_NUMBER = re.compile(r"-?\d+\.\d{6,}")
_LIBRARY = ("autograder", "tfcore", "tfwidgets")
"""The packages that notebooks import: their reference and their bank are public."""
_SHORT = 30
"""Solutions of fewer characters may well stand elsewhere by chance."""
_BY_CHANCE = 3
"""So many numbers of hidden cases, to six decimals, stand nowhere by chance."""


def leaks(course: Course, files: Files) -> Iterator[str]:
    """A sentence for each thing among the files that no student may see.

    Args:
        course: says what is secret.
        files: by path: ``<assignment>/<name>``, or deeper inside a bundle.
    """
    secrets = _Secrets(course)
    for path, data in sorted(files.items()):
        parts = PurePosixPath(path).parts
        of_library = any(part in _LIBRARY for part in parts[:-1])
        if folder := next((part for part in parts[:-1] if part in _SECRET_FOLDER), None):
            yield f"{path}: it lies in {folder}/, which is the instructor's. Leave that folder out."
        elif not (path.endswith(".ipynb") or of_library) and _SECRET_NAME.search(parts[-1]):
            yield (
                f"{path}: every file beside the notebook goes to the students, and this one looks like an "
                "instructor's. Move it out of the assignment's folder."
            )
        text = data.decode("utf-8", "replace")
        if secrets.seed and secrets.seed.search(text):
            yield f"{path}: it holds the secret seed that draws the hidden cases. Take it out."
        if path.endswith(".ipynb"):
            yield from (f"{path}: {found}" for found in _of_notebook(secrets, data, path))
        elif not of_library and (found := secrets.solution_in(text, path)):
            yield f"{path}: it holds the solution of {found}. Take it out."


def of_folder(course: Course, path: Path) -> list[str]:
    """The leaks in a folder or in a zip file.

    Raises:
        BadInputError: there is no such folder or file, or it is no zip file.
    """
    return list(leaks(course, _read(path)))


def _read(path: Path) -> Files:
    if path.is_dir():
        lying = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
        return unpacked(lying)
    try:
        with zipfile.ZipFile(path) as bundle:
            return unpacked(_inside(bundle))
    except (OSError, zipfile.BadZipFile) as error:
        raise BadInputError(
            f"{path} is neither a folder nor a zip file ({error}). Name what the students get."
        ) from error


def unpacked(files: Files) -> Files:
    """The files, with those inside zip files and wheels among them in place of these."""
    found: Files = {}
    for path, data in files.items():
        if path.endswith((".zip", ".whl")) and zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inner = unpacked(_inside(archive))
            found |= {f"{path}/{name}": content for name, content in inner.items()}
        else:
            found[path] = data
    return found


def _inside(archive: zipfile.ZipFile) -> Files:
    return {about.filename: archive.read(about) for about in archive.infolist() if not about.is_dir()}


def _of_notebook(secrets: _Secrets, data: bytes, path: str) -> Iterator[str]:
    try:
        cells = json.loads(data)["cells"]
        text = "\n".join(source(cell) for cell in cells)
    except (ValueError, KeyError, TypeError):
        yield "it is no notebook, so nobody can say what it holds. Take it out."
        return
    if left := _LEFT_OVER.search(text):
        yield f"it gives away what is marked {left[0]!r}. Correct the markers in the solution."
    if found := secrets.solution_in(text, path):
        yield f"it gives away the solution of {found}: the same text stands in a cell. Change one of the two."
    if named := _GRADER.search(text):
        yield f"it speaks of {named[0]}, where cases are drawn. Students need `from autograder import check`."
    if any(cell.get("outputs") for cell in cells):
        yield "a cell holds outputs, which may show what a solution gives. Clear them."
    if secrets.hidden_in(text):
        yield "numbers of the hidden cases stand in it. Take them out, or draw another secret seed."


class _Secrets:
    """What a course keeps from its students."""

    def __init__(self, course: Course) -> None:
        self.course = course

    @cached_property
    def seed(self) -> re.Pattern[str] | None:
        """The secret seed as it would stand in a text; a short one would stand there by chance."""
        number = read_seed(self.course.state)
        return re.compile(rf"(?<!\d){number}(?!\d)") if number is not None and number > 9999 else None

    @cached_property
    def solutions(self) -> dict[str, str]:
        """Each solution and mark scheme without white space, and which it is."""
        found: dict[str, str] = {}
        for path in sorted(self.course.solutions.glob("*/*.ipynb")):
            try:
                cells = json.loads(path.read_bytes())["cells"]
            except (ValueError, KeyError):
                continue
            for cell in cells:
                name = f"{path.parent.name}/{cell['metadata'].get('nbgrader', {}).get('grade_id', '?')}"
                found |= {"".join(text.split()): name for text in _solutions(cell)}
        return {text: name for text, name in found.items() if len(text) >= _SHORT}

    def solution_in(self, text: str, path: str) -> str | None:
        """Which solution stands in a text, if one does.

        A notebook may give what an earlier one asked for, so an assignment is held against itself alone.
        """
        plain = "".join(text.split())
        own = set(PurePosixPath(path).parts) & {name.split("/")[0] for name in self.solutions.values()}
        for solution, name in self.solutions.items():
            if solution in plain and (not own or name.split("/")[0] in own):
                return name
        return None

    def hidden_in(self, text: str) -> bool:
        """Whether numbers of hidden cases stand in a text."""
        there = {f"{float(number):.6f}" for number in _NUMBER.findall(text)}
        return len(there) >= _BY_CHANCE and len(there & self._hidden_numbers) >= _BY_CHANCE

    @cached_property
    def _hidden_numbers(self) -> set[str]:
        from autograder import exercises
        from autograder.cage import tensors

        seed = read_seed(self.course.state)
        if seed is None:
            return set()
        found: set[str] = set()
        for assignment in set(exercises.assignments()) & set(self.course.assignments):
            for exercise in exercises.of_assignment(assignment):
                cases = (case for _, drawn in exercise.draw(seed) for case in drawn)
                for array in (a for c in cases for a in tensors.arrays(c.args, c.kwargs)):
                    if tensors.is_floating(array):
                        plain = np.ravel(tensors.numbers(array))[:200]
                        found |= {
                            f"{x:.6f}" for x in plain[np.isfinite(plain) & (plain != np.round(plain, 3))]
                        }
        return found


def _solutions(cell: dict[str, Any]) -> Iterable[str]:
    if not cell.get("metadata", {}).get("nbgrader", {}).get("solution"):
        return []
    text = source(cell)
    return [*(_SOLUTION.findall(text) or [text]), *_SCHEME.findall(text)]


def source(cell: dict[str, Any]) -> str:
    """A cell's text, which a notebook may hold as a list of lines."""
    text = cell.get("source", "")
    return text if isinstance(text, str) else "".join(text)
