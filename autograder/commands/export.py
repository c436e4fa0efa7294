"""``autograder export``."""

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
    assignments: Assignments = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="csv for a spreadsheet; canvas or moodle with --into; gradescope for a results.json of each "
            "student in the folder --output.",
        ),
    ] = "csv",
    into: Annotated[
        Path | None,
        typer.Option(
            help="The file that the platform gave, to be filled: Canvas's exported gradebook, Moodle's "
            "grading worksheet. It is only read."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; stdout by default.")] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
) -> None:
    """Prints the grades as a table: a line for each student and assignment.

    Who could not be graded has a line without points; the last column says why. A platform's file is given
    back with the grades of those whom it names.
    """
    from autograder.course.files import require_writable, write_atomically
    from autograder.platforms import export as exporting

    here = Course.at(course, db)
    if format == "gradescope":
        if output is None or output.is_file():
            raise BadInputError("--format gradescope writes into a folder. Name one with --output.")
        files, notes = exporting.results(here, here.chosen(assignments or []), output)
        say(f"{plural(len(files), 'file')} in {escape(str(output))}")
        for note in notes:
            say(f"[yellow]note:[/] {escape(note)}")
        return
    text, notes = exporting.table(here, here.chosen(assignments or []), format, into)
    if output is None:
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        if output.is_dir():
            raise BadInputError(f"{output} is a folder. Name a file to write.")
        if not output.parent.exists():
            raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another.")
        require_writable(output.parent)
        write_atomically(output, text.encode())
        say(f"{plural(len(text.splitlines()) - 1, 'line')} in {escape(str(output))}")
    for note in notes:
        say(f"[yellow]note:[/] {escape(note)}")
