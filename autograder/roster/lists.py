"""Read a class list as platforms write them: `HEADINGS` declares the columns that are recognised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.course import student_ids
from autograder.course.class_file import split_groups
from autograder.course.class_list import LONGEST_RUNNING, Person, Roster
from autograder.course.errors import BadInputError
from autograder.course.tables import TextTable, read_table, unguard

HEADINGS: dict[str, tuple[str, ...]] = {
    "id": (
        *("github_username", "SIS Login ID", "Username", "User name", "Login ID", "Login", "SID"),
        *("OrgDefinedId", "SIS User ID", "Student ID", "Student number", "ID number"),
        *("Anmeldename", "Benutzername", "Nutzername", "Kennung", "Benutzerkennung"),
        *("Matrikelnummer", "Matrikelnr.", "Matrikel-Nr.", "ID-Nummer", "ID", "Student"),
    ),
    "first": ("First name", "Firstname", "Given name", "first_name", "Vorname", "Vorname(n)"),
    "last": ("Last name", "Lastname", "Surname", "Family name", "last_name", "Nachname", "Familienname"),
    "name": (
        *("Student", "Full name", "Display name", "Name", "identifier"),
        *("Vollständiger Name", "Anzeigename", "Teilnehmer/in"),
    ),
    "email": ("Email", "E-mail", "Email address", "E-mail address", "E-Mail-Adresse", "Mail", "School email"),
    "number": ("lms_user_id", "github_id", "Identifier", "ID"),
    "groups": (
        *("Groups", "Group", "Sections", "Section", "group_name", "Team"),
        *("Gruppen", "Gruppe", "Tutorium", "Übungsgruppe", "Sektion"),
    ),
    "role": ("Role", "Roles", "Rolle", "Rollen", "course role"),
}
"""The headings of each field, the best first; capitals do not count.

The headings of nbgrader's own `db student import` are from its documentation. Canvas's headings are from the
documentation of a program that reads its gradebook. The headings of Moodle, Gradescope, Brightspace,
Blackboard and GitHub Classroom are from public programs that read them. Further German words are synonyms
without a source.
"""
STUDENTS = ("student", "learner", "studierende", "teilnehmer")
"""Beginnings of the roles of students; people with other roles are left out and named."""
CANVAS_TEST_STUDENT = "student, test"
"""The name in Canvas's gradebook of the student that a teacher can act as."""
EXPECTED = "a class list with headings and a line for each student"


@dataclass
class Imported:
    """The people of a list, with notes where the gradebook differs from it.

    Args:
        students: the people as they are entered.
        new: the ids that the gradebook did not have.
        left_out: the lines that name no student, each with the reason.
        notes: people who are known by another id, and people who are not in the list.
    """

    students: list[Person] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_list(path: Path, roster: Roster, columns: str | None = None) -> Imported:
    """Return the people of a class list. People whom the gradebook has with their names keep their ids.

    Args:
        path: the file.
        roster: the people in the gradebook.
        columns: headings or positions by field, such as ``id=Kennung,groups=4``, where `HEADINGS` do not fit.

    Raises:
        BadInputError: the file is not a table, a column is missing, or two lines contradict each other.
    """
    table = read_table(path, EXPECTED)
    found = choose_columns(table, path, columns)
    may_count_lines = _may_count_lines(table, found, columns)
    done = Imported()
    lines: dict[str, Person] = {}
    for number, line in table.lines:
        values = {name: unguard(line.get(column, "")).lstrip("#") for name, column in found.items()}
        if may_count_lines and len(values["number"]) <= LONGEST_RUNNING:
            values["number"] = ""
        why = _reason_to_leave_out(values)
        if why:
            done.left_out.append(f"line {number}: {why}")
            continue
        person = _person(values)
        before = lines.get(person.student)
        if before:
            if replace(before, groups=()) != replace(person, groups=()):
                raise BadInputError(
                    f"line {number} of {path} gives the id {person.student} to a different person than an "
                    "earlier line. Name a column in which each student has another id, such as: "
                    "--columns id=HEADING"
                )
            person = replace(person, groups=tuple(dict.fromkeys((*before.groups, *person.groups))))
        lines[person.student] = person
    if not lines:
        why = f" ({'; '.join(done.left_out[:3])})" if done.left_out else ""
        raise BadInputError(f"{path} names no student{why}. Expected {EXPECTED}.")
    _match(done, list(lines.values()), roster, path)
    return done


def choose_columns(table: TextTable, path: Path, columns: str | None) -> dict[str, str]:
    """Return the column of each field that the table has.

    Raises:
        BadInputError: a named column does not exist, or no column can be an id.
    """
    by_heading = {name.casefold(): name for name in table.columns}
    found: dict[str, str] = {}
    for part, _, heading in (piece.partition("=") for piece in (columns or "").split(",") if piece.strip()):
        name, heading = part.strip(), heading.strip()
        if name not in HEADINGS or not heading:
            raise BadInputError(
                f"--columns has {name!r}. Expected FIELD=HEADING or FIELD=NUMBER, with the fields "
                f"{', '.join(HEADINGS)}, separated by commas."
            )
        at = int(heading) - 1 if heading.isdecimal() and heading.casefold() not in by_heading else None
        if at is not None and 0 <= at < len(table.columns):
            found[name] = table.columns[at]
        elif heading.casefold() in by_heading:
            found[name] = by_heading[heading.casefold()]
        else:
            raise BadInputError(f"{path} has no column {heading!r}. It has: {', '.join(table.columns)}.")
    taken = set(found.values())
    for name, headings in HEADINGS.items():
        fitting = [by_heading[h.casefold()] for h in headings if h.casefold() in by_heading]
        free = [column for column in fitting if column not in taken]
        if name not in found and free:
            found[name] = free[0]
            taken.add(free[0])
    if not {"id", "email"} & set(found):
        raise BadInputError(
            f"{path} has no known column of ids or e-mail addresses. It has: "
            f"{', '.join(table.columns)}. Name it, such as: --columns id=HEADING,name=HEADING"
        )
    return found


def _may_count_lines(table: TextTable, found: dict[str, str], columns: str | None) -> bool:
    """Return whether the numbers may count the lines.

    This is so if their heading is only "ID", the list is not from Canvas, and --columns does not name them.
    """
    named = {piece.partition("=")[0].strip() for piece in (columns or "").split(",")}
    is_canvas = any(column.casefold().startswith("sis ") for column in table.columns)
    return found.get("number", "").casefold() == "id" and not is_canvas and "number" not in named


def _reason_to_leave_out(values: dict[str, str]) -> str | None:
    """Return the reason why a line does not name a student, or None."""
    student = _student(values)
    if values.get("name", "").casefold() == CANVAS_TEST_STUDENT:
        return "it is Canvas's test student"
    if not student:
        name = values.get("name") or values.get("last") or ""
        return f"{name!r} has no id" if name else "it has no id"
    role = values.get("role", "").casefold()
    if role and not any(part.strip().startswith(STUDENTS) for part in role.split(",")):
        return f"{student} has the role {values['role']}"
    return None if student_ids.is_valid(student) else f"{student!r} cannot be an id: {student_ids.RULE}"


def _student(values: dict[str, str]) -> str:
    """Return the id, else the e-mail address up to the @, as `collect` does."""
    return values.get("id") or values.get("email", "").split("@")[0]


def _person(values: dict[str, str]) -> Person:
    first, last, whole = values.get("first", ""), values.get("last", ""), values.get("name", "")
    if whole and not (first and last):
        before, comma, after = whole.partition(",")
        first, last = (after, before) if comma else (whole.rpartition(" ")[0], whole.rpartition(" ")[2])
    number = values.get("number", "").rpartition(" ")[2]  # Moodle writes "Participant 4711"
    return Person(
        _student(values),
        first.strip(),
        last.strip(),
        values.get("email", ""),
        number if number.isdecimal() else "",
        split_groups(values.get("groups", "")),
    )


def _match(done: Imported, people: list[Person], roster: Roster, path: Path) -> None:
    """Give each person the id of the list, or the id under which the gradebook has the name already."""
    described = Roster(tuple(people))
    for person in people:
        others = [known for known in roster.known if _is_same(described, known, person)]
        named = [known.student for known in others if known.is_described]
        if person.student not in roster and named:
            person = replace(person, student=named[0])
        done.new += [] if person.student in roster else [person.student]
        done.students.append(person)
        done.notes += [
            f"{known.student} in the gradebook is {person.student}"
            for known in others
            if known.student != person.student
        ]
    ids = {person.student for person in done.students}
    missing = sorted(
        k.student for k in roster.known if k.student not in ids and described.find(k.student) is None
    )
    if missing:
        count = f"{len(missing)} of {len(roster.known)}"
        done.notes.append(
            f"{path.name} lacks {count} students of the gradebook: {', '.join(missing)}. If a student has "
            "left, `autograder forget ID` removes all records of the student, including the work"
        )


def _is_same(described: Roster, known: Person, person: Person) -> bool:
    if known.student == person.student:
        return False
    same_address = known.email and known.email.casefold() == person.email.casefold()
    return bool(same_address) or described.find(known.student) == person
