"""Puts our grader into nbgrader's own commands; `nbgrader_config.py` names what is here.

With them, plain ``nbgrader autograde`` never runs a submission in a kernel of this machine, and gives the
points that ``autograder grade`` gives.
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
from traitlets import Bool
from traitlets.config import Application, Config

from autograder.course.layout import Course
from autograder.course.student_ids import require_valid
from autograder.course.visible import one_line, visible
from autograder.grading import cages, gradebook, matching, written
from autograder.grading.batch import secret_seed
from autograder.grading.pair import Pair, notebook_task
from autograder.grading.session import Limits
from autograder.release import publish


def teach_gradebook(assignment: str, student: str, notebooks: list[str]) -> None:
    """Before an assignment is autograded: makes sure that the gradebook knows its cells."""
    told = Application.instance().config if Application.initialized() else Config()
    course = Course.at(Path(), told.CourseDirectory.get("db_url"))  # of nbgrader's own --db
    with gradebook.opened(course) as book:
        book.learn(assignment, publish.notebooks(course, assignment))


class RestoreCells(NbGraderPreprocessor):
    """Gives the released cells back their metadata and the tests their source, whatever was done to them."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        released = json.loads(_released(resources))
        submitted = matching.read_notebook(json.dumps(nb).encode())
        matched = matching.match(released["cells"], submitted["cells"])
        cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(matched.cells)]
        return _notebook(cells, released["metadata"]), resources


class GradeSafely(NbGraderPreprocessor):
    """Takes the place of nbgrader's `Execute`: the notebook runs in a child and is judged from outside."""

    allow_unsafe = Bool(False, help="Grades also where no walls hold.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        require_valid(resources["nbgrader"]["student"])
        submission = json.dumps(nb).encode()
        seed = secret_seed(Course.at(Path()))
        assignment = resources["nbgrader"]["assignment"]
        task = notebook_task(assignment, _released(resources), submission, seed, Limits())
        verdict = _pair(cages.required(self.allow_unsafe)).grade(task)
        if verdict.status != "graded":
            raise RuntimeError(visible(f"not graded: {verdict.note}"))
        for remark in verdict.remarks:
            self.log.warning(one_line(str(remark)))
        made = written.with_results(verdict)
        return _notebook(made["cells"], made["metadata"]), resources


@cache
def _pair(tier: str) -> Pair:
    """One pair of processes for all notebooks of the command; it ends with it."""
    pair = Pair(tier)
    atexit.register(pair.close)
    return pair


def _released(resources: dict[str, Any]) -> bytes:
    told = resources["nbgrader"]
    return publish.notebooks(Course.at(Path()), told["assignment"])[told["notebook"]]


def _notebook(cells: list[dict[str, Any]], metadata: dict[str, Any]) -> NotebookNode:
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return nbformat.from_dict(made)
