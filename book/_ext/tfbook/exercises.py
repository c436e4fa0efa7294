"""``{exercises} ch02_qkv``: what a released notebook asks, as a table, and how much it is worth.

The table is read from ``notebooks/ch02_qkv/ch02_qkv.ipynb``, the notebook that students get: every cell
that nbgrader grades is a row. Title, minutes and difficulty come from the cell's own metadata, under
``course``, and the title else from the heading above the cell.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

MAY_BREAK = "\u200b"
"""Of no width; lets a phone break the long name of a function or a class."""
BETWEEN_WORDS = re.compile(r"(?<=_)|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Row:
    """One graded cell of a notebook."""

    title: str
    points: float
    by: str
    minutes: int | None = None
    difficulty: str = ""


def read_rows(notebook: dict[str, Any]) -> list[Row]:
    """The graded cells of a released notebook, in their order."""
    rows: list[Row] = []
    heading = ""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            headings = [line.lstrip("# ").strip() for line in source.splitlines() if line.startswith("#")]
            heading = headings[-1] if headings else heading
        graded = cell["metadata"].get("nbgrader", {})
        if not graded.get("grade"):
            continue
        course = cell["metadata"].get("course", {})
        rows.append(
            Row(
                title=str(course.get("title") or heading or graded["grade_id"]),
                points=float(graded["points"]),
                by="a person" if graded.get("solution") else "autograder",
                minutes=course.get("minutes"),
                difficulty=str(course.get("difficulty", "")),
            )
        )
    return rows


class ExercisesDirective(SphinxDirective):
    """See the module's docstring."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"folder": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        path = Path(self.env.srcdir) / self.options.get("folder", "notebooks") / name / f"{name}.ipynb"
        if not path.is_file():
            raise self.error(f"exercises: {name} is not released; `autograder release {name}` writes it")
        self.env.note_dependency(str(path))
        rows = read_rows(json.loads(path.read_text("utf8")))
        if not rows:
            raise self.error(f"exercises: {name} has no graded cell")
        table, *others = self.parse_text_to_nodes(as_markdown(rows))
        assert isinstance(table, nodes.table)
        table["classes"].append("tf-exercises")
        return [table, *others]


def as_markdown(rows: list[Row]) -> str:
    """The rows as a Markdown table; a column that no row fills is left out.

    >>> print(as_markdown([Row("Softmax", 4, "autograder", 15, "easy")]))
    | Exercise | Points | Minutes | Difficulty | Graded by |
    |:---|---:|---:|:---|:---|
    | Softmax | 4 | 15 | easy | autograder |
    | **Total** | **4** | **15** | | |
    """
    minutes = [row.minutes for row in rows if row.minutes]
    columns = [
        ("Exercise", ":---", [BETWEEN_WORDS.sub(MAY_BREAK, row.title) for row in rows], "**Total**"),
        ("Points", "---:", [f"{row.points:g}" for row in rows], f"**{sum(row.points for row in rows):g}**"),
        ("Minutes", "---:", [str(row.minutes or "") for row in rows], f"**{sum(minutes)}**"),
        ("Difficulty", ":---", [row.difficulty for row in rows], ""),
        ("Graded by", ":---", [row.by for row in rows], ""),
    ]
    shown = [column for column in columns if any(column[2])]
    lines = [
        [title for title, *_ in shown],
        *[[cells[index] for *_, cells, _ in shown] for index in range(len(rows))],
        [total for *_, total in shown],
    ]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    table.insert(1, "|" + "|".join(align for _, align, *_ in shown) + "|")
    return "\n".join(table).replace("|  |", "| |").replace("|  |", "| |")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exercises", ExercisesDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
