"""The verdict on one submission: all that grading found, as plain JSON data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from autograder.checking.report import Report
from autograder.course.remark import Remark


@dataclass(frozen=True)
class CellVerdict:
    """One graded cell. ``score`` is None for a written answer, which a person grades."""

    grade_id: str
    score: float | None
    max_score: float
    report: Report | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CellVerdict:
        report = Report.from_dict(data["report"]) if data["report"] else None
        return cls(data["grade_id"], data["score"], data["max_score"], report)

    def as_dict(self) -> dict[str, Any]:
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return plain | {"report": self.report.as_dict() if self.report else None}


@dataclass(frozen=True)
class Verdict:
    """What became of one submitted notebook.

    Args:
        status: "graded"; "unreadable" when the file is no notebook; "failed" when the grader itself did.
        note: why, where it was not graded.
        cells: a verdict for each graded cell of the release.
        notebook: the notebook as run, with nbgrader's metadata and the reports as outputs.
        remarks: what a teacher should know: cells lost, a kernel that died, code for a person to look at.
        tier: how the code was confined.
        seconds: wall-clock time spent on it.
    """

    status: Literal["graded", "unreadable", "failed"]
    note: str = ""
    cells: tuple[CellVerdict, ...] = ()
    notebook: dict[str, Any] | None = None
    remarks: tuple[Remark, ...] = ()
    tier: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def score(self) -> float:
        """The points given by the grader; those that a person gives are not in it."""
        return sum(cell.score or 0.0 for cell in self.cells)

    @property
    def max_score(self) -> float:
        """The points that the grader could give."""
        return sum(cell.max_score for cell in self.cells if cell.score is not None)

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON data, which shares the notebook with it."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        cells = [cell.as_dict() for cell in self.cells]
        remarks = [asdict(remark) for remark in self.remarks]
        return plain | {"cells": cells, "remarks": remarks, "score": self.score, "max_score": self.max_score}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        plain = {key: data[key] for key in ("status", "note", "notebook", "tier", "seconds")}
        cells = tuple(CellVerdict.from_dict(cell) for cell in data["cells"])
        return cls(cells=cells, remarks=tuple(map(Remark.from_json, data["remarks"])), **plain)
