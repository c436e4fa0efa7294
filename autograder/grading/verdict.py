"""Define the verdict on one submission: all results of grading, as plain JSON data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from autograder.checking.report import Report
from autograder.course.remark import Remark


@dataclass(frozen=True)
class CellVerdict:
    """The verdict on one graded cell. ``score`` is None for a written answer, which a person grades."""

    grade_id: str
    score: float | None
    max_score: float
    report: Report | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CellVerdict:
        report = Report.from_dict(data["report"]) if data["report"] else None
        return cls(data["grade_id"], data["score"], data["max_score"], report)

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"report": self.report.as_dict() if self.report else None}


@dataclass(frozen=True)
class Verdict:
    """The verdict on one submitted notebook.

    Args:
        status: "graded"; "unreadable" if the file is not a notebook; "failed" if the grader itself failed.
        note: the reason why a notebook was not graded.
        cells: a verdict for each graded cell of the release.
        notebook: the executed notebook, with nbgrader's metadata and the reports as outputs.
        remarks: remarks for the teacher: missing cells, a lost kernel, code that a person should read.
        tier: the tier of the cage around the code.
        seconds: the seconds that grading took on the clock.
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
        """Return the sum of the points from the grader, without the points from a person."""
        return sum(cell.score or 0.0 for cell in self.cells)

    @property
    def max_score(self) -> float:
        """Return the highest sum of points that the grader can give."""
        return sum(cell.max_score for cell in self.cells if cell.score is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON data; its notebook is the same object, not a copy."""
        cells = [cell.as_dict() for cell in self.cells]
        remarks = [asdict(remark) for remark in self.remarks]
        points = {"score": self.score, "max_score": self.max_score}
        return vars(self) | points | {"cells": cells, "remarks": remarks}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        plain = {key: data[key] for key in ("status", "note", "notebook", "tier", "seconds")}
        cells = tuple(CellVerdict.from_dict(cell) for cell in data["cells"])
        return cls(cells=cells, remarks=tuple(map(Remark.from_json, data["remarks"])), **plain)
