"""Define the command ``autograder doctor``."""

from __future__ import annotations

from pathlib import Path

import typer

from autograder.commands.console import out, print_json
from autograder.commands.options import (
    NOT_PASSED,
    CourseFolder,
    Json,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples("autograder doctor", "autograder doctor --json")


def doctor(course: CourseFolder = Path(), as_json: Json = False) -> None:
    """Examine this machine and list the missing requirements of the course.

    Exit with status 1 if a part of the course will not work here.
    """
    from autograder.proof import doctor as examination

    try:
        here = Course.at(course)
    except BadInputError:
        here = None
    findings = examination.examine(here)
    ok = all(finding.level != "problem" for finding in findings)
    if as_json:
        from autograder.grading import cages

        as_data = [{"what": f.what, "level": f.level, "says": f.says} for f in findings]
        print_json({"ok": ok, "tier": cages.strongest().tier, "findings": as_data}, indent=1)
    else:
        marks = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "problem": "[bold red]✗[/]"}
        for finding in findings:
            out.print(
                f"{marks[finding.level]} [bold]{finding.what}[/]: {escape(finding.says)}", soft_wrap=True
            )
    raise typer.Exit(0 if ok else NOT_PASSED)
