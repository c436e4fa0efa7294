"""Summarise a class: points, hard exercises, common mistakes, submissions to look at.

`autograder.reports.class_page` shows the report as a page, `autograder.commands.tables` on the terminal.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.files import read_record
from autograder.course.layout import Course
from autograder.course.remark import Remark
from autograder.grading import gradebook, written
from autograder.grading.batch import problems
from autograder.grading.rows import Row
from autograder.platforms.export import cells_in_order
from autograder.release import publish
from autograder.reports import item_analysis, plagiarism, review_queue
from autograder.reports.item_analysis import Item
from autograder.reports.plagiarism import Pair
from autograder.reports.review_queue import ReviewItem
from autograder.reports.sections import Section, book_url, section_of
from autograder.roster.absent import Absent, find_absent


@dataclass(frozen=True)
class Misconception:
    """A mistake of the bank, with the number of students who made it and the hint that they read."""

    exercise: str
    name: str
    count: int
    hint: str


@dataclass(frozen=True)
class ClassReport:
    """The report on a class and one assignment."""

    assignment: str
    rows: tuple[Row, ...]
    items: tuple[Item, ...]
    """The graded cells, hardest first."""
    misconceptions: tuple[Misconception, ...]
    unrecognised: dict[str, int]
    """The number of students, by exercise, whose mistake is not in the bank."""
    review_queue: tuple[ReviewItem, ...]
    similar_pairs: tuple[Pair, ...]
    book: str = ""
    """The address of the published book."""
    absent: tuple[Absent, ...] = ()
    """The students of the class who have no points, each with the reason."""

    @property
    def shares(self) -> list[float]:
        """Return each student's share of the points that are graded, after late penalties."""
        shares = []
        for row in self.rows:
            graded = item_analysis.graded_scores(row)
            possible = sum(row.max_scores[name] for name in graded)
            if possible:
                shares.append(max(0.0, sum(graded.values()) - row.late_penalty) / possible)
        return shares

    @property
    def max_total(self) -> float:
        return max(row.max_total for row in self.rows)

    @property
    def waiting(self) -> tuple[Item, ...]:
        """Return the cells that a person still has to grade."""
        return tuple(item for item in self.items if item.waiting)

    def absent_by_reason(self) -> dict[str, list[str]]:
        """Return the students without points by reason, most students first."""
        by_reason: dict[str, list[str]] = {}
        for person in self.absent:
            shown = f"{person.student} ({person.name})" if person.name else person.student
            by_reason.setdefault(person.why, []).append(shown)
        return dict(sorted(by_reason.items(), key=lambda reason: -len(reason[1])))

    def section(self, exercise: str) -> Section | None:
        """Return the section of the book that treats an exercise."""
        return section_of(f"{self.assignment}/{exercise}")

    def summary(self) -> str:
        """Return a sentence on the number of students, their points and the cells to grade by hand."""
        count = len(self.rows)
        students = _students(count)
        shares = self.shares
        if shares:
            text = f"{students}; of the points that are graded, the median is {median(shares):.0%}"
            text += f" and the mean {mean(shares):.0%}"
        else:
            text = f"{students}; nothing is graded yet"
        waiting = [
            f"{item.exercise} of {_students(item.waiting)} ({item.max_score:g} points)"
            for item in self.waiting
        ]
        return f"{text}. To be graded by hand: {', '.join(waiting)}." if waiting else f"{text}."

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
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
                    **self._section_data(item.exercise),
                }
                for item in self.items
            ],
            "misconceptions": [
                {**asdict(mistake), **self._section_data(mistake.exercise)} for mistake in self.misconceptions
            ],
            "unrecognised_mistakes": self.unrecognised,
            "needs_a_look": [asdict(item) for item in self.review_queue],
            "near_identical": [asdict(pair) for pair in self.similar_pairs],
            "without_points": [asdict(person) for person in self.absent],
        }

    def _section_data(self, exercise: str) -> dict[str, str | None]:
        """Return the section that treats an exercise, and its address, as JSON data."""
        section = self.section(exercise)
        return {
            "section": section.says if section else None,
            "section_url": section.url(self.book) if section and self.book else None,
        }


def _students(count: int) -> str:
    return "1 student" if count == 1 else f"{count} students"


def make_report(course: Course, assignment: str) -> ClassReport:
    """Return the report on an assignment, from the gradebook and the graded notebooks.

    Raises:
        BadInputError: no submission of the assignment is graded.
    """
    rows = gradebook.read(course, assignment)
    if not rows:
        raise BadInputError(f"nothing of {assignment} is graded yet. Run: autograder grade")
    reports: dict[str, dict[str, Any]] = {}
    remarks: dict[str, dict[str, list[Remark]]] = {}
    answers: dict[str, dict[str, str]] = {}
    for student in (row.student for row in rows):
        reports[student], remarks[student], answers[student] = {}, {}, {}
        for path in sorted((course.autograded / student / assignment).glob("*.ipynb")):
            notebook = read_record(path)
            reports[student] |= written.reports_in(notebook).get("reports", {})
            remarks[student][path.stem] = written.remarks_in(notebook)
            answers[student] |= plagiarism.answers_in(notebook)
    names = cells_in_order(rows[0])
    return ClassReport(
        assignment,
        tuple(rows),
        item_analysis.analyse_items(rows, names),
        _misconceptions(list(reports.values())),
        _unrecognised(names, list(reports.values())),
        review_queue.make_review_queue(rows, problems(course, assignment), reports, remarks),
        tuple(plagiarism.find_pairs(answers, _released_code(course, assignment))),
        book_url(course),
        find_absent(course, assignment, rows),
    )


def _released_code(course: Course, assignment: str) -> list[str]:
    """Return the code cells of the released notebooks; an empty list if the release cannot be made."""
    try:
        released = publish.notebooks(course, assignment).values()
    except BadInputError:
        return []
    cells = [cell for notebook in released for cell in json.loads(notebook)["cells"]]
    return [cell["source"] for cell in cells if cell["cell_type"] == "code"]


def _misconceptions(students: list[dict[str, Any]]) -> tuple[Misconception, ...]:
    """Return the mistakes with the number of students who made each, the most common first."""
    counts: Counter[tuple[str, str]] = Counter()
    hints: dict[tuple[str, str], str] = {}
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            hint_of = {f["misconception"]: f["hint"] for f in failures if f["misconception"]}
            counts.update((grade_id, name) for name in hint_of)
            hints |= {(grade_id, name): hint for name, hint in hint_of.items()}
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(
        Misconception(grade_id, name, count, hints[grade_id, name]) for (grade_id, name), count in ranked
    )


def _unrecognised(names: list[str], students: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of students who fail each exercise without a known mistake; leave out zeros."""
    counts: Counter[str] = Counter()
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            if failures and not any(f["misconception"] for f in failures):
                counts[grade_id] += 1
    return {name: counts[name] for name in names if counts[name]}
