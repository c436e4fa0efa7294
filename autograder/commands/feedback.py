"""Define the command ``autograder feedback``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.commands.console import out, plural, print_json, progress, say
from autograder.commands.late import note_stale
from autograder.commands.options import (
    BAD_INPUT,
    Assignments,
    CourseFolder,
    Gradebook,
    Json,
    Workers,
    examples,
)
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

if TYPE_CHECKING:
    from autograder.platforms.return_feedback import Returned
    from autograder.reports.feedback import FeedbackRun

EPILOG = examples(
    "autograder feedback",
    "autograder feedback ch02_qkv --force",
    "autograder feedback ch02_qkv --for moodle",
    "autograder feedback ch02_qkv --for mail --sender teacher@school.org",
)


def feedback(
    assignments: Assignments = None,
    platform: Annotated[
        str,
        typer.Option(
            "--for",
            help="Pack the pages too: moodle, canvas or gradescope for an archive, mail for a mailbox file.",
            show_default="no archive",
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder for the archives.", show_default="reports/"),
    ] = None,
    sender: Annotated[
        str,
        typer.Option(help="The sender's address in mails.", show_default="the address in your mail program"),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Write every page again.")] = False,
    workers: Workers = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Write a page of feedback for each graded notebook, unless its page is up to date.

    With --for, also pack the pages of each assignment into one archive for that platform. Exit with
    status 2 if a student has no up-to-date page or no place in the archive.
    """
    from autograder.grading import gradebook
    from autograder.platforms import return_feedback
    from autograder.reports.feedback import write_feedback
    from autograder.reports.status import count_to_grade

    here = Course.at(course, db)
    chosen = here.chosen(assignments or [])
    if output and not platform:
        raise BadInputError("--output is the folder for the archives, so it needs --for.")
    if platform or sender:
        return_feedback.require_known(platform, sender)
    with progress("feedback") as show_progress:
        done = write_feedback(here, chosen, workers=workers, force=force, progress=show_progress)
    returned = None
    if platform:
        pages = [*done.written, *done.unchanged]
        returned = return_feedback.pack(here, platform, pages, output or here.reports, sender)
    _print_pages(here, done, returned, as_json)
    if waiting := count_to_grade(here, chosen, Path("submitted")):
        are = "1 submission is" if waiting == 1 else f"{waiting} submissions are"
        about = f"{are} not graded, or changed since then. Run: autograder grade"
        say(f"[yellow]note:[/] {about}")
    note_stale(here, chosen)
    if returned:
        rows = [row for assignment in chosen for row in gradebook.read(here, assignment)]
        if waiting := sum(bool(row.needs_manual_grade) for row in rows):
            about = f"{waiting} of {len(rows)} submissions have answers that nobody has read yet"
            say(f"[yellow]note:[/] {about}")
        _print_archives(returned, as_json)
    if done.unwritten or (returned and (returned.left_out or done.missing)):
        raise typer.Exit(BAD_INPUT)


def _print_pages(here: Course, done: FeedbackRun, returned: Returned | None, as_json: bool) -> None:
    if as_json:
        data: dict[str, Any] = {
            "written": [here.shown(path) for path in done.written],
            "unchanged": len(done.unchanged),
            "missing": done.missing,
            "unwritten": done.unwritten,
        }
        if returned:
            archives = {str(path): count for path, count in returned.archives.items()}
            data |= {"archives": archives, "left_out": returned.left_out, "elsewhere": returned.elsewhere}
        print_json(data)
    else:
        pages = plural(len(done.written), "page")
        out.print(f"{pages} written, {len(done.unchanged)} unchanged, in {here.feedback.name}/")
    for remark in done.missing:
        say(f"[yellow]note:[/] {escape(remark)}")
    for path in done.unwritten:
        say(f"[bold red]not written:[/] {escape(path)}")
    if done.unwritten:
        say("The other pages are written. Make the files above writable, then run this again.")


def _print_archives(returned: Returned, as_json: bool) -> None:
    if not as_json:
        for path, count in returned.archives.items():
            out.print(f"{plural(count, 'student')} in {escape(str(path))}", soft_wrap=True)
    for platform, count in returned.elsewhere.items():
        who = f"{plural(count, 'student')} handed in through {platform}"
        say(f"[yellow]note:[/] {who}. To pack their pages, run this command with --for {platform}")
    for remark in returned.left_out:
        say(f"[bold red]left out:[/] {escape(remark)}")
    if returned.left_out:
        say(f"To put this right: {escape(returned.remedy)}.")
    if returned.archives:
        say(f"Next: {escape(returned.upload)}.")
