"""``autograder release``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, print_json
from autograder.commands.options import (
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
        typer.Option("--force", help="Replace notebooks that somebody worked in; a copy is kept as *.orig."),
    ] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="A student or class that gets other numbers, in variants/NAME/."),
    ] = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Makes the students' notebooks from the solutions; only what changed is written.

    Test cells, points, the table of exercises, the time and the numbers of headings are written into the
    solutions first, as the exercises declare them.

    Ends with 2 if one was kept because somebody worked in it.

    With --variant the release goes to variants/NAME/ instead, with other numbers in the worked examples and
    the written questions; the answers that go with them are put in .autograder/variants/NAME/.
    """
    from autograder.release.publish import publish, write_variants

    here = Course.at(course)
    if variant:
        folders = write_variants(here, here.chosen(assignments or []), variant)
        paths = [str(folder.relative_to(here.root)) for folder in folders]
        if as_json:
            print_json(paths)
        else:
            for path in paths:
                out.print(path, soft_wrap=True)
        return
    done = publish(here, here.chosen(assignments or []), force)
    if as_json:
        print_json([asdict(one) for one in done])
    else:
        for one in done:
            colour = {"written": "green", "unchanged": "dim", "kept": "yellow"}[one.status]
            note = f": {one.note}" if one.note else ""
            beside = [name for name in one.files if not name.endswith(".ipynb")]
            files = f" (with {', '.join(beside)})" if beside else ""
            out.print(f"{one.assignment}  [{colour}]{one.status}[/]{escape(files + note)}", soft_wrap=True)
            for name in one.solutions:
                path = escape(str((here.solutions / one.assignment / name).relative_to(here.root)))
                out.print(f"  {path}: test cells, table, time and numbers written", soft_wrap=True)
            for name in one.undefined:
                out.print(
                    f"  [yellow]no cell defines `{escape(name)}`[/]. Add a code cell with its stub, or take "
                    f"`{escape(name)}` out of ORDER in autograder/exercises/{one.assignment}/__init__.py.",
                    soft_wrap=True,
                )
    if any(one.status == "kept" for one in done):
        raise typer.Exit(2)
