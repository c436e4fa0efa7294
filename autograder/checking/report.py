"""Make the report on one exercise: as text and HTML for students, and as JSON for programs."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from autograder.checking.comparison import without_numbers
from autograder.course.visible import visible

if TYPE_CHECKING:
    from autograder.checking.declaration import Exercise

SAME = "the same as above"
CALLED = "the call was "
SHAPE = "expected shape"
"""Words of a fault about a shape (as in comparison.differs), which is shown before the hint."""
WIDTH = 80
DIGITS = 4
"""Decimals of points; without rounding, a sum of shares may be 3.1999999999999997."""

Status = Literal["examined", "blank", "missing", "forbidden", "stopped"]


@dataclass(frozen=True)
class Failure:
    """The reason why a criterion was not met, in the smallest case that shows it."""

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
    """A criterion with the earned points."""

    says: str
    points: float
    earned: float
    failure: Failure | None = None


@dataclass(frozen=True)
class Report:
    """The points of one exercise with the reasons.

    ``status`` is "examined" if the cases were tried. Otherwise it is the reason why they were not: "blank",
    "missing", "forbidden" or "stopped" (by the time limit, or because the kernel died). ``note`` explains it.
    """

    exercise: str
    max_score: float
    criteria: tuple[CriterionResult, ...] = ()
    status: Status = "examined"
    note: str = ""
    forbidden: str | None = None
    score: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", round(float(sum(c.earned for c in self.criteria)), DIGITS))

    @classmethod
    def without_points(
        cls, exercise: Exercise, status: Status, note: str, forbidden: str | None = None
    ) -> Report:
        """Make a report on code for which the cases could not be tried."""
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
        """The diagnosis in one sentence, followed by the note, if there is one."""
        if not self.failures:
            return self.note or "Right."
        sentence = next((f for f in self.failures if f.misconception), self.failures[0]).sentence
        return f"{sentence.rstrip('.')}. {self.note}" if self.note else sentence

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data, for `Report.from_dict`."""
        return asdict(self) | {"passed": self.passed, "diagnosis": self.diagnosis, "message": self.message}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """Return the report that `as_dict` made `data` from."""
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
        return "\n".join(indent + line for indent, line in self._indented())

    def wrapped(self, width: int = WIDTH) -> str:
        """Return the report as text in lines of at most `width`; continued lines are indented."""
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines: list[str] = []
        for indent, line in self._indented():
            wrapper.initial_indent, wrapper.subsequent_indent = indent, f"{indent}  "
            room = width - len(wrapper.subsequent_indent)
            lines += wrapper.wrap(" ".join(_in_parts(word, room) for word in line.split(" ")))
        return "\n".join(lines)

    def _indented(self) -> Iterator[tuple[str, str]]:
        yield "", self.title
        for line in self.note.splitlines():
            yield "  ", line
        for head, details in self._entries():
            yield "  ", head
            for line in details:
                one_line = " ".join(line.splitlines())  # so no line of a student's message looks like ours
                yield " " * 9, one_line

    def _entries(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each criterion with the lines below it; criteria with a reason already shown share a line."""
        shown: set[str] = set()
        again: list[CriterionResult] = []
        for result in self.criteria:
            if not result.failure:
                waits = result.points and not result.earned
                yield _head("✓", [result]), ["counts once the first criterion above is met"] if waits else []
            elif lines := _lines(result.failure, shown):
                yield _head("✗", [result]), lines
            else:
                again.append(result)
        if again:
            yield _head("✗", again), [SAME]

    def _repr_html_(self) -> str:
        """Return the report as HTML without scripts; the student's text is escaped."""
        colour = "#1a7f37" if self.passed else "#b35900"
        rows = []
        for head, details in self._entries():
            mark, points, says = marked_up(head).split(maxsplit=2)
            below = "".join(f"<p style='margin:0'>{marked_up(line)}</p>" for line in details)
            rows.append(f"<li>{mark} <b>{points}</b> {says}<div style='margin-left:2em'>{below}</div></li>")
        note = f"<p>{marked_up(self.note)}</p>" if self.note else ""
        listed = f"<ul style='list-style-type:none;padding-left:1em'>{''.join(rows)}</ul>" if rows else ""
        return (
            f"<div class='report' style='border-left:4px solid {colour};padding-left:1em'>"
            f"<b class='report-title'>{html.escape(self.title)}</b>{note}{listed}</div>"
        )


def _in_parts(word: str, room: int) -> str:
    """Return a word that is wider than the room with a space after its first bracket, if both parts then fit.

    >>> _in_parts("attention_entropy(weights=np.array([0.,", 30)
    'attention_entropy( weights=np.array([0.,'
    """
    head, bracket, rest = word.partition("(")
    if len(word) <= room or not bracket or max(len(head) + 1, len(rest)) > room:
        return word
    return f"{head}( {rest}"


def marked_up(text: str) -> str:
    """Return the text as HTML: a call, and text between backticks, becomes code."""
    before, call, after = text.partition(CALLED)
    if call and not before:
        return f"{CALLED}<code>{html.escape(visible(after).replace('`', ''))}</code>"
    marked = re.sub(r"(?<!\S)\*(\w[\w ]*)\*", r"<em>\1</em>", html.escape(visible(text)))
    return re.sub("`([^`]+)`", r"<code>\1</code>", marked)


def _head(mark: str, results: list[CriterionResult]) -> str:
    """Return a line such as ``✗ 0/2  gradients; any axis``: criteria with the sum of their points."""
    earned, points = sum(r.earned for r in results), sum(r.points for r in results)
    return f"{mark} {earned:g}/{points:g}  {'; '.join(r.says for r in results)}"


def _lines(failure: Failure, shown: set[str]) -> list[str]:
    """Return the lines about a failure, its hint first; none if the hint or the fault was shown before.

    Args:
        failure: why a criterion was not met.
        shown: the faults, broken laws and hints shown so far; those of this failure are added.
    """
    raised = failure.fault.startswith("your code raised")
    fault = without_numbers(failure.fault) if raised else failure.fault
    broken, hint = failure.broken or "", failure.hint or ""
    before = shown.copy()
    shown |= {fault, broken, hint} - {""}
    if hint in before or (fault in before and not hint):
        return []
    lines = [f"→ {hint}"] if hint else []
    if fault in before:
        return [*lines, SAME]
    lines.insert(0 if SHAPE in fault else len(lines), f"{failure.case}: {failure.fault}")
    if failure.call:
        lines.append(f"{CALLED}{failure.call}")
    if failure.broken and failure.broken not in failure.fault:
        lines.append("it breaks the same rule as above" if broken in before else failure.broken)
    return lines
