"""Find secrets among files for students: solutions, hidden cases, the secret seed.

`autograder release` checks a release before it writes it; `autograder audit` checks a folder or a zip file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from autograder.course.cells import marks_of, text_of
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
_GRADER = re.compile(r"\bautograder\.(exercises|checking|proof|grading)\b")
_NUMBER = re.compile(r"-?\d+\.\d{6,}")
_NOTEBOOK = re.compile(rb'\s*\{(?=.*"cells")(?=.*"nbformat")', re.DOTALL)
"""A notebook, whatever the name of its file: a copy may be called ``.ipynb.orig`` or ``.json``."""
_NO_NOTEBOOK = (ValueError, KeyError, TypeError, AttributeError)
"""The errors raised when a file that is not a notebook is read as one."""
_LIBRARY = ("autograder", "tfcore", "tfwidgets")
"""The packages that notebooks import: their reference and their bank are public."""
_SHORT = 30
"""Solutions of fewer characters are often in other texts by chance."""
_BY_CHANCE = 3
"""So many numbers of hidden cases, to six decimals, are in no text by chance."""


def leaks(course: Course, files: Files) -> Iterator[str]:
    """Yield a sentence for each secret in the files: its path, what it gives away, and the remedy.

    Args:
        course: the course; its solutions and its seed are secret.
        files: the content of the files by path: ``<assignment>/<name>``, or deeper inside a bundle.
    """
    secrets = _Secrets(course)
    for path, data in sorted(files.items()):
        parts = PurePosixPath(path).parts
        of_library = any(part in _LIBRARY for part in parts[:-1])
        if folder := next((part for part in parts[:-1] if part in _SECRET_FOLDER), None):
            yield f"{path}: it is in {folder}/, a folder for instructors only. Leave that folder out."
        elif not (path.lower().endswith(".ipynb") or of_library) and _SECRET_NAME.search(parts[-1]):
            yield (
                f"{path}: every file beside the notebook goes to the students, and this one is named like an "
                "instructor's file. Move it out of the assignment's folder."
            )
        text = data.decode("utf-8", "replace")
        if secrets.seed and secrets.seed.search(text):
            yield f"{path}: it holds the secret seed that draws the hidden cases. Remove it."
        if path.lower().endswith(".ipynb") or (not of_library and _NOTEBOOK.match(data)):
            yield from (f"{path}: {leak}" for leak in _leaks_in_notebook(secrets, data, path))
        elif not of_library and (name := secrets.solution_in(text, path)):
            yield f"{path}: it holds the solution of {name}. Remove it."


def leaks_in_folder(course: Course, path: Path) -> list[str]:
    """Return the leaks in a folder or in a zip file.

    Raises:
        BadInputError: the path does not exist, or is neither a folder nor a zip file.
    """
    return list(leaks(course, _read(path)))


def _read(path: Path) -> Files:
    try:
        if path.is_dir():
            return unpack({p.relative_to(path).as_posix(): p.read_bytes() for p in _files_below(path)})
        with zipfile.ZipFile(path) as bundle:
            return unpack(_inside(bundle))
    except (OSError, RuntimeError, zipfile.BadZipFile) as error:
        raise BadInputError(
            f"{path} cannot be searched ({error}). Name a folder or an intact zip file without a password."
        ) from error


def _files_below(path: Path) -> Iterator[Path]:
    """Yield the files in a folder and in the folders that it links to: a zip program packs these too."""

    def refuse(error: OSError) -> None:
        raise error

    visited = set()
    for folder, folders, names in os.walk(path, followlinks=True, onerror=refuse):
        visited.add(os.path.realpath(folder))
        folders[:] = [n for n in sorted(folders) if os.path.realpath(Path(folder, n)) not in visited]
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def unpack(files: Files) -> Files:
    """Return the files by path, with the content of each zip file or wheel in place of the archive."""
    contents: Files = {}
    for path, data in files.items():
        if path.lower().endswith((".zip", ".whl")) and zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inner = unpack(_inside(archive))
            contents |= {f"{path}/{name}": content for name, content in inner.items()}
        else:
            contents[path] = data
    return contents


def _inside(archive: zipfile.ZipFile) -> Files:
    return {about.filename: archive.read(about) for about in archive.infolist() if not about.is_dir()}


def _leaks_in_notebook(secrets: _Secrets, data: bytes, path: str) -> Iterator[str]:
    try:
        cells = json.loads(data)["cells"]
        text = "\n".join(source(cell) for cell in cells)
    except _NO_NOTEBOOK:
        yield "it is not a notebook, so it cannot be checked. Remove it."
        return
    if left := _LEFT_OVER.search(text):
        yield f"it gives away text marked {left[0]!r}. Correct the markers in the solution."
    if name := secrets.solution_in(text, path):
        yield f"it gives away the solution of {name}: a cell has the same text. Change one of them."
    if named := _GRADER.search(text):
        yield f"it names {named[0]}, which draws hidden cases. Students need `from autograder import check`."
    if any(cell.get("outputs") for cell in cells):
        yield "a cell has outputs, which may show the results of a solution. Clear them."
    if secrets.hidden_in(text):
        yield "it holds numbers of the hidden cases. Remove them, or draw another secret seed."


class _Secrets:
    """The secrets of a course: its seed, its solutions, the numbers of its hidden cases."""

    def __init__(self, course: Course) -> None:
        self.course = course

    @cached_property
    def seed(self) -> re.Pattern[str] | None:
        """Return a pattern that finds the secret seed; None for a short seed, which texts hold by chance."""
        number = read_seed(self.course.state)
        return re.compile(rf"(?<!\d){number}(?!\d)") if number is not None and number > 9999 else None

    @cached_property
    def solutions(self) -> dict[str, str]:
        """Return the name of each solution and mark scheme, by its text without white space."""
        solutions: dict[str, str] = {}
        for path in sorted(self.course.solutions.glob("*/*.ipynb")):
            with contextlib.suppress(*_NO_NOTEBOOK):
                for cell in json.loads(path.read_bytes())["cells"]:
                    with contextlib.suppress(*_NO_NOTEBOOK):  # a cell without marks is not a solution
                        name = f"{path.parent.name}/{marks_of(cell).get('grade_id', '?')}"
                        solutions |= {"".join(text.split()): name for text in _solutions(cell)}
        return {text: name for text, name in solutions.items() if len(text) >= _SHORT}

    def solution_in(self, text: str, path: str) -> str | None:
        """Return the name of a solution that is in a text, or None.

        A notebook may give the code that an earlier notebook asked for, so the text of an assignment is
        compared with the solutions of this assignment alone.
        """
        plain = "".join(text.split())
        named = set(PurePosixPath(path).parts) & {name.split("/")[0] for name in self.solutions.values()}
        for solution, name in self.solutions.items():
            if solution in plain and (not named or name.split("/")[0] in named):
                return name
        return None

    def hidden_in(self, text: str) -> bool:
        """Return whether a text holds numbers of hidden cases."""
        numbers = {f"{float(number):.6f}" for number in _NUMBER.findall(text)}
        return len(numbers) >= _BY_CHANCE and len(numbers & self._hidden_numbers) >= _BY_CHANCE

    @cached_property
    def _hidden_numbers(self) -> set[str]:
        from autograder import exercises
        from autograder.cage import tensors

        seed = read_seed(self.course.state)
        if seed is None:
            return set()
        numbers: set[str] = set()
        for assignment in set(exercises.assignments()) & set(self.course.assignments):
            for exercise in exercises.of_assignment(assignment):
                cases = (case for _, drawn in exercise.draw(seed) for case in drawn)
                for array in (a for c in cases for a in tensors.arrays(c.args, c.kwargs)):
                    if tensors.is_floating(array):
                        values = np.ravel(tensors.numbers(array))[:200]
                        numbers |= {
                            f"{x:.6f}" for x in values[np.isfinite(values) & (values != np.round(values, 3))]
                        }
        return numbers


def _solutions(cell: dict[str, Any]) -> Iterable[str]:
    if not marks_of(cell).get("solution"):
        return []
    text = source(cell)
    return [*(_SOLUTION.findall(text) or [text]), *_SCHEME.findall(text)]


def source(cell: dict[str, Any]) -> str:
    """Return a cell's text, which a notebook may store as a list of lines."""
    return text_of(cell.get("source"))
