"""A notebook grades the same whichever editor has saved it, and however its cells were split or moved."""

import copy
import json
import uuid

import nbformat
import pytest
from scratch import ASSIGNMENT, FULL, LIMITS, SEED

from autograder import exercises
from autograder.course.layout import Course
from autograder.grading.pair import notebook_task
from autograder.proof.samples import make
from autograder.release.publish import notebooks


def as_lines(notebook):
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)


def jupyterlab(notebook):
    """JupyterLab 4: format 4.5, an id for each cell, what was run and folded."""
    as_lines(notebook)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = str(uuid.UUID(int=number))
        cell["metadata"] |= {"collapsed": False, "jupyter": {"source_hidden": False}}
        if cell["cell_type"] == "code":
            cell["execution_count"] = number + 1
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["ran\n"]}]
    notebook |= {"nbformat": 4, "nbformat_minor": 5}
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.11.7", "file_extension": ".py"}


def classic(notebook):
    """Classic Notebook 6 with its extensions: format 4.4, no ids."""
    as_lines(notebook)
    for cell in notebook["cells"]:
        cell.pop("id", None)
        cell["metadata"] |= {"scrolled": True, "ExecuteTime": {"start_time": "2026-03-01T12:00:00Z"}}
    notebook |= {"nbformat": 4, "nbformat_minor": 4}
    notebook["metadata"]["toc"] = {"number_sections": True}


def vscode(notebook):
    """VS Code: the cells' metadata replaced by its own."""
    as_lines(notebook)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"{number:08x}"
        cell["metadata"] = {"vscode": {"languageId": "python"}} if cell["cell_type"] == "code" else {}
    notebook["metadata"] = {"language_info": {"name": "python"}, "orig_nbformat": 4}


def colab(notebook):
    """Google Colab: format 4.0, nbgrader's metadata dropped, ids of its own in the metadata."""
    as_lines(notebook)
    for number, cell in enumerate(notebook["cells"]):
        cell.pop("id", None)
        cell["metadata"] = {"id": f"aB3{number:09d}", "colab": {"base_uri": "https://localhost:8080/"}}
    notebook |= {"nbformat": 4, "nbformat_minor": 0}
    notebook["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}


def answers(notebook):
    marks = [(cell, cell["metadata"].get("nbgrader", {})) for cell in notebook["cells"]]
    return [cell for cell, own in marks if own.get("solution") and cell["cell_type"] == "code"]


def split(notebook):
    """Each answer in two cells: its imports and a note first, in a cell of their own."""
    for cell in answers(notebook):
        lines = "".join(cell["source"]).splitlines(keepends=True)
        head = [line for line in lines if line.startswith(("import ", "from "))]
        cell["source"] = "".join(line for line in lines if line not in head)
        note = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        place = notebook["cells"].index(cell)
        notebook["cells"].insert(place, {**note, "source": "".join(["# first\n", *head])})


def split_and_stripped(notebook):
    split(notebook)
    colab(notebook)


def reordered(notebook):
    """All answers at the top, the last first; their tests stay where they were."""
    moved = answers(notebook)
    rest = [cell for cell in notebook["cells"] if not any(cell is other for other in moved)]
    first_code = next(i for i, cell in enumerate(rest) if cell["cell_type"] == "code")
    notebook["cells"] = [*rest[: first_code + 1], *reversed(moved), *rest[first_code + 1 :]]


def reordered_and_stripped(notebook):
    reordered(notebook)
    vscode(notebook)


def rewritten(notebook):
    """Read and written by nbformat, as many tools do."""
    fresh = json.loads(nbformat.writes(nbformat.reads(json.dumps(notebook), as_version=4)))
    notebook |= fresh


SAVED = (
    jupyterlab,
    classic,
    vscode,
    colab,
    split,
    split_and_stripped,
    reordered,
    reordered_and_stripped,
    rewritten,
)


def right_and_wrong(declared):
    """Right answers, and the first mistake of each bank."""
    yield {e.function_name: e.styles[0] for e in declared}
    yield {e.function_name: e.misconceptions[0] for e in declared}


def graded(pair, assignment, released, notebook):
    """Points and diagnosis of each cell."""
    task = notebook_task(assignment, released, json.dumps(notebook).encode(), SEED, LIMITS)
    verdict = pair.grade(task)
    assert verdict.status == "graded", verdict.note
    return {c.grade_id: (c.score, c.report and c.report.diagnosis) for c in verdict.cells}


@pytest.fixture(scope="module")
def as_released(template, pair):
    """Chapter 2, handed in as it was released: the notebooks, and how they are graded."""
    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    declared = exercises.of_assignment(ASSIGNMENT)
    handed_in = [make.handed_in(json.loads(released), declared, a)[0] for a in right_and_wrong(declared)]
    return released, [(nb, graded(pair, ASSIGNMENT, released, nb)) for nb in handed_in]


@pytest.mark.parametrize("save", SAVED, ids=lambda save: save.__name__)
def test_every_editor_gives_the_same_grade(as_released, pair, save):
    released, known = as_released
    for notebook, verdict in known:
        saved = copy.deepcopy(notebook)
        save(saved)
        assert graded(pair, ASSIGNMENT, released, saved) == verdict


def test_right_and_wrong_are_told_apart(as_released):
    _, ((_, right), (_, wrong)) = as_released
    assert sum(score or 0 for score, _ in right.values()) == FULL
    assert sum(score or 0 for score, _ in wrong.values()) < 10
    assert all(diagnosis for _, diagnosis in wrong.values() if _ is not None)


@pytest.mark.slow
@pytest.mark.parametrize("assignment", [a for a in exercises.assignments() if a != ASSIGNMENT])
def test_every_assignment_survives_an_editor_that_strips_and_a_student_who_moves_cells(
    template, pair, assignment
):
    """The points are those that the declarations say, and each mistake is told by its name."""
    (released,) = notebooks(Course.at(template), assignment).values()
    declared = exercises.of_assignment(assignment)
    for answers in right_and_wrong(declared):
        saved, points = make.handed_in(json.loads(released), declared, answers)
        split_and_stripped(saved)
        found = graded(pair, assignment, released, saved)
        for exercise in declared:
            name, answer = exercise.function_name, answers[exercise.function_name]
            mistake = answer.name if answer in exercise.misconceptions else None
            assert found[name] == (points[name], mistake)
