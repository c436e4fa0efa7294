"""``autograder check``."""

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
        str, typer.Argument(help="Such as ch02_qkv/softmax, or softmax.", show_default=False)
    ],
    files: Annotated[list[Path], typer.Argument(help="Python files or notebooks.", show_default=False)],
    seed: Annotated[
        int | None,
        typer.Option(help="Draws the hidden cases; by default the course's own, else at random.", min=0),
    ] = None,
    call_limit: Annotated[float, typer.Option(help="Seconds that one call may take.", min=0.1)] = 5.0,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Grades one function in plain files by the hidden cases; needs no course, gradebook or nbgrader.

    With --json it prints one line a file as soon as that file is graded. Ends with 1 if one did not pass.
    """
    from autograder.course.files import read_seed
    from autograder.grading.plain_files import check as grade_files
    from autograder.grading.session import Limits

    if seed is None:
        seed = read_seed(Course(course).state)
    limits = Limits(call_seconds=call_limit, cell_seconds=max(call_limit, 10.0))
    passed = True
    for one in grade_files(exercise, files, seed, limits, allow_unsafe):
        passed &= one.passed
        if as_json:
            print_json(one.as_dict())
        else:
            out.print(f"[bold]{escape(one.file)}[/]", soft_wrap=True)
            out.print(str(one.report), markup=False, soft_wrap=True, style="green" if one.passed else None)
    raise typer.Exit(0 if passed else NOT_PASSED)
