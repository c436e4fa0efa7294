"""Make the students' notebooks from the solutions, with nbgrader's own converter.

A release is checked for leaks before it is written, and all its files are written together. A notebook that
somebody has worked in is overwritten only with `force`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal

from autograder import exercises
from autograder.course import variants
from autograder.course.cells import marks_of
from autograder.course.errors import BadInputError
from autograder.course.files import (
    Files,
    read_if_there,
    read_record,
    require_writable,
    write_atomically,
    write_if_changed,
    write_record,
)
from autograder.course.layout import CONFIG, SETTINGS, Course
from autograder.packages import colab
from autograder.release import audit, declared_cells, versions
from autograder.release.audit import source

_NOISE = ("execution", "collapsed", "scrolled", "ExecuteTime", "vscode", "jupyter", "trusted")


@dataclass(frozen=True)
class Published:
    """The outcome of the release of one assignment."""

    assignment: str
    status: Literal["written", "unchanged", "kept"]
    files: tuple[str, ...]
    note: str = ""
    solutions: tuple[str, ...] = ()
    """Solution notebooks in which test cells, table, time or numbers were updated."""
    undefined: tuple[str, ...] = ()
    """Declared exercises that are defined in none of the notebooks."""


def make_release(course: Course, assignment: str, variant: str | None = None) -> Files:
    """Return the files of an assignment's release by name, without writing them into the release folder.

    Args:
        course: the course.
        assignment: the name of the assignment.
        variant: the student or class that gets other numbers; see `autograder.course.variants`.

    Raises:
        BadInputError: nbgrader cannot convert the source, a test cell belongs to no exercise, or the release
            would give away a solution.
    """
    files = _unchecked_files(course, assignment, variant)
    if assignment in exercises.assignments():
        for notebook in (data for name, data in files.items() if name.endswith(".ipynb")):
            exercises.names_tested_by(json.loads(notebook), assignment)  # refuses a test cell without one
    _refuse_leaks(course, assignment, files)
    return files


def _unchecked_files(course: Course, assignment: str, variant: str | None = None) -> Files:
    """Return the files of a release that is not yet checked for leaks."""
    return {
        name: _finish_notebook(course, data, assignment, variant) if name.endswith(".ipynb") else data
        for name, data in _convert_or_recall(course, assignment).items()
    }


def _convert_or_recall(course: Course, assignment: str) -> Files:
    """Return nbgrader's conversion of an assignment, cached or new."""
    fingerprint = _fingerprint(course, assignment)
    cache_file = course.state / "released" / f"{assignment}.json"
    cached = read_record(cache_file)
    if cached.get("fingerprint") == fingerprint:
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):  # it is damaged
            return {name: base64.b64decode(data) for name, data in cached["files"].items()}
    files = _convert(course, assignment)
    encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    with contextlib.suppress(OSError):  # a course on a read-only disk is converted again each time
        course.make_private()
        write_atomically(cache_file, json.dumps({"fingerprint": fingerprint, "files": encoded}).encode())
    return files


def notebook_names(course: Course, assignment: str) -> list[str]:
    """Return the names of an assignment's notebooks, without ``.ipynb``."""
    return sorted(path.stem for path in (course.solutions / assignment).glob("*.ipynb"))


def notebooks(course: Course, assignment: str) -> Files:
    """Return the released notebooks of an assignment, by name without ``.ipynb``, as the grader reads them.

    The source of each cell is one string; nbgrader writes a list of lines.
    """
    released = {}
    for name, data in _unchecked_files(course, assignment).items():
        if name.endswith(".ipynb"):
            notebook = json.loads(data)
            for cell in notebook["cells"]:
                cell["source"] = source(cell)
            released[name.removesuffix(".ipynb")] = json.dumps(
                notebook, ensure_ascii=False, sort_keys=True
            ).encode()
    return released


def _finish_notebook(course: Course, data: bytes, assignment: str, variant: str | None) -> bytes:
    """Return a notebook with the numbers of a variant, without ``<!-- varies -->``, and with a first cell."""
    notebook = json.loads(data)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = variants.apply_variant(source(cell), f"{assignment} {cell['id']}", variant)
            cell["source"] = text.splitlines(keepends=True)
    return declared_cells.as_bytes(colab.insert_first_cell(course, notebook))


def write_variants(course: Course, assignments: list[str], names: list[str]) -> list[Path]:
    """Write a release with other numbers for each student or class, and its answer key for the teacher.

    The folder of a release is ``variants/<name>/<assignment>/``; its answer key is
    ``.autograder/variants/<name>/<assignment>.md``.

    Args:
        course: the course.
        assignments: the names of the assignments.
        names: the names of the students or classes.

    Returns:
        The folders of the releases.

    Raises:
        BadInputError: a name cannot be the name of a folder, or a release is refused.
    """
    for name in names:
        if not re.fullmatch(r"\w[\w.@+-]*", name):
            raise BadInputError(f"{name!r} cannot be a variant's name. Use letters, digits and . _ @ + -.")
    releases = {(n, a): make_release(course, a, n) for n in names for a in assignments}
    keys = {(n, a): make_answer_key(course, a, n) for n in names for a in assignments}
    written = []
    course.make_private()
    for (name, assignment), files in releases.items():
        folder = course.root / "variants" / name / assignment
        _replace_folder(folder, files, True, {})
        key = course.state / "variants" / name / f"{assignment}.md"
        write_if_changed(key, keys[name, assignment].encode())
        written.append(folder)
    return written


def make_answer_key(course: Course, assignment: str, variant: str | None = None) -> str:
    """Return the answers and mark schemes of the written questions, with the numbers of a variant."""
    parts = [f"# {assignment}, variant {variant}" if variant else f"# {assignment}"]
    for path in sorted((course.solutions / assignment).glob("*.ipynb")):
        for cell in json.loads(path.read_bytes())["cells"]:
            marks = marks_of(cell)
            if cell["cell_type"] == "markdown" and marks.get("solution"):
                where = f"{assignment} {cell.get('id') or marks['grade_id']}"
                parts += [f"## {marks['grade_id']}", variants.apply_variant(source(cell), where, variant)]
    return "\n\n".join(parts) + "\n"


def publish(course: Course, assignments: list[str], force: bool = False) -> list[Published]:
    """Write the releases into the release folder; write nothing if one of them is refused.

    Args:
        course: the course.
        assignments: the names of the assignments.
        force: replace also a notebook that somebody has worked in, and keep a copy beside it as ``*.orig``.

    Raises:
        BadInputError: a release is refused, or the folder cannot be written.
    """
    require_writable(course.notebooks)
    releases = {assignment: make_release(course, assignment) for assignment in assignments}
    published = []
    course.make_private()
    for assignment, files in releases.items():
        solutions, undefined = _write_solutions(course, assignment)
        record = course.state / "releases" / f"{assignment}.json"
        ours = read_record(record)
        done = _replace_folder(course.notebooks / assignment, files, force, ours)
        published.append(replace(done, solutions=solutions, undefined=undefined))
        if done.status != "kept":
            for name, data in files.items():
                before = [known for known in ours.get(name, []) if known != _digest(data)]
                ours[name] = [*before, _digest(data)][-MOST_RELEASES:]
            write_record(record, ours)
    return published


def _write_solutions(course: Course, assignment: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write what the exercises declare into the solution notebooks.

    Returns:
        The names of the files that changed, and the exercises that no notebook defines.
    """
    files = declared_cells.solution_notebooks(course, assignment)
    folder = course.solutions / assignment
    changed = tuple(name for name, data in files.items() if read_if_there(folder / name) != data)
    if changed:
        require_writable(folder)
    for name in changed:
        write_atomically(folder / name, files[name])
    return changed, tuple(declared_cells.without_test_cell(files, assignment))


MOST_RELEASES = 100
"""The number of releases of a file that are remembered: a file that git restores from them is not work."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _replace_folder(folder: Path, files: Files, force: bool, ours: dict[str, list[str]]) -> Published:
    """Write a release into its folder, unless somebody worked there; `ours` has earlier releases' hashes."""
    present = {name: read_if_there(folder / name) for name in files}
    names = tuple(sorted(files))
    if present == files:
        return Published(folder.name, "unchanged", names)
    worked_in = [
        name
        for name, data in present.items()
        if data and data != files[name] and _is_work(folder / name, data, ours.get(name, []))
    ]
    if worked_in and not force:
        note = f"{', '.join(worked_in)} holds somebody's work; --force replaces it and keeps a copy"
        return Published(folder.name, "kept", names, note)
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new.chmod(0o755)
        if folder.is_dir():
            shutil.copytree(folder, new, dirs_exist_ok=True, symlinks=True)
        for name, data in files.items():
            if name in worked_in:
                write_atomically(_free(new / f"{name}.orig"), present[name] or b"")
            write_atomically(new / name, data)
        old = new.with_name(f"{new.name}-old")
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Published(folder.name, "written", names)


def _free(path: Path) -> Path:
    """Return the path, with a number behind it if an earlier copy has this name."""
    return next(free for n in count() if not (free := path.with_name(f"{path.name}{n or ''}")).exists())


def _is_work(path: Path, data: bytes, ours: list[str]) -> bool:
    """Return whether somebody worked in a file: it is neither an earlier release nor committed as it is."""
    if _digest(data) in ours:
        return False
    if path.suffix == ".ipynb" and _has_answers(data):
        return True
    return bool(ours) and not _is_committed(path)


def _has_answers(data: bytes) -> bool:
    """Return whether a notebook has outputs, or an answer that differs from the release."""
    import nbformat
    from nbgrader.utils import compute_checksum

    try:
        cells = nbformat.reads(data.decode(), as_version=4).cells
        marked = [(cell, marks_of(cell)) for cell in cells]
        return any(cell.get("outputs") for cell in cells) or any(
            "checksum" in marks and marks["checksum"] != compute_checksum(cell) for cell, marks in marked
        )
    except Exception:  # a file that cannot be read is somebody's file
        return True


def _is_committed(path: Path) -> bool:
    """Return whether the file is committed to git without changes."""
    command = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", "--", path.name]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        command[3:] = ["diff", "--quiet", "HEAD", "--", path.name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # git is not installed
        return False


def _fingerprint(course: Course, assignment: str) -> str:
    """Return a hash of everything that a release depends on: sources, settings, code, exercises."""
    names = exercises.names_of(assignment) if assignment in exercises.assignments() else []
    digest = hashlib.sha256(json.dumps(versions.hash_exercises(names)).encode())
    folder = course.solutions / assignment
    code = (Path(__file__), Path(declared_cells.__file__))
    for path in [course.root / CONFIG, course.root / SETTINGS, *code, *sorted(folder.rglob("*"))]:
        if path.is_file() and ".ipynb_checkpoints" not in path.parts:
            name = path.relative_to(folder) if path.is_relative_to(folder) else path.name
            data = path.read_bytes()
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _convert(course: Course, assignment: str) -> Files:
    """Return the files that nbgrader's generate_assignment writes into a temporary folder."""
    from nbgrader.converters import GenerateAssignment

    sources = declared_cells.solution_notebooks(course, assignment)
    messages = _Messages()
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        copied = Path(folder) / "source"
        shutil.copytree(course.solutions / assignment, copied / assignment)
        for name, data in sources.items():
            (copied / assignment / name).write_bytes(data)
        config = course.config
        config.SaveCells.enabled = False
        config.CourseDirectory.source_directory = str(copied)
        config.CourseDirectory.release_directory = folder
        config.CourseDirectory.assignment_id = assignment
        coursedir = course.coursedir()
        coursedir.update_config(config)
        converter = GenerateAssignment(
            coursedir=coursedir, config=config, log=messages.logger, no_database=True, force=True
        )
        try:
            converter.start()
        except Exception as error:
            raise BadInputError(
                f"nbgrader cannot make a release of {assignment}: {messages.last or error}. Correct the "
                f"notebook in {course.solutions / assignment}."
            ) from error
        written_to = Path(folder) / "." / assignment
        files = {
            str(path.relative_to(written_to)): path.read_bytes()
            for path in sorted(written_to.rglob("*"))
            if path.is_file()
        }
    return {n: _normalize(d, sources[n]) if n.endswith(".ipynb") else d for n, d in files.items()}


class _Messages(logging.Handler):
    """A log handler that keeps nbgrader's messages, so that an error can name the reason in one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.logger = logging.Logger("nbgrader-release", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    @property
    def last(self) -> str:
        """Return the last line of the traceback that nbgrader logged, else its last message."""
        for text in self.texts:
            if text.startswith("Traceback"):
                return text.strip().splitlines()[-1]
        return self.texts[-1] if self.texts else ""


def _normalize(data: bytes, source: bytes) -> bytes:
    """Return a converted notebook in a form that depends on its source alone.

    It has no outputs and no metadata of the machine that executed it. Each cell has the id of its cell in the
    source, or else an id made from its position.
    """
    notebook = json.loads(data)
    original = json.loads(source)["cells"]
    same_length = len(original) == len(notebook["cells"])
    for place, cell in enumerate(notebook["cells"]):
        given = original[place].get("id") if same_length else None
        cell["id"] = given or f"cell-{place:03d}"
        for noise in _NOISE:
            cell["metadata"].pop(noise, None)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    language = notebook["metadata"].get("language_info", {})
    notebook["metadata"] = {
        "kernelspec": notebook["metadata"].get("kernelspec", {}),
        "language_info": {"name": language.get("name", "python")},
    }
    notebook["nbformat"], notebook["nbformat_minor"] = 4, 5
    return declared_cells.as_bytes(notebook)


def _refuse_leaks(course: Course, assignment: str, files: Files) -> None:
    """Raise BadInputError if a release would give away a secret; name the folder to correct."""
    for leak in audit.leaks(course, {f"{assignment}/{name}": data for name, data in files.items()}):
        raise BadInputError(f"the release would give away {leak} Its source is {course.solutions}.")
