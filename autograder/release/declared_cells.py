"""Write into a solution notebook what its exercises declare: test cells, the table, the time, the numbers.

The declaration of an exercise has its points, minutes and difficulty; for a written question, the metadata of
its cell has them. This module writes all copies of these facts, so that none is kept by hand.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.checking.declaration import Exercise
from autograder.course.cells import marks_of
from autograder.course.errors import BadInputError
from autograder.course.files import Files
from autograder.course.layout import Course
from autograder.release.audit import source

Notebook = dict[str, Any]
Cell = dict[str, Any]

TABLE = re.compile(r"^(\| exercise \| points \|.*\n\|[-:| ]+\|)(?:\n\|.*)*$", re.MULTILINE)
TIME = re.compile(r"(\*\*Time\.\*\* About )\d+( minutes)")
HEADING = re.compile(r"^## (?:\d+\. )?(?!\d+\. )", re.MULTILINE)
BY_A_PERSON = re.compile(r"\([\d.]+ points?, graded by a person\)")
MARKS = {"schema_version": 3, "task": False}


def solution_notebooks(course: Course, assignment: str) -> Files:
    """Return the solution notebooks of an assignment, by file name, with what the exercises declare.

    Raises:
        BadInputError: a file is not a notebook.
    """
    files = {}
    for path in sorted((course.solutions / assignment).glob("*.ipynb")):
        data = path.read_bytes()
        notebook = _read(path, data)
        written = with_declared_cells(notebook, assignment)
        files[path.name] = data if written == notebook else as_bytes(written)
    return files


def without_test_cell(files: Files, assignment: str) -> list[str]:
    """Return the exercises of an assignment for which none of its notebooks has a test cell."""
    cells = [cell for data in files.values() for cell in json.loads(data)["cells"]]
    tested = {marks_of(cell).get("grade_id") for cell in cells}
    return [
        exercise.function_name for exercise in _declared(assignment) if exercise.function_name not in tested
    ]


def with_declared_cells(notebook: Notebook, assignment: str) -> Notebook:
    """Return the notebook with test cells, table, time and numbers as the exercises declare them.

    An assignment without declared exercises is returned as it is.

    Args:
        notebook: a solution notebook; it is not changed.
        assignment: the name of its assignment.
    """
    declared = {exercise.function_name: exercise for exercise in _declared(assignment)}
    if not declared:
        return notebook
    notebook = copy.deepcopy(notebook)
    cells = notebook["cells"]
    for exercise in declared.values():
        _write_test_cell(cells, exercise)
    graded = [cell for cell in cells if marks_of(cell).get("grade")]
    for number, cell in enumerate(graded, 1):
        about = cell["metadata"].setdefault("course", {})
        name = marks_of(cell)["grade_id"]
        if exercise_of := declared.get(name):
            about |= {"minutes": exercise_of.minutes, "difficulty": exercise_of.difficulty}
        title = name if exercise_of else _bare(about.get("title", name))
        about["title"] = f"{number}. {title}"
    _number_headings(cells, graded)
    minutes = sum(cell["metadata"]["course"].get("minutes", 0) for cell in graded)
    rows = _rows(graded, declared)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            text = TIME.sub(rf"\g<1>{5 * round(minutes / 5)}\g<2>", source(cell))
            _set_source(cell, TABLE.sub(lambda match: f"{match[1]}\n{rows}", text))
    return notebook


def as_bytes(notebook: Notebook) -> bytes:
    """Return a notebook as JSON with sorted keys, an indent of one space and a last newline.

    A lone surrogate, which UTF-8 cannot encode, is escaped as in JSON.
    """
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return text.encode(errors="backslashreplace")


def _read(path: Path, data: bytes) -> Notebook:
    try:
        notebook: Notebook = json.loads(data)
        if not isinstance(notebook["cells"], list):
            raise TypeError("its cells are not a list")
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            f"{path} is not a notebook ({str(error)[:100]}). Restore it, or save it again from Jupyter."
        ) from error
    return notebook


def _declared(assignment: str) -> list[Exercise]:
    return exercises.of_assignment(assignment) if assignment in exercises.assignments() else []


def _bare(title: str) -> str:
    """Return a title without its number."""
    return re.sub(r"^\d+\. ", "", title)


def _write_test_cell(cells: list[Cell], exercise: Exercise) -> None:
    """Mark the answer cell of an exercise and write its test cell, which is added below if there is none."""
    name = exercise.function_name
    answer = _answer_cell(cells, name)
    test = next((cell for cell in cells if marks_of(cell).get("grade_id") == name), None)
    if test is None and answer is not None:
        test = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": []}
        test["id"] = f"{name.replace('_', '-')}-check"
        cells.insert(1 + next(at for at, cell in enumerate(cells) if cell is answer), test)
    if test is None:
        return
    tests = {"grade_id": name, "grade": True, "solution": False, "locked": True}
    test["metadata"]["nbgrader"] = MARKS | tests | {"points": _number(exercise.points)}
    _set_source(test, f"check({name}).score")


def _answer_cell(cells: list[Cell], name: str) -> Cell | None:
    """Return the cell marked as the answer of an exercise, or mark the first cell that defines it."""
    marked = f"{name}_answer"
    for cell in cells:
        if marks_of(cell).get("grade_id") == marked:
            return cell
    for cell in cells:
        defines = re.search(rf"^(?:def|class) {re.escape(name)}\b", source(cell), re.MULTILINE)
        if cell["cell_type"] == "code" and defines and not marks_of(cell):
            solves = {"grade_id": marked, "grade": False, "solution": True, "locked": False}
            cell["metadata"]["nbgrader"] = MARKS | solves
            return cell
    return None


def _number_headings(cells: list[Cell], graded: list[Cell]) -> None:
    """Write each graded cell's number, and a written question's points, into the last heading above it."""
    heading: Cell | None = None
    number = {id(cell): place for place, cell in enumerate(graded, 1)}
    for cell in cells:
        if cell["cell_type"] == "markdown" and HEADING.search(source(cell)) and not marks_of(cell):
            heading = cell
        if id(cell) in number and heading is not None:
            text = HEADING.sub(f"## {number[id(cell)]}. ", source(heading), count=1)
            points = marks_of(cell)["points"]
            worth = f"({points:g} point{'s' * (points != 1)}, graded by a person)"
            _set_source(heading, BY_A_PERSON.sub(worth, text, count=1))
            heading = None


def _rows(graded: list[Cell], declared: dict[str, Exercise]) -> str:
    """Return the rows of the table of exercises."""
    rows = []
    for cell in graded:
        about, marks = cell["metadata"]["course"], marks_of(cell)
        number, title = about["title"].split(" ", 1)
        title = f"`{title}`" if marks["grade_id"] in declared else title
        minutes, difficulty = about.get("minutes", ""), about.get("difficulty", "")
        rows.append(f"| {number} {title} | {marks['points']:g} | {minutes} | {difficulty} |")
    return "\n".join(rows)


def _number(points: float) -> float | int:
    return int(points) if points == int(points) else points


def _set_source(cell: Cell, text: str) -> None:
    """Change the text of a cell; a cell that has this text already stays as it is."""
    if source(cell) != text:
        cell["source"] = text.splitlines(keepends=True)
