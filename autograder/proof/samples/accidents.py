"""What befalls notebooks, and what students do to them on purpose: each a change to a right notebook."""

from __future__ import annotations

import re
from collections.abc import Callable

from autograder.checking.declaration import Exercise
from autograder.proof.samples.notebooks import (
    WRITTEN,
    Notebook,
    Scores,
    add_cell,
    answer_cell,
    marks,
    written_cells,
)

Change = Callable[[Notebook, Scores, list[Exercise]], None]
"""Does something to a right notebook, and to the points that it is expected to get."""


def _place(notebook: Notebook, name: str) -> int:
    return int(notebook["cells"].index(answer_cell(notebook, name)))


def _replace(notebook: Notebook, scores: Scores, exercise: Exercise, source: str) -> None:
    answer_cell(notebook, exercise.function_name)["source"] = source
    scores[exercise.function_name] = 0.0


def _at(declared: list[Exercise], place: int) -> Exercise:
    """The exercise at that place; the last one, where there are fewer."""
    return _from(declared, place)[0]


def _from(declared: list[Exercise], place: int) -> list[Exercise]:
    """The exercises from that place on; the last one, where there are fewer."""
    return declared[min(place, len(declared) - 1) :]


def head(exercise: Exercise) -> str:
    """The first line of a function that takes the exercise's arguments."""
    return f"def {exercise.signature.split('->')[0].strip()}:\n"


def syntax_error(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One answer does not parse; the others count."""
    exercise = _at(declared, 1)
    _replace(notebook, scores, exercise, f"{head(exercise)}    return (((\n")


def exception_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A cell of the student's own fails; nothing else does."""
    add_cell(notebook, _place(notebook, _at(declared, 1).function_name), "raise ValueError('just trying')")


def exception_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One function always fails."""
    exercise = _at(declared, 2)
    _replace(notebook, scores, exercise, f"{head(exercise)}    return undefined_name\n")


def process_ended_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The process is gone from the third answer on; what was tested before counts."""
    add_cell(notebook, _place(notebook, _at(declared, 2).function_name), "import os\nos._exit(0)")
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 2)}


def process_ended_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The same, when the function is called."""
    exercise = _at(declared, 3)
    _replace(notebook, scores, exercise, f"import os\n\n{head(exercise)}    os._exit(0)\n")
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 3)}


def endless_loop_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A cell never ends; it is stopped, and the notebook goes on."""
    add_cell(notebook, _place(notebook, _at(declared, 1).function_name), "while True:\n    pass")


def endless_loop_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One function never returns."""
    _replace(notebook, scores, declared[0], f"{head(declared[0])}    while True:\n        pass\n")


def endless_loop_that_cannot_be_stopped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A loop that swallows every interrupt takes the process with it; what was tested before counts."""
    inner = "        while True:\n            n = sum(range(1000))\n"
    source = f"while True:\n    try:\n{inner}    except BaseException:\n        n = 0"
    add_cell(notebook, _place(notebook, _at(declared, 4).function_name), source)
    scores |= {exercise.function_name: 0.0 for exercise in _from(declared, 4)}


def fifty_megabytes_of_output(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Too much is printed; it is cut, and costs nothing."""
    add_cell(notebook, 1, "for _ in range(50):\n    print('x' * (1 << 20))")


def warnings_on_stderr(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Noise on stderr costs nothing, though stock nbgrader would give no points for it."""
    source = "import sys\nimport warnings\n\nwarnings.warn('careful')\nprint('noise', file=sys.stderr)"
    add_cell(notebook, _place(notebook, declared[0].function_name), source)
    cell = answer_cell(notebook, declared[0].function_name)
    noisy = "import sys, warnings; warnings.warn('again'); print('noise', file=sys.stderr)"
    cell["source"] = re.sub(r"^(def .*:)$", rf"\1\n    {noisy}", cell["source"], count=1, flags=re.MULTILINE)


def metadata_stripped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Saved by an editor that drops nbgrader's metadata and the cell ids."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    notebook["nbformat_minor"] = 4


def test_cells_deleted(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The tests are gone; they are put back."""
    notebook["cells"] = [
        c for c in notebook["cells"] if not (marks(c).get("grade") and not marks(c).get("solution"))
    ]


def test_cells_skipped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Blank, with tests tagged so that stock nbgrader skips them and gives full marks."""
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]
    for exercise in declared:
        _replace(notebook, scores, exercise, "raise NotImplementedError()")


def test_cells_forged(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A blank notebook whose tests say how many points it should get."""
    for exercise in declared:
        _replace(notebook, scores, exercise, "raise NotImplementedError()")
    for cell in notebook["cells"]:
        if marks(cell).get("grade") and cell["cell_type"] == "code":
            cell["source"] = "100"


def library_called(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One answer calls the course's own package instead of being written."""
    exercise = declared[0]
    name = exercise.function_name
    module = exercise.reference.__module__
    _replace(notebook, scores, exercise, f"from {module} import {exercise.reference.__name__} as {name}\n")


def answers_out_of_order(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The first answer stands at the end of the notebook, after its test."""
    cell = answer_cell(notebook, declared[0].function_name)
    notebook["cells"].remove(cell)
    notebook["cells"].append(cell)


def script_in_the_answer(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The written answer holds a script, which no teacher's browser may run."""
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
"""What happens to people who mean well."""

TRICKS: tuple[Change, ...] = (test_cells_skipped, test_cells_forged, library_called, script_in_the_answer)
"""What happens on purpose."""

ALL = (*ACCIDENTS, *TRICKS)
