"""The graded notebook on disk, where nbgrader's formgrader and feedback look for it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.course.files import read_if_there, write_if_changed
from autograder.course.remark import Remark
from autograder.grading.matching import joined
from autograder.grading.submissions import SECRET, Submission
from autograder.grading.verdict import Verdict

NOTE = "autograder"
"""Where in a graded notebook's metadata the reports stand."""


def noted(verdict: Verdict) -> dict[str, Any]:
    """The graded notebook with the reports and remarks in its metadata."""
    assert verdict.notebook is not None
    told = {
        "tier": verdict.tier,
        "remarks": [asdict(remark) for remark in verdict.remarks],
        "reports": {cell.grade_id: cell.report.as_dict() for cell in verdict.cells if cell.report},
    }
    return verdict.notebook | {"metadata": verdict.notebook["metadata"] | {NOTE: told}}


def as_bytes(notebook: dict[str, Any]) -> bytes:
    """The one text of a notebook."""
    return (json.dumps(notebook, ensure_ascii=False, sort_keys=True) + "\n").encode("utf-8", "replace")


def write(folder: Path, submission: Submission, notebook: dict[str, Any]) -> None:
    """Writes ``<name>.ipynb`` and what nbgrader wants beside it, where they are not already so."""
    write_if_changed(folder / f"{submission.notebook}.ipynb", as_bytes(notebook))
    stamp = f"{submission.timestamp}\n" if submission.timestamp else None
    for file, text in (("timestamp.txt", stamp), (SECRET, submission.secret)):
        if text:
            write_if_changed(folder / file, text.encode())
        else:
            (folder / file).unlink(missing_ok=True)


def is_written(folder: Path, name: str, notebook: dict[str, Any], timestamp: str | None) -> bool:
    """Whether the notebook and its time are there already, as `write` writes them."""
    stamp = f"{timestamp}\n".encode() if timestamp else None
    there = [read_if_there(folder / file) for file in (f"{name}.ipynb", "timestamp.txt")]
    return there == [as_bytes(notebook), stamp]


def notebook(path: Path) -> dict[str, Any]:
    """A graded notebook; empty where none can be read."""
    try:
        read = json.loads(path.read_bytes())
        return read if isinstance(read, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def alike(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """The graded cells whose answer stands the same in two graded notebooks.

    Of a cell that a person marks that is its own text; of a test, all the code.
    """
    first, second = ({_grade_id(c): c for c in nb.get("cells", [])} for nb in (one, other))
    code = [
        [joined(cell["source"]) for cell in nb.get("cells", []) if cell["cell_type"] == "code"]
        for nb in (one, other)
    ]
    return {
        name
        for name in first.keys() & second.keys() - {""}
        if joined(first[name]["source"]) == joined(second[name]["source"])
        and (first[name]["cell_type"] == "markdown" or code[0] == code[1])
    }


def _grade_id(cell: dict[str, Any]) -> str:
    return str(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", ""))


def reports_in(notebook: dict[str, Any]) -> dict[str, Any]:
    """What `noted` wrote into a graded notebook; empty where another program graded it."""
    try:
        told = notebook["metadata"][NOTE]
        return told if isinstance(told, dict) else {}
    except (KeyError, TypeError):
        return {}


def remarks_in(notebook: dict[str, Any]) -> list[Remark]:
    """Return the remarks that `noted` wrote into a graded notebook."""
    return [Remark.from_json(one) for one in reports_in(notebook).get("remarks", ())]
