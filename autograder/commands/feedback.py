"""``autograder feedback``."""

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
    force: Annotated[bool, typer.Option("--force", help="Make every page again.")] = False,
    workers: Workers = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Writes a page of feedback for each graded notebook; only what changed is made again."""
    from autograder.reports.feedback import write_feedback

    here = Course.at(course, db)
    with progress("feedback") as told:
        done = write_feedback(
            here, here.chosen(assignments or []), workers=workers, force=force, progress=told
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
        made = plural(len(done.written), "page")
        out.print(f"{made} written, {len(done.unchanged)} unchanged, in {here.feedback.name}/")
    for remark in done.missing:
        say(f"[yellow]note:[/] {escape(remark)}")
    for where in done.unwritten:
        say(f"[bold red]not written:[/] {escape(where)}")
    if done.unwritten:
        say("The other pages are made. Give yourself permission to write there, then run this again.")
        raise typer.Exit(BAD_INPUT)
