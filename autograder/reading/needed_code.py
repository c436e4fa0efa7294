"""Find a function in the cells of a notebook, with the imports and helpers that it needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.reading.forbidden_calls import defined_names, imported_names

MAGIC = re.compile(r"^(\s*)[%!]")


@dataclass(frozen=True)
class Definition:
    """A statement of a cell that gives a name its value: its text, and the names that it uses."""

    text: str
    uses: frozenset[str]
    is_import: bool


def definitions(cells: Iterable[str]) -> dict[str, Definition]:
    """Return the last definition of each top-level name in the code cells of a notebook.

    Lines that are commands for IPython are left out, and so are cells that do not parse.
    """
    found: dict[str, Definition] = {}
    for cell in cells:
        lines = re.split(r"\r\n?|\n", cell)  # where Python ends a line
        for statement in _statements(lines):
            found |= _defined(statement, lines)
    return found


def _statements(lines: list[str]) -> list[ast.stmt]:
    """Return the statements of a cell. In `lines`, turn commands for IPython into comments."""
    while True:
        try:
            return ast.parse("\n".join(lines)).body
        except SyntaxError as error:
            at = (error.lineno or 1) - 1
            if at >= len(lines) or not MAGIC.match(lines[at]):
                return []
            lines[at] = MAGIC.sub(r"\1# ", lines[at])
        except (ValueError, RecursionError, MemoryError):
            return []


def _defined(statement: ast.stmt, lines: list[str]) -> dict[str, Definition]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        texts = {
            name: ast.unparse(_alone(statement, alias))
            for alias in statement.names
            for name in imported_names(_alone(statement, alias))
        }
        return {name: Definition(text, frozenset(), True) for name, text in texts.items()}
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
        return {}
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    text = "\n".join(lines[first - 1 : statement.end_lineno])
    uses = frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {name: Definition(text, uses, False) for name in defined_names(statement)}


def _alone(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.Import | ast.ImportFrom:
    """Return the import of one name out of a statement that may import several."""
    if isinstance(statement, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(statement.module, [alias], statement.level)


def with_needs(name: str, known: dict[str, Definition]) -> dict[str, Definition]:
    """Return a definition and all definitions that it needs, by name: what is needed comes first.

    It is empty if the name is not defined.
    """
    needed: dict[str, Definition] = {}
    entered: set[str] = set()

    def add(wanted: str) -> None:
        if wanted in known and wanted not in entered:
            entered.add(wanted)
            for used in sorted(known[wanted].uses):
                add(used)
            needed[wanted] = known[wanted]

    add(name)
    return needed
