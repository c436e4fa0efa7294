"""Define the command ``autograder check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json
from autograder.commands.options import (
    NOT_PASSED,
    AllowUnsafe,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder check ch02_qkv/softmax mine.py yours.py",
    "autograder check ch02_qkv/softmax handed_in/*.ipynb --json",
)


def check(
    exercise: Annotated[
        str, typer.Argument(help="The exercise, such as ch02_qkv/softmax or softmax.", show_default=False)
    ],
    files: Annotated[list[Path], typer.Argument(help="Python files or notebooks.", show_default=False)],
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of the hidden cases: by default the course's secret seed; a random seed without "
            "a course.",
            min=0,
        ),
    ] = None,
    call_limit: Annotated[
        float, typer.Option(help="Time limit of one call, in seconds.", min=0.1, max=86400)
    ] = 5.0,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Grade one function in Python files or notebooks, without a course, a gradebook or nbgrader.

    With --json print a line for each file as soon as it is graded. Exit with status 1 if a file fails.
    """
    from autograder.course.files import read_seed
    from autograder.grading.plain_files import check as grade_files
    from autograder.grading.session import Limits

    if seed is None:
        seed = read_seed(Course(course).state)
    limits = Limits(call_seconds=call_limit, cell_seconds=max(call_limit, 10.0))
    passed = True
    for result in grade_files(exercise, files, seed, limits, allow_unsafe):
        passed &= result.passed
        if as_json:
            print_json(result.as_dict())
        else:
            out.print(f"[bold]{escape(result.file)}[/]", soft_wrap=True)
            out.print(
                str(result.report), markup=False, soft_wrap=True, style="green" if result.passed else None
            )
    raise typer.Exit(0 if passed else NOT_PASSED)
