"""Define the command ``autograder bundle``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, progress
from autograder.commands.options import (
    Assignments,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples(
    "autograder bundle gradescope ch02_qkv --output autograder.zip",
    "autograder bundle classroom ch02_qkv",
    "autograder bundle student ch02_qkv ch03_scaling",
    "autograder bundle all",
)


def bundle(
    kind: Annotated[
        str,
        typer.Argument(help="gradescope, classroom, student, instructor, or all.", show_default=False),
    ],
    assignments: Assignments = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file of a single bundle; bundles/NAME.zip by default."),
    ] = None,
    index: Annotated[
        str,
        typer.Option(
            "--extra-index-url",
            help="pip's option of this name, written into each bundle except the one for GitHub Classroom. "
            "With the CPU index from PyTorch's Get started page, Linux does not download gigabytes of CUDA "
            "libraries.",
        ),
    ] = "",
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Make zip files for Gradescope, for GitHub Classroom, for students or for a colleague.

    No bundle contains a seed, a grade or a student's data. The command overwrites bundles, no other files.
    """
    from autograder.platforms import bundles

    here = Course.at(course)
    if kind not in bundles.KINDS:
        raise BadInputError(f"no bundle is called {kind!r}. The bundles are: {', '.join(bundles.KINDS)}.")
    with progress("making bundles"):
        new_bundles = bundles.KINDS[kind](here, here.chosen(assignments or []), index)
        paths = bundles.write(here, new_bundles, output)
    if as_json:
        print_json([str(path) for path in paths])
    elif kind == "all":
        out.print(f"{plural(len(paths), 'bundle')} in {escape(str(paths[0].parent))}/", soft_wrap=True)
    else:
        for path in paths:
            out.print(f"{escape(str(path))} ({path.stat().st_size >> 10} KiB)", soft_wrap=True)
