"""Change right notebooks: by the accidents that happen to them, and by the tricks of students."""

from __future__ import annotations

import re
from collections.abc import Callable

from autograder.checking.declaration import Exercise
from autograder.course.cells import marks_of
from autograder.proof.samples.notebooks import WRITTEN, Notebook, Scores, add_cell, answer_cell, written_cells

Change = Callable[[Notebook, Scores, list[Exercise]], None]
"""A function that changes a right notebook and its expected points."""


def _place(notebook: Notebook, name: str) -> int:
    return int(notebook["cells"].index(answer_cell(notebook, name)))


def _replace(notebook: Notebook, scores: Scores, exercise: Exercise, source: str) -> None:
    answer_cell(notebook, exercise.function_name)["source"] = source
    scores[exercise.function_name] = 0.0


def _at(declared: list[Exercise], place: int) -> Exercise:
    """Return the exercise at this place, or the last exercise if there are fewer."""
    return _from(declared, place)[0]


def _from(declared: list[Exercise], place: int) -> list[Exercise]:
    """Return the exercises from this place on, or the last exercise if there are fewer."""
    return declared[min(place, len(declared) - 1) :]


def head(exercise: Exercise) -> str:
    """Return the first line of a function with the exercise's name and arguments."""
    return f"def {exercise.signature.split('->')[0].strip()}:\n"


def syntax_error(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Make one answer a syntax error; the other answers count."""
    exercise = _at(declared, 1)
    _replace(notebook, scores, exercise, f"{head(exercise)}    return (((\n")


def exception_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Add a cell that fails; all answers count."""
    add_cell(notebook, _place(notebook, _at(declared, 1).function_name), "raise ValueError('just trying')")


def exception_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Make one function always fail."""
    exercise = _at(declared, 2)
    _replace(notebook, scores, exercise, f"{head(exercise)}    return undefined_name\n")


def process_ended_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """End the process before the third answer; the answers tested earlier count."""
    add_cell(notebook, _place(notebook, _at(declared, 2).function_name), "import os\nos._exit(0)")
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 2)}


def process_ended_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """End the process when the fourth function is called; the answers tested earlier count."""
    exercise = _at(declared, 3)
    _replace(notebook, scores, exercise, f"import os\n\n{head(exercise)}    os._exit(0)\n")
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 3)}


def endless_loop_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Add a cell that never ends; it is stopped, and all answers count."""
    add_cell(notebook, _place(notebook, _at(declared, 1).function_name), "while True:\n    pass")


def endless_loop_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Make the first function never return."""
    _replace(notebook, scores, declared[0], f"{head(declared[0])}    while True:\n        pass\n")


def endless_loop_that_cannot_be_stopped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Add a loop that swallows every interrupt: the process is killed; the answers tested earlier count."""
    inner = "        while True:\n            n = sum(range(1000))\n"
    source = f"while True:\n    try:\n{inner}    except BaseException:\n        n = 0"
    add_cell(notebook, _place(notebook, _at(declared, 4).function_name), source)
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 4)}


def fifty_megabytes_of_output(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Print too much; the output is cut and costs no points."""
    add_cell(notebook, 1, "for _ in range(50):\n    print('x' * (1 << 20))")


def warnings_on_stderr(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Write to stderr; this costs no points, though stock nbgrader would give none."""
    source = "import sys\nimport warnings\n\nwarnings.warn('careful')\nprint('noise', file=sys.stderr)"
    add_cell(notebook, _place(notebook, declared[0].function_name), source)
    cell = answer_cell(notebook, declared[0].function_name)
    noisy = "import sys, warnings; warnings.warn('again'); print('noise', file=sys.stderr)"
    cell["source"] = re.sub(r"^(def .*:)$", rf"\1\n    {noisy}", cell["source"], count=1, flags=re.MULTILINE)


def metadata_stripped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Remove nbgrader's metadata and the cell ids, as some editors do when they save."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    notebook["nbformat_minor"] = 4


def test_cells_deleted(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Delete the test cells; the grader restores them."""
    notebook["cells"] = [
        c for c in notebook["cells"] if not (marks_of(c).get("grade") and not marks_of(c).get("solution"))
    ]


def test_cells_skipped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Leave all answers blank and tag the tests: stock nbgrader skips them and gives full marks."""
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]
    for exercise in declared:
        _replace(notebook, scores, exercise, "raise NotImplementedError()")


def test_cells_forged(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Leave all answers blank and replace each test by a number of points."""
    for exercise in declared:
        _replace(notebook, scores, exercise, "raise NotImplementedError()")
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade") and cell["cell_type"] == "code":
            cell["source"] = "100"


def library_called(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Import one function from the course's own package in place of an answer."""
    exercise = declared[0]
    name = exercise.function_name
    module = exercise.reference.__module__
    _replace(notebook, scores, exercise, f"from {module} import {exercise.reference.__name__} as {name}\n")


def answers_out_of_order(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Move the first answer to the end of the notebook, after its test."""
    cell = answer_cell(notebook, declared[0].function_name)
    notebook["cells"].remove(cell)
    notebook["cells"].append(cell)


def script_in_the_answer(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Put a script into the written answer; the teacher's browser must not run it."""
    for cell in written_cells(notebook):
        cell["source"] = f"{WRITTEN}\n\n<script>document.title = 'owned'</script><img src=x onerror=alert(1)>"


ACCIDENTS: tuple[Change, ...] = (
    syntax_error,
    exception_in_a_cell,
    exception_in_a_function,
    process_ended_in_a_cell,
    process_ended_in_a_function,
    endless_loop_in_a_cell,
    endless_loop_in_a_function,
    endless_loop_that_cannot_be_stopped,
    fifty_megabytes_of_output,
    warnings_on_stderr,
    metadata_stripped,
    test_cells_deleted,
    answers_out_of_order,
)
"""Changes that happen to students by accident."""

TRICKS: tuple[Change, ...] = (test_cells_skipped, test_cells_forged, library_called, script_in_the_answer)
"""Changes that students make on purpose."""

ALL = (*ACCIDENTS, *TRICKS)
