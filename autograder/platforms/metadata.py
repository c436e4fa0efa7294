"""Read what platforms write beside the submissions: who handed in, and when."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.times import read_time
from autograder.platforms.archives import UNREADABLE, File, read

GRADESCOPE_FILE = "submission_metadata.yml"


@dataclass
class Metadata:
    """The information in a platform's own files.

    Args:
        people: the students by the part of a path that identifies a submission; None if the paths name them.
        times: the time of a submission, by the same part, or by the folder of the file.
        unread: the text of a time that cannot be read, by the same part or folder.
        texts: the texts that students pasted into a form, by the path of the file that holds them.
        read: the paths of the files that were read for this.
    """

    people: dict[str, list[str]] | None = None
    times: dict[str, datetime] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)


def written_time(text: str) -> datetime | None:
    """Read a time as people write it; return None if it cannot be read.

    After a year the colon of the clock may be missing, as in names of files.

    >>> written_time("Sep 24, 2024 926 PM")
    datetime.datetime(2024, 9, 24, 21, 26)
    """
    text = re.sub(r"(\d{4}.*) (\d{1,2})(\d\d)( ?[AaPp]\.?[Mm]\.?)?$", r"\1 \2:\3\4", text)
    if not re.search(r"\d:\d\d", text):
        return None
    try:
        return read_time(text)
    except (ValueError, OverflowError, TypeError):
        return None


def in_utc(time: datetime | None) -> datetime | None:
    """Return a time with its zone; nbgrader reads a time without a zone as UTC."""
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


def blackboard_time(text: str) -> datetime | None:
    """Return the time in the name of a file of Blackboard: ``2026-03-07-18-00-00``."""
    try:
        return datetime.strptime(text, "%Y-%m-%d-%H-%M-%S")
    except ValueError:
        return None


_ATTEMPT = re.compile(r"(?P<who>[^/]+?)_attempt_\d{4}(?:-\d\d){5}(?P<receipt>\.txt)?")
_NO_TEXT = "There is no student submission text data for this assignment."


def blackboard(files: list[File]) -> Metadata:
    """Read the receipts: ``Name: Ada Lovelace (ada)``, then the text that the student typed into the form.

    A name of a file begins with ``<assignment>_<username>``, and both may have underscores. A receipt settles
    where the username begins; without one, the common beginning is the assignment.
    """
    found = Metadata(people={})
    assert found.people is not None
    whole = {match["who"]: None for file in files if (match := _ATTEMPT.match(str(file.path)))}
    for file in files:
        match = _ATTEMPT.fullmatch(str(file.path))
        if match and match["receipt"]:
            found.read.add(str(file.path))
            try:
                text = read(file).decode("utf8", "replace")
            except UNREADABLE:
                continue
            name = re.search(r"^\s*Name:.*\((?P<username>[^()\n]+)\)\s*$", text, re.MULTILINE)
            if name and match["who"].endswith(f"_{name['username'].strip()}"):
                found.people[match["who"]] = [name["username"].strip()]
            typed = re.search(r"Submission Field:\s*\n(.*?)\n\s*Comments:", text, re.DOTALL)
            if typed and typed[1].strip() not in ("", _NO_TEXT):
                found.texts.add(str(file.path))
    begins = {who.removesuffix(students[0]) for who, students in found.people.items()}
    shared = begins.pop() if len(begins) == 1 else common_prefix(whole, "_")
    for who in whole:
        name_of_user = who.removeprefix(shared) if shared and who != shared else who.rpartition("_")[2]
        found.people.setdefault(who, [name_of_user])
    return found


def common_prefix(names: Collection[str], separator: str) -> str:
    """Return the whole parts with which all names begin, each part with its separator.

    >>> common_prefix(["attention-ada", "attention-alan"], "-")
    'attention-'
    """
    first, last = min(names, default=""), max(names, default="")
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind(separator, 0, same) + 1]


_SUBMISSION = re.compile(r"submission_\d+")


def gradescope(files: list[File]) -> Metadata:
    """Read Gradescope's list of the students and the time of each submission."""
    import yaml

    depths = [n for file in files for n, part in enumerate(file.path.parts) if _SUBMISSION.fullmatch(part)]
    depth = min(depths, default=0)  # a deeper file of this name belongs to a submission
    candidates = (
        file for file in files if file.path.name == GRADESCOPE_FILE and len(file.path.parts) == depth + 1
    )
    listed = next(candidates, None)
    if listed is None:
        return Metadata()
    found = Metadata(people={}, read={str(listed.path)})
    assert found.people is not None
    try:
        submissions = yaml.safe_load(read(listed))
    except (yaml.YAMLError, *UNREADABLE) as error:
        raise BadInputError(f"{GRADESCOPE_FILE} cannot be read ({error}).") from error
    try:
        for submission, about in submissions.items():
            number = str(submission).removeprefix("submission_")
            found.people[number] = [_person_id(person) for person in about.get(":submitters", ())]
            if time := _gradescope_time(about.get(":created_at")):
                found.times[number] = time
            elif about.get(":created_at"):
                found.unread[number] = str(about[":created_at"])
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BadInputError(
            f"{GRADESCOPE_FILE} is not laid out as Gradescope lays it out ({error}). "
            "Use the archive as you downloaded it."
        ) from error
    return found


def _person_id(about: dict[str, Any]) -> str:
    """Return the school's id of a person, else the email address up to the @, else the name."""
    email = str(about.get(":email") or "").split("@")[0]
    return str(about.get(":sid") or email or about.get(":name") or "")


def _gradescope_time(time: object) -> datetime | None:
    return in_utc(time if isinstance(time, datetime) else written_time(str(time)) if time else None)


def timestamps(files: list[File]) -> Metadata:
    """Read the files ``timestamp.txt`` in which nbgrader keeps the time beside a submission."""
    found = Metadata()
    for file in files:
        if file.path.name == "timestamp.txt":
            found.read.add(str(file.path))
            try:
                text = read(file)[:200].decode("utf-8-sig", "replace").strip()
            except UNREADABLE:
                text = ""
            if time := in_utc(written_time(text)):
                found.times[str(file.path.parent)] = time
            else:
                found.unread[str(file.path.parent)] = text
    return found
