"""Hand an assignment, or a variant of it, to some groups of the class only.

`groups.csv` in the course's folder records it, with a line for each group and assignment; a teacher may
edit it, but other columns are lost. An assignment without a line is for everybody.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.course.class_list import Person
from autograder.course.errors import BadInputError
from autograder.course.files import write_if_changed
from autograder.course.layout import Course
from autograder.course.lock import hold_tables
from autograder.course.tables import guard, read_table, unguard
from autograder.release.publish import publish, write_variants
from autograder.roster import people

NAME = "groups.csv"
COLUMNS = ("group", "assignment", "variant")


@dataclass(frozen=True)
class Handout:
    """An assignment for one group, in a variant or as it is."""

    group: str
    assignment: str
    variant: str = ""

    def folder(self, course: Course) -> Path:
        """Return the folder to hand out."""
        if self.variant:
            return course.root / "variants" / self.variant / self.assignment
        return course.notebooks / self.assignment


@dataclass(frozen=True)
class HandedOut:
    """The hand-outs of an assignment with their students, and who gets none or several."""

    assignment: str
    handouts: tuple[Handout, ...]
    students: dict[str, tuple[str, ...]]
    without: tuple[str, ...]
    several: tuple[str, ...]


def read(course: Course) -> tuple[Handout, ...]:
    """Return the lines of `groups.csv`, or an empty tuple without that file.

    Raises:
        BadInputError: the file cannot be read or lacks a column.
    """
    path = course.root / NAME
    if not path.exists():
        return ()
    table = read_table(path, f"a table with the columns {', '.join(COLUMNS)}", COLUMNS)
    return tuple(Handout(*(unguard(line[column]) for column in COLUMNS)) for _, line in table.lines)


def find_students(course: Course, assignment: str, class_: Iterable[Person]) -> tuple[Person, ...]:
    """Return the students who get an assignment: everybody, or the members of its groups."""
    groups = {handout.group for handout in read(course) if handout.assignment == assignment}
    return tuple(person for person in class_ if not groups or groups & set(person.groups))


def hand_out(course: Course, assignment: str, variants: dict[str, str]) -> HandedOut:
    """Release an assignment for groups, each with its variant; without groups, for everybody.

    Args:
        course: the course.
        assignment: the name of the assignment.
        variants: the name of the variant by group; an empty text for the assignment as it is.

    Raises:
        BadInputError: nobody is in one of the groups, or the release is refused.
    """
    known = sorted({group for person in people.read(course).people for group in person.groups})
    for group in variants:
        if group not in known:
            there = f"The groups are: {', '.join(known)}." if known else "No student has a group yet."
            raise BadInputError(
                f"nobody is in a group {group!r}. {there} Groups come from autograder roster import, or from "
                "the column groups of class.csv."
            )
    with hold_tables(course):
        read(course)  # refuses a damaged table, or a disk without locks, before anything is released
    if any(variants.values()):
        write_variants(course, [assignment], sorted({name for name in variants.values() if name}))
    if not all(variants.values()) or not variants:
        for released in publish(course, [assignment]):
            if released.status == "kept":
                raise BadInputError(f"{assignment} was not released: {released.note}.")
    new = [Handout(group, assignment, variant) for group, variant in variants.items()]
    with hold_tables(course):
        others = [line for line in read(course) if line.assignment != assignment]
        _write(course, [*others, *new])
    return look_up(course, assignment)


def look_up(course: Course, assignment: str) -> HandedOut:
    """Return the hand-outs of an assignment with their students."""
    handouts = tuple(line for line in read(course) if line.assignment == assignment)
    class_ = people.read(course).people
    students = {
        handout.group: tuple(person.student for person in class_ if handout.group in person.groups)
        for handout in handouts
    }
    variants = {
        person.student: {handout.variant for handout in handouts if handout.group in person.groups}
        for person in class_
    }
    return HandedOut(
        assignment,
        handouts,
        students,
        tuple(student for student, names in variants.items() if handouts and not names),
        tuple(student for student, names in variants.items() if len(names) > 1),
    )


def _write(course: Course, lines: list[Handout]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((guard(line.group), line.assignment, line.variant) for line in lines)
    if lines or (course.root / NAME).exists():
        write_if_changed(course.root / NAME, out.getvalue().encode())
