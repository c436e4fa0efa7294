"""Define the command ``autograder release``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json, progress
from autograder.commands.options import (
    BAD_INPUT,
    Assignments,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder release",
    "autograder release ch02_qkv ch03_scaling",
    "autograder release --variant spring --variant autumn",
)


def release(
    assignments: Assignments = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace notebooks that somebody worked in (--variant always does); keep a copy as *.orig.",
        ),
    ] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="Name of a variant with other numbers, in variants/NAME/."),
    ] = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Make the students' notebooks from the solutions; write only the notebooks that changed.

    Before that, the command updates the solutions: test cells, points, table of exercises, time and heading
    numbers come from the declarations of the exercises.

    Exit with status 2 if a notebook was kept because somebody worked in it.

    With --variant write the release to variants/NAME/ instead, with other numbers in the worked examples and
    the written questions; write the matching answers to .autograder/variants/NAME/.
    """
    from autograder.release.publish import publish, write_variants

    here = Course.at(course)
    if variant:
        with progress("releasing"):
            folders = write_variants(here, here.chosen(assignments or []), variant)
        paths = [str(folder.relative_to(here.root)) for folder in folders]
        if as_json:
            print_json(paths)
        else:
            for path in paths:
                out.print(path, soft_wrap=True)
        return
    with progress("releasing"):
        done = publish(here, here.chosen(assignments or []), force)
    if as_json:
        print_json([asdict(released) for released in done])
    else:
        for released in done:
            colour = {"written": "green", "unchanged": "dim", "kept": "yellow"}[released.status]
            note = f": {released.note}" if released.note else ""
            others = [name for name in released.files if not name.endswith(".ipynb")]
            files = f" (with {', '.join(others)})" if others else ""
            out.print(
                f"{released.assignment}  [{colour}]{released.status}[/]{escape(files + note)}", soft_wrap=True
            )
            for name in released.solutions:
                path = escape(here.shown(here.solutions / released.assignment / name))
                written = "test cells, points, table, time and heading numbers written"
                out.print(f"  {path}: {written}", soft_wrap=True)
            for name in released.undefined:
                out.print(
                    f"  [yellow]no cell defines `{escape(name)}`[/]. Add a code cell with its stub, or "
                    f"take `{escape(name)}` out of ORDER in "
                    f"autograder/exercises/{released.assignment}/__init__.py.",
                    soft_wrap=True,
                )
    if any(released.status == "kept" for released in done):
        raise typer.Exit(BAD_INPUT)
