"""Define the command ``autograder adopt``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.commands.console import out, plural, print_json, progress, say
from autograder.commands.options import BAD_INPUT, CourseFolder, Gradebook, Json, examples
from autograder.commands.terminal import escape
from autograder.course.layout import Course

if TYPE_CHECKING:
    from autograder.grading.adopt import Adopted

EPILOG = examples("autograder adopt", "autograder adopt ~/last_year/gradebook.db --json")


def adopt(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The gradebook of stock nbgrader; by default the course's own gradebook.db, if stock "
            "nbgrader made it.",
            show_default=False,
        ),
    ] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Take over a gradebook of stock nbgrader: students, points, marks by hand, comments and extra credit.

    Cells are matched by their grade_id. Marks that the gradebook already contains stay. The command first
    keeps a copy of each gradebook in .autograder/adopted/. It exits with status 2 if marks could not be taken
    over; they are listed, and are in the copy.
    """
    from autograder.grading.adopt import adopt as take_over

    with progress("adopting"):
        done = take_over(Course.at(course, db), file)
    if as_json:
        print_json(asdict(done) | {"copies": [str(path) for path in done.copies], "changed": done.changed})
    else:
        _print(done)
    raise typer.Exit(BAD_INPUT if done.left else 0)


def _print(done: Adopted) -> None:
    if done.changed:
        counts = ((done.students, "student"), (done.submissions, "submission"), (done.scores, "score"))
        counted = ", ".join(plural(number, thing) for number, thing in (*counts, (done.comments, "comment")))
        out.print(f"{', '.join(done.assignments)}: {counted} taken over", soft_wrap=True)
    else:
        out.print("Everything is in the gradebook already; nothing has changed.")
    for path in done.copies:
        out.print(f"a copy is in {escape(str(path))}", soft_wrap=True)
    for name in done.not_in_course:
        say(f"[yellow]note:[/] {escape(name)} is not an assignment of this course; it is not taken over")
    for note in done.notes:
        say(f"[yellow]note:[/] {escape(note)}")
    groups = Counter((one.assignment, one.cell, one.reason) for one in done.left)
    for (assignment, cell, reason), number in groups.items():
        about = escape(f"{cell} of {assignment}, {plural(number, 'student')}: {reason}")
        say(f"[bold red]not taken:[/] {about}")
    if done.left:
        say("--json lists each student's marks that were not taken. They are in the copy.")
