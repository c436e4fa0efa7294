"""Write the report on a class as a page: one file without scripts, which loads nothing from other hosts.

This module computes the values of the page; the templates in `templates/class_report` are its layout.
"""

from __future__ import annotations

import os
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder import exercises
from autograder.checking.report import marked_up
from autograder.course.errors import BadInputError
from autograder.course.files import require_writable, write_if_changed
from autograder.course.layout import Course
from autograder.course.visible import visible
from autograder.exercises import UnknownExerciseError
from autograder.platforms.export import cells_in_order
from autograder.reports import plagiarism
from autograder.reports.class_report import ClassReport, make_report
from autograder.reports.item_analysis import FEWEST
from autograder.reports.review_queue import KINDS

TEMPLATES = Path(__file__).with_name("templates") / "class_report"
BARS = 10
"""The bars of the distribution: one for each tenth of the points."""
MOST_PAIRS = 50
"""The page shows at most this many pairs of near-identical code."""


def write(course: Course, report: ClassReport) -> Path:
    """Write the page of a report to ``reports/<assignment>.html`` and return its path."""
    require_writable(course.reports)
    path = course.reports / f"{report.assignment}.html"
    autograded = os.path.relpath(course.autograded, course.reports)
    write_if_changed(path, as_html(report, autograded).encode())
    return path


def write_again(course: Course, student: str) -> list[Path]:
    """Rewrite the reports that still name a renamed or a forgotten student.

    Returns:
        The paths of the reports; a report without students is deleted.
    """
    paths = [path for path in sorted(course.reports.glob("*.html")) if path.stem in course.assignments]
    stale = [path for path in paths if student in unescape(path.read_text("utf-8", "replace"))]
    for path in stale:
        try:
            write(course, make_report(course, path.stem))
        except BadInputError:  # nothing is graded any more
            path.unlink()
    return stale


def as_html(report: ClassReport, autograded: str = "../autograded") -> str:
    """Return the page of a report, which links to the folder `autograded`. Every value in it is escaped."""
    most = max((item.graded for item in report.items), default=0)
    chances = [item.by_chance for item in report.items if item.graded == most]
    page = _make_environment().get_template("page.html.j2")
    return page.render(
        report=report,
        autograded=autograded,
        title=_title(report.assignment),
        median=median(report.shares) if report.shares else None,
        tenths=_count_by_tenths(report.shares),
        fewest=FEWEST,
        most_graded=most,
        by_chance=max(chances) if most >= FEWEST else None,
        kinds=KINDS,
        common_from=plagiarism.common_from(len(report.rows)),
        most_pairs=MOST_PAIRS,
        names=cells_in_order(report.rows[0]),
    )


def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, finalize=_visible, undefined=StrictUndefined
    )
    environment.filters |= {
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
        "percent": "{:.0%}".format,
        "with_code": lambda text: Markup(marked_up(text)),
    }
    return environment


def _visible(value: Any) -> str:
    """Return any value of the template as visible text: no text of a student can hide or mislead."""
    text = visible(str(value))
    return Markup(text) if isinstance(value, Markup) else text


def _title(assignment: str) -> str:
    try:
        count = len(exercises.names_of(assignment))
    except UnknownExerciseError:
        return assignment
    return f"{assignment}: {count} exercise{'' if count == 1 else 's'}"


def _count_by_tenths(shares: list[float]) -> list[int]:
    """Return the number of students in each tenth of the points; an empty list if nobody has a share."""
    counts = [0] * BARS
    for share in shares:
        counts[min(int(share * BARS), BARS - 1)] += 1
    return counts if shares else []
