"""Read what nbgrader has noted about a cell of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def marks_of(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return nbgrader's marks of a cell: its name, its points, whether it is graded or holds an answer.

    >>> marks_of({"metadata": {"nbgrader": {"grade_id": "softmax"}}}), marks_of({})
    ({'grade_id': 'softmax'}, {})
    """
    marks: dict[str, Any] = cell.get("metadata", {}).get("nbgrader", {})
    return marks


def text_of(source: Any) -> str:
    """Return the text of a cell or an output, also of a list of lines; return an empty text for other values.

    >>> text_of(["a ", "= 1"]), text_of("a = 1"), text_of(None)
    ('a = 1', 'a = 1', '')
    """
    parts = source if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str))


def grade_id_of(cell: Mapping[str, Any]) -> str:
    """Return the name of a graded cell or of an answer, or an empty text."""
    return str(marks_of(cell).get("grade_id", ""))
