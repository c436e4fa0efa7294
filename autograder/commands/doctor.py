"""``autograder doctor``."""

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
    """Says what this machine gives the course and what it lacks. Ends with 1 if something will not work."""
    from autograder.proof import doctor as examining

    try:
        here = Course.at(course)
    except BadInputError:
        here = None
    findings = examining.examine(here)
    well = all(finding.level != "problem" for finding in findings)
    if as_json:
        from autograder.grading import cages

        told = [{"what": f.what, "level": f.level, "says": f.says} for f in findings]
        print_json({"ok": well, "tier": cages.strongest().tier, "findings": told}, indent=1)
    else:
        marks = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "problem": "[bold red]✗[/]"}
        for finding in findings:
            out.print(
                f"{marks[finding.level]} [bold]{finding.what}[/]: {escape(finding.says)}", soft_wrap=True
            )
    raise typer.Exit(0 if well else NOT_PASSED)
