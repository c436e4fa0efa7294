"""Define the command ``autograder report``."""

from __future__ import annotations

from pathlib import Path

from autograder.commands import tables
from autograder.commands.console import out, print_json, progress
from autograder.commands.options import (
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples("autograder report", "autograder report ch02_qkv --json")


def report(
    assignments: Assignments = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Show a summary of the class and write reports/<assignment>.html."""
    from autograder.reports import class_page, class_report

    here = Course.at(course, db)
    chosen = here.chosen(assignments or [])
    with progress("reporting"):
        reports = [class_report.make_report(here, name) for name in _graded(here, chosen, bool(assignments))]
        paths = [class_page.write(here, one_report) for one_report in reports]
    if as_json:
        print_json([one_report.as_dict() for one_report in reports])
        return
    for one_report, path in zip(reports, paths, strict=True):
        tables.overview(one_report, out)
        out.print(f"[dim]{escape(str(path))}[/]\n", soft_wrap=True)


def _graded(course: Course, chosen: list[str], named: bool) -> list[str]:
    """Return the chosen assignments that have grades, or all chosen assignments if the user named them."""
    from autograder.grading import gradebook

    if named:
        return chosen
    rows = gradebook.read_all(course, chosen)
    graded = [name for name in chosen if rows[name]]
    if not graded:
        raise BadInputError("nothing is graded yet. Run: autograder grade")
    return graded
