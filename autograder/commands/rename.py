"""Define the command ``autograder rename``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.moved import show
from autograder.commands.options import CourseFolder, Gradebook, Json, examples
from autograder.course.layout import Course

EPILOG = examples("autograder rename lovelaceada_4711 ada01")


def rename(
    old: Annotated[str, typer.Argument(help="The present id.", show_default=False)],
    new: Annotated[str, typer.Argument(help="The new id, which no student has yet.", show_default=False)],
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Give a student another id, with all work, points, marks, comments and feedback.

    If the run is interrupted, type the same command again.
    """
    from autograder.roster import move

    here = Course.at(course, db)
    show(here, move.rename(here, old, new), as_json)
