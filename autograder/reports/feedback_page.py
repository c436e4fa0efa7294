"""Make the page of feedback: on top a summary to be read in ten seconds, then the notebook with its reports.

`Summarise` computes the summary, and the templates in `templates/feedback` are the layout of the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader import preprocessors
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from autograder.checking.report import Report, marked_up
from autograder.course.cells import grade_id_of
from autograder.grading.marks import Mark, NotebookMarks
from autograder.grading.rows import after_penalty
from autograder.grading.written import NOTE
from autograder.reports.cell_layouts import CellLayouts
from autograder.reports.safe_html import POLICY, is_out_of_time
from autograder.reports.tidy_html import without_active

TEMPLATES = Path(__file__).with_name("templates")

Verdict = Literal["full", "part", "none", "waits"]
MARKS: dict[Verdict, tuple[str, str]] = {
    "full": ("✓", "full marks"),
    "part": ("◐", "part of the points"),
    "none": ("✗", "no points"),
    "waits": ("…", "waits for your teacher"),
}
READ_LATER = "This answer has no points until your teacher marks it."
READ_AGAIN = "Your teacher gave these points for an earlier version, and will check them again."
BY_HAND = "Your teacher gave these points."
NO_ANSWER = "This answer is empty."


@dataclass
class Line:
    """The line of the summary on one exercise."""

    name: str
    label: str | Markup
    verdict: Verdict
    score: str
    points: str
    extra: str = ""
    says: str = ""
    remarks: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    by_hand: bool = False
    reported: bool = False

    @property
    def mark(self) -> str:
        return MARKS[self.verdict][0]

    @property
    def verdict_in_words(self) -> str:
        return MARKS[self.verdict][1]


@dataclass
class Summary:
    """The summary above the notebook.

    Args:
        title: the name of the notebook.
        student: the id of the student.
        total: the points so far, without a late penalty.
        counted: the highest points for the cells that are graded.
        waiting: the highest points for the cells that a person still has to grade.
        remarks: sentences on waiting points and on a late penalty.
        lines: a line for each exercise, by grade_id, in the order of the notebook.
        comments: the teacher's comments, by grade_id of the answer.
    """

    title: str
    student: str
    total: str
    counted: str
    waiting: str
    remarks: list[str]
    lines: dict[str, Line]
    comments: dict[str, str]

    def is_reported(self, cell: NotebookNode) -> bool:
        """Return whether this cell has a report, which the page shows in place of the test's source."""
        line = self.lines.get(grade_id_of(cell))
        return line is not None and line.reported


class Summarise(NbGraderPreprocessor):
    """A preprocessor that puts the summary of gradebook and reports into ``resources["feedback"]``."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        page = resources["nbgrader"]
        marks = page.get("marks")
        if marks is None:  # `nbgrader generate_feedback` makes this page
            with Gradebook(page["db_url"]) as book:
                names = page["notebook"], page["assignment"], page["student"]
                marks = NotebookMarks.of(book.find_submission_notebook(*names))
        resources["feedback"] = summarise(nb, marks)
        return nb, resources


def summarise(nb: NotebookNode, marks: NotebookMarks) -> Summary:
    """Return the summary of a graded notebook and its marks in the gradebook."""
    grades = {mark.name: mark for mark in marks.marks}
    reports = {
        name: Report.from_dict(data) for name, data in nb.metadata.get(NOTE, {}).get("reports", {}).items()
    }
    order = [grade_id_of(cell) for cell in nb.cells]
    lines = {name: _line(grades[name], reports.get(name)) for name in order if name in grades}
    _shorten_equal_messages(reports, lines)
    for name, comment in marks.comments.items():
        line = lines.get(name) or lines.get(name.removesuffix("_answer"))
        if line:
            line.comments.append(comment)
    waiting = sum(grades[name].max_score for name, line in lines.items() if line.verdict == "waits")
    penalty = marks.late_penalty
    remarks = []
    if waiting:
        count = "1 more point is" if waiting == 1 else f"{waiting:g} more points are"
        remarks.append(f"{count} possible: your teacher will mark the rest.")
    if penalty:
        lost = "1 point is" if penalty == 1 else f"{penalty:g} points are"
        remarks.append(f"{lost} taken off because the notebook was handed in late.")
    return Summary(
        title=marks.notebook,
        student=marks.student,
        total=f"{after_penalty(marks.score, penalty):g}",
        counted=f"{marks.max_score - waiting:g}",
        waiting=f"{waiting:g}" if waiting else "",
        remarks=remarks,
        lines=lines,
        comments=marks.comments,
    )


def _line(grade: Mark, report: Report | None) -> Line:
    line = Line(
        name=grade.name,
        label=Markup("<code>{}</code>").format(grade.name) if report else grade.name.replace("_", " "),
        verdict=_verdict(grade),
        score=f"{grade.score:g}",
        points=f"{grade.max_score:g}",
        extra=f"{grade.extra_credit:g}" if grade.extra_credit else "",
        by_hand=grade.manual_score is not None,
        reported=report is not None,
    )
    if line.verdict == "waits":
        line.says = READ_LATER
        line.score = "?"
    elif report:
        line.says = shorten(report)
    elif grade.manual_score is None and grade.cell_type == "markdown" and not grade.score:
        line.says = NO_ANSWER
    if line.by_hand:
        line.remarks.append(READ_AGAIN if grade.needs_manual_grade else BY_HAND)
    return line


def _verdict(grade: Mark) -> Verdict:
    if grade.needs_manual_grade and grade.manual_score is None:
        return "waits"
    if grade.score >= grade.max_score:
        return "full"
    return "part" if grade.score > 0 else "none"


def shorten(report: Report) -> str:
    """Return a report in one sentence; a report on a missing answer keeps its second sentence, the reason."""
    if report.passed:
        return ""
    text = report.message if report.status == "missing" else first_sentence(report.message)
    return text if report.diagnosis else text[:1].upper() + text[1:]  # a hint may begin with `exp`


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", text, maxsplit=1)[0]


def _shorten_equal_messages(reports: dict[str, Report], lines: dict[str, Line]) -> None:
    """Shorten equal messages of stopped exercises: the first keeps its message, the others refer to it."""
    first_with: dict[str, str] = {}
    for name, line in lines.items():
        if line.says and name in reports and reports[name].status == "stopped":
            first = first_with.setdefault(line.says, name)
            line.says = line.says if first == name else f"The same as for `{first}`."


class ClearHiddenTests(preprocessors.ClearHiddenTests):
    """nbgrader's preprocessor that removes hidden tests, here only from test cells and never from answers."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if is_grade(cell) and not is_solution(cell):
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
        return cell, resources


class FeedbackExporter(HTMLExporter):
    """The exporter of a page without scripts and with a policy that forbids them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.cells = CellLayouts()

    @property
    def default_config(self) -> Config:
        settings = {
            "template_name": "feedback",
            "extra_template_basedirs": [str(TEMPLATES)],
            "exclude_input_prompt": True,
            "exclude_output_prompt": True,
            "optimistic_validation": True,  # once a page, not after each preprocessor
        }
        config = super().default_config.copy()
        config.merge(Config({"FeedbackExporter": settings}))
        return config

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "with_code", marked_up
        yield "out_of_time", is_out_of_time

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        self._nb_metadata.clear()  # nbconvert would keep the metadata of every page
        self.cells.start_page()
        values = {"policy": POLICY, "highlighting": _highlighting(), "cells": self.cells}
        page, resources = super().from_notebook_node(nb, {**(resources or {}), **values}, **kw)
        return self.cells.fill_in(without_active(page)), resources


@cache
def _highlighting() -> str:
    """Return the style sheet of code colours for light and dark pages."""
    styles = "xcode", "github-dark"
    light, dark = (HtmlFormatter(style=style).get_style_defs(".highlight") for style in styles)
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
