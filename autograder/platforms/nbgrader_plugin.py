"""Make nbgrader's own commands use our grader; `nbgrader_config.py` names these functions and classes.

With them, plain ``nbgrader autograde`` never runs a submission in a kernel of this machine, and gives the
same points as ``autograder grade``.
"""

from __future__ import annotations

import atexit
import json
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import parse_utc
from traitlets import Bool
from traitlets.config import Application, Config

from autograder.course.layout import Course
from autograder.course.student_ids import require_valid
from autograder.course.visible import one_line, visible
from autograder.grading import cages, gradebook, matching, submissions, written
from autograder.grading.batch import secret_seed
from autograder.grading.pair import Pair, notebook_task
from autograder.grading.session import Limits
from autograder.release import publish


def teach_gradebook(assignment: str, student: str, notebooks: list[str]) -> None:
    """Enter the cells of an assignment into the gradebook, before nbgrader autogrades it."""
    config = Application.instance().config if Application.initialized() else Config()
    course = Course.at(Path(), config.CourseDirectory.get("db_url"))  # from nbgrader's option --db
    with gradebook.opened(course) as book:
        book.learn(assignment, publish.notebooks(course, assignment))


class RestoreCells(NbGraderPreprocessor):
    """A preprocessor that restores the metadata of the released cells and the source of the tests."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        released = json.loads(_released(resources))
        submitted = matching.read_notebook(json.dumps(nb).encode())
        matched = matching.match(released["cells"], submitted["cells"])
        cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(matched.cells)]
        return _notebook(cells, released["metadata"]), resources


class GradeSafely(NbGraderPreprocessor):
    """A preprocessor that replaces nbgrader's `Execute`: it runs the notebook in a sandbox and grades it."""

    allow_unsafe = Bool(False, help="Grade even where no sandbox works.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        student = require_valid(resources["nbgrader"]["student"])
        submission = json.dumps(nb).encode()
        course = Course.at(Path(), resources["nbgrader"]["db_url"])
        seed = secret_seed(course)
        assignment = resources["nbgrader"]["assignment"]
        home = course.folder("submitted_directory", "submitted") / student / assignment
        time, _ = submissions.read_timestamp(home / submissions.TIME)
        with gradebook.opened(course) as book:  # before nbgrader computes late penalties
            # nbgrader reads 7.3.2026 as the third of July, and guesses a year that the file lacks
            book.book.find_submission(assignment, student).timestamp = parse_utc(time)
            book.extend(assignment, student)
        task = notebook_task(assignment, _released(resources), submission, seed, Limits())
        verdict = _pair(cages.required(self.allow_unsafe)).grade(task)
        if verdict.status != "graded":
            raise RuntimeError(visible(f"not graded: {verdict.note}"))
        for remark in verdict.remarks:
            self.log.warning(one_line(str(remark)))
        graded = written.with_results(verdict)
        return _notebook(graded["cells"], graded["metadata"]), resources


@cache
def _pair(tier: str) -> Pair:
    """Return the pair of processes that grades all notebooks of the command; it ends with the command."""
    pair = Pair(tier)
    atexit.register(pair.close)
    return pair


def _released(resources: dict[str, Any]) -> bytes:
    names = resources["nbgrader"]
    return publish.notebooks(Course.at(Path()), names["assignment"])[names["notebook"]]


def _notebook(cells: list[dict[str, Any]], metadata: dict[str, Any]) -> NotebookNode:
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return nbformat.from_dict(notebook)
