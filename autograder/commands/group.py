"""Define the command ``autograder group``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.console import out, plural, print_json, say
from autograder.commands.options import Assignment, CourseFolder, Gradebook, Json, examples
from autograder.commands.terminal import escape
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples(
    "autograder group ch02_qkv Monday=front Tuesday=back",
    "autograder group ch03_scaling Thursday",
    "autograder group ch03_scaling --everybody",
)


def group(
    assignment: Assignment,
    groups: Annotated[
        list[str] | None,
        typer.Argument(help="Groups, each with its variant, such as Monday=front.", show_default=False),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Give the assignment to the whole class again.")
    ] = False,
    course: CourseFolder = Path(),
    db: Gradebook = None,
    as_json: Json = False,
) -> None:
    """Give an assignment to some groups, in a variant for each group or as it is; show who gets what.

    The named groups replace earlier groups; a note names each group that no longer gets the assignment.
    Students outside of the groups are not expected to hand it in. Without groups, only show who gets what.
    """
    from autograder.roster import handouts

    here = Course.at(course, db)
    (assignment,) = here.chosen([assignment])
    if everybody and groups:
        raise BadInputError("--everybody takes no groups. Leave out --everybody, or the groups.")
    pairs = [(name, variant) for name, _, variant in (text.partition("=") for text in groups or ())]
    variants = dict(pairs)
    if len(variants) != len(pairs):
        raise BadInputError("a group is named twice. Give each group one variant.")
    done = before = handouts.look_up(here, assignment)
    if variants or everybody:
        done = handouts.hand_out(here, assignment, variants)
    for handout in before.handouts:
        if handout not in done.handouts:
            variant = f" in the variant {handout.variant}" if handout.variant else ""
            say(f"[yellow]note:[/] {escape(f'{handout.group} no longer gets {assignment}{variant}')}")
    if as_json:
        print_json(asdict(done))
        return
    for handout in done.handouts:
        count = plural(len(done.students[handout.group]), "student")
        folder = here.shown(handout.folder(here))
        out.print(escape(f"{handout.group}: {folder}, {count}"), soft_wrap=True)
    if not done.handouts:
        out.print(f"{assignment} is for the whole class")
    for students, what in ((done.without, "in none of these groups"), (done.several, "in several groups")):
        if students:
            say(f"[yellow]note:[/] {what}: {escape(', '.join(students))}")
