"""Define the class with which every attack is declared."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FULL, NONE, EARNED, EITHER, WORKS = "full", "none", "earned", "either", "works"

GOT = "GOT"
"""The word that a cell prints before the thing that the walls should have kept from it."""


@dataclass(frozen=True)
class Attack:
    """An attack that a stranger's notebook may try.

    Args:
        name: the attempt, in a few words.
        must: the result that the grader must produce.
        cell: a cell before the answers. The dict ``TARGET`` gives it the knowledge of an insider: ``secret``,
            a file of the grader; ``gradebook``; ``course``, the folder of the solutions; ``pid`` of the
            grader; ``port`` and ``socket``, on which the grader listens. The cell prints ``GOT`` before each
            secret that it reads and each change that it makes.
        answer: replaces the right answer to the exercise.
        change: changes the notebook's JSON.
        points: `FULL` if the answer is right and must keep its points; `NONE` if the answer deserves none;
            `EARNED` for at most the points of the answer without the cell; `EITHER` if some tiers end the
            submission and others only refuse; `WORKS` if the function works and gets its points through a
            library call that the watch misses.
        exercise: the exercise that is answered.
        remark: the name in the teacher's remark, if the text touches the grader's machinery; if it is empty,
            there must not be a remark.
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
        """Return the source of the cell without its indentation."""
        return textwrap.dedent(self.cell).strip()
