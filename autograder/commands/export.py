"""Define the command ``autograder export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import plural, say
from autograder.commands.options import (
    Assignments,
    CourseFolder,
    Gradebook,
    examples,
    given_arguments,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.visible import visible

EPILOG = examples(
    "autograder export --output grades.csv",
    "autograder export ch02_qkv --format canvas --into gradebook.csv --output upload.csv",
)


def export(
    context: typer.Context,
    assignments: Assignments = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="csv for a spreadsheet; canvas or moodle with --into; gradescope for one results.json "
            "for each student, in the folder of --output.",
        ),
    ] = "csv",
    into: Annotated[
        Path | None,
        typer.Option(
            help="The platform's own file, to be filled in: Canvas's exported gradebook or Moodle's grading "
            "worksheet. This file itself is not changed."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; stdout by default.")
    ] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
) -> None:
    """Print the grades as a table with one line for each student and assignment.

    A submission that could not be graded has a line without points; the last column gives the reason. With
    --into print the platform's file, with the grades of the students in it filled in.
    """
    from autograder.course.files import require_writable, write_atomically
    from autograder.platforms import export as grades
    from autograder.platforms import exported

    here = Course.at(course, db)
    hashes = exported.hash_all(here, here.chosen(assignments or [])) if output else {}
    if format == "gradescope":
        if output is None or output.is_file():
            raise BadInputError("--format gradescope writes into a folder. Name one with --output.")
        files, notes = grades.results(here, here.chosen(assignments or []), output)
        exported.remember(here, hashes, given_arguments(context))
        say(f"{plural(len(files), 'file')} in {escape(str(output))}")
        for note in notes:
            say(f"[yellow]note:[/] {escape(note)}")
        return
    text, notes = grades.table(here, here.chosen(assignments or []), format, into)
    if output is None:
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        if output.is_dir():
            raise BadInputError(f"{output} is a folder. Name a file to write.")
        if not output.parent.exists():
            raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another.")
        require_writable(output.parent)
        write_atomically(output, text.encode())
        exported.remember(here, hashes, given_arguments(context))
        say(f"{plural(len(text.splitlines()) - 1, 'line')} in {escape(str(output))}")
    for note in notes:
        say(f"[yellow]note:[/] {escape(note)}")
