"""Feedback: a page for each graded notebook, made by nbgrader's own exporter, several at once.

Only what has changed is made again: a page depends on the graded notebook, on what the gradebook says of it,
and on the code that makes it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
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
from autograder.grading.submissions import SECRET
from autograder.reports import feedback_page, safe_html

BESIDE = ("timestamp.txt", SECRET)
"""What nbgrader's `release_feedback` wants beside a page: when it was handed in, and for whom the page is."""
FEW = 6
"""Up to so many pages are made here: starting other processes would take longer."""


@dataclass(frozen=True)
class Page:
    """One page of feedback and what it is made from."""

    assignment: str
    student: str
    notebook: str
    source: Path
    target: Path
    fingerprint: str


@dataclass(frozen=True)
class Given:
    """What one run did."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    missing: tuple[str, ...]
    unwritten: tuple[str, ...] = ()
    """The folders that a page could not be written to, and why."""


def give(
    course: Course,
    assignments: list[str],
    *,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = lambda done, total: None,
) -> Given:
    """Writes ``feedback/<student>/<assignment>/<notebook>.html`` for all that is graded.

    Raises:
        BadInputError: nothing is graded, the folder cannot be written, or the gradebook cannot be read.
    """
    gradebook.require(course)
    require_writable(course.feedback)
    require_writable(course.state)
    pages, missing = _pages(course, assignments)
    if not pages:
        raise BadInputError(
            f"nothing of {', '.join(assignments)} is graded yet. Run: autograder grade --submissions DIR"
        )
    memory = course.state / "feedback.json"
    known = _known(memory)
    stale = [p for p in pages if force or known.get(_name(p)) != p.fingerprint or not p.target.is_file()]
    progress(0, len(stale))
    unwritten: dict[Page, str] = {}
    try:
        for done, (page, why) in enumerate(_rendered(course, stale, workers), 1):
            if why:
                unwritten[page] = f"{page.target.parent} ({why})"
                known.pop(_name(page), None)
            else:
                known[_name(page)] = page.fingerprint
            progress(done, len(stale))
    except SQLAlchemyError as error:
        raise gradebook.cannot_be_used(course, error) from error
    course.make_private()
    write_if_changed(memory, json.dumps(known, indent=1, sort_keys=True).encode())
    unchanged = tuple(page.target for page in pages if page not in stale)
    made = tuple(page.target for page in stale if page not in unwritten)
    return Given(made, unchanged, tuple(missing), tuple(unwritten.values()))


def _pages(course: Course, assignments: list[str]) -> tuple[list[Page], list[str]]:
    """The pages to be had, and a remark for each entry in the gradebook without a graded notebook."""
    pages, missing = [], []
    maker = hashlib.sha256((course.root / CONFIG).read_bytes())
    templates = (path for path in sorted(feedback_page.TEMPLATES.rglob("*")) if path.is_file())
    modules = (Path(name) for name in (__file__, feedback_page.__file__, report.__file__, safe_html.__file__))
    for code in (*modules, *templates):
        maker.update(code.read_bytes())
    for assignment in assignments:
        for row in gradebook.read(course, assignment):
            sources = sorted((course.autograded / row.student / assignment).glob("*.ipynb"))
            if not sources:
                missing.append(
                    f"{row.student} has points for {assignment} but no graded notebook: grade again"
                )
            for source in sources:
                told = maker.copy()
                told.update(source.read_bytes() + json.dumps(asdict(row), sort_keys=True).encode())
                told.update(b"".join(path.read_bytes() for path in _beside(source)))
                target = course.feedback / row.student / assignment / f"{source.stem}.html"
                pages.append(Page(assignment, row.student, source.stem, source, target, told.hexdigest()))
    return pages, missing


def _beside(source: Path) -> list[Path]:
    return [path for path in map(source.with_name, BESIDE) if path.is_file()]


def _name(page: Page) -> str:
    return f"{page.student}/{page.assignment}/{page.notebook}"


def _known(memory: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(memory.read_bytes())
        return known
    except (OSError, ValueError):
        return {}


def _rendered(course: Course, pages: list[Page], workers: int | None) -> Iterator[tuple[Page, str]]:
    """Makes the pages, and yields each when it is written, with what stood in its way."""
    if len(pages) <= FEW:
        for page in pages:
            yield page, render(course, page)
        return
    count = min(workers or cores(), len(pages))
    with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
        yield from zip(pages, pool.map(render, [course] * len(pages), pages, chunksize=4), strict=True)


_exporters: dict[Course, Any] = {}


def render(course: Course, page: Page) -> str:
    """Makes one page, and says why it could not be written, if it could not."""
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
    except Exception as error:  # no notebook may cost the others their feedback
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
