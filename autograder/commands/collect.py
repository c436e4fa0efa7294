"""Define the command ``autograder collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, progress, say
from autograder.commands.options import (
    BAD_INPUT,
    Assignment,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder collect ch02_qkv submissions.zip",
    "autograder collect ch02_qkv ~/Downloads/attention-classroom --from github",
    "autograder collect ch02_qkv drive.zip --names who.csv",
)


def collect(
    assignment: Assignment,
    source: Annotated[
        Path, typer.Argument(help="The zip archive from the platform, or a folder.", show_default=False)
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="blackboard, brightspace, canvas, exchange (of nbgrader), folder, github, google, "
            "gradescope, ilias, moodle or teams.",
            show_default="recognised",
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            help="A CSV table with the columns file and student, for files that do not name their student.",
            show_default=False,
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="The time zone, such as Europe/Berlin, of times that the archive gives without a zone.",
            show_default="this computer's",
        ),
    ] = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="The folder to copy the notebooks into.")
    ] = Path("submitted"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Copy submissions from a platform's archive into the folder that `grade` reads.

    The report accounts for every file of the archive. Notebooks that were replaced are kept in
    .autograder/replaced/. The exit status is 2 if a student handed in no usable notebook, or if it is not
    clear which notebook counts.
    """
    from autograder.platforms.account import OUTCOMES
    from autograder.platforms.collect import collect as collect_submissions

    here = Course.at(course)
    (assignment,) = here.chosen([assignment])
    with progress("collecting"):
        done = collect_submissions(here, assignment, source, submissions, platform, names, timezone)
    if as_json:
        print_json(done.as_dict())
    else:
        counts = (("new", done.written), ("replaced", done.replaced), ("unchanged", done.unchanged))
        counted = ", ".join(f"{len(students)} {status}" for status, students in counts)
        out.print(f"{counted}, from {done.platform}, in {escape(str(submissions))}/", soft_wrap=True)
        files = ", ".join(f"{count} {OUTCOMES[outcome]}" for outcome, count in done.counts.items())
        out.print(f"{plural(len(done.entries), 'file')}: {files}", soft_wrap=True)
        for remark in done.remarks:
            say(f"[yellow]look:[/] {escape(remark)}")
        for problem in done.problems:
            say(f"[bold red]not taken:[/] {escape(problem)}")
    raise typer.Exit(BAD_INPUT if done.problems else 0)
