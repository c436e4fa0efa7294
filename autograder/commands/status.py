"""Define the command ``autograder status``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.commands.console import out, plural, print_json, say
from autograder.commands.options import (
    COURSE,
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

if TYPE_CHECKING:
    from autograder.reports.status import AssignmentStatus

EPILOG = examples("autograder status", "autograder status ch02_qkv --json")


def status(
    context: typer.Context,
    assignments: Assignments = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="The folder of the submissions.")
    ] = Path("submitted"),
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Show for each assignment the steps that are done and the next command. Change nothing.

    Each line has: released, handed in, late, to grade, graded, to be marked by hand, pages of feedback up to
    date, exported. Numbers count students.
    """
    from autograder.course.lock import interrupted_move
    from autograder.reports.status import next_command, read_status

    here = Course.at(course, db)
    if submissions != Path("submitted") and not submissions.is_dir():
        raise BadInputError(f"{submissions} is not a folder. Name the folder of the submissions.")
    found = read_status(here, here.chosen(assignments or []), submissions)
    steps = [next_command(one, str(submissions), context.meta.get(COURSE), db) for one in found]
    if trouble := interrupted_move(here):
        say(f"[yellow]note:[/] {escape(trouble)}")
    if as_json:
        print_json([asdict(one) | {"next": step} for one, step in zip(found, steps, strict=True)])
        return
    for one, step in zip(found, steps, strict=True):
        out.print(f"[bold]{one.assignment}[/]: {', '.join(_parts(one))}", soft_wrap=True)
        if step:
            out.print(f"    next: {escape(step)}", soft_wrap=True)


def _parts(one: AssignmentStatus) -> list[str]:
    """Return the steps of an assignment, done or not, in the order of a term."""
    late = f" ({one.late} late)" if one.late else ""
    exported = {"no": "not exported", "yes": "exported", "changed": "grades changed since the export"}
    pages = plural(one.pages_expected, "page")
    parts = (
        (True, "released" if one.released else "not released"),
        (one.handed_in, f"{one.handed_in} handed in{late}"),
        (one.to_grade, f"{one.to_grade} to grade"),
        (one.not_gradable, f"{one.not_gradable} that cannot be graded"),
        (one.graded, f"{one.graded} graded"),
        (one.by_hand, f"{one.by_hand} to mark by hand"),
        (one.stale_penalties, f"{one.stale_penalties} with a late penalty older than the marks"),
        (one.pages_expected, f"{one.pages} of {pages} of feedback up to date"),
        (one.graded, exported[one.exported]),
    )
    return [text for applies, text in parts if applies]
