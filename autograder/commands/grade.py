"""Define the command ``autograder grade``."""

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
        Path,
        typer.Option("--submissions", "-s", help="The folder with <student>/<assignment>/<notebook>.ipynb."),
    ] = Path("submitted"),
    executor: Annotated[
        str,
        typer.Option(
            help="processes: several notebooks at once; local: one after another, to debug; dask: on the "
            "cluster whose scheduler is at DASK_SCHEDULER_ADDRESS."
        ),
    ] = "processes",
    workers: Workers = None,
    cell_limit: Annotated[
        float, typer.Option(help="Time limit of one cell, in seconds.", min=0.1, max=86400)
    ] = 30.0,
    memory: Annotated[
        int, typer.Option(help="Memory limit of one submission, in MiB.", min=64, max=1 << 20)
    ] = 2048,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the hidden cases; by default the course's secret seed.", min=0),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also grade unchanged submissions.")] = False,
    allow_unsafe: AllowUnsafe = False,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Grade submissions, enter the points into nbgrader's gradebook and write autograded/.

    Submissions that have not changed since they were graded are skipped. If a submission cannot be read, the
    command lists it, grades the others, and exits with status 2.
    """
    from autograder.grading import batch
    from autograder.grading.session import Limits

    limits = Limits(
        cell_seconds=cell_limit, call_seconds=min(cell_limit, Limits.call_seconds), memory_bytes=memory << 20
    )
    with progress("grading") as show_progress:
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
            progress=show_progress,
        )
    if as_json:
        print_json(done.as_dict())
    else:
        tables.batch(done, out, err)
    if done.problems or done.unwritten:
        raise typer.Exit(BAD_INPUT)
