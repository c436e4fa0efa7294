"""Declare the options and exit codes that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.course.workers import MOST_WORKERS

NOT_PASSED = 1
"""The exit code of a command whose check did not pass."""
BAD_INPUT = 2
"""The exit code of a command whose input cannot be used."""

Assignments = Annotated[
    list[str] | None,
    typer.Argument(help="Such as ch02_qkv; all assignments by default.", show_default=False),
]
CourseFolder = Annotated[
    Path,
    typer.Option(
        "--course", help="The course's folder, which holds nbgrader_config.py.", show_default="here"
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
