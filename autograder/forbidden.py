"""Finds, in the text of a submission, a call of the very function that the exercise asks for.

`autograder.cage.calling` sees such a call when it is made; this module sees it in the source, also when the
library is not installed where the work is graded. Only what the exercise's function reaches is searched: a
student may compare with the library in another cell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


def find(sources: list[str], function: str, forbidden: tuple[str, ...]) -> str | None:
    """The first forbidden call that `function` reaches, as a dotted name, or None.

    Args:
        sources: the submission's code, cell by cell; one that does not parse hides no other.
        function: the name of the exercise's function.
        forbidden: dotted names; ``scipy.special.softmax`` forbids any ``softmax`` of the package ``scipy``, a
            bare ``tfcore`` the whole package.
    """
    definitions: dict[str, list[ast.AST]] = {}
    imports: dict[str, str] = {}
    for source in sources:
        for statement in _statements(source):
            _collect(statement, definitions, imports)
    seen: set[str] = set()
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in imports and name not in definitions and (hit := _hit(imports[name], forbidden)):
            return hit
        for node in definitions.get(name, ())[-1:]:
            local = dict(imports)
            for inner in ast.walk(node):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    local |= _imported(inner)
            for dotted in _names(node):
                root, _, rest = dotted.partition(".")
                resolved = ".".join(filter(None, [local.get(root, root), rest]))
                if root in local and (hit := _hit(resolved, forbidden)):
                    return hit
                waiting.append(root)
    return None


def told(found: str) -> str:
    """The sentence for the student."""
    return f"`{found}` is what this exercise asks you to write. Write it yourself."


def _statements(source: str) -> list[ast.stmt]:
    """The statements of a cell, magics and shell lines left out; none if it does not parse."""
    plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    try:
        return ast.parse(plain).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _collect(statement: ast.stmt, definitions: dict[str, list[ast.AST]], imports: dict[str, str]) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for name, dotted in _imported(statement).items():
            imports[name] = dotted
            definitions.pop(name, None)
    elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
        definitions.setdefault(statement.name, []).append(statement)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for bound in ast.walk(target):
                if isinstance(bound, ast.Name):
                    definitions.setdefault(bound.id, []).append(statement.value)
    else:
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, ast.stmt):
                _collect(inner, definitions, imports)


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, each with the dotted name it stands for."""
    if isinstance(node, ast.Import):
        return {
            a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
        }
    return {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}


def _names(node: ast.AST) -> Iterator[str]:
    """Every dotted name inside a node, the longest forms: ``torch.nn.functional.softmax``."""
    for inner in ast.walk(node):
        parts: list[str] = []
        step: ast.AST = inner
        while isinstance(step, ast.Attribute):
            parts.append(step.attr)
            step = step.value
        if isinstance(step, ast.Name):
            yield ".".join([step.id, *reversed(parts)])


def _hit(dotted: str, forbidden: tuple[str, ...]) -> str | None:
    package, last = dotted.split(".")[0], dotted.split(".")[-1]
    for name in forbidden:
        if package == name or (
            package == name.split(".")[0] and last == name.split(".")[-1] and "." in dotted
        ):
            return dotted
    return None
