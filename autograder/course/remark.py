"""Define the remarks on a submission that a teacher reads beside its points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Remark:
    """A remark on a submission for the teacher. No points depend on it.

    Args:
        says: the remark in one sentence.
        kind: "machinery" for code that touches the grader's own code; "stopped" for a lost process.
        exercise: the exercise whose function contains or reaches the code; empty if no function does.
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
        """Return the remark from the form that `asdict` made, or from the sentence of an older grader."""
        return cls(**data) if isinstance(data, dict) else cls(str(data))

    def __str__(self) -> str:
        sentence = f"{self.exercise}: {self.says}" if self.exercise else self.says
        return f"{sentence}. {self.place}: `{self.line}`" if self.place else sentence
