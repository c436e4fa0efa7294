"""The one shape in which an attack is declared."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FULL, NONE, EARNED, EITHER, WORKS = "full", "none", "earned", "either", "works"

GOT = "GOT"
"""What a cell prints in front of something that it should not have."""


@dataclass(frozen=True)
class Attack:
    """One thing a stranger's notebook may try.

    Args:
        name: what is attempted, in a few words.
        must: what must come of it.
        cell: a cell in front of the answers. It finds what an insider would know in ``TARGET``: ``secret``, a
            file of the grader's; ``gradebook``; ``course``, the folder of the solutions; ``pid`` of the
            grader; ``port`` and ``socket``, on which it listens. It prints ``GOT`` and what it got hold of.
        answer: in place of the right answer to the exercise.
        change: what is done to the notebook's JSON.
        points: `FULL` where the answer is right and must keep its points; `NONE` where there is nothing to
            earn; `EARNED` for no more than the answer gets without the cell; `EITHER` where some walls end
            the submission and others only refuse; `WORKS` where the function works and has its points, by a
            library call that nobody saw.
        exercise: what is answered.
        remark: the name that the teacher's remark is about, where the text touches the grader's machinery;
            without it there must be no remark.
    """

    name: str
    must: str
    cell: str = ""
    answer: str | None = None
    change: Callable[[dict[str, Any]], None] | None = None
    points: str = FULL
    exercise: str = "ch02_qkv/softmax"
    remark: str = ""

    @property
    def cell_source(self) -> str:
        return textwrap.dedent(self.cell).strip()
