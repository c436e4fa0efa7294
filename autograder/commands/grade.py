"""``autograder grade``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands import tables
from autograder.commands.console import err, out, print_json, progress
from autograder.commands.options import (
    BAD_INPUT,
    AllowUnsafe,
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
    Workers,
    examples,
)
from autograder.course.layout import Course

EPILOG = examples(
    "autograder grade --submissions submitted",
    "autograder grade ch02_qkv --submissions inbox --workers 8 --cell-limit 10",
    "autograder grade --course ~/course --submissions ~/inbox --json > graded.json",
)


def grade(
    assignments: Assignments = None,
    submissions: Annotated[
        Path, typer.Option("--submissions", "-s", help="Holds <student>/<assignment>/<notebook>.ipynb.")
    ] = Path("submitted"),
    executor: Annotated[
        str,
        typer.Option(
            help="processes: several at once; local: one after another, to look into a fault; dask: on the "
            "cluster whose scheduler DASK_SCHEDULER_ADDRESS names."
        ),
    ] = "processes",
    workers: Workers = None,
    cell_limit: Annotated[float, typer.Option(help="Seconds that one cell may take.", min=0.1)] = 30.0,
    memory: Annotated[int, typer.Option(help="Memory that one submission may take, in MiB.", min=64)] = 2048,
    seed: Annotated[
        int | None, typer.Option(help="Draws the hidden cases; by default the course's own secret.", min=0)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade again what was graded before.")] = False,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Grades submissions into nbgrader's gradebook and writes autograded/.

    What was graded before and has not changed is not graded again. A submission that cannot be read is
    listed, the others are graded, and the command ends with 2.
    """
    from autograder.grading import batch
    from autograder.grading.session import Limits

    limits = Limits(
        cell_seconds=cell_limit, call_seconds=min(cell_limit, Limits.call_seconds), memory_bytes=memory << 20
    )
    with progress("grading") as told:
        done = batch.grade(
            Course.at(course, db),
            assignments or [],
            submissions,
            executor=executor,
            workers=workers,
            limits=limits,
            seed=seed,
            force=force,
            allow_unsafe=allow_unsafe,
            progress=told,
        )
    if as_json:
        print_json(done.as_dict())
    else:
        tables.batch(done, out, err)
    if done.problems or done.unwritten:
        raise typer.Exit(BAD_INPUT)
