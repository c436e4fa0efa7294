"""The class at a glance: points, what was hard, what was misunderstood, what needs a look.

`autograder.reports.class_page` shows it as a page, `autograder.commands.tables` on the terminal.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.remark import Remark
from autograder.grading import gradebook, written
from autograder.grading.batch import problems
from autograder.grading.gradebook import Row
from autograder.platforms.export import in_order
from autograder.release import publish
from autograder.reports import item_analysis, plagiarism, review_queue
from autograder.reports.item_analysis import Item
from autograder.reports.plagiarism import Pair
from autograder.reports.review_queue import Look
from autograder.reports.sections import Section, book_of, section_of


@dataclass(frozen=True)
class Misconception:
    """A mistake of the bank, with how many made it and what they were told."""

    exercise: str
    name: str
    count: int
    hint: str


@dataclass(frozen=True)
class Overview:
    """One assignment's class."""

    assignment: str
    rows: tuple[Row, ...]
    items: tuple[Item, ...]
    """The graded cells, hardest first."""
    misconceptions: tuple[Misconception, ...]
    unrecognised: dict[str, int]
    """By exercise, how many made a mistake that is none of the bank."""
    looks: tuple[Look, ...]
    alike: tuple[Pair, ...]
    book: str = ""
    """Where the book is published."""

    @property
    def shares(self) -> list[float]:
        """What part of the points that are graded each student has, after a penalty for being late."""
        found = []
        for row in self.rows:
            graded = item_analysis.graded_scores(row)
            possible = sum(row.max_scores[name] for name in graded)
            if possible:
                found.append(max(0.0, sum(graded.values()) - row.late_penalty) / possible)
        return found

    @property
    def max_total(self) -> float:
        return max(row.max_total for row in self.rows)

    @property
    def waiting(self) -> tuple[Item, ...]:
        """The cells that a person has still to grade."""
        return tuple(item for item in self.items if item.waiting)

    def section(self, exercise: str) -> Section | None:
        """The section of the book that treats an exercise."""
        return section_of(f"{self.assignment}/{exercise}")

    def summary(self) -> str:
        """Who handed in, how they did, and what waits for a person."""
        count = len(self.rows)
        students = "1 student" if count == 1 else f"{count} students"
        shares = self.shares
        if shares:
            told = f"{students}; of the points that are graded, the median is {median(shares):.0%}"
            told += f" and the mean {mean(shares):.0%}"
        else:
            told = f"{students}; nothing is graded yet"
        waiting = [f"{item.exercise} of {item.waiting} ({item.max_score:g} points)" for item in self.waiting]
        return f"{told}. To be graded by hand: {', '.join(waiting)}." if waiting else f"{told}."

    def as_dict(self) -> dict[str, Any]:
        """The overview as JSON data."""
        shares = self.shares
        return {
            "assignment": self.assignment,
            "students": len(self.rows),
            "mean_share": round(mean(shares), 4) if shares else None,
            "median_share": round(median(shares), 4) if shares else None,
            "max_score": self.max_total,
            "waiting": {item.exercise: item.waiting for item in self.waiting},
            "scores": [
                {
                    "student": row.student,
                    "scores": row.scores,
                    "total": row.total,
                    "needs_manual_grade": list(row.needs_manual_grade),
                    "late_seconds": row.late_seconds,
                }
                for row in self.rows
            ],
            "exercises": [
                {
                    **asdict(item),
                    "share": item.share,
                    "full_share": item.full_share,
                    "worth_mending": list(item.worth_mending),
                    **self._treated(item.exercise),
                }
                for item in self.items
            ],
            "misconceptions": [{**asdict(one), **self._treated(one.exercise)} for one in self.misconceptions],
            "unrecognised_mistakes": self.unrecognised,
            "needs_a_look": [asdict(one) for one in self.looks],
            "near_identical": [asdict(pair) for pair in self.alike],
        }

    def _treated(self, exercise: str) -> dict[str, str | None]:
        """The section that treats an exercise, and its address, as JSON data."""
        section = self.section(exercise)
        return {
            "section": section.says if section else None,
            "section_url": section.url(self.book) if section and self.book else None,
        }


def of(course: Course, assignment: str) -> Overview:
    """The overview of an assignment, from the gradebook and the graded notebooks.

    Raises:
        BadInputError: nothing of it is graded.
    """
    rows = gradebook.read(course, assignment)
    if not rows:
        raise BadInputError(f"nothing of {assignment} is graded yet. Run: autograder grade --submissions DIR")
    reports: dict[str, dict[str, Any]] = {}
    remarks: dict[str, dict[str, list[Remark]]] = {}
    answers: dict[str, dict[str, str]] = {}
    for student in (row.student for row in rows):
        reports[student], remarks[student], answers[student] = {}, {}, {}
        for path in sorted((course.autograded / student / assignment).glob("*.ipynb")):
            notebook = written.notebook(path)
            reports[student] |= written.reports_in(notebook).get("reports", {})
            remarks[student][path.stem] = written.remarks_in(notebook)
            answers[student] |= plagiarism.answers_in(notebook)
    names = in_order(rows[0])
    return Overview(
        assignment,
        tuple(rows),
        item_analysis.of_class(rows, names),
        _misconceptions(list(reports.values())),
        _unrecognised(names, list(reports.values())),
        review_queue.of_class(rows, problems(course, assignment), reports, remarks),
        tuple(plagiarism.pairs(answers, _given(course, assignment))),
        book_of(course),
    )


def _given(course: Course, assignment: str) -> list[str]:
    """The code of the released notebooks; none where the release can no longer be made."""
    try:
        released = publish.notebooks(course, assignment).values()
    except BadInputError:
        return []
    cells = [cell for notebook in released for cell in json.loads(notebook)["cells"]]
    return [cell["source"] for cell in cells if cell["cell_type"] == "code"]


def _misconceptions(students: list[dict[str, Any]]) -> tuple[Misconception, ...]:
    """The mistakes found, the most common first; each student counts once for each."""
    counts: Counter[tuple[str, str]] = Counter()
    hints: dict[tuple[str, str], str] = {}
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            found = {f["misconception"]: f["hint"] for f in failures if f["misconception"]}
            counts.update((grade_id, name) for name in found)
            hints |= {(grade_id, name): hint for name, hint in found.items()}
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Misconception(where, name, count, hints[where, name]) for (where, name), count in ranked)


def _unrecognised(names: list[str], students: list[dict[str, Any]]) -> dict[str, int]:
    """How many failed an exercise in a way that no mistake of the bank explains, where any did."""
    counts: Counter[str] = Counter()
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            if failures and not any(f["misconception"] for f in failures):
                counts[grade_id] += 1
    return {name: counts[name] for name in names if counts[name]}
