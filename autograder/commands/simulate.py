"""``autograder simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, progress
from autograder.commands.options import (
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
    assignments: Assignments = None,
    students: Annotated[int, typer.Option(help="How many hand in.", min=1, max=10_000)] = 200,
    seed: Annotated[
        int, typer.Option(help="Draws the class; the same seed makes the same class.", min=0)
    ] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")] = Path("simulated"),
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Makes up a class to try a term with: honest, mistaken, partial, broken and hostile students.

    The folder holds what they hand in, for `collect`, and truth.json: who has what, and how many have each
    mistake. Hostile notebooks are real attacks. Grade them only where `doctor` finds tier A or B.
    """
    from autograder.proof.samples import simulate as simulating

    here = Course.at(course)
    chosen = here.chosen(assignments or [])
    with progress("simulating") as told:
        truth = simulating.simulate(here, chosen, output, students, seed, told)
    if as_json:
        print_json(truth)
        return
    for assignment, about in truth["assignments"].items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in about["kinds"].items())
        out.print(f"{assignment}: {kinds}; {about['late']} after {about['due']}", soft_wrap=True)
    out.print(
        f"What they hand in is in {escape(str(output))}/, the truth in truth.json there.", soft_wrap=True
    )
