"""``autograder collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, say
from autograder.commands.options import (
    BAD_INPUT,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder collect ch02_qkv submissions.zip",
    "autograder collect ch02_qkv ~/Downloads/attention-classroom --from github",
)


def collect(
    assignment: Annotated[str, typer.Argument(help="Such as ch02_qkv.", show_default=False)],
    source: Annotated[
        Path, typer.Argument(help="A zip archive as the platform gives it, or a folder.", show_default=False)
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="canvas, moodle, gradescope, github, exchange (nbgrader's) or folder.",
            show_default="recognised",
        ),
    ] = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="Where the notebooks are put.")
    ] = Path("submitted"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Brings a platform's archive of submissions into the folder that is graded.

    A notebook that is replaced by a newer one is kept in .autograder/replaced/. Ends with 2 if something
    could not be taken.
    """
    from autograder.platforms.collect import collect as take

    here = Course.at(course)
    (assignment,) = here.chosen([assignment])
    done = take(here, assignment, source, submissions, platform)
    if as_json:
        print_json(done.as_dict())
    else:
        counts = (("new", done.written), ("replaced", done.replaced), ("unchanged", done.unchanged))
        told = ", ".join(f"{len(students)} {what}" for what, students in counts)
        out.print(f"{told}, from {done.platform}, in {escape(str(submissions))}/", soft_wrap=True)
        for remark in done.remarks:
            say(f"[yellow]look:[/] {escape(remark)}")
        for problem in done.problems:
            say(f"[bold red]not taken:[/] {escape(problem)}")
    raise typer.Exit(BAD_INPUT if done.problems else 0)
