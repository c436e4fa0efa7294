"""Write a page of feedback for each graded notebook, with nbgrader's own exporter, several pages at once.

A page is written again only if its sources have changed: the graded notebook, its rows in the gradebook, and
the code that makes pages.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from autograder.checking import report
from autograder.course.errors import BadInputError
from autograder.course.files import FULL, require_writable, write_atomically, write_if_changed
from autograder.course.layout import CONFIG, Course
from autograder.course.workers import Progress, cores, end_with_parent
from autograder.grading import gradebook
from autograder.grading.gradebook import Row
from autograder.grading.submissions import SECRET
from autograder.reports import feedback_page, safe_html

FILES_BESIDE = ("timestamp.txt", SECRET)
"""Files beside a page that nbgrader's `release_feedback` reads: the time of submission and the secret."""
RECORD = "feedback.json"
"""The file in the course's state with the fingerprint of each page."""
FEW = 6
"""Up to this number, pages are made in this process: to start others would take longer."""


@dataclass(frozen=True)
class Page:
    """One page of feedback, its source, and a hash of everything that it is made from."""

    assignment: str
    student: str
    notebook: str
    source: Path
    target: Path
    fingerprint: str


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
    pages, missing = _pages(course, gradebook.read_all(course, assignments))
    if not pages:
        raise BadInputError(
            f"nothing of {', '.join(assignments)} is graded yet. Run: autograder grade --submissions DIR"
        )
    record = course.state / RECORD
    known = _read_record(record)
    stale = [page for page in pages if force or not _is_current(page, known)]
    progress(0, len(stale))
    unwritten: dict[Page, str] = {}
    try:
        for done, (page, why) in enumerate(_render_all(course, stale, workers), 1):
            if why:
                unwritten[page] = f"{page.target.parent} ({why})"
                known.pop(_key(page), None)
            else:
                known[_key(page)] = page.fingerprint
            progress(done, len(stale))
    except SQLAlchemyError as error:
        raise gradebook.cannot_be_used(course, error) from error
    course.make_private()
    write_if_changed(record, json.dumps(known, indent=1, sort_keys=True).encode())
    unchanged = tuple(page.target for page in pages if page not in stale)
    written = tuple(page.target for page in stale if page not in unwritten)
    return FeedbackRun(written, unchanged, tuple(missing), tuple(unwritten.values()))


def current_pages(course: Course, rows: Mapping[str, list[Row]]) -> dict[str, list[Path]]:
    """Return the pages that are up to date, by assignment.

    Args:
        course: the course.
        rows: the rows of the gradebook, by assignment.
    """
    pages, _ = _pages(course, rows)
    known = _read_record(course.state / RECORD)
    current = [page for page in pages if _is_current(page, known)]
    return {name: [page.target for page in current if page.assignment == name] for name in rows}


def _is_current(page: Page, known: dict[str, str]) -> bool:
    return known.get(_key(page)) == page.fingerprint and page.target.is_file()


def _pages(course: Course, rows: Mapping[str, list[Row]]) -> tuple[list[Page], list[str]]:
    """Return all pages, and a remark for each student in the gradebook without a graded notebook."""
    pages, missing = [], []
    code_digest = hashlib.sha256((course.root / CONFIG).read_bytes())
    templates = (path for path in sorted(feedback_page.TEMPLATES.rglob("*")) if path.is_file())
    modules = (Path(name) for name in (__file__, feedback_page.__file__, report.__file__, safe_html.__file__))
    for code in (*modules, *templates):
        code_digest.update(code.read_bytes())
    for assignment, of_assignment in rows.items():
        for row in of_assignment:
            sources = sorted((course.autograded / row.student / assignment).glob("*.ipynb"))
            if not sources:
                missing.append(
                    f"{row.student} has points for {assignment} but no graded notebook: grade again"
                )
            for source in sources:
                digest = code_digest.copy()
                digest.update(source.read_bytes() + json.dumps(asdict(row), sort_keys=True).encode())
                digest.update(b"".join(path.read_bytes() for path in _beside(source)))
                target = course.feedback / row.student / assignment / f"{source.stem}.html"
                pages.append(Page(assignment, row.student, source.stem, source, target, digest.hexdigest()))
    return pages, missing


def _beside(source: Path) -> list[Path]:
    return [path for path in map(source.with_name, FILES_BESIDE) if path.is_file()]


def _key(page: Page) -> str:
    return f"{page.student}/{page.assignment}/{page.notebook}"


def _read_record(record: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(record.read_bytes())
        return known
    except (OSError, ValueError):
        return {}


def _render_all(course: Course, pages: list[Page], workers: int | None) -> Iterator[tuple[Page, str]]:
    """Write the pages, and yield each page with the reason why it was not written, if there is one."""
    if len(pages) <= FEW:
        for page in pages:
            yield page, render(course, page)
        return
    count = min(workers or cores(), len(pages))
    with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
        yield from zip(pages, pool.map(render, [course] * len(pages), pages, chunksize=4), strict=True)


_exporters: dict[Course, Any] = {}


def render(course: Course, page: Page) -> str:
    """Write one page; return the reason if it cannot be written, else an empty text."""
    from nbgrader.converters import GenerateFeedback

    if course not in _exporters:
        quiet = logging.Logger("nbgrader-feedback", logging.CRITICAL)
        converter = GenerateFeedback(coursedir=course.coursedir(), config=course.config, log=quiet)
        exporter = converter.exporter_class(parent=converter, config=converter.config)
        for preprocessor in converter.preprocessors:
            exporter.register_preprocessor(preprocessor)
        _exporters[course] = exporter
    resources = {
        "unique_key": page.notebook,
        "output_files_dir": f"{page.notebook}_files",
        "nbgrader": {
            "student": page.student,
            "assignment": page.assignment,
            "notebook": page.notebook,
            "db_url": course.db_url,
        },
    }
    try:
        html, _ = _exporters[course].from_filename(str(page.source), resources=resources)
    except (OSError, SQLAlchemyError):
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
