"""Define the command ``autograder audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json
from autograder.commands.options import (
    NOT_PASSED,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples("autograder audit", "autograder audit variants/spring bundle.zip")


def audit(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or zip files; notebooks/ by default.")
    ] = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Search folders and zip files for secrets: solutions, mark schemes, hidden cases, the secret seed.

    Exit with status 1 if a secret is found.
    """
    from autograder.release.audit import leaks_in_folder

    here = Course.at(course)
    leaks = [f"{path}/{leak}" for path in paths or [here.notebooks] for leak in leaks_in_folder(here, path)]
    if as_json:
        print_json(leaks)
    for leak in [] if as_json else leaks:
        out.print(f"[bold red]✗[/] {escape(leak)}", soft_wrap=True)
    if not leaks and not as_json:
        out.print("No secret was found.")
    raise typer.Exit(NOT_PASSED if leaks else 0)
