"""Define the commands ``autograder roster import``, ``list`` and ``unite``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from autograder.commands.console import out, plural, print_json, progress, say
from autograder.commands.options import BAD_INPUT, CourseFolder, Gradebook, Json, examples
from autograder.commands.terminal import escape
from autograder.course.layout import Course

EPILOG = examples(
    "autograder roster import participants.csv",
    "autograder roster import list.csv --columns id=Kennung,last=2,first=3",
    "autograder roster list",
    "autograder roster unite",
)

MOST_NOTES = 10
"""The terminal shows at most this many notes; --json has all of them."""

roster = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Manage the class list: the students and their groups.",
)


@roster.command("import", epilog=EPILOG)
def import_list(
    file: Annotated[Path, typer.Argument(help="The class list, saved as CSV.", show_default=False)],
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns by heading or position, if their headings are not recognised: id, first, last, "
            "name, email, number, groups and role, such as id=Kennung,last=2.",
        ),
    ] = None,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Enter the students of a platform's list into the gradebook, and their groups into class.csv.

    Nobody is removed. A student with work under an id that a platform made keeps that id. Lines
    that name no student are reported.
    """
    from autograder.roster import lists, people

    here = Course.at(course, db)
    done = lists.read_list(file, people.read(here), columns)
    people.write(here, done.students)
    if as_json:
        print_json(asdict(done))
    else:
        known = len(done.students) - len(done.new)
        out.print(f"{len(done.new)} new, {known} known, in the gradebook")
    for why in done.left_out:
        say(f"[yellow]left out:[/] {escape(why)}")
    for note in done.notes[:MOST_NOTES]:
        say(f"[yellow]note:[/] {escape(note)}")
    if len(done.notes) > MOST_NOTES:
        say(f"and {len(done.notes) - MOST_NOTES} more notes, which --json prints")
    if any(" in the gradebook is " in note for note in done.notes):
        say("To give their work the ids of the list, run: autograder roster unite")


@roster.command("list", epilog=EPILOG)
def list_people(course: CourseFolder = Path(), db: Gradebook = None, as_json: Json = False) -> None:
    """Show the students of the class with their groups."""
    from autograder.roster import people

    here = Course.at(course, db)
    known = people.read(here)
    if as_json:
        print_json([asdict(person) for person in known.people])
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("student", "name", "e-mail", "groups"):
        table.add_column(heading, overflow="fold")
    for person in known.people:
        texts = (person.student, person.name, person.email, ", ".join(person.groups))
        table.add_row(*map(escape, texts))
    out.print(table)
    for other, student in known.other_ids.items():
        same = escape(f"{other} is {student}")
        say(f"[yellow]note:[/] {same}. To unite the two ids, run: autograder roster unite")
    if not known.people:
        say("Nobody is in the gradebook yet. Run: autograder roster import FILE")


@roster.command("unite", epilog=EPILOG)
def unite(course: CourseFolder = Path(), db: Gradebook = None, as_json: Json = False) -> None:
    """Merge each id that a platform has made, such as lovelaceada_4711, into the id in the class list.

    Exit with status 2 if two ids have work for one assignment; `autograder merge` decides whose work counts.
    """
    from autograder.reports import class_page
    from autograder.roster import move

    here = Course.at(course, db)
    with progress("uniting") as show_progress:
        moved, problems = move.unite(here, show_progress)
    for each in moved:
        class_page.write_again(here, each.old)
    changes = [change for each in moved for change in each.penalties]
    if as_json:
        united = {each.old: each.new for each in moved}
        print_json({"united": united, "penalties": [asdict(c) for c in changes], "problems": problems})
    else:
        out.print(f"{plural(len(moved), 'id')} united with the class list")
        for change in changes:
            penalty = f"{change.assignment} was {change.before:g} and is now {change.after:g}"
            say(f"{escape(change.student)}: the late penalty of {penalty}")
    for problem in problems:
        say(f"[bold red]not united:[/] {escape(problem)}")
    if problems:
        raise typer.Exit(BAD_INPUT)
