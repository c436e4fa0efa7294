"""Makes a sample class: ``python -m autograder.samples.make DIR``.

Right answers in several styles and mistakes of every kind are handed in, and every accident that befalls a
notebook: blank, broken, endless, noisy, stripped. (The whole bank is graded by `autograder verify`.) Beside
``DIR/submitted`` it writes ``DIR/expected.json``, the points that each student must get, found from the
declarations alone. The same declarations give the same files.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from autograder import exercises, release
from autograder.checking import Examination, local
from autograder.errors import BadInputError
from autograder.exercise import Answer, Exercise
from autograder.files import write_atomically
from autograder.layout import Course
from autograder.student import PUBLIC_SEED

Notebook = dict[str, Any]
Scores = dict[str, float]
Change = Callable[[Notebook, Scores, list[Exercise]], None]
"""Does something to a right notebook, and to the points that it is expected to get."""

EVERY_ACCIDENT = "ch02_qkv"
SOME = 6
"""All accidents befall the class of one assignment, each sixth befalls that of any other."""
RIGHT, WRONG = 2, 5
"""So many students have everything right, each in a style of their own; so many have a mistake everywhere."""
AT_LEAST = 5
"""Accidents strike at this exercise or an earlier one."""

WRITTEN = "Because each row is a set of weights: it must sum to one, and the largest score must win."


def make(course: Course, folder: Path) -> dict[str, dict[str, Scores]]:
    """Writes the class and what is expected of it: points by student, assignment and exercise."""
    expected: dict[str, dict[str, Scores]] = {}
    for place, assignment in enumerate(exercises.assignments()):
        declared = exercises.of_assignment(assignment)
        accidents = ACCIDENTS if assignment == EVERY_ACCIDENT else ACCIDENTS[place::SOME]
        for name, data in release.notebooks(course, assignment).items():
            class_of = students(json.loads(data), declared, accidents)
            for number, (student, notebook, scores) in enumerate(class_of):
                own = folder / "submitted" / student / assignment
                write_atomically(own / f"{name}.ipynb", as_bytes(notebook))
                stamp = f"2026-03-{1 + number % 28:02d} 18:00:00.000000 UTC\n"
                write_atomically(own / "timestamp.txt", stamp.encode())
                expected.setdefault(student, {})[assignment] = scores
    write_atomically(folder / "expected.json", json.dumps(expected, indent=1, sort_keys=True).encode())
    return expected


def as_bytes(notebook: Notebook) -> bytes:
    return (json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def students(
    blank: Notebook, declared: list[Exercise], accidents: tuple[Change, ...] | None = None
) -> Iterator[tuple[str, Notebook, Scores]]:
    """The students of an assignment: name, notebook, expected points.

    Args:
        blank: the released notebook.
        declared: its exercises.
        accidents: what befalls notebooks; all there are if left out.
    """
    for number, styles in enumerate(spread({e.function_name: e.styles for e in declared}, RIGHT), 1):
        yield f"style-{number:02d}", *handed_in(blank, declared, styles)
    for number, wrong in enumerate(spread({e.function_name: e.misconceptions for e in declared}, WRONG), 1):
        yield f"mistake-{number:02d}", *handed_in(blank, declared, wrong)
    right = {e.function_name: e.styles[0] for e in declared}
    yield "blank", *handed_in(blank, declared, {})
    half = dict(list(right.items())[: len(right) // 2])
    yield "half-done", *handed_in(blank, declared, half)
    for change in ACCIDENTS if accidents is None else accidents:
        notebook, scores = handed_in(blank, declared, right)
        change(notebook, scores, declared)
        yield change.__name__.replace("_", "-"), notebook, scores


def spread(banks: dict[str, list[Answer]], at_most: int) -> Iterator[dict[str, Answer]]:
    """For each student an answer to every exercise: taken far apart, since a bank is sorted by kind."""
    count = min(at_most, max(len(bank) for bank in banks.values()))
    for number in range(count):
        yield {name: bank[number * len(bank) // count] for name, bank in banks.items()}


def handed_in(
    blank: Notebook, declared: list[Exercise], answers: dict[str, Answer]
) -> tuple[Notebook, Scores]:
    """The released notebook with these answers pasted in, and the points that they are worth."""
    notebook = copy.deepcopy(blank)
    for name, answer in answers.items():
        answer_cell(notebook, name)["source"] = answer.pasted(name)
    if answers:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown" and _marks(cell).get("grade"):
                cell["source"] = WRITTEN
    return notebook, {e.function_name: worth(e, answers.get(e.function_name)) for e in declared}


def worth(exercise: Exercise, answer: Answer | None) -> float:
    """The points that an answer gets, examined in this process."""
    return _worth(exercise.name, answer.name) if answer else 0.0


@cache
def _worth(exercise_name: str, answer_name: str) -> float:
    exercise = exercises.find(exercise_name)
    (answer,) = (a for a in [*exercise.styles, *exercise.misconceptions] if a.name == answer_name)
    candidate = local(answer.function, exercise.forbidden)
    return _examination(exercise.name).score(candidate)


@cache
def _examination(name: str) -> Examination:
    return Examination(exercises.find(name), PUBLIC_SEED)


def answer_cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """The cell in which a student answers an exercise."""
    cells: list[dict[str, Any]] = notebook["cells"]
    return next(cell for cell in cells if _marks(cell).get("grade_id") == f"{name}_answer")


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    marks: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return marks


def _place(notebook: Notebook, name: str) -> int:
    return int(notebook["cells"].index(answer_cell(notebook, name)))


def _add_cell(notebook: Notebook, place: int, source: str) -> None:
    cell = {"cell_type": "code", "id": f"added-{place}", "source": source, "metadata": {}}
    notebook["cells"].insert(place, {**cell, "outputs": [], "execution_count": None})


def _replace(notebook: Notebook, scores: Scores, exercise: Exercise, source: str) -> None:
    answer_cell(notebook, exercise.function_name)["source"] = source
    scores[exercise.function_name] = 0.0


def _head(exercise: Exercise) -> str:
    """The first line of a function that takes the exercise's arguments."""
    return f"def {exercise.signature.split('->')[0].strip()}:\n"


def syntax_error(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One answer does not parse; the others count."""
    _replace(notebook, scores, declared[1], f"{_head(declared[1])}    return (((\n")


def exception_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A cell of the student's own fails; nothing else does."""
    _add_cell(notebook, _place(notebook, declared[1].function_name), "raise ValueError('just trying')")


def exception_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One function always fails."""
    _replace(notebook, scores, declared[2], f"{_head(declared[2])}    return undefined_name\n")


def process_ended_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The process is gone from the third answer on; what was tested before counts."""
    _add_cell(notebook, _place(notebook, declared[2].function_name), "import os\nos._exit(0)")
    scores |= {exercise.function_name: 0.0 for exercise in declared[2:]}


def process_ended_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """The same, when the function is called."""
    _replace(notebook, scores, declared[3], f"import os\n\n{_head(declared[3])}    os._exit(0)\n")
    scores |= {exercise.function_name: 0.0 for exercise in declared[3:]}


def endless_loop_in_a_cell(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A cell never ends; it is stopped, and the notebook goes on."""
    _add_cell(notebook, _place(notebook, declared[1].function_name), "while True:\n    pass")


def endless_loop_in_a_function(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """One function never returns."""
    _replace(notebook, scores, declared[0], f"{_head(declared[0])}    while True:\n        pass\n")


def endless_loop_that_cannot_be_stopped(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """A loop that swallows every interrupt takes the process with it; what was tested before counts."""
    inner = "        while True:\n            n = sum(range(1000))\n"
    source = f"while True:\n    try:\n{inner}    except BaseException:\n        n = 0"
    _add_cell(notebook, _place(notebook, declared[4].function_name), source)
    scores |= {exercise.function_name: 0.0 for exercise in declared[4:]}


def fifty_megabytes_of_output(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Too much is printed; it is cut, and costs nothing."""
    _add_cell(notebook, 1, "for _ in range(50):\n    print('x' * (1 << 20))")


def warnings_on_stderr(notebook: Notebook, scores: Scores, declared: list[Exercise]) -> None:
    """Noise on stderr costs nothing, though stock nbgrader would give no points for it."""
    source = "import sys\nimport warnings\n\nwarnings.warn('careful')\nprint('noise', file=sys.stderr)"
    _add_cell(notebook, _place(notebook, declared[0].function_name), source)
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
        c for c in notebook["cells"] if not (_marks(c).get("grade") and not _marks(c).get("solution"))
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
        if _marks(cell).get("grade") and cell["cell_type"] == "code":
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
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and _marks(cell).get("grade"):
            cell["source"] = (
                f"{WRITTEN}\n\n<script>document.title = 'owned'</script><img src=x onerror=alert(1)>"
            )


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
    test_cells_skipped,
    test_cells_forged,
    library_called,
    answers_out_of_order,
    script_in_the_answer,
)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit("usage: python -m autograder.samples.make DIR")
    folder = Path(sys.argv[1])
    try:
        expected = make(Course.at(Path()), folder)
    except BadInputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    print(f"{len(expected)} students in {folder / 'submitted'}")


if __name__ == "__main__":
    main()
