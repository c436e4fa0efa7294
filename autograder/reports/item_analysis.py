"""Analyse each exercise of a class: its difficulty and its discrimination (item analysis)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import correlation, mean

from autograder.grading.rows import Row

FEWEST = 10
"""The fewest students for statements about discrimination and about exercises worth mending."""
VERY_HARD = 0.3
"""An exercise is called very hard if the class has less than this share of its points."""


@dataclass(frozen=True)
class Item:
    """One graded cell in a class. Only students whose cell is graded count."""

    exercise: str
    max_score: float
    graded: int
    waiting: int
    mean: float | None
    """The mean of the points; None while most students wait for a marker."""
    full_marks: int
    discrimination: float | None
    """The correlation of the cell's points with each student's share of all other points."""
    unknown: str = ""
    """The reason why the discrimination is None."""

    @property
    def share(self) -> float | None:
        """Return the share of its points that the class has."""
        return self.mean / self.max_score if self.mean is not None and self.max_score else None

    @property
    def full_share(self) -> float | None:
        """Return the share of the class with full marks."""
        return self.full_marks / self.graded if self.mean is not None else None

    @property
    def by_chance(self) -> float:
        """Return the largest discrimination that is likely by chance; 1 in 20 is farther from 0."""
        return 2 / sqrt(self.graded) if self.graded else 1.0

    @property
    def worth_mending(self) -> tuple[str, ...]:
        """Return sentences on odd results of the exercise."""
        if self.graded < FEWEST or self.share is None:
            return ()
        oddities = []
        if self.share < VERY_HARD:
            oddities.append(f"very hard: the class has {self.share:.0%} of its points")
        if not self.full_marks:
            oddities.append("nobody has full marks")
        if self.discrimination is not None and self.discrimination < 0:
            chance = ", which may be chance" if self.discrimination > -self.by_chance else ""
            oddities.append(f"students who do well elsewhere do worse here{chance}")
        return tuple(oddities)


def graded_scores(row: Row) -> dict[str, float]:
    """Return a student's points by cell, without cells that wait for a person."""
    return {name: score for name, score in row.scores.items() if name not in row.needs_manual_grade}


def analyse_items(rows: list[Row], names: list[str]) -> tuple[Item, ...]:
    """Return an item for each cell, the hardest first and cells that still wait for a person last."""
    items = [_analyse_item(rows, name) for name in names]
    return tuple(
        sorted(items, key=lambda item: (item.waiting > 0, 1.0 if item.share is None else item.share))
    )


def _analyse_item(rows: list[Row], name: str) -> Item:
    rows = [row for row in rows if name in row.scores]
    scores = [row.scores[name] for row in rows if name not in row.needs_manual_grade]
    highest = rows[0].max_scores[name]
    discrimination, unknown = _discrimination(rows, name)
    return Item(
        name,
        highest,
        graded=len(scores),
        waiting=len(rows) - len(scores),
        mean=mean(scores) if len(scores) > len(rows) / 2 else None,
        full_marks=sum(score >= highest for score in scores),
        discrimination=discrimination,
        unknown=unknown,
    )


def _discrimination(rows: list[Row], name: str) -> tuple[float | None, str]:
    """Return the correlation of a cell's points with all other points, or None and the reason."""
    points, rests = [], []
    for row in rows:
        graded = graded_scores(row)
        others = graded.keys() - {name}
        possible = sum(row.max_scores[other] for other in others)
        if name in graded and possible:
            points.append(graded[name])
            rests.append(round(sum(graded[other] for other in others) / possible, 9))
    if not points:
        return None, "nothing to compare with"
    if len(points) < FEWEST:
        return None, f"fewer than {FEWEST} students"
    if len(set(points)) == 1:
        return None, "all have the same points"
    if len(set(rests)) == 1:
        return None, "all students do equally well elsewhere"
    return correlation(points, rests), ""
