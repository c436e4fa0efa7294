"""What a teacher should know of a submission beside its points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Remark:
    """What a teacher should know of a submission. No points depend on it.

    Args:
        says: the remark in one sentence.
        kind: "machinery" for code that touches the grader's own; "stopped" for a lost process.
        exercise: the exercise whose function contains or reaches the code; empty where there is none.
        place: the cell and the line of the code.
        line: the line of code.
    """

    says: str
    kind: Literal["remark", "stopped", "machinery"] = "remark"
    exercise: str = ""
    place: str = ""
    line: str = ""

    @classmethod
    def from_json(cls, data: Any) -> Remark:
        """Return the remark that `asdict` wrote, or an older grader, which wrote the sentence alone."""
        return cls(**data) if isinstance(data, dict) else cls(str(data))

    def __str__(self) -> str:
        said = f"{self.exercise}: {self.says}" if self.exercise else self.says
        return f"{said}. {self.place}: `{self.line}`" if self.place else said
