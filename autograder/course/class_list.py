"""Describe the people of a class, and find them by the names that platforms give to their work."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

LONGEST_RUNNING = 3
"""A number with at most this many digits may be the number of a line or a group, and not of a person."""


@dataclass(frozen=True)
class Person:
    """A student as a platform's list describes him or her.

    Args:
        student: the id, which is the name of the folder of submissions.
        first_name: the first name.
        last_name: the last name.
        email: the e-mail address.
        number: the platform's number for the person, nbgrader's `lms_user_id`.
        groups: the names of the groups.
    """

    student: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    number: str = ""
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip()

    @property
    def is_described(self) -> bool:
        """Return whether anything but the id is known; grading alone enters nothing but an id."""
        return bool(self.name or self.email or self.number)


@dataclass(frozen=True)
class Roster:
    """The students of a class, found also by the names that platforms give to their work."""

    known: tuple[Person, ...]

    @cached_property
    def people(self) -> tuple[Person, ...]:
        """Return each person once: an id without a name that belongs to somebody else is left out."""
        return tuple(person for person in self.known if self.find(person.student) in (person, None))

    @cached_property
    def other_ids(self) -> dict[str, str]:
        """Return the id of the person by each id that the person has besides, as platforms write it."""
        found = {person.student: self.find(person.student) for person in self.known}
        return {
            other: person.student for other, person in found.items() if person and person.student != other
        }

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], list[Person]]:
        by_key: dict[tuple[str, str], list[Person]] = {}
        for person in self.known:
            for key in _keys(person):
                by_key.setdefault(key, []).append(person)
        return by_key

    def find(self, student: str, *, is_numbered: bool | None = None) -> Person | None:
        """Return the person with an id, an e-mail address, or a name or number as platforms write them.

        An exact id of somebody with a name counts first. Nobody is found where two people fit, such as one
        by the number and another by the name.

        Args:
            student: the id, address, name or number.
            is_numbered: whether a number after the name may be the platform's number of the person; None
                if the platform is not known: a number of at most three digits does not count alone then.
        """
        student = unicodedata.normalize("NFC", student)
        exact = self._by_key.get(("id", student.casefold()), [])
        described = [person for person in exact if person.is_described]
        if len(described) == 1:
            return described[0]
        number = number_in(student)
        keys = {
            "email": student.casefold(),
            "number": number if is_numbered is not False or student.isdecimal() else "",
            "email name": student.casefold(),
            "name": squeeze(self._without_group(re.sub(r"_\d+$", "", student))),
        }
        fitting = {kind: self._by_key.get((kind, value), []) for kind, value in keys.items() if value}
        found = {kind: people[0] for kind, people in fitting.items() if len(people) == 1}
        if found.get("number", found.get("name")) != found.get("name", found.get("number")):
            found = {}  # another platform has given this number to somebody else
        elif is_numbered is None and number != student and len(number) <= LONGEST_RUNNING:
            found.pop("number", None)
        return next(iter(found.values()), exact[0] if len(exact) == 1 else None)

    @cached_property
    def _groups(self) -> set[str]:
        return {squeeze(group) for person in self.known for group in person.groups}

    def _without_group(self, name: str) -> str:
        """Return a name without the group of the class that Moodle writes before it, with a hyphen."""
        for hyphen in re.finditer("-", name):
            if squeeze(name[: hyphen.start()]) in self._groups:
                return name[hyphen.end() :]
        return name

    def __contains__(self, student: str) -> bool:
        return any(person.student == student for person in self.known)


def _keys(person: Person) -> Iterable[tuple[str, str]]:
    """Return the names and numbers of a person, each with its kind."""
    email = person.email.casefold()
    names = (f"{person.first_name} {person.last_name}", f"{person.last_name} {person.first_name}")
    student = unicodedata.normalize("NFC", person.student)  # macOS writes ü as u and two dots
    keys = {("id", student.casefold()), ("email", email), ("number", person.number)}
    keys |= {("email name", email.split("@")[0])}
    keys |= {("name", squeeze(name)) for name in names if person.first_name and person.last_name}
    return {(kind, value) for kind, value in keys if value}


def number_in(name: str) -> str:
    """Return a platform's number for a person: 4711 in ``4711`` and in ``lovelaceada_4711``."""
    match = re.search(r"(?:^|_)(\d+)$", name)
    return match[1] if match else ""


def squeeze(name: str) -> str:
    """Return a name without spaces, accents and capitals, as Canvas writes it into the names of files.

    Vowel signs, as in Hindi and Thai, are kept.

    >>> squeeze("O'Neill, Zoë") == squeeze("oneillzoe")
    True
    >>> squeeze("कमाल राव") == squeeze("कमल राव")
    False
    """
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in plain if character.isalnum() or _is_vowel_sign(character))


def _is_vowel_sign(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc") and not unicodedata.combining(character)
