"""Declare the options and exit codes that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autograder.course.errors import BadInputError
from autograder.course.workers import MOST_WORKERS

NOT_PASSED = 1
"""The exit code of a command whose check did not pass."""
BAD_INPUT = 2
"""The exit code of a command whose input cannot be used."""
COURSE = "course"
"""The key under which a command's context keeps the value of --course."""


def _work_there(context: typer.Context, folder: Path) -> Path:
    """Make the course's folder the working folder until the command ends, as if it were run there."""
    if folder == Path():
        return folder
    before = Path.cwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise BadInputError(
            f"--course {folder} must be a folder that holds nbgrader_config.py ({error.strerror})."
        ) from error
    context.call_on_close(lambda: os.chdir(before))
    context.meta[COURSE] = str(folder)
    return Path()


def given_arguments(context: typer.Context) -> list[str]:
    """Return the arguments that the user gave, without --course and --db, to repeat the command."""
    given: list[str] = []
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in ("course", "db"):
            continue
        values = value if isinstance(value, list | tuple) else [value]
        option = parameter.opts[0] if parameter.param_type_name == "option" else None
        for one in values:
            given += [option] if option and one is True else [option, str(one)] if option else [str(one)]
    return given


Assignments = Annotated[
    list[str] | None,
    typer.Argument(help="Assignments, such as ch02_qkv; all by default.", show_default=False),
]
Assignment = Annotated[str, typer.Argument(help="The assignment, such as ch02_qkv.", show_default=False)]
Student = Annotated[str, typer.Argument(help="The id of the student.", show_default=False)]
CourseFolder = Annotated[
    Path,
    typer.Option(
        "--course",
        help="The course's folder, which holds nbgrader_config.py. The command runs as if you were in that "
        "folder: relative paths start there.",
        show_default="here",
        callback=_work_there,
    ),
]
Gradebook = Annotated[
    str | None,
    typer.Option(
        "--db",
        help="The gradebook's address: sqlite:///FILE, or postgresql://USER@HOST/DATABASE with the password "
        "in ~/.pgpass.",
        show_default="as in nbgrader_config.py",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
AllowUnsafe = Annotated[
    bool, typer.Option("--allow-unsafe", help="Grade even where no sandbox works; see `autograder doctor`.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        help="Number of worker processes; by default one for each core.",
        min=1,
        max=MOST_WORKERS,
        envvar="AUTOGRADER_WORKERS",
    ),
]


def examples(*lines: str) -> str:
    """Return the examples for the end of a command's help, one on each line."""
    return "[bold]Examples[/]\n\n" + "\n\n".join(f"  $ {line}" for line in lines)
