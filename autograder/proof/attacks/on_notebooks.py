"""Declare changes to the notebook itself: to tags, metadata, ids and outputs, and removed cells."""

from __future__ import annotations

from typing import Any

from autograder.course.cells import marks_of
from autograder.proof.attacks.attack import NONE, Attack
from autograder.proof.attacks.on_points import BLANK

Notebook = dict[str, Any]


def _test(notebook: Notebook) -> dict[str, Any]:
    """Return the test cell of the exercise."""
    cell: dict[str, Any] = next(c for c in notebook["cells"] if marks_of(c).get("grade_id") == "softmax")
    return cell


def skips_execution(notebook: Notebook) -> None:
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception"]


def replaces_the_test(notebook: Notebook) -> None:
    _test(notebook)["source"] = "3.0"


def marks_the_test_as_answer(notebook: Notebook) -> None:
    _test(notebook)["metadata"]["nbgrader"] |= {"solution": True, "grade": False, "points": 300}


def raises_the_points(notebook: Notebook) -> None:
    _test(notebook)["metadata"]["nbgrader"]["points"] = 300


def removes_the_test(notebook: Notebook) -> None:
    notebook["cells"].remove(_test(notebook))


def doubles_the_test(notebook: Notebook) -> None:
    notebook["cells"] += [dict(_test(notebook), source="3.0"), dict(_test(notebook), source="300.0")]


def forges_an_output(notebook: Notebook) -> None:
    data = {"text/plain": "3.0"}
    _test(notebook)["outputs"] = [
        {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1}
    ]


def types_of_metadata(notebook: Notebook) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {"nbgrader": {"grade_id": ["x"], "points": "many", "schema_version": {}}}


def text_that_cannot_be_written(notebook: Notebook) -> None:
    notebook["cells"].append({"cell_type": "markdown", "source": "half a pair: \ud800", "metadata": {}})


def another_kernel(notebook: Notebook) -> None:
    notebook["metadata"]["kernelspec"] = {"name": "bash", "display_name": "x", "language": "bash"}


def deep_metadata(notebook: Notebook) -> None:
    deep: dict[str, Any] = {}
    notebook["metadata"]["deep"] = deep
    for _ in range(500):
        deep["deeper"] = {}
        deep = deep["deeper"]


def many_cells(notebook: Notebook) -> None:
    empty: Notebook = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": []}
    notebook["cells"] += [empty] * 1500


def _blank(name: str, change: Any, must: str = "the submission gets no points") -> Attack:
    return Attack(name, must, answer=BLANK, change=change, points=NONE)


ON_NOTEBOOKS = (
    _blank("has all cells skipped", skips_execution),
    _blank("writes a test of its own", replaces_the_test),
    _blank("declares the test an answer", marks_the_test_as_answer),
    _blank("raises the points", raises_the_points),
    _blank("takes the test out", removes_the_test),
    _blank("has the test twice", doubles_the_test),
    _blank("brings its output along", forges_an_output),
    _blank("has metadata of wrong types", types_of_metadata),
    Attack("has text that cannot be written", "the text is replaced", change=text_that_cannot_be_written),
    Attack("asks for another kernel", "the kernel of the course runs", change=another_kernel),
    Attack("has deep metadata", "the metadata is dropped", change=deep_metadata),
    Attack("has 1,500 more cells", "the cells run within the time limit", change=many_cells),
)
