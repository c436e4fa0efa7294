"""Print what ``autograder rename`` and ``autograder merge`` have moved, and update the reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from autograder.commands.console import out, print_json, say
from autograder.commands.terminal import escape
from autograder.course.layout import Course

if TYPE_CHECKING:
    from autograder.roster.move import Moved


def show(course: Course, moved: Moved, as_json: bool) -> None:
    """Print a move, and first update each report that names the old id."""
    from autograder.reports import class_page

    pages = class_page.write_again(course, moved.old)
    if as_json:
        reports = [str(path.relative_to(course.root)) for path in pages]
        print_json(asdict(moved) | {"reports": reports})
        return
    work = ", ".join(moved.assignments) or "no work"
    out.print(escape(f"{moved.old} is now {moved.new}, with {work}"), soft_wrap=True)
    for assignment in moved.set_aside:
        say(f"the other version of {assignment} is in .autograder/replaced/{assignment}/{escape(moved.new)}/")
    for change in moved.penalties:
        say(f"the late penalty of {change.assignment} was {change.before:g} and is now {change.after:g}")
    if any((course.feedback / moved.new / name).is_dir() for name in moved.assignments):
        say("Run autograder feedback to update the pages that name the old id.")
