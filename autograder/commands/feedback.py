"""Define the command ``autograder feedback``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, progress, say
from autograder.commands.options import (
    BAD_INPUT,
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
    Workers,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples("autograder feedback", "autograder feedback ch02_qkv --force")


def feedback(
    assignments: Assignments = None,
    force: Annotated[bool, typer.Option("--force", help="Write every page again.")] = False,
    workers: Workers = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Write a page of feedback for each graded notebook, unless its page is up to date."""
    from autograder.reports.feedback import write_feedback

    here = Course.at(course, db)
    with progress("feedback") as show_progress:
        done = write_feedback(
            here, here.chosen(assignments or []), workers=workers, force=force, progress=show_progress
        )
    if as_json:
        files = [str(path.relative_to(here.root)) for path in done.written]
        print_json(
            {
                "written": files,
                "unchanged": len(done.unchanged),
                "missing": done.missing,
                "unwritten": done.unwritten,
            }
        )
    else:
        pages = plural(len(done.written), "page")
        out.print(f"{pages} written, {len(done.unchanged)} unchanged, in {here.feedback.name}/")
    for remark in done.missing:
        say(f"[yellow]note:[/] {escape(remark)}")
    for path in done.unwritten:
        say(f"[bold red]not written:[/] {escape(path)}")
    if done.unwritten:
        say("The other pages are made. Give yourself permission to write there, then run this again.")
        raise typer.Exit(BAD_INPUT)
