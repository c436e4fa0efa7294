"""List the submissions that a teacher should look at, each with a reason and its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autograder.course.remark import Remark
from autograder.grading.rows import Row

Kind = Literal["not graded", "machinery", "forbidden call", "stopped", "late", "remark"]
KINDS: dict[Kind, str] = {
    "not graded": "Not graded",
    "machinery": "Touches the grader's own machinery",
    "forbidden call": "Calls a function that it should write",
    "stopped": "Stopped at a limit, or its process was lost",
    "late": "Late",
    "remark": "What the grader noticed",
}
"""The kinds of reasons in the order of the report, with their headings."""


@dataclass(frozen=True)
class ReviewItem:
    """A submission that a teacher should look at, with the reason.

    Args:
        student: the id of the student.
        kind: the kind of reason.
        why: the whole reason in words.
        exercise: for code that touches the grader's machinery, the exercise whose function uses it.
        place: the cell and line of that code.
        line: the text of that code.
        notebook: the name of the graded notebook.
    """

    student: str
    kind: Kind
    why: str
    exercise: str = ""
    place: str = ""
    line: str = ""
    notebook: str = ""


def make_review_queue(
    rows: list[Row],
    problems: Mapping[str, str],
    reports: Mapping[str, Mapping[str, Any]],
    remarks: Mapping[str, Mapping[str, list[Remark]]],
) -> tuple[ReviewItem, ...]:
    """Return the submissions to look at, each reason once, sorted by kind and student.

    Args:
        rows: the rows of the gradebook.
        problems: the reason why a submission could not be graded, by student.
        reports: the reports as JSON data, by student and graded cell.
        remarks: the grader's remarks, by student and notebook.
    """
    items = {*_not_graded(rows, problems), *_late(rows)}
    for student, reports_of_student in reports.items():
        unexamined = {*_not_examined(student, reports_of_student)}
        is_stopped = any(item.kind == "stopped" for item in unexamined)
        remarked = _remarks(student, remarks.get(student, {}))
        items |= unexamined | {item for item in remarked if not (is_stopped and item.kind == "stopped")}
    order = list(KINDS)
    return tuple(sorted(items, key=lambda item: (order.index(item.kind), item.student, item.why)))


def _not_graded(rows: list[Row], problems: Mapping[str, str]) -> Iterator[ReviewItem]:
    totals = {row.student: row.total for row in rows}
    for student, why in problems.items():
        kept = f"{why}. Keeps {totals[student]:g} from the earlier version" if student in totals else why
        yield ReviewItem(student, "not graded", kept)


def _late(rows: list[Row]) -> Iterator[ReviewItem]:
    for row in rows:
        if row.late_seconds > 0:
            points = "point" if row.late_penalty == 1 else "points"
            penalty = f"; {row.late_penalty:g} {points} taken off" if row.late_penalty else ""
            yield ReviewItem(row.student, "late", f"{_duration(row.late_seconds)} late{penalty}")


def _duration(seconds: float) -> str:
    """Return a time in its largest unit.

    >>> _duration(40), _duration(3600), _duration(2.5 * 86400)
    ('1 minute', '1 hour', '2 days')
    """
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length or name == "minute":
            break
    count = max(1, int(seconds / length))
    return f"{count} {name}{'' if count == 1 else 's'}"


def _not_examined(student: str, reports: Mapping[str, Any]) -> Iterator[ReviewItem]:
    """Yield an item for each reason why exercises could not be tried, with all exercises of this reason."""
    reasons: dict[tuple[Kind, str], list[str]] = {}
    for grade_id, report in reports.items():
        kind: Kind = "forbidden call" if report["status"] == "forbidden" else "stopped"
        if report["status"] in ("forbidden", "stopped"):
            reasons.setdefault((kind, report["message"]), []).append(grade_id)
    for (kind, why), where in reasons.items():
        yield ReviewItem(student, kind, f"{', '.join(where)}: {why}")


def _remarks(student: str, remarks: Mapping[str, list[Remark]]) -> Iterator[ReviewItem]:
    for notebook, in_notebook in remarks.items():
        for remark in in_notebook:
            yield ReviewItem(
                student, remark.kind, str(remark), remark.exercise, remark.place, remark.line, notebook
            )
