"""Write and read the graded notebook on disk, in the folder that nbgrader's formgrader and feedback read."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.course.cells import grade_id_of, text_of
from autograder.course.files import read_if_there, write_if_changed
from autograder.course.remark import Remark
from autograder.grading.submissions import SECRET, TIME, Submission
from autograder.grading.verdict import Verdict

NOTE = "autograder"
"""The key of the reports in a graded notebook's metadata."""


def with_results(verdict: Verdict) -> dict[str, Any]:
    """Return the graded notebook of a verdict, with the reports and remarks in its metadata."""
    assert verdict.notebook is not None
    results = {
        "tier": verdict.tier,
        "remarks": [asdict(remark) for remark in verdict.remarks],
        "reports": {cell.grade_id: cell.report.as_dict() for cell in verdict.cells if cell.report},
    }
    return verdict.notebook | {"metadata": verdict.notebook["metadata"] | {NOTE: results}}


def as_bytes(notebook: dict[str, Any]) -> bytes:
    """Return a notebook as JSON in the form that is written to disk."""
    return (json.dumps(notebook, ensure_ascii=False, sort_keys=True) + "\n").encode("utf-8", "replace")


def write(folder: Path, submission: Submission, notebook: dict[str, Any]) -> None:
    """Write ``<name>.ipynb`` and nbgrader's files for the time and the secret, if they have changed."""
    write_if_changed(folder / f"{submission.notebook}.ipynb", as_bytes(notebook))
    for file, text in ((TIME, _stamp(submission.timestamp)), (SECRET, (submission.secret or "").encode())):
        if text:
            write_if_changed(folder / file, text)
        else:
            (folder / file).unlink(missing_ok=True)


def is_written(folder: Path, name: str, notebook: dict[str, Any], timestamp: str | None) -> bool:
    """Return whether `write` has already written this notebook with this time."""
    return read_if_there(folder / f"{name}.ipynb") == as_bytes(notebook) and has_time(folder, timestamp)


def has_time(folder: Path, timestamp: str | None) -> bool:
    """Return whether the graded work in a folder was handed in at this time."""
    return read_if_there(folder / TIME) == _stamp(timestamp)


def _stamp(timestamp: str | None) -> bytes | None:
    return f"{timestamp}\n".encode() if timestamp else None


def cells_with_equal_answers(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """Return the ids of the graded cells whose answers are equal in two graded notebooks.

    The answer of a cell that a person grades is its own text; the answer of a test cell is all the code.
    """
    first, second = ({grade_id_of(c): c for c in nb.get("cells", [])} for nb in (one, other))
    code = [
        [text_of(cell["source"]) for cell in nb.get("cells", []) if cell["cell_type"] == "code"]
        for nb in (one, other)
    ]
    return {
        name
        for name in first.keys() & second.keys() - {""}
        if text_of(first[name]["source"]) == text_of(second[name]["source"])
        and (first[name]["cell_type"] == "markdown" or code[0] == code[1])
    }


def reports_in(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the results in a graded notebook's metadata; empty if another program graded it."""
    try:
        results = notebook["metadata"][NOTE]
        return results if isinstance(results, dict) else {}
    except (KeyError, TypeError):
        return {}


def remarks_in(notebook: dict[str, Any]) -> list[Remark]:
    """Return the remarks that `with_results` wrote into a graded notebook."""
    return [Remark.from_json(remark) for remark in reports_in(notebook).get("remarks", ())]
