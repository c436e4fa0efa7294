"""What exercises declare is written into the solution notebooks: nobody keeps copies in step by hand."""

import json
import re
import shutil
from pathlib import Path

import pytest
from scratch import ASSIGNMENT, ROOT, in_process

from autograder import exercises
from autograder.course.layout import Course
from autograder.release import declared_cells


@pytest.fixture
def solution(course):
    return course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


def marks(cell):
    return cell["metadata"].get("nbgrader", {})


def change(path, edit):
    """Edit the cells of a notebook."""
    notebook = json.loads(path.read_text("utf8"))
    notebook["cells"] = edit(notebook["cells"]) or notebook["cells"]
    path.write_bytes(declared_cells.as_bytes(notebook))


def without_test_cells(cells):
    return [cell for cell in cells if not (marks(cell).get("grade") and not marks(cell)["solution"])]


def with_other_points(cells):
    for cell in cells:
        if marks(cell).get("grade") and not marks(cell)["solution"]:
            marks(cell)["points"] = 99


def with_another_check(cells):
    for cell in cells:
        if marks(cell).get("grade_id") == "softmax":
            cell["source"] = ["100"]


def with_other_minutes(cells):
    for cell in cells:
        if marks(cell).get("grade") and not marks(cell)["solution"]:
            cell["metadata"]["course"] = {"minutes": 1, "difficulty": "hard", "title": "7. nothing"}


def rewritten(pattern, new):
    def edit(cells):
        found = 0
        for cell in cells:
            if cell["cell_type"] == "markdown":
                text, times = re.subn(pattern, new, "".join(cell["source"]), flags=re.MULTILINE)
                cell["source"], found = text.splitlines(keepends=True), found + times
        assert found

    return edit


def unmarked_answers(cells):
    for cell in cells:
        if marks(cell).get("grade_id", "").endswith("_answer"):
            del cell["metadata"]["nbgrader"]


SPOILT = {
    "the test cells are gone": without_test_cells,
    "other points": with_other_points,
    "a test cell calls something else": with_another_check,
    "other minutes, difficulty and title": with_other_minutes,
    "rows of the table are gone": rewritten(r"^\| [1-4]\. .*\n", ""),
    "all rows of the table are gone": rewritten(r"(?:\n\| \d+\. .*)+", ""),
    "another row in the table": rewritten(r"^\| 2\. .*", "| 2. `nothing` | 99 | 1 | hard |"),
    "another time": rewritten(r"About \d+ minutes", "About 1 minutes"),
    "other numbers in headings": rewritten(r"^## \d+\. ", "## 99. "),
    "no numbers in headings": rewritten(r"^## \d+\. ", "## "),
    "other points of the written question": rewritten(r"\(\d+ points, graded", "(99 points, graded"),
    "answer cells as Jupyter makes them": unmarked_answers,
}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_release_writes_it_again(course, solution, spoil):
    right = solution.read_bytes()
    in_process("release", ASSIGNMENT, cwd=course)
    released = course / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    as_released = released.read_bytes()
    change(solution, spoil)
    assert solution.read_bytes() != right
    done = in_process("release", ASSIGNMENT, cwd=course)
    assert (
        f"solutions/{ASSIGNMENT}/{ASSIGNMENT}.ipynb: test cells, points, table, time and heading numbers"
        in done.stdout
    )
    assert solution.read_bytes() == right
    assert released.read_bytes() == as_released
    again = in_process("release", ASSIGNMENT, cwd=course)
    assert "written" not in again.stdout


def test_a_source_out_of_step_is_graded_by_what_is_declared(course, solution):
    change(solution, with_other_points)
    before = solution.read_bytes()
    released = declared_cells.solution_notebooks(Course.at(course), ASSIGNMENT)[solution.name]
    points = {
        marks(c)["grade_id"]: marks(c)["points"]
        for c in json.loads(released)["cells"]
        if marks(c).get("grade")
    }
    declared = {e.function_name: e.points for e in exercises.of_assignment(ASSIGNMENT)}
    assert points.items() >= declared.items()
    assert solution.read_bytes() == before


def test_a_deleted_exercise_is_named_and_the_rest_is_numbered(course, solution):
    def without_softmax(cells):
        return [cell for cell in cells if not marks(cell).get("grade_id", "").startswith("softmax")]

    change(solution, without_softmax)
    done = in_process("release", ASSIGNMENT, cwd=course)
    assert done.exit_code == 0
    assert "no cell defines `softmax`" in done.stdout
    text = solution.read_text("utf8")
    assert "| 1. `project_qkv` | 2 | 10 | easy |" in text
    assert "| 5. In words | 3 | 15 | medium |" in text
    assert "`softmax` | 3" not in text
    assert "About 85 minutes" in text


def test_an_assignment_of_ones_own_stays_as_it_is(course, solution):
    mine = solution.parents[1] / "mine" / "mine.ipynb"
    mine.parent.mkdir()
    shutil.copy(solution, mine)
    change(mine, with_other_points)
    files = declared_cells.solution_notebooks(Course.at(course), "mine")
    assert files == {"mine.ipynb": mine.read_bytes()}


@pytest.mark.parametrize("assignment", exercises.assignments())
def test_the_committed_solutions_are_as_declared(assignment):
    files = declared_cells.solution_notebooks(Course.at(ROOT), assignment)
    for name, data in files.items():
        assert Path(ROOT, "solutions", assignment, name).read_bytes() == data, (
            f"run: autograder release {assignment}"
        )
    assert declared_cells.without_test_cell(files, assignment) == []
