"""Options and exit codes that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.course.workers import MOST_WORKERS

NOT_PASSED = 1
"""The exit code where a check did not pass."""
BAD_INPUT = 2
"""The exit code where something given cannot be used."""

Assignments = Annotated[
    list[str] | None,
    typer.Argument(help="Such as ch02_qkv; all, if none is named.", show_default=False),
]
CourseFolder = Annotated[
    Path,
    typer.Option(
        "--course", help="The course's folder, the one with nbgrader_config.py.", show_default="here"
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
    bool, typer.Option("--allow-unsafe", help="Grade also where no walls hold; see `autograder doctor`.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        help="How many at once; by default one for each core.",
        min=1,
        max=MOST_WORKERS,
        envvar="AUTOGRADER_WORKERS",
    ),
]


def examples(*lines: str) -> str:
    """Examples for the end of a command's help, one a line."""
    return "[bold]Examples[/]\n\n" + "\n\n".join(f"  $ {line}" for line in lines)
