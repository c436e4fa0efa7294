"""Account for every entry of an archive: what became of it, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

OUTCOMES = {
    "taken": "taken",
    "unchanged": "unchanged",
    "older": "older or without work",
    "no_notebook": "not a notebook",
    "own": "made by the platform or by a program",
    "undecided": "not decided",
}
"""What may become of an entry, with the words for a person."""
_WEIGHT = ("own", "no_notebook", "older", "unchanged", "taken", "undecided")
"""The outcomes from the least to the gravest. A group's file has one for each student; the gravest counts."""


@dataclass(frozen=True)
class Entry:
    """What became of one entry of an archive."""

    path: str
    outcome: str
    reason: str = ""
    student: str = ""


@dataclass
class Collected:
    """The result of collecting an archive: the students by outcome, all entries, remarks and problems.

    Args:
        blank: the students who handed in the released notebook without any work.
        kept_times: the students whose known time was kept, although the time zone that the teacher named
            gives another time.
        unread_times: the texts of times that cannot be read, by student.
    """

    platform: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    kept_times: list[str] = field(default_factory=list)
    unread_times: dict[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def record(self, path: str, outcome: str, reason: str = "", student: str = "") -> None:
        """Record what became of an entry, unless something graver is recorded already."""
        before = self.entries.get(path)
        if before is None or _WEIGHT.index(before.outcome) <= _WEIGHT.index(outcome):
            self.entries[path] = Entry(path, outcome, reason, student)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of entries by outcome."""
        counted = Counter(entry.outcome for entry in self.entries.values())
        return {outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]}

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return asdict(self) | {
            "entries": [asdict(entry) for entry in self.entries.values()],
            "counts": self.counts,
        }
