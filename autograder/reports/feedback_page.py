"""The page of feedback: what a student reads in ten seconds on top, then the notebook with its reports.

`Summarise` finds what is to be told, and the templates in `templates/feedback` lay it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bs4 import BeautifulSoup
from markupsafe import Markup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader import preprocessors
from nbgrader.api import Grade, Gradebook, SubmittedNotebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from autograder.checking.report import Report, marked_up
from autograder.grading.written import NOTE
from autograder.reports.safe_html import POLICY

TEMPLATES = Path(__file__).with_name("templates")

Verdict = Literal["full", "part", "none", "waits"]
MARKS: dict[Verdict, tuple[str, str]] = {
    "full": ("✓", "full marks"),
    "part": ("◐", "part of the points"),
    "none": ("✗", "no points"),
    "waits": ("…", "waits for your teacher"),
}
READ_LATER = "A person reads this answer; until then it has no points."
READ_AGAIN = "These points were given by hand for an earlier version; a person looks at it again."
BY_HAND = "Your teacher gave these points."
NO_ANSWER = "There is no answer here."


@dataclass
class Line:
    """What the page tells of one exercise."""

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
    """What the page tells before the notebook.

    Args:
        total: the points as they stand, a late penalty taken off.
        counted: the points that could be had in what is graded.
        waiting: the points that a person has still to give.
        lines: by grade_id, in the order of the notebook.
        comments: a teacher's, by grade_id of the answer.
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
        """Whether a report stands under this cell, which says more than the test's source."""
        line = self.lines.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        return line is not None and line.reported


class Summarise(NbGraderPreprocessor):
    """Puts what the gradebook and the reports say into ``resources["feedback"]``."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        told = resources["nbgrader"]
        with Gradebook(told["db_url"]) as book:
            held = book.find_submission_notebook(told["notebook"], told["assignment"], told["student"])
            resources["feedback"] = summary(nb, held)
        return nb, resources


def summary(nb: NotebookNode, held: SubmittedNotebook) -> Summary:
    """What is to be told of a graded notebook, of which the gradebook holds this."""
    grades = {grade.name: grade for grade in held.grades}
    reports = {
        name: Report.from_dict(data) for name, data in nb.metadata.get(NOTE, {}).get("reports", {}).items()
    }
    order = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells]
    lines = {name: _line(grades[name], reports.get(name)) for name in order if name in grades}
    _say_once(reports, lines)
    comments = {c.name: c.manual_comment for c in held.comments if c.manual_comment}
    for name, comment in comments.items():
        about = lines.get(name) or lines.get(name.removesuffix("_answer"))
        if about:
            about.comments.append(comment)
    waiting = sum(grades[name].max_score for name, line in lines.items() if line.verdict == "waits")
    penalty = held.late_submission_penalty or 0.0
    remarks = []
    if waiting:
        them = "1 more point waits" if waiting == 1 else f"{waiting:g} more points wait"
        remarks.append(f"{them} for your teacher.")
    if penalty:
        lost = "1 point is" if penalty == 1 else f"{penalty:g} points are"
        remarks.append(f"{lost} taken off because this was handed in late.")
    return Summary(
        title=held.name,
        student=held.student.id,
        total=f"{held.score - penalty:g}",
        counted=f"{held.max_score - waiting:g}",
        waiting=f"{waiting:g}" if waiting else "",
        remarks=remarks,
        lines=lines,
        comments=comments,
    )


def _line(grade: Grade, report: Report | None) -> Line:
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
        line.says = in_short(report)
    elif grade.manual_score is None and grade.cell_type == "markdown" and not grade.score:
        line.says = NO_ANSWER
    if line.by_hand:
        line.remarks.append(READ_AGAIN if grade.needs_manual_grade else BY_HAND)
    return line


def _verdict(grade: Grade) -> Verdict:
    if grade.needs_manual_grade and grade.manual_score is None:
        return "waits"
    if grade.score >= grade.max_score:
        return "full"
    return "part" if grade.score > 0 else "none"


def in_short(report: Report) -> str:
    """A report in one sentence; with a second one, where that says why there is nothing to grade."""
    if report.passed:
        return ""
    said = report.message if report.status == "missing" else first_sentence(report.message)
    return said if report.diagnosis else said[:1].upper() + said[1:]  # a hint may begin with `exp`


def first_sentence(text: str) -> str:
    """A text up to where its second sentence begins."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", text, maxsplit=1)[0]


def _say_once(reports: dict[str, Report], lines: dict[str, Line]) -> None:
    """What stopped one exercise and all that came after it is told of the first."""
    told: dict[str, str] = {}
    for name, line in lines.items():
        if line.says and name in reports and reports[name].status == "stopped":
            first = told.setdefault(line.says, name)
            line.says = line.says if first == name else f"The same as for `{first}`."


class ClearHiddenTests(preprocessors.ClearHiddenTests):
    """Takes hidden tests out of the tests, and out of nothing that a student wrote."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if is_grade(cell) and not is_solution(cell):
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
        return cell, resources


class FeedbackExporter(HTMLExporter):
    """Lays out the page. It holds no script, and a policy that forbids them."""

    @property
    def default_config(self) -> Config:
        own = {
            "template_name": "feedback",
            "extra_template_basedirs": [str(TEMPLATES)],
            "exclude_input_prompt": True,
            "exclude_output_prompt": True,
        }
        made = super().default_config.copy()
        made.merge(Config({"FeedbackExporter": own}))
        return made

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "with_code", marked_up

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        told = {"policy": POLICY, "highlighting": _highlighting()}
        page, resources = super().from_notebook_node(nb, {**(resources or {}), **told}, **kw)
        if _RUNS.search(page):  # such as the frame in which nbconvert shows output that asks for one
            soup = BeautifulSoup(page, "html.parser")
            for element in soup.find_all(["script", "iframe", "object", "embed", "link", "base", "form"]):
                element.decompose()
            page = str(soup)
        return page, resources


_RUNS = re.compile(r"<(script|iframe|object|embed|link|base|form)\b", re.IGNORECASE)


def _highlighting() -> str:
    """The colours of code, by light and by dark."""
    styles = "xcode", "github-dark"
    light, dark = (HtmlFormatter(style=style).get_style_defs(".highlight") for style in styles)
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
