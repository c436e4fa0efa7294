"""Write a page of feedback for each graded notebook, with nbgrader's own exporter, several pages at once.

A page is written again only if its sources have changed: the graded notebook, its rows in the gradebook, and
the code that makes pages.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nbconvert.exporters import Exporter

from autograder.course.errors import BadInputError
from autograder.course.files import (
    FULL,
    read_record,
    require_writable,
    write_atomically,
    write_if_changed,
    write_record,
)
from autograder.course.layout import CONFIG, SETTINGS, Course
from autograder.course.lock import hold_lock, require_no_move
from autograder.course.workers import Progress, cores, end_with_parent, processes_with, start_server
from autograder.grading import gradebook
from autograder.grading.marks import NotebookMarks, read_marks
from autograder.grading.submissions import SECRET, TIME
from autograder.release import versions
from autograder.reports import feedback_page

FILES_BESIDE = (TIME, SECRET)
"""Files beside a page that nbgrader's `release_feedback` reads: the time of submission and the secret."""
PAGES_OF_A_WORKER = 40
"""The fewest pages that justify another process, since starting it takes about as long as they do."""
CONVERTERS = "nbgrader.converters"
"""The module of nbgrader's own command. Importing it takes a second, so only code for pages does so."""
IMPORTED = ["autograder.course.without_servers", __name__, CONVERTERS]
"""The modules that the processes of a pool share."""
RECORD = "feedback.json"
"""The file in the course's state with the fingerprint of each page."""
LIBRARIES = ("nbconvert", "nbgrader", "nh3", "jinja2", "mistune", "pygments", "docutils", "beautifulsoup4")
"""The libraries that lay out a page."""


@dataclass(frozen=True)
class Page:
    """One page of feedback, its sources, and a hash of everything that it is made from."""

    assignment: str
    source: Path
    target: Path
    marks: NotebookMarks
    fingerprint: str

    @property
    def key(self) -> str:
        """Return the name of the page in the record of the pages that are up to date."""
        return f"{self.marks.student}/{self.assignment}/{self.marks.notebook}"


@dataclass(frozen=True)
class FeedbackRun:
    """The results of one run."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    missing: tuple[str, ...]
    unwritten: tuple[str, ...] = ()
    """The folders where a page could not be written, each with the reason."""


def write_feedback(
    course: Course,
    assignments: list[str],
    *,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = lambda done, total: None,
) -> FeedbackRun:
    """Write ``feedback/<student>/<assignment>/<notebook>.html`` for all graded notebooks.

    Args:
        course: the course.
        assignments: the names of the assignments.
        workers: the number of processes; by default one for each core.
        force: write also the pages that have not changed.
        progress: is called with the numbers (done, total).

    Raises:
        BadInputError: nothing is graded, the folder cannot be written, or the gradebook cannot be read.
    """
    gradebook.require(course)
    require_writable(course.feedback)
    require_writable(course.state)
    if _workers_for(_count_without_page(course, assignments), workers) > 1:
        start_server(IMPORTED)
    with hold_lock(course):  # from here on nobody is forgotten or renamed
        require_no_move(course)
        pages, missing = _pages(course, assignments)
        if not pages:
            raise BadInputError(f"nothing of {', '.join(assignments)} is graded yet. Run: autograder grade")
        record = course.state / RECORD
        known = read_record(record)
        stale = [page for page in pages if force or not _is_current(page, known)]
        progress(0, len(stale))
        unwritten: dict[str, str] = {}
        try:
            for done, (page, why) in enumerate(_render_all(course, stale, workers), 1):
                if why:
                    unwritten[page.key] = f"{page.target.parent} ({why})"
                    known.pop(page.key, None)
                else:
                    known[page.key] = page.fingerprint
                progress(done, len(stale))
        finally:  # so the run after a stop makes no page again
            course.make_private()
            write_record(record, known)
    made = {page.key for page in stale}
    unchanged = tuple(page.target for page in pages if page.key not in made)
    written = tuple(page.target for page in stale if page.key not in unwritten)
    return FeedbackRun(written, unchanged, tuple(missing), tuple(unwritten.values()))


def _count_without_page(course: Course, assignments: list[str]) -> int:
    """Return for how many students there is a folder of graded notebooks, but none of pages yet."""
    folders = (len([*course.autograded.glob(f"*/{name}")]) for name in assignments)
    made = (len([*course.feedback.glob(f"*/{name}")]) for name in assignments)
    return sum(folders) - sum(made)


def _workers_for(pages: int, workers: int | None) -> int:
    return min(workers or cores(), pages // PAGES_OF_A_WORKER)


def current_pages(course: Course, assignments: list[str]) -> dict[str, list[Path]]:
    """Return the pages that are up to date, by assignment."""
    pages, _ = _pages(course, assignments)
    known = read_record(course.state / RECORD)
    current = [page for page in pages if _is_current(page, known)]
    return {name: [page.target for page in current if page.assignment == name] for name in assignments}


def _is_current(page: Page, known: dict[str, str]) -> bool:
    return known.get(page.key) == page.fingerprint and page.target.is_file()


def _pages(course: Course, assignments: list[str]) -> tuple[list[Page], list[str]]:
    """Return all pages, and a remark for each notebook with only points or only a graded file."""
    pages, missing = [], []
    code_digest = _hash_layout(course)
    for assignment in assignments:
        for marks in read_marks(course, assignment):
            source = course.autograded / marks.student / assignment / f"{marks.notebook}.ipynb"
            if not source.is_file():
                missing.append(
                    f"{marks.student} has points for {assignment} but no graded notebook: grade again"
                )
                continue
            digest = code_digest.copy()
            digest.update(source.read_bytes() + json.dumps(asdict(marks), sort_keys=True).encode())
            digest.update(b"".join(path.read_bytes() for path in _beside(source)))
            target = course.feedback / marks.student / assignment / f"{marks.notebook}.html"
            pages.append(Page(assignment, source, target, marks, digest.hexdigest()))
    with_marks = {page.source for page in pages}
    for folder in sorted({page.source.parent for page in pages}):
        for source in sorted({*folder.glob("*.ipynb")} - with_marks):
            missing.append(f"{'/'.join(source.parts[-3:])} is not in the gradebook: grade again")
    return pages, missing


def _hash_layout(course: Course) -> Any:
    """Return the hash of what all pages are made from: configuration, code, templates and libraries."""
    code = versions.hash_modules([__name__, feedback_page.__name__], LIBRARIES)
    digest = hashlib.sha256(code.encode())
    settings = (course.root / CONFIG, course.root / SETTINGS)
    for path in (*settings, *sorted(feedback_page.TEMPLATES.rglob("*"))):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest


def _beside(source: Path) -> list[Path]:
    return [path for path in map(source.with_name, FILES_BESIDE) if path.is_file()]


def _render_all(course: Course, pages: list[Page], workers: int | None) -> Iterator[tuple[Page, str]]:
    """Write the pages, and yield each page with the reason why it was not written, if there is one."""
    count = _workers_for(len(pages), workers)
    if count < 2:
        exporter = _exporter(course)
        yield from ((page, render(exporter, page)) for page in pages)
        return
    with ProcessPoolExecutor(count, processes_with(IMPORTED), _start_worker, (course,)) as pool:
        yield from zip(pages, pool.map(_render_here, pages, chunksize=4), strict=True)


_worker_exporters: list[Exporter] = []
"""The exporter of this process, if it is a worker of a pool."""


def _start_worker(course: Course) -> None:
    end_with_parent()
    _worker_exporters.append(_exporter(course))


def _render_here(page: Page) -> str:
    return render(_worker_exporters[0], page)


def _exporter(course: Course) -> Exporter:
    """Return nbgrader's own exporter, as the course's configuration describes it."""
    quiet = logging.Logger("nbgrader-feedback", logging.CRITICAL)
    converter = import_module(CONVERTERS).GenerateFeedback(
        coursedir=course.coursedir(), config=course.config, log=quiet
    )
    exporter = converter.exporter_class(parent=converter, config=converter.config)
    for preprocessor in converter.preprocessors:
        exporter.register_preprocessor(preprocessor)
    return exporter


def render(exporter: Exporter, page: Page) -> str:
    """Write one page; return the reason if it cannot be written, else an empty text."""
    resources = {
        "unique_key": page.marks.notebook,
        "output_files_dir": f"{page.marks.notebook}_files",
        "nbgrader": {
            "student": page.marks.student,
            "assignment": page.assignment,
            "notebook": page.marks.notebook,
            "marks": page.marks,
        },
    }
    try:
        html, _ = exporter.from_filename(str(page.source), resources=resources)
    except OSError:
        raise
    except Exception as error:  # no notebook may stop the feedback on others
        return f"it cannot be laid out: {type(error).__name__}: {error}"
    try:
        for path in _beside(page.source):
            write_if_changed(page.target.with_name(path.name), path.read_bytes())
        write_atomically(page.target, html.encode())
    except OSError as error:
        if error.errno in FULL:
            raise
        return error.strerror or str(error)
    return ""
