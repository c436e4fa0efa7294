"""Define the command ``autograder forget``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, say
from autograder.commands.options import NOT_PASSED, CourseFolder, Gradebook, Json, Student, examples
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples("autograder forget ada01", "autograder forget ada01 --yes")


def forget(
    student: Student,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Remove a student from the course: work, points, marks, comments, feedback, verdicts, list entries.

    Exit with status 1 if a file that the grader did not write still names the student, and list such files.
    """
    import sys

    from autograder.reports import class_page
    from autograder.roster import forget as removal
    from autograder.roster import traces

    here = Course.at(course, db)
    person = removal.require_trace(here, student)
    work = ", ".join(sorted({each.assignment for each in traces.works(here, student)})) or "no work"
    if not yes:
        if not sys.stdin.isatty():
            raise BadInputError(f"{student} ({work}) would be removed for good. To do that, add --yes.")
        typer.confirm(f"Remove {student} ({work}) for good?", abort=True, err=True)
    done = removal.forget(here, person)
    class_page.write_again(here, student)
    done.left = [str(path.relative_to(here.root)) for path in removal.files_that_name(here, person)]
    if as_json:
        print_json(asdict(done))
    else:
        parts = (
            plural(done.files, "file"),
            plural(done.submissions, "submission"),
            plural(done.verdicts, "verdict"),
        )
        out.print(escape(f"{student} is forgotten: {', '.join(parts)}"), soft_wrap=True)
        for path in done.left:
            say(
                f"[yellow]look:[/] {escape(path)} still names {escape(student)}; change or delete it yourself"
            )
    raise typer.Exit(NOT_PASSED if done.left else 0)
