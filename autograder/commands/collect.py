"""Define the command ``autograder collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, progress, say
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
        Path, typer.Argument(help="The zip archive from the platform, or a folder.", show_default=False)
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="canvas, moodle, gradescope, github, exchange (of nbgrader) or folder.",
            show_default="recognised",
        ),
    ] = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="The folder to copy the notebooks into.")
    ] = Path("submitted"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Copy submissions from a platform's archive into the folder that `grade` reads.

    Keep each notebook that a newer one replaces in .autograder/replaced/. Exit with status 2 if a submission
    could not be taken.
    """
    from autograder.platforms.collect import collect as collect_submissions

    here = Course.at(course)
    (assignment,) = here.chosen([assignment])
    with progress("collecting"):
        done = collect_submissions(here, assignment, source, submissions, platform)
    if as_json:
        print_json(done.as_dict())
    else:
        counts = (("new", done.written), ("replaced", done.replaced), ("unchanged", done.unchanged))
        counted = ", ".join(f"{len(students)} {status}" for status, students in counts)
        out.print(f"{counted}, from {done.platform}, in {escape(str(submissions))}/", soft_wrap=True)
        for remark in done.remarks:
            say(f"[yellow]look:[/] {escape(remark)}")
        for problem in done.problems:
            say(f"[bold red]not taken:[/] {escape(problem)}")
    raise typer.Exit(BAD_INPUT if done.problems else 0)
