"""Define the command ``autograder simulate``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, progress
from autograder.commands.options import (
    COURSE,
    Assignments,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder simulate ch02_qkv --students 200 --seed 1",
    "autograder collect ch02_qkv simulated/ch02_qkv",
)


def simulate(
    context: typer.Context,
    assignments: Assignments = None,
    students: Annotated[int, typer.Option(help="Number of students who submit.", min=1, max=10_000)] = 200,
    seed: Annotated[
        int, typer.Option(help="The seed of the class; the same seed makes the same class.", min=0)
    ] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to make.")] = Path("simulated"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Simulate a class to rehearse a term: honest, mistaken, partial, broken and hostile submissions.

    Write the submissions, for `collect`, and truth.json, which lists the kind and the mistakes of each
    submission. Hostile notebooks are real attacks: grade them only if `doctor` reports tier A or B.
    """
    from autograder.proof.samples import simulate as simulation

    here = Course.at(course)
    chosen = here.chosen(assignments or [])
    with progress("simulating") as show_progress:
        truth = simulation.simulate(here, chosen, output, students, seed, show_progress)
    if as_json:
        print_json(truth)
        return
    for assignment, about in truth["assignments"].items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in about["kinds"].items())
        out.print(f"{assignment}: {kinds}; {about['late']} handed in after {about['due']}", soft_wrap=True)
        elsewhere = ["--course", folder] if (folder := context.meta.get(COURSE)) else []
        step = shlex.join(["autograder", "collect", assignment, str(output / assignment), *elsewhere])
        out.print(f"    next: {escape(step)}", soft_wrap=True)
    about_all = "truth.json there lists the kind and the mistakes of each."
    out.print(f"The submissions are in {escape(str(output))}/; {about_all}", soft_wrap=True)
