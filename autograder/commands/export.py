"""Define the command ``autograder export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import as_json_text, plural, say
from autograder.commands.late import note_stale
from autograder.commands.options import (
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
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
    "autograder export ch02_qkv --format table --into exam.csv --columns student=Matrikelnummer "
    "--assignment-column Punkte --output upload.csv",
    "autograder export --student ada01 --output ada01.zip",
)


Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="csv for a spreadsheet; canvas, moodle, blackboard, brightspace, ilias or table (any other "
        "table) with --into; gradescope for a results.json per student, in the folder of --output.",
    ),
]
Into = Annotated[
    Path | None,
    typer.Option(
        help="The platform's own file to fill in, such as Canvas's exported gradebook. The original "
        "itself is not changed."
    ),
]
AssignmentColumn = Annotated[
    str,
    typer.Option(
        help="The column of grades in --into: its heading, such as 'Sheet 2 (4711)', its title, such "
        "as 'Sheet 2', or its number, counted from 1.",
        show_default="the assignment's name",
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help="The other columns in --into, such as student=3,max=Punkte: who the student is, the maximum "
        "points (max) and whether a grade can be changed (open).",
        show_default="by their headings",
    ),
]


def export(
    context: typer.Context,
    assignments: Assignments = None,
    format: Format = "csv",
    into: Into = None,
    assignment_column: AssignmentColumn = "",
    columns: Columns = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; stdout by default.")
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(help="Write everything that is kept about this student into the zip file of --output."),
    ] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Print the grades as a table with one line for each student and assignment.

    A student who handed in nothing, or whose submission could not be graded, has a line without points; the
    last column gives the reason. With --into print the platform's file with the grades of its students
    filled in; the encoding, separator and quotes stay as they were.
    """
    from autograder.platforms import export as grades
    from autograder.platforms import exported

    here = Course.at(course, db)
    if student is not None:
        if assignments or as_json or into or columns or assignment_column or format != "csv":
            raise BadInputError(
                "--student takes no assignments and no option but --output, --db and --course."
            )
        _write_personal_data(here, student, output)
        return
    chosen = here.chosen(assignments or [])
    _require_format(format, fills_in=bool(into or columns or assignment_column))
    if as_json and format != "csv":
        raise BadInputError(
            f"--json and --format exclude each other. Leave out --json, or --format {format}."
        )
    hashes = exported.hash_all(here, chosen) if output else {}
    if format == "gradescope":
        if output is None or output.is_file():
            raise BadInputError("--format gradescope writes into a folder. Name one with --output.")
        files, notes = grades.results(here, chosen, output)
        say(f"{plural(len(files), 'file')} in {escape(str(output))}")
    elif as_json:
        data, notes = grades.as_data(here, chosen)
        text = as_json_text(data)
        _write(text.encode(), text, plural(len(data), "line"), output)
    elif format == "csv":
        text, notes = grades.table(here, chosen)
        _write(text.encode(), text, plural(len(text.splitlines()) - 1, "line"), output)
    else:
        if into and output and output.resolve() == into.resolve():
            raise BadInputError(f"{output} is the file of --into, which is not changed. Name another file.")
        filled = grades.platform_table(here, chosen, format, into, columns, assignment_column)
        _write(filled.data, filled.text, plural(len(filled.given), "grade"), output)
        notes = filled.notes
    if output:
        exported.remember(here, hashes, given_arguments(context))
    for note in notes:
        say(f"[yellow]note:[/] {escape(note)}")
    note_stale(here, chosen)


def _require_format(format: str, fills_in: bool) -> None:
    from autograder.platforms.export import FORMATS
    from autograder.platforms.gradebook_formats import PLATFORMS

    if format not in FORMATS:
        raise BadInputError(f"no format is called {format!r}. The formats are: {', '.join(FORMATS)}.")
    if fills_in and format not in PLATFORMS:
        raise BadInputError(
            f"--format {format} fills in no file, so it takes no --into, --columns or --assignment-column. "
            f"Name the platform with --format: {', '.join(PLATFORMS)}."
        )


def _write(data: bytes, text: str, what: str, output: Path | None) -> None:
    """Write the table to a file, or print it: on a terminal without control characters."""
    from autograder.course.files import require_writable, write_atomically

    if output is None:
        typer.echo(visible(text) if sys.stdout.isatty() else data, nl=False)
        return
    if output.is_dir():
        raise BadInputError(f"{output} is a folder. Name a file to write.")
    if not output.parent.exists():
        raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another folder.")
    require_writable(output.parent)
    write_atomically(output, data)
    say(f"{what} in {escape(str(output))}")


def _write_personal_data(course: Course, student: str, output: Path | None) -> None:
    from autograder.course.files import require_writable, write_atomically
    from autograder.packages.wheels import pack_zip
    from autograder.roster import personal_data
    from autograder.roster.forget import require_trace

    if output is None or output.is_dir() or not output.parent.is_dir():
        raise BadInputError("--student writes a zip file. Name it with --output, in a folder that exists.")
    require_writable(output.parent)
    files = personal_data.collect_data(course, require_trace(course, student))
    write_atomically(output, pack_zip(files), mode=0o600)
    say(f"{plural(len(files), 'file')} in {escape(str(output))}")
