"""Define the command ``autograder extension``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, say
from autograder.commands.options import Assignment, CourseFolder, Gradebook, Json, Student, examples
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples("autograder extension ada01 ch02_qkv 3", "autograder extension ada01 ch02_qkv 0")


def extension(
    student: Student,
    assignment: Assignment,
    days: Annotated[float, typer.Argument(help="Days beyond the due date; 0 for none.", show_default=False)],
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Give a student more time for an assignment, before or after the work is handed in.

    The days count from the due date, even if the student had an extension before. They are kept in class.csv
    and entered into the gradebook with the submission.
    """
    from autograder.roster import extensions

    here = Course.at(course, db)
    (assignment,) = here.chosen([assignment])
    done = extensions.extend(here, student, assignment, days)
    if as_json:
        print_json(done.as_dict())
        return
    more = f"{days:g} more day{'' if days == 1 else 's'}" if days else "no extension"
    until = f"{', until' if days else '; it is due'} {done.until:%Y-%m-%d %H:%M} UTC" if done.until else ""
    out.print(escape(f"{done.student} has {more} for {assignment}{until}"), soft_wrap=True)
    for change in done.changes:
        say(f"the late penalty of {escape(change.student)} was {change.before:g} and is now {change.after:g}")
    if not done.until:
        command = f"nbgrader db assignment add {assignment} --duedate DATE"
        say(f"{assignment} has no due date yet. To set one, run: {command}")
