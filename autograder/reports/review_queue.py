"""The submissions that a teacher should look at, each with the kind of reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autograder.course.remark import Remark
from autograder.grading.gradebook import Row

Kind = Literal["not graded", "machinery", "forbidden call", "stopped", "late", "remark"]
KINDS: dict[Kind, str] = {
    "not graded": "Not graded",
    "machinery": "Touches the grader's own machinery",
    "forbidden call": "Calls what it should write",
    "stopped": "Stopped at a limit, or its process was lost",
    "late": "Late",
    "remark": "What the grader noticed",
}
"""Their order and their headings."""


@dataclass(frozen=True)
class Look:
    """A submission to look at, and why.

    Args:
        student: whose it is.
        kind: the kind of reason.
        why: the whole reason; what follows is in it.
        exercise: for code that touches the grader's machinery, the exercise whose function reaches it.
        place: where that code is.
        line: that code.
        notebook: the name of the graded notebook.
    """

    student: str
    kind: Kind
    why: str
    exercise: str = ""
    place: str = ""
    line: str = ""
    notebook: str = ""


def of_class(
    rows: list[Row],
    problems: Mapping[str, str],
    reports: Mapping[str, Mapping[str, Any]],
    remarks: Mapping[str, Mapping[str, list[Remark]]],
) -> tuple[Look, ...]:
    """Every reason to look, once, by kind and student.

    Args:
        rows: what the gradebook has.
        problems: by student, why a submission could not be graded.
        reports: by student and graded cell, the report as JSON data.
        remarks: by student and notebook, what the grader noticed.
    """
    found = {*_not_graded(rows, problems), *_late(rows)}
    for student, own in reports.items():
        reasons = {*_not_examined(student, own)}
        said = any(look.kind == "stopped" for look in reasons)
        noticed = _remarks(student, remarks.get(student, {}))
        found |= reasons | {look for look in noticed if not (said and look.kind == "stopped")}
    order = list(KINDS)
    return tuple(sorted(found, key=lambda look: (order.index(look.kind), look.student, look.why)))


def _not_graded(rows: list[Row], problems: Mapping[str, str]) -> Iterator[Look]:
    totals = {row.student: row.total for row in rows}
    for student, why in problems.items():
        kept = f"{why}. Keeps {totals[student]:g} from the earlier version" if student in totals else why
        yield Look(student, "not graded", kept)


def _late(rows: list[Row]) -> Iterator[Look]:
    for row in rows:
        if row.late_seconds > 0:
            penalty = f"; {row.late_penalty:g} points taken off" if row.late_penalty else ""
            yield Look(row.student, "late", f"{_duration(row.late_seconds)} late{penalty}")


def _duration(seconds: float) -> str:
    """The time in its largest unit.

    >>> _duration(40), _duration(3600), _duration(2.5 * 86400)
    ('1 minute', '1 hour', '2 days')
    """
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length or name == "minute":
            break
    count = max(1, int(seconds / length))
    return f"{count} {name}{'' if count == 1 else 's'}"


def _not_examined(student: str, reports: Mapping[str, Any]) -> Iterator[Look]:
    """The exercises of which no case could be tried, those with the same reason together."""
    reasons: dict[tuple[Kind, str], list[str]] = {}
    for grade_id, report in reports.items():
        kind: Kind = "forbidden call" if report["status"] == "forbidden" else "stopped"
        if report["status"] in ("forbidden", "stopped"):
            reasons.setdefault((kind, report["message"]), []).append(grade_id)
    for (kind, why), where in reasons.items():
        yield Look(student, kind, f"{', '.join(where)}: {why}")


def _remarks(student: str, remarks: Mapping[str, list[Remark]]) -> Iterator[Look]:
    for notebook, own in remarks.items():
        for one in own:
            yield Look(student, one.kind, str(one), one.exercise, one.place, one.line, notebook)
