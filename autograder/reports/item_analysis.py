"""How a class did on each exercise: how hard it was, and whether it tells apart who knows the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import correlation, mean

from autograder.grading.gradebook import Row

FEWEST = 10
"""With fewer students nothing is said about discrimination, nor about what is worth mending."""
VERY_HARD = 0.3
"""Below this share of its points an exercise is called very hard."""


@dataclass(frozen=True)
class Item:
    """One graded cell in a class. Only who is graded counts; who waits for a person does not."""

    exercise: str
    max_score: float
    graded: int
    waiting: int
    mean: float | None
    """None while most wait for a person."""
    full_marks: int
    discrimination: float | None
    """The correlation of its points with the share of all other points that each student has."""
    unknown: str = ""
    """Why there is no discrimination."""

    @property
    def share(self) -> float | None:
        """The part of its points that the class has."""
        return self.mean / self.max_score if self.mean is not None and self.max_score else None

    @property
    def full_share(self) -> float | None:
        """The part of the class that has full marks."""
        return self.full_marks / self.graded if self.mean is not None else None

    @property
    def by_chance(self) -> float:
        """How far from 0 the discrimination of so many students may be though there is none (two in 40)."""
        return 2 / sqrt(self.graded) if self.graded else 1.0

    @property
    def worth_mending(self) -> tuple[str, ...]:
        """What is odd about the exercise, in words."""
        if self.graded < FEWEST or self.share is None:
            return ()
        found = []
        if self.share < VERY_HARD:
            found.append(f"very hard: the class has {self.share:.0%} of its points")
        if not self.full_marks:
            found.append("nobody has full marks")
        if self.discrimination is not None and self.discrimination < 0:
            chance = ", which may be chance" if self.discrimination > -self.by_chance else ""
            found.append(f"who does well elsewhere does worse here{chance}")
        return tuple(found)


def graded_scores(row: Row) -> dict[str, float]:
    """A student's points where none waits for a person."""
    return {name: score for name, score in row.scores.items() if name not in row.needs_manual_grade}


def share_of(row: Row, names: Iterable[str]) -> float | None:
    """The part of the points for these cells that a student has; None if they are worth nothing."""
    chosen = list(names)
    possible = sum(row.max_scores[name] for name in chosen)
    return sum(row.scores[name] for name in chosen) / possible if possible else None


def of_class(rows: list[Row], names: list[str]) -> tuple[Item, ...]:
    """The graded cells, hardest first; last those of which somebody's waits for a person."""
    items = [_item(rows, name) for name in names]
    return tuple(
        sorted(items, key=lambda item: (item.waiting > 0, 1.0 if item.share is None else item.share))
    )


def _item(rows: list[Row], name: str) -> Item:
    own = [row for row in rows if name in row.scores]
    scores = [row.scores[name] for row in own if name not in row.needs_manual_grade]
    highest = own[0].max_scores[name]
    discrimination, unknown = _discrimination(own, name)
    return Item(
        name,
        highest,
        graded=len(scores),
        waiting=len(own) - len(scores),
        mean=mean(scores) if len(scores) > len(own) / 2 else None,
        full_marks=sum(score >= highest for score in scores),
        discrimination=discrimination,
        unknown=unknown,
    )


def _discrimination(rows: list[Row], name: str) -> tuple[float | None, str]:
    """The correlation with the rest, the item itself left out of it, or why there is none."""
    points, rests = [], []
    for row in rows:
        graded = graded_scores(row)
        rest = share_of(row, graded.keys() - {name})
        if name in graded and rest is not None:
            points.append(graded[name])
            rests.append(round(rest, 9))
    if not points:
        return None, "nothing to compare with"
    if len(points) < FEWEST:
        return None, f"fewer than {FEWEST} to compare"
    if len(set(points)) == 1:
        return None, "all have the same points"
    if len(set(rests)) == 1:
        return None, "all have the same points elsewhere"
    return correlation(points, rests), ""
