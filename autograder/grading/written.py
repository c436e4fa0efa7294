"""The graded notebook on disk, where nbgrader's formgrader and feedback look for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograder.files import write_if_changed
from autograder.grading.submissions import SECRET, Submission
from autograder.grading.verdict import Verdict

NOTE = "autograder"
"""Where in a graded notebook's metadata the reports stand."""


def noted(verdict: Verdict) -> dict[str, Any]:
    """The graded notebook with the reports and remarks in its metadata."""
    assert verdict.notebook is not None
    told = {
        "tier": verdict.tier,
        "remarks": list(verdict.remarks),
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
    return _read(folder / f"{name}.ipynb") == as_bytes(notebook) and _read(folder / "timestamp.txt") == stamp


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def notebook(path: Path) -> dict[str, Any]:
    """A graded notebook; empty where none can be read."""
    try:
        read = json.loads(path.read_bytes())
        return read if isinstance(read, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def reports_in(notebook: dict[str, Any]) -> dict[str, Any]:
    """What `noted` wrote into a graded notebook; empty where another program graded it."""
    try:
        told = notebook["metadata"][NOTE]
        return told if isinstance(told, dict) else {}
    except (KeyError, TypeError):
        return {}


def reports(path: Path) -> dict[str, Any]:
    """The same of a notebook on disk."""
    return reports_in(notebook(path))
