"""Define the command ``autograder merge``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.moved import show
from autograder.commands.options import CourseFolder, Gradebook, Json, examples
from autograder.course.layout import Course

EPILOG = examples("autograder merge lovelaceada_4711 ada01", "autograder merge ada_old ada01 --wins ada_old")


def merge(
    old: Annotated[str, typer.Argument(help="The id to remove.", show_default=False)],
    into: Annotated[str, typer.Argument(help="The id to keep.", show_default=False)],
    wins: Annotated[
        str,
        typer.Option(
            help="The id whose work counts if both have work for the same assignment.", show_default=False
        ),
    ] = "",
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Unite two ids of one student, with all work, points, marks, comments and feedback.

    If both have work for one assignment, nothing changes until --wins names the id whose work counts. If the
    run is interrupted, type the same command again.
    """
    from autograder.roster import move

    here = Course.at(course, db)
    show(here, move.merge(here, old, into, wins), as_json)
