"""Finds the released cells in a submitted notebook, whatever its editor did to the metadata."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from autograder.cage.wire import json_from_bytes
from autograder.reading import forbidden_calls

Cell = dict[str, Any]
MAX_BYTES = 32 << 20
MAX_CELLS = 2000
AN_ANSWER = 6
"""Words in a code cell that may be a written answer: ``answer = "..."``, ``print("...")``, ``%%markdown``."""
MAX_TEXT = 2 << 20
"""Characters of all cells, but for pictures in Markdown: reading them takes its time."""
SIMILAR_ENOUGH = 0.5
NEARLY, PART = 0.8, 5_000
"""How much of a text's first characters must be those of another to be the same with a word changed."""


class UnreadableError(ValueError):
    """The bytes are no notebook."""


@dataclass
class Matched:
    """The submitted cells in order, released cells among them marked, and remarks for the teacher.

    Every released answer and test stands in `cells` exactly once with the release's nbgrader metadata; tests
    and other locked cells have the release's source.
    """

    cells: list[Cell]
    notes: list[str] = field(default_factory=list)


def read_notebook(data: bytes) -> dict[str, Any]:
    """The notebook, with each cell reduced to type, source, metadata and attachments.

    Raises:
        UnreadableError: what was expected, what came, and what to do.
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
            "the file is JSON but no notebook of format 4: it has no list of cells; ask for the .ipynb file "
            "as Jupyter saves it"
        )
    if len(notebook["cells"]) > MAX_CELLS:
        raise UnreadableError(
            f"the notebook has {len(notebook['cells'])} cells; at most {MAX_CELLS} are read"
        )
    cells = [_clean(c) for c in notebook["cells"] if isinstance(c, dict)]
    text = sum(len(c["source"]) if c["cell_type"] == "code" else without_pictures(c["source"]) for c in cells)
    if text > MAX_TEXT:
        raise UnreadableError(
            f"its cells hold {text:,} characters, and at most {MAX_TEXT:,} are read; ask for it without what "
            "was pasted"
        )
    return {"cells": cells}


_PICTURE = re.compile(r"data:image/[\w+.-]+;base64,[A-Za-z0-9+/=]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def without_pictures(markdown: str) -> int:
    """How many characters a text has, but for those that pictures are made of."""
    return len(_PICTURE.sub("", markdown))


def _pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures pasted into a cell, by name and kind."""
    named = attachments.items() if isinstance(attachments, dict) else ()
    found = {
        name: {kind: data for kind, told in kinds.items() if (data := _picture(kind, joined(told)))}
        for name, kinds in named
        if isinstance(kinds, dict)
    }
    return {name: kinds for name, kinds in found.items() if kinds}


def _picture(kind: str, data: Any) -> str | None:
    is_one = kind in ("image/png", "image/jpeg", "image/gif") and isinstance(data, str)
    return data if is_one and _BASE64.fullmatch(data) else None


def _clean(cell: Cell) -> Cell:
    source = joined(cell.get("source", ""))
    kind = cell.get("cell_type")
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return {
        "cell_type": kind if kind in ("code", "markdown", "raw") else "raw",
        "source": source if isinstance(source, str) else "",
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "attachments": _pictures(cell.get("attachments")),
    }


def joined(source: Any) -> Any:
    """A cell's text, which a notebook may hold as a list of lines."""
    return "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source


def match(released: list[Cell], submitted: list[Cell]) -> Matched:
    """Pairs released cells with submitted ones: by grade_id, by the function defined, by likeness, by place.

    Args:
        released: the cells of the released notebook, with nbgrader metadata.
        submitted: the cells of `read_notebook`.
    """
    wanted = [c for c in released if "nbgrader" in c["metadata"]]
    theirs = {cell["grade_id"] for cell in submitted} - {None}
    if len(theirs) > 1 and not theirs & {_id(cell) for cell in wanted}:
        some = ", ".join(sorted(theirs)[:3])
        raise UnreadableError(f"this is another assignment's notebook: its cells are called {some}, ...")
    notes: list[str] = []
    pairs: dict[int, Cell] = {}
    _by_grade_id(wanted, submitted, pairs, notes)
    _by_likeness([c for c in wanted if not _taken(c, pairs)], submitted, pairs)
    _by_place(released, submitted, pairs)
    _beside_an_empty_cell(released, submitted, pairs)
    notes += _written_elsewhere(released, submitted, pairs)
    cells = [one for i, cell in enumerate(submitted) for one in _marked(cell, pairs.get(i))]
    elsewhere = _defined_elsewhere(submitted)
    for index, cell in enumerate(wanted):
        if not _taken(cell, pairs):
            missing = _annotated(None, cell)
            if cell["cell_type"] == "code" and not _is_test(cell) and _names(cell) <= elsewhere:
                missing["source"] = "# This answer is in another cell."
            elif not _is_test(cell):
                notes.append(f"the cell {_id(cell)!r} is missing")
            cells.insert(_place(wanted[:index], cells), missing)
    return Matched(cells, notes)


def imports(released: list[Cell]) -> str:
    """Return the imports of the given cells, which answers need although a student broke such a cell."""
    given = [c["source"] for c in released if c["cell_type"] == "code" and "nbgrader" not in c["metadata"]]
    found = [one for source in given for one in forbidden_calls.statements(source)]
    return "\n".join(ast.unparse(one) for one in found if isinstance(one, ast.Import | ast.ImportFrom))


def _by_grade_id(wanted: list[Cell], submitted: list[Cell], pairs: dict[int, Cell], notes: list[str]) -> None:
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


def _by_likeness(wanted: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    scored = []
    for order, cell in enumerate(wanted):
        for i, other in enumerate(submitted):
            if i not in pairs and other["cell_type"] == cell["cell_type"]:
                likeness = _likeness(cell["source"], other["source"])
                if likeness >= SIMILAR_ENOUGH:
                    scored.append((-likeness, order, i))
    for _, order, i in sorted(scored):
        if i not in pairs and not _taken(wanted[order], pairs):
            pairs[i] = wanted[order]


def _by_place(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    """Finds a rewritten answer between the released cells that stood around it and still do.

    Of several cells there, the longest of the right type is taken for the answer.
    """
    for order, cell in enumerate(released):
        is_answer = cell["metadata"].get("nbgrader", {}).get("solution") and not _taken(cell, pairs)
        if is_answer and (between := _between(order, released, submitted, pairs)):
            pairs[_most_likely(between, submitted, cell)] = cell


def _beside_an_empty_cell(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> None:
    """Takes the text beside the empty cell of a written answer for that answer."""
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
    """The place of the longest cell of the released cell's type; of any other type, where there is none."""
    return max(
        places,
        key=lambda i: (
            submitted[i]["cell_type"] == released["cell_type"],
            submitted[i]["cell_type"] == "raw" or not _is_code(submitted[i]["source"]),
            len(submitted[i]["source"]),
        ),
    )


def _between(order: int, released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> list[int]:
    """The submitted cells that may be a released one, between the cells that stood around it and still do."""
    found = {id(cell): i for i, cell in pairs.items()}
    text: dict[tuple[str, str], int] = {}
    for i, cell in enumerate(submitted):
        text.setdefault((cell["cell_type"], cell["source"].strip()), i)
    stands = [found.get(id(c), text.get((c["cell_type"], c["source"].strip()))) for c in released]
    before = max((i for i in stands[:order] if i is not None), default=-1)
    after = min((i for i in stands[order + 1 :] if i is not None), default=len(submitted))
    return [
        i
        for i in range(before + 1, after)
        if i not in stands and submitted[i]["source"].strip() and _may_be(submitted[i], released[order])
    ]


def _may_be(submitted: Cell, released: Cell) -> bool:
    """Whether a cell has the type of a released one; a written answer may have become raw or code."""
    if submitted["cell_type"] == released["cell_type"]:
        return True
    return _is_written(released) and (
        submitted["grade_id"] == _id(released)
        or submitted["cell_type"] == "raw"
        or not _is_code(submitted["source"])
        or _words(submitted["source"]) >= AN_ANSWER
    )


def _is_written(released: Cell) -> bool:
    marks = released["metadata"].get("nbgrader", {})
    return released["cell_type"] == "markdown" and bool(marks.get("solution"))


def _is_code(source: str) -> bool:
    """Whether a code cell is more than text: strings, comments, names, or words that are no Python."""
    return not all(
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant | ast.Name)
        for one in forbidden_calls.statements(source)
    )


def _words(source: str) -> int:
    """Count the words of a code cell's longest text: a string, a magic's lines, or its comments."""
    nodes = [node for one in forbidden_calls.statements(source) for node in ast.walk(one)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts.append(" ".join(re.findall(r"#(.*)", source)))
    return max(len(re.findall(r"[^\W\d_]{2,}", text)) for text in texts)


def _is_given(text: str, given: set[str]) -> bool:
    """Whether a text was handed out, as it is or in an earlier release with other words here and there."""
    return text in given or any(fuzz.ratio(text[:PART], one[:PART]) > 100 * NEARLY for one in given)


def _written_elsewhere(released: list[Cell], submitted: list[Cell], pairs: dict[int, Cell]) -> list[str]:
    """A remark where the cell of a written answer was left as it is, and there is text of the student's."""
    given = {cell["source"].strip() for cell in released} | {""}
    other = [c for i, c in enumerate(submitted) if i not in pairs and c["cell_type"] != "code"]
    texts = [c for c in other if not _is_given(c["source"].strip(), given)]
    written = {id(c): submitted[i]["source"].strip() for i, c in pairs.items()}
    empty = [
        c
        for c in released
        if c["cell_type"] == "markdown"
        and c["metadata"].get("nbgrader", {}).get("solution")
        and written.get(id(c), "") in given
    ]
    cells = "a cell" if len(texts) == 1 else f"{len(texts)} cells"
    return [
        f"the written answer {_id(c)!r} is empty, and text stands in {cells} beside it: look there"
        for c in empty
        if texts
    ]


_DEFINES = re.compile(r"^(?:def|class)\s+(\w+)", re.MULTILINE)


def _likeness(released: str, submitted: str) -> float:
    defines = _DEFINES.findall(released)
    if defines and defines[0] in _DEFINES.findall(submitted):
        return 2.0
    if released.strip() == submitted.strip():
        return 1.5
    return fuzz.ratio(released[:4000], submitted[:4000]) / 100


def _names(cell: Cell) -> set[str]:
    """The names that a code cell defines at its top level."""
    try:
        return set().union(*map(forbidden_calls.defined_names, forbidden_calls.statements(cell["source"])))
    except RecursionError:
        return set()


def _defined_elsewhere(submitted: list[Cell]) -> set[str]:
    return set().union(*(_names(cell) for cell in submitted if cell["cell_type"] == "code"))


def _marked(cell: Cell, release: Cell | None) -> list[Cell]:
    """A submitted cell as format 4.5 has it, with the marks of the released one.

    A written answer is Markdown. Code in it also stays as a cell of its own, since other cells may need it.
    """
    if release is None or not _is_written(release) or cell["cell_type"] == "markdown":
        return [_annotated(cell, release)]
    runs = cell["cell_type"] == "code" and _is_code(cell["source"])
    text = cell["source"]
    if runs or text.lstrip().startswith(("#", "'", '"')):  # in Markdown a comment would be a heading
        fence = "~" * (1 + max([2, *map(len, re.findall("~+", text))]))
        text = f"{fence}\n{text}\n{fence}"
    answer = _annotated({**cell, "cell_type": "markdown", "source": text}, release)
    return [_annotated(cell, None), answer] if runs else [answer]


def _annotated(cell: Cell | None, release: Cell | None) -> Cell:
    """A notebook cell of format 4.5 with the release's metadata, and its source where that is locked."""
    locked = release is not None and not release["metadata"]["nbgrader"].get("solution")
    origin = release if release is not None and (cell is None or locked) else cell
    assert origin is not None
    made: Cell = {"cell_type": origin["cell_type"], "source": origin["source"], "metadata": {}}
    if release is not None:
        made["metadata"]["nbgrader"] = copy.deepcopy(release["metadata"]["nbgrader"])
    if made["cell_type"] == "code":
        made |= {"outputs": [], "execution_count": None}
    elif origin.get("attachments"):
        made["attachments"] = origin["attachments"]
    return made


def _place(before: list[Cell], cells: list[Cell]) -> int:
    """Where a missing cell belongs: behind the nearest released cell that is there."""
    for earlier in reversed(before):
        for i, cell in enumerate(cells):
            if "nbgrader" in cell["metadata"] and _id(cell) == _id(earlier):
                return i + 1
    return 0


def _taken(cell: Cell, pairs: dict[int, Cell]) -> bool:
    return any(other is cell for other in pairs.values())


def _id(cell: Cell) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def _is_test(cell: Cell) -> bool:
    marks = cell["metadata"]["nbgrader"]
    return bool(marks.get("grade")) and not marks.get("solution")
