"""Honest habits cost nothing: all points stay, nothing is remarked, and `check` says what `grade` says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from habits import code
from habits_numpy import OF_NUMPY, PROSE
from habits_torch import OF_TORCH
from honest_cells import CELLS
from scratch import ASSIGNMENT, SEED, graded, hand_in, in_process

from autograder import exercises
from autograder.course.cells import marks_of
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.pair import notebook_task
from autograder.grading.session import Limits
from autograder.proof.samples.notebooks import written_cells
from autograder.release.publish import notebooks

pytestmark = pytest.mark.slow

LIMITS = Limits(cell_seconds=10.0, call_seconds=5.0)
SOLUTIONS = Path(__file__).parents[2] / "solutions"


def solved(assignment):
    """The solved notebook of an assignment."""
    return json.loads((SOLUTIONS / assignment / f"{assignment}.ipynb").read_bytes())


def full(assignment):
    """Full marks of each exercise."""
    return {e.function_name: e.points for e in exercises.of_assignment(assignment)}


def in_front(notebook, cells):
    """Puts cells behind the first code cell, which has the imports."""
    first = next(i for i, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
    notebook["cells"][first + 1 : first + 1] = map(code, cells)


def between(notebook, cells):
    """Puts cells in turn between each answer and its test."""
    tests = [
        cell for cell in notebook["cells"] if marks_of(cell).get("grade") and cell["cell_type"] == "code"
    ]
    for number, test in enumerate(tests):
        place = next(i for i, cell in enumerate(notebook["cells"]) if cell is test)
        notebook["cells"][place:place] = map(code, cells[number :: len(tests)])


def at_the_end(notebook, cells):
    """Puts cells behind all others."""
    notebook["cells"] += map(code, cells)


@pytest.fixture(scope="module")
def grade(pair, template):
    """Grades a notebook of an assignment as a teacher would."""

    def verdict(assignment, notebook):
        (released,) = notebooks(Course.at(template), assignment).values()
        return pair.grade(notebook_task(assignment, released, json.dumps(notebook).encode(), SEED, LIMITS))

    return verdict


def keeps_everything(assignment, verdict):
    """Every exercise has full marks, the written answer waits for its reader, and nobody is remarked on."""
    assert verdict.status == "graded", verdict.note
    scores = {cell.grade_id: cell.score for cell in verdict.cells}
    (written,) = scores.keys() - full(assignment).keys()
    assert scores == {**full(assignment), written: None}
    assert verdict.remarks == ()


@pytest.fixture(scope="module")
def checking(tmp_path_factory):
    """A process in which `check` runs in each notebook in its author's hands, beside the grading."""
    folder = tmp_path_factory.mktemp("checked")
    everything = solved(ASSIGNMENT)
    for put in (in_front, between, at_the_end):
        put(everything, CELLS)
    written = {habit.name: habit.written(solved(habit.assignment)) for habit in HABITS}
    for name, notebook in {"everyday cells": everything, **written}.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook))
    script = Path(__file__).with_name("as_student.py")
    with subprocess.Popen(
        [sys.executable, script, *sorted(folder.iterdir())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("put", [in_front, between, at_the_end])
def test_everyday_cells(grade, put):
    notebook = solved(ASSIGNMENT)
    put(notebook, CELLS)
    keeps_everything(ASSIGNMENT, grade(ASSIGNMENT, notebook))


HABITS = [*OF_NUMPY, *OF_TORCH]


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_habits(grade, checking, habit):
    verdict = grade(habit.assignment, habit.handed_in(solved(habit.assignment)))
    keeps_everything(habit.assignment, verdict)
    (words,) = written_cells(solved(habit.assignment))
    (answer,) = written_cells(verdict.notebook)
    assert all(line in answer["source"] for line in "".join(words["source"]).splitlines())


def test_a_written_answer_in_a_code_cell_is_read(course):
    notebook = PROSE.handed_in(solved(ASSIGNMENT))
    hand_in(course, "ada", notebook)
    assert graded(course).graded[0].remarks == ()
    (row,) = gradebook.read(Course.at(course), ASSIGNMENT)
    assert row.needs_manual_grade == ("explain_the_picture",)
    assert in_process("feedback", cwd=course).exit_code == 0
    page = (course / "feedback" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
    assert "0.20, which is one fifth" in page
    assert '<li class="waits">' in page


def test_check_gives_the_same_points(checking):
    found = {
        Path(path).stem: points for path, points in json.loads(checking.communicate(timeout=1200)[0]).items()
    }
    expected = {habit.name: full(habit.assignment) for habit in HABITS}
    assert found == {"everyday cells": full(ASSIGNMENT), **expected}
