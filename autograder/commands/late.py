"""Define the command ``autograder late``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, say
from autograder.commands.options import CourseFolder, Gradebook, Json, examples
from autograder.commands.terminal import escape
from autograder.course.layout import SETTINGS, Course

EPILOG = examples("autograder late", "autograder late --percent 10 --grace 1", "autograder late --percent 0")


def note_stale(course: Course, assignments: list[str]) -> None:
    """Print a note if late penalties are older than the marks, as after marking by hand."""
    from autograder.grading import gradebook
    from autograder.grading.late import count_stale

    rows = [row for assignment in assignments for row in gradebook.read(course, assignment)]
    if count := count_stale(course, rows):
        penalties = plural(count, "late penalty is", "late penalties are")
        say(f"[yellow]note:[/] {penalties} older than the marks. Run autograder grade, then this command.")


def late(
    percent: Annotated[
        float | None,
        typer.Option(help="Percentage of points that late work loses for each day begun.", min=0, max=100),
    ] = None,
    grace: Annotated[
        float | None, typer.Option(help="Days after the due date that cost nothing.", min=0)
    ] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Show or set the penalty for late days, and update the penalties of all graded work.

    The rule is in nbgrader_config.json, so that nbgrader's own commands use it too.
    """
    from autograder.grading.late import LateRule, describe, read_rule
    from autograder.roster import extensions

    here = Course.at(course, db)
    rule, changes = read_rule(here), None
    if percent is not None or grace is not None:
        given = rule.percent if percent is None else percent, rule.grace if grace is None else grace
        rule = LateRule(*given)
        changes = extensions.set_late_rule(here, rule)
    if as_json:
        print_json(asdict(rule) | {"changes": [asdict(change) for change in changes or ()]})
        return
    out.print(escape(describe(here, rule)), soft_wrap=True)
    if changes is not None:
        say(f"written into {SETTINGS}; {plural(len(changes), 'penalty', 'penalties')} changed")
