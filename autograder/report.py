"""The report on one exercise: what a student reads, and what a program reads."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from autograder.values import in_words

if TYPE_CHECKING:
    from autograder.exercise import Exercise

SAME = "the same as above"

Status = Literal["examined", "blank", "missing", "forbidden", "stopped"]


@dataclass(frozen=True)
class Failure:
    """Why a criterion was not met, in the smallest case that shows it."""

    case: str
    call: str
    fault: str
    broken: str | None = None
    misconception: str | None = None
    hint: str | None = None

    @property
    def sentence(self) -> str:
        return self.hint or self.broken or self.fault


@dataclass(frozen=True)
class CriterionResult:
    """A criterion with the points it gave."""

    says: str
    points: float
    earned: float
    failure: Failure | None = None


@dataclass(frozen=True)
class Report:
    """The points of one exercise with the reasons.

    ``status`` is "examined" when the cases were tried; "blank", "missing", "forbidden" or "stopped" (by the
    time limit, or with the kernel) say why they were not, and ``note`` explains.
    """

    exercise: str
    max_score: float
    criteria: tuple[CriterionResult, ...] = ()
    status: Status = "examined"
    note: str = ""
    forbidden: str | None = None
    score: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", float(sum(c.earned for c in self.criteria)))

    @classmethod
    def without_points(
        cls, exercise: Exercise, status: Status, note: str, forbidden: str | None = None
    ) -> Report:
        """A report on code whose cases could not be tried."""
        return cls(exercise.name, exercise.points, status=status, note=note, forbidden=forbidden)

    @property
    def passed(self) -> bool:
        return self.status == "examined" and all(c.failure is None for c in self.criteria)

    @property
    def failures(self) -> list[Failure]:
        return [c.failure for c in self.criteria if c.failure]

    @property
    def diagnosis(self) -> str | None:
        """The misconception that explains the first explained failure, by its name in the bank."""
        return next((f.misconception for f in self.failures if f.misconception), None)

    @property
    def message(self) -> str:
        """The report in one sentence."""
        if self.note:
            return self.note
        if self.passed:
            return "Right."
        explained = next((f for f in self.failures if f.misconception), self.failures[0])
        return explained.sentence

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON data; `Report.from_dict` reads it back."""
        return asdict(self) | {"passed": self.passed, "diagnosis": self.diagnosis, "message": self.message}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        criteria = tuple(
            CriterionResult(**{**c, "failure": Failure(**c["failure"]) if c["failure"] else None})
            for c in data["criteria"]
        )
        plain = {key: data[key] for key in ("exercise", "max_score", "status", "note", "forbidden")}
        return cls(criteria=criteria, **plain)

    @property
    def title(self) -> str:
        name = self.exercise.split("/")[-1]
        return f"{name}: {self.score:g} of {self.max_score:g} points"

    def __str__(self) -> str:
        lines = [self.title]
        if self.note:
            lines.append(f"  {self.note}")
        for result, details in self._told():
            mark = "✗" if result.failure else "✓"
            lines.append(f"  {mark} {result.earned:g}/{result.points:g}  {result.says}")
            lines += [f"         {line}" for line in details]
        return "\n".join(lines)

    def _told(self) -> Iterator[tuple[CriterionResult, list[str]]]:
        """Each criterion with the lines below it; what was told before is not told again."""
        told: set[str] = set()
        for result in self.criteria:
            if result.failure:
                yield result, _lines(result.failure, told)
            else:
                waits = result.points and not result.earned
                yield result, ["counts once the first point above is met"] if waits else []

    def _repr_html_(self) -> str:
        """The report as HTML without a script, every word of the student's escaped."""
        colour = "#1a7f37" if self.passed else "#b35900"
        rows = []
        for result, lines in self._told():
            mark = "✗" if result.failure else "✓"
            details = "".join(f"<p style='margin:0'>{html.escape(line)}</p>" for line in lines)
            rows.append(
                f"<li>{mark} <b>{result.earned:g}/{result.points:g}</b> {html.escape(result.says)}"
                f"<div style='margin-left:2em'>{details}</div></li>"
            )
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f"<div style='border-left:4px solid {colour};padding-left:1em'>"
            f"<b>{html.escape(self.title)}</b>{note}"
            f"<ul style='list-style:none;padding-left:0'>{''.join(rows)}</ul></div>"
        )


def _lines(failure: Failure, told: set[str]) -> list[str]:
    """What is said of a failure, but for what is in `told` already; all of it is, afterwards."""
    raised = failure.fault.startswith("your code raised")
    fault = in_words(failure.fault) if raised else failure.fault
    broken, hint = in_words(failure.broken or ""), failure.hint or ""
    before = told.copy()
    told |= {fault, broken, hint} - {""}
    if fault in before:
        return [SAME] if not hint or hint in before else [SAME, f"→ {hint}"]
    lines = [f"{failure.case}: {failure.fault}"]
    if hint in before:
        return [*lines, f"→ {SAME}"]
    if failure.call:
        lines.append(f"the call was {failure.call}")
    if failure.broken:
        lines.append("it breaks the same rule as above" if broken in before else failure.broken)
    return [*lines, f"→ {hint}"] if hint else lines
