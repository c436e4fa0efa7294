"""Fill in a released notebook: paste answers of the bank into it and compute their points."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from autograder import exercises
from autograder.checking.candidate import watched_at_first
from autograder.checking.declaration import Answer, Exercise
from autograder.checking.examination import Examination
from autograder.course.cells import marks_of
from autograder.student import PUBLIC_SEED

Notebook = dict[str, Any]
Scores = dict[str, float]

WRITTEN = "Because each row is a set of weights: it must sum to one, and the largest score must win."


def handed_in(
    blank: Notebook, declared: list[Exercise], answers: dict[str, Answer]
) -> tuple[Notebook, Scores]:
    """Return the released notebook with these answers pasted in, and the points of each exercise."""
    points = {e.function_name: worth(e, answers.get(e.function_name)) for e in declared}
    return pasted(blank, answers), points


def pasted(blank: Notebook, answers: dict[str, Answer], words: str = WRITTEN) -> Notebook:
    """Return a copy of the released notebook with these answers in it.

    Args:
        blank: the released notebook.
        answers: by the exercise's name; other exercises stay as released.
        words: the written answer; it is left out if it is empty or `answers` is empty.
    """
    notebook = copy.deepcopy(blank)
    for name, answer in answers.items():
        answer_cell(notebook, name)["source"] = answer.pasted(name)
    if answers and words:
        for cell in written_cells(notebook):
            cell["source"] = words
    return notebook


def worth(exercise: Exercise, answer: Answer | None) -> float:
    """Examine an answer in this process and return its points."""
    return _worth(exercise.name, answer.name) if answer else 0.0


@cache
def _worth(exercise_name: str, answer_name: str) -> float:
    exercise = exercises.find(exercise_name)
    (answer,) = (a for a in [*exercise.styles, *exercise.misconceptions] if a.name == answer_name)
    candidate = watched_at_first(answer.function, exercise.forbidden)
    return _examination(exercise.name).report_on(candidate, shrinking=False).score


@cache
def _examination(name: str) -> Examination:
    return Examination(exercises.find(name), PUBLIC_SEED)


def answer_cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """Return the cell in which a student answers an exercise."""
    cells: list[dict[str, Any]] = notebook["cells"]
    return next(cell for cell in cells if marks_of(cell).get("grade_id") == f"{name}_answer")


def add_cell(notebook: Notebook, place: int, source: str) -> None:
    """Insert a code cell of the student before the cell at this place."""
    cell = {"cell_type": "code", "id": f"added-{place}", "source": source, "metadata": {}}
    notebook["cells"].insert(place, {**cell, "outputs": [], "execution_count": None})


def written_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """Return the cells that a person grades."""
    return [
        cell for cell in notebook["cells"] if cell["cell_type"] == "markdown" and marks_of(cell).get("grade")
    ]
