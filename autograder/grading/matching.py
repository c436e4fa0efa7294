"""Match the released cells with the cells of a submitted notebook, even if an editor changed the metadata."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from autograder.cage.wire import json_from_bytes
from autograder.course.cells import marks_of, text_of
from autograder.grading import saved_pictures
from autograder.reading import forbidden_calls

Cell = dict[str, Any]
MAX_BYTES = 32 << 20
MAX_CELLS = 2000
WORDS_OF_ANSWER = 6
"""The fewest words in a code cell that may be a written answer, such as ``answer = "..."``."""
MAX_TEXT = 2 << 20
"""The most characters of all cells without pictures in Markdown; to read more takes too long."""
SIMILAR_ENOUGH = 0.5
NEARLY, PART = 0.8, 5_000
"""Two texts count as the same if their first `PART` characters are at least `NEARLY` alike."""


class UnreadableError(ValueError):
    """The error that a file cannot be read as a notebook."""


@dataclass
class Matched:
    """The submitted cells in order, with the metadata of released cells, and remarks for the teacher.

    Each released answer and test is in `cells` exactly once with nbgrader's metadata from the release; tests
    and other locked cells have their source from the release. Outputs are only the student's saved pictures.
    """

    cells: list[Cell]
    notes: list[str] = field(default_factory=list)


def read_notebook(data: bytes) -> dict[str, Any]:
    """Return a notebook with each cell reduced to type, source, grade_id and pictures.

    Raises:
        UnreadableError: the bytes are not a notebook, or too large; the message has the remedy.
    """
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    if not data.strip():
        raise UnreadableError("the file is empty; ask for the .ipynb file again")
    try:
        notebook = json_from_bytes(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"the file is not JSON ({str(error)[:100]}); ask for the .ipynb file as Jupyter saves it"
        ) from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise UnreadableError(
            "the file is JSON but not a notebook of format 4: it has no list of cells; ask for the .ipynb "
            "file as Jupyter saves it"
        )
    if len(notebook["cells"]) > MAX_CELLS:
        raise UnreadableError(
            f"the notebook has {len(notebook['cells'])} cells; at most {MAX_CELLS} are read"
        )
    cells = [_clean(c) for c in notebook["cells"] if isinstance(c, dict)]
    text = sum(
        len(c["source"]) if c["cell_type"] == "code" else count_without_pictures(c["source"]) for c in cells
    )
    if text > MAX_TEXT:
        raise UnreadableError(
            f"its cells hold {text:,} characters, and at most {MAX_TEXT:,} are read; ask for it without "
            "pasted text"
        )
    return {"cells": cells}


_PICTURE = re.compile(r"data:image/[\w+.-]+;base64,[A-Za-z0-9+/=]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def count_without_pictures(markdown: str) -> int:
    """Return the number of characters of a text without its pictures."""
    return len(_PICTURE.sub("", markdown))


def _pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """Return the pictures that were pasted into a cell, by name and kind."""
    named = attachments.items() if isinstance(attachments, dict) else ()
    pictures = {
        name: {kind: data for kind, text in kinds.items() if (data := _picture(kind, text_of(text)))}
        for name, kinds in named
        if isinstance(kinds, dict)
    }
    return {name: kinds for name, kinds in pictures.items() if kinds}


def _picture(kind: str, data: str) -> str | None:
    return data if kind in ("image/png", "image/jpeg", "image/gif") and _BASE64.fullmatch(data) else None


def _clean(cell: Cell) -> Cell:
    kind = cell.get("cell_type")
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return {
        "cell_type": kind if kind in ("code", "markdown", "raw") else "raw",
        "source": text_of(cell.get("source")),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "attachments": _pictures(cell.get("attachments")),
        "pictures": saved_pictures.find(cell.get("outputs")),
    }


def match(released: list[Cell], submitted: list[Cell]) -> Matched:
    """Match released cells with submitted cells by grade_id, defined function, similar text and position.

    Args:
        released: the cells of the released notebook, with nbgrader metadata.
        submitted: the cells of `read_notebook`.

    Raises:
        UnreadableError: the notebook is of another assignment.
    """
    wanted = [c for c in released if "nbgrader" in c["metadata"]]
    grade_ids = {cell["grade_id"] for cell in submitted} - {None}
    if len(grade_ids) > 1 and not grade_ids & {_id(cell) for cell in wanted}:
        some = ", ".join(sorted(grade_ids)[:3])
        raise UnreadableError(f"this is the notebook of another assignment: its cells are called {some}, ...")
    notes: list[str] = []
    pairs: dict[int, Cell] = {}
    _match_by_grade_id(wanted, submitted, pairs, notes)
    _match_by_likeness([c for c in wanted if not _is_matched(c, pairs)], submitted, pairs)
    _match_by_place(released, submitted, pairs)
    _match_beside_empty_cell(released, submitted, pairs)
    notes += _remark_text_elsewhere(released, submitted, pairs)
    cells = [result for i, cell in enumerate(submitted) for result in _convert_cell(cell, pairs.get(i))]
    elsewhere = set().union(*(_defined_names(cell) for cell in submitted if cell["cell_type"] == "code"))
    for index, cell in enumerate(wanted):
        if not _is_matched(cell, pairs):
            missing = _with_metadata(None, cell)
            names = _defined_names(cell) if cell["cell_type"] == "code" and not _is_test(cell) else set()
            if names and names <= elsewhere:
                missing["source"] = "# This answer is in another cell."
            elif not _is_test(cell):
                notes.append(f"the cell {_id(cell)!r} is missing")
            cells.insert(_place(wanted[:index], cells), missing)
    return Matched(cells, notes)


def imports(released: list[Cell]) -> str:
    """Return the imports of the released cells, which answers need even if a student broke such a cell."""
    given = [c["source"] for c in released if c["cell_type"] == "code" and "nbgrader" not in c["metadata"]]
    nodes = [node for source in given for node in forbidden_calls.statements(source)]
    return "\n".join(ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _match_by_grade_id(
    wanted: list[Cell], submitted: list[Cell], pairs: dict[int, Cell], notes: list[str]
) -> None:
    for cell in wanted:
        holders = [
            i
            for i, c in enumerate(submitted)
            if c["grade_id"] == _id(cell) and _may_be(c, cell) and i not in pairs
        ]
        if len(holders) > 1:
            holders.sort(key=lambda i: submitted[i]["source"].strip() == cell["source"].strip())
            last = (
                "all of them run, so the last counts"
                if cell["cell_type"] == "code"
                else "the first that was changed counts"
            )
            notes.append(f"{len(holders)} cells are called {_id(cell)!r}; {last}")
        if holders:
            pairs[holders[0]] = cell


def _match_by_likeness(wanted: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    scored = []
    for order, cell in enumerate(wanted):
        for i, other in enumerate(submitted):
            if i not in pairs and other["cell_type"] == cell["cell_type"]:
                likeness = _likeness(cell["source"], other["source"])
                if likeness >= SIMILAR_ENOUGH:
                    scored.append((-likeness, order, i))
    for _, order, i in sorted(scored):
        if i not in pairs and not _is_matched(wanted[order], pairs):
            pairs[i] = wanted[order]


def _match_by_place(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    """Match a rewritten answer by its position between the released cells around it.

    If several cells are between them, the longest cell of the right type is the answer.
    """
    for order, cell in enumerate(released):
        is_answer = marks_of(cell).get("solution") and not _is_matched(cell, pairs)
        if is_answer and (between := _between(order, released, submitted, pairs)):
            pairs[_most_likely(between, submitted, cell)] = cell


def _match_beside_empty_cell(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    """Match a written answer with the text beside its cell, if the cell itself is empty or unchanged."""
    given = {cell["source"].strip() for cell in released}
    for i, cell in list(pairs.items()):
        if not _is_written(cell) or submitted[i]["source"].strip() not in given | {""}:
            continue
        order = next(order for order, other in enumerate(released) if other is cell)
        between = _between(order, released, submitted, {k: v for k, v in pairs.items() if k != i})
        if texts := [k for k in between if k != i and not _is_given(submitted[k]["source"].strip(), given)]:
            del pairs[i]
            pairs[_most_likely(texts, submitted, cell)] = cell


def _most_likely(places: list[int], submitted: list[Cell], released: Cell) -> int:
    """Return the index of the longest cell of the released cell's type, or of any type if there is none."""
    return max(
        places,
        key=lambda i: (
            submitted[i]["cell_type"] == released["cell_type"],
            submitted[i]["cell_type"] == "raw" or not _is_code(submitted[i]["source"]),
            len(submitted[i]["source"]),
        ),
    )


def _between(order: int, released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> list[int]:
    """Return the indices of cells that may be a released cell, between the cells around it in the release."""
    matched = {id(cell): i for i, cell in pairs.items()}
    text: dict[tuple[str, str], int] = {}
    for i, cell in enumerate(submitted):
        text.setdefault((cell["cell_type"], cell["source"].strip()), i)
    indices = [matched.get(id(c), text.get((c["cell_type"], c["source"].strip()))) for c in released]
    before = max((i for i in indices[:order] if i is not None), default=-1)
    after = min((i for i in indices[order + 1 :] if i is not None), default=len(submitted))
    return [
        i
        for i in range(before + 1, after)
        if i not in indices and submitted[i]["source"].strip() and _may_be(submitted[i], released[order])
    ]


def _may_be(submitted: Cell, released: Cell) -> bool:
    """Return whether a cell has a released cell's type; a written answer may have become raw or code."""
    if submitted["cell_type"] == released["cell_type"]:
        return True
    return _is_written(released) and (
        submitted["grade_id"] == _id(released)
        or submitted["cell_type"] == "raw"
        or not _is_code(submitted["source"])
        or _count_words(submitted["source"]) >= WORDS_OF_ANSWER
    )


def _is_written(released: Cell) -> bool:
    marks = marks_of(released)
    return released["cell_type"] == "markdown" and bool(marks.get("solution"))


def _is_code(source: str) -> bool:
    """Return whether a cell has code, not only strings, comments, names and words that are not Python."""
    return not all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Name)
        for node in forbidden_calls.statements(source)
    )


def _count_words(source: str) -> int:
    """Count the words of a code cell's longest text: a string, a magic's lines, or its comments."""
    nodes = [node for top in forbidden_calls.statements(source) for node in ast.walk(top)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts.append(" ".join(re.findall(r"#(.*)", source)))
    return max(len(re.findall(r"[^\W\d_]{2,}", text)) for text in texts)


def _is_given(text: str, given: set[str]) -> bool:
    """Return whether a text is equal or nearly equal to a released text, as in an earlier release."""
    return text in given or any(fuzz.ratio(text[:PART], known[:PART]) > 100 * NEARLY for known in given)


def _remark_text_elsewhere(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> list[str]:
    """Return remarks on written answers whose cell is unchanged while other cells have a student's text."""
    given = {cell["source"].strip() for cell in released} | {""}
    other = [c for i, c in enumerate(submitted) if i not in pairs and c["cell_type"] != "code"]
    texts = [c for c in other if not _is_given(c["source"].strip(), given)]
    written = {id(c): submitted[i]["source"].strip() for i, c in pairs.items()}
    cells = "a cell" if len(texts) == 1 else f"{len(texts)} cells"
    return [
        f"the written answer {_id(c)!r} is empty, and there is text in {cells} beside it: look there"
        for c in released
        if texts and _is_written(c) and written.get(id(c), "") in given
    ]


_DEFINES = re.compile(r"^(?:def|class)\s+(\w+)", re.MULTILINE)


def _likeness(released: str, submitted: str) -> float:
    defines = _DEFINES.findall(released)
    if defines and defines[0] in _DEFINES.findall(submitted):
        return 2.0
    if released.strip() == submitted.strip():
        return 1.5
    return fuzz.ratio(released[:4000], submitted[:4000]) / 100


def _defined_names(cell: Cell) -> set[str]:
    """Return the names that a code cell defines at its top level."""
    try:
        return set().union(*map(forbidden_calls.defined_names, forbidden_calls.statements(cell["source"])))
    except RecursionError:
        return set()


def _convert_cell(cell: Cell, release: Cell | None) -> list[Cell]:
    """Return a submitted cell in format 4.5, with the metadata of the released cell.

    A written answer becomes Markdown. If it has code, the code is also kept as a separate cell, since other
    cells may need it.
    """
    if release is None or not _is_written(release) or cell["cell_type"] == "markdown":
        return [_with_metadata(cell, release)]
    has_code = cell["cell_type"] == "code" and _is_code(cell["source"])
    text = cell["source"]
    if has_code or text.lstrip().startswith(("#", "'", '"')):  # in Markdown a comment would be a heading
        fence = "~" * (1 + max([2, *map(len, re.findall("~+", text))]))
        text = f"{fence}\n{text}\n{fence}"
    answer = _with_metadata({**cell, "cell_type": "markdown", "source": text}, release)
    return [_with_metadata(cell, None), answer] if has_code else [answer]


def _with_metadata(cell: Cell | None, release: Cell | None) -> Cell:
    """Return a cell in format 4.5 with the release's metadata and, if it is locked, the release's source."""
    locked = release is not None and not release["metadata"]["nbgrader"].get("solution")
    origin = release if release is not None and (cell is None or locked) else cell
    assert origin is not None
    result: Cell = {"cell_type": origin["cell_type"], "source": origin["source"], "metadata": {}}
    if release is not None:
        result["metadata"]["nbgrader"] = copy.deepcopy(release["metadata"]["nbgrader"])
    if result["cell_type"] == "code":
        result |= {"outputs": cell["pictures"] if cell else [], "execution_count": None}
    elif origin.get("attachments"):
        result["attachments"] = origin["attachments"]
    return result


def _place(before: list[Cell], cells: list[Cell]) -> int:
    """Return the index of a missing cell: after the nearest released cell that is present."""
    for earlier in reversed(before):
        for i, cell in enumerate(cells):
            if "nbgrader" in cell["metadata"] and _id(cell) == _id(earlier):
                return i + 1
    return 0


def _is_matched(cell: Cell, pairs: dict[int, Cell]) -> bool:
    return any(other is cell for other in pairs.values())


def _id(cell: Cell) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def _is_test(cell: Cell) -> bool:
    marks = cell["metadata"]["nbgrader"]
    return bool(marks.get("grade")) and not marks.get("solution")
