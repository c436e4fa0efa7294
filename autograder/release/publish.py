"""Makes the student's notebooks from the solutions, through nbgrader's own converter.

What a student gets is checked before it is put anywhere, and put there whole. A notebook that somebody has
worked in is never overwritten unasked.
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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from autograder import exercises
from autograder.course import variants
from autograder.course.errors import BadInputError
from autograder.course.files import Files, read_if_there, require_writable, write_atomically, write_if_changed
from autograder.course.layout import CONFIG, Course
from autograder.packages import colab
from autograder.release import audit, declared_cells, versions
from autograder.release.audit import source

_NOISE = ("execution", "collapsed", "scrolled", "ExecuteTime", "vscode", "jupyter", "trusted")


@dataclass(frozen=True)
class Published:
    """What became of one assignment: its files as they now stand in the release folder."""

    assignment: str
    status: Literal["written", "unchanged", "kept"]
    files: tuple[str, ...]
    note: str = ""
    solutions: tuple[str, ...] = ()
    """Solution notebooks in which test cells, table, time or numbers were written anew."""
    undefined: tuple[str, ...] = ()
    """Exercises that no cell of the notebooks defines."""


def made(course: Course, assignment: str, variant: str | None = None) -> Files:
    """The release of an assignment, as `publish` would write it.

    Args:
        course: the course.
        assignment: which.
        variant: the student or class that gets other numbers; see `autograder.course.variants`.

    Raises:
        BadInputError: nbgrader refuses the source, or a solution would be given away.
    """
    files, remember = _files(course, assignment, variant)
    _refuse_leaks(course, assignment, files)
    remember()
    return files


Remember = Callable[[], None]


def _files(course: Course, assignment: str, variant: str | None = None) -> tuple[Files, Remember]:
    """The release, before anybody has looked whether it gives something away."""
    converted, remember = _converted(course, assignment)
    cell = colab.first_cell(course)
    files = {
        name: _finished(data, assignment, variant, cell) if name.endswith(".ipynb") else data
        for name, data in converted.items()
    }
    return files, remember


def _converted(course: Course, assignment: str) -> tuple[Files, Remember]:
    """What nbgrader makes of the source, and a way to remember it until that or what it is held to change."""
    fingerprint = _fingerprint(course, assignment)
    memory = course.state / "released" / f"{assignment}.json"
    try:
        remembered = json.loads(memory.read_bytes())
        if remembered["fingerprint"] == fingerprint:
            known = {name: base64.b64decode(data) for name, data in remembered["files"].items()}
            return known, lambda: None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    files = _convert(course, assignment)

    def remember() -> None:
        told = {name: base64.b64encode(data).decode() for name, data in files.items()}
        with contextlib.suppress(OSError):  # a course on a read-only disk is converted again each time
            course.make_private()
            write_atomically(memory, json.dumps({"fingerprint": fingerprint, "files": told}).encode())

    return files, remember


def notebook_names(course: Course, assignment: str) -> list[str]:
    """The names of an assignment's notebooks, without ``.ipynb``."""
    return sorted(path.stem for path in _sources(course, assignment))


def _sources(course: Course, assignment: str) -> Iterable[Path]:
    return (course.solutions / assignment).glob("*.ipynb")


def notebooks(course: Course, assignment: str) -> Files:
    """The released notebooks of an assignment, by name without ``.ipynb``, as the grader reads them.

    A cell's source is one string in them, where nbgrader writes a list of lines.
    """
    found = {}
    files, remember = _files(course, assignment)
    remember()
    for name, data in files.items():
        if name.endswith(".ipynb"):
            notebook = json.loads(data)
            for cell in notebook["cells"]:
                cell["source"] = source(cell)
            found[name.removesuffix(".ipynb")] = json.dumps(
                notebook, ensure_ascii=False, sort_keys=True
            ).encode()
    return found


def _finished(data: bytes, assignment: str, variant: str | None, first: dict[str, Any] | None) -> bytes:
    """The notebook with its first cell and the numbers of a variant, without the comments on these."""
    notebook = json.loads(data)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = variants.apply_variant(source(cell), f"{assignment} {cell['id']}", variant)
            cell["source"] = text.splitlines(keepends=True)
    return declared_cells.as_bytes(colab.insert_first_cell(notebook, first))


def give_variants(course: Course, assignments: list[str], names: list[str]) -> list[Path]:
    """Writes a release of its own for each student or class, and for the teacher the answers that go with it.

    The releases lie in ``variants/<name>/<assignment>/``, the answers in ``.autograder/variants/<name>/``.

    Raises:
        BadInputError: a name is not fit for a folder, or a release is refused.
    """
    for name in names:
        if not re.fullmatch(r"\w[\w.@+-]*", name):
            raise BadInputError(f"a variant is named like a folder, by letters and digits; got {name!r}")
    every = {(n, a): made(course, a, n) for n in names for a in assignments}
    keys = {(n, a): answers(course, a, n) for n in names for a in assignments}
    written = []
    course.make_private()
    for (name, assignment), files in every.items():
        folder = course.root / "variants" / name / assignment
        _put(folder, files, True, {})
        key = course.state / "variants" / name / f"{assignment}.md"
        write_if_changed(key, keys[name, assignment].encode())
        written.append(folder)
    return written


def answers(course: Course, assignment: str, variant: str | None = None) -> str:
    """The written questions' answers and mark schemes, with the numbers of a variant if one is named."""
    told = [f"# {assignment}, variant {variant}" if variant else f"# {assignment}"]
    for path in sorted((course.solutions / assignment).glob("*.ipynb")):
        for cell in json.loads(path.read_bytes())["cells"]:
            marks = cell.get("metadata", {}).get("nbgrader", {})
            if cell["cell_type"] == "markdown" and marks.get("solution"):
                where = f"{assignment} {cell.get('id') or marks['grade_id']}"
                told += [f"## {marks['grade_id']}", variants.apply_variant(source(cell), where, variant)]
    return "\n\n".join(told) + "\n"


def publish(course: Course, assignments: list[str], force: bool = False) -> list[Published]:
    """Writes the releases into the release folder; nothing is written if one of them is refused.

    Args:
        course: the course.
        assignments: which.
        force: replaces a notebook that somebody has worked in; what it held is kept beside it as ``*.orig``.

    Raises:
        BadInputError: a release is refused, or the folder cannot be written.
    """
    require_writable(course.notebooks)
    every = {assignment: made(course, assignment) for assignment in assignments}
    published = []
    course.make_private()
    for assignment, files in every.items():
        solutions, undefined = _write_solutions(course, assignment)
        record = course.state / "releases" / f"{assignment}.json"
        ours: dict[str, list[str]] = json.loads(read_if_there(record) or b"{}")
        done = _put(course.notebooks / assignment, files, force, ours)
        published.append(replace(done, solutions=solutions, undefined=undefined))
        if done.status != "kept":
            for name, data in files.items():
                before = [known for known in ours.get(name, []) if known != _digest(data)]
                ours[name] = [*before, _digest(data)][-MOST_RELEASES:]
            write_if_changed(record, json.dumps(ours).encode())
    return published


def _write_solutions(course: Course, assignment: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write what the exercises declare into the solution notebooks.

    Returns:
        The names of the files that changed, and the exercises that no notebook defines.
    """
    files = declared_cells.solutions(course, assignment)
    folder = course.solutions / assignment
    changed = tuple(name for name, data in files.items() if read_if_there(folder / name) != data)
    if changed:
        require_writable(folder)
    for name in changed:
        write_atomically(folder / name, files[name])
    return changed, tuple(declared_cells.missing(files, assignment))


MOST_RELEASES = 100
"""Of a file, that are known as the course's own: who goes back to one by git has not worked in it."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _put(folder: Path, files: Files, force: bool, ours: dict[str, list[str]]) -> Published:
    """Puts a release in its folder, unless somebody worked there since `ours`, the hashes of all before."""
    there = {name: read_if_there(folder / name) for name in files}
    names = tuple(sorted(files))
    if there == files:
        return Published(folder.name, "unchanged", names)
    worked_in = [
        name
        for name, data in there.items()
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
                write_atomically(new / f"{name}.orig", there[name] or b"")
            write_atomically(new / name, data)
        old = new.with_name(f"{new.name}-old")
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Published(folder.name, "written", names)


def _is_work(path: Path, data: bytes, ours: list[str]) -> bool:
    """Whether somebody worked in a file, which then was never put there as it is, nor committed."""
    if _digest(data) in ours:
        return False
    if path.suffix == ".ipynb" and _has_answers(data):
        return True
    return bool(ours) and not _is_committed(path)


def _has_answers(data: bytes) -> bool:
    """Whether a notebook has outputs, or an answer that is not as it was released."""
    import nbformat
    from nbgrader.utils import compute_checksum

    try:
        cells = nbformat.reads(data.decode(), as_version=4).cells
        marked = [(cell, cell.metadata.get("nbgrader", {})) for cell in cells]
        return any(cell.get("outputs") for cell in cells) or any(
            "checksum" in marks and marks["checksum"] != compute_checksum(cell) for cell, marks in marked
        )
    except Exception:  # whatever it is, it is not ours to overwrite
        return True


def _is_committed(path: Path) -> bool:
    """Whether git has the file as it is."""
    command = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", "--", path.name]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        command[3:] = ["diff", "--quiet", "HEAD", "--", path.name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # there is no git
        return False


def _fingerprint(course: Course, assignment: str) -> str:
    """Tells whether anything has changed that the release is made from, or held against."""
    known = assignment in exercises.assignments()
    told = hashlib.sha256(json.dumps(versions.of_assignment(assignment) if known else {}).encode())
    folder = course.solutions / assignment
    code = (Path(__file__), Path(declared_cells.__file__))
    for path in [course.root / CONFIG, *code, *sorted(folder.rglob("*"))]:
        if path.is_file() and ".ipynb_checkpoints" not in path.parts:
            name = path.relative_to(folder) if path.is_relative_to(folder) else path.name
            data = path.read_bytes()
            told.update(f"{name}\0{len(data)}\0".encode() + data)
    return told.hexdigest()


def _convert(course: Course, assignment: str) -> Files:
    """Runs nbgrader's generate_assignment into a temporary folder, without a gradebook."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException

    sources = declared_cells.solutions(course, assignment)
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
        except (NbGraderException, Exception) as error:
            raise BadInputError(
                f"nbgrader cannot make a release of {assignment}: {messages.last or error}. Correct the "
                f"notebook in {course.solutions / assignment}."
            ) from error
        made_in = Path(folder) / "." / assignment
        files = {
            str(path.relative_to(made_in)): path.read_bytes()
            for path in sorted(made_in.rglob("*"))
            if path.is_file()
        }
    return {n: _steady(d, sources[n]) if n.endswith(".ipynb") else d for n, d in files.items()}


class _Messages(logging.Handler):
    """Keeps what nbgrader says, so that the reason of a failure can be told in one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self.logger = logging.Logger("nbgrader-release", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    @property
    def last(self) -> str:
        """The first line of the exception that nbgrader logged, or its last message."""
        for text in self.said:
            if text.startswith("Traceback"):
                return text.strip().splitlines()[-1]
        return self.said[-1] if self.said else ""


def _steady(data: bytes, source: bytes) -> bytes:
    """The notebook in the one form that the same source always gives.

    No outputs, no traces of the machine it was executed on, and the source's own cell ids or, where it has
    none, ids made from names and places.
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
    """Refuses a release that would give away what students must not see; says where to mend it."""
    for found in audit.leaks(course, {f"{assignment}/{name}": data for name, data in files.items()}):
        raise BadInputError(f"the release would give away {found} Its source is {course.solutions}.")
