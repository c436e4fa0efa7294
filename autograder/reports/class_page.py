"""The class at a glance as a page: one file without a script, which loads nothing from elsewhere.

The templates in `templates/overview` lay the page out; this module computes what they show.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder import exercises
from autograder.checking.report import marked_up
from autograder.course.files import require_writable, write_if_changed
from autograder.course.layout import Course
from autograder.course.visible import visible
from autograder.exercises import UnknownExerciseError
from autograder.platforms.export import in_order
from autograder.reports import plagiarism
from autograder.reports.class_report import Overview
from autograder.reports.item_analysis import FEWEST
from autograder.reports.review_queue import KINDS

TEMPLATES = Path(__file__).with_name("templates") / "overview"
BARS = 10
"""Bars of the distribution: one for each tenth of the points."""
MOST_PAIRS = 50
"""The page shows at most this many pairs of near-identical code."""


def write(course: Course, overview: Overview) -> Path:
    """Write the page of this overview to ``reports/<assignment>.html`` and return its path."""
    require_writable(course.reports)
    path = course.reports / f"{overview.assignment}.html"
    write_if_changed(path, as_html(overview).encode())
    return path


def as_html(overview: Overview) -> str:
    """Return the page of this overview. Every value in it is escaped and visible."""
    most = max((item.graded for item in overview.items), default=0)
    chances = [item.by_chance for item in overview.items if item.graded == most]
    page = _environment().get_template("page.html.j2")
    return page.render(
        overview=overview,
        title=_title(overview.assignment),
        median=median(overview.shares) if overview.shares else None,
        tenths=_tenths(overview.shares),
        fewest=FEWEST,
        most_graded=most,
        by_chance=max(chances) if most >= FEWEST else None,
        kinds=KINDS,
        common_from=plagiarism.common_from(len(overview.rows)),
        most_pairs=MOST_PAIRS,
        names=in_order(overview.rows[0]),
    )


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, finalize=_visible, undefined=StrictUndefined
    )
    made.filters |= {
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
        "percent": "{:.0%}".format,
        "with_code": lambda text: Markup(marked_up(text)),
    }
    return made


def _visible(value: Any) -> str:
    """Return any value of the template as visible text: no text of a student can hide or mislead."""
    text = visible(str(value))
    return Markup(text) if isinstance(value, Markup) else text


def _title(assignment: str) -> str:
    try:
        count = len(exercises.names_of(assignment))
    except UnknownExerciseError:
        return assignment
    return f"{assignment}: {count} exercises"


def _tenths(shares: list[float]) -> list[int]:
    """Return how many students have how many tenths of the points; nothing if nobody has any share."""
    counts = [0] * BARS
    for share in shares:
        counts[min(int(share * BARS), BARS - 1)] += 1
    return counts if shares else []
