"""Find calls of forbidden library functions in the source code of a submission.

`autograder.cage.calling` notices such a call when it runs; this module finds it in the source, even if the
library is not installed on the grading machine. Only code that the exercise's function can reach is
searched, so students may compare their results with the library in another cell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from autograder.cage.names import of_names

LONGEST = 50
"""The most parts of a dotted name that are read; ``torch.nn.functional.softmax`` has four."""
MOST_TO_READ = 50_000
"""The most characters of a cell times its magics, since IPython reads the cell again for each magic."""


def find(sources: list[str], function: str, forbidden: tuple[str, ...]) -> str | None:
    """Return the first forbidden call that `function` reaches, as a dotted name, or None.

    Args:
        sources: the submission's code, cell by cell; cells that do not parse are skipped.
        function: the name of the exercise's function.
        forbidden: the forbidden names, as in `autograder.cage.names.Forbidden`.
    """
    definitions, imports = _read(tuple(sources))
    for name, local_names, dotted_names in _reachable(definitions, function):
        if name in imports and name not in definitions and (hit := _hit(imports[name], forbidden)):
            return hit
        for dotted in dotted_names:
            root, _, rest = dotted.partition(".")
            target = local_names[root] if root in local_names else imports.get(root)
            if target and (hit := _hit(".".join(filter(None, [target, rest])), forbidden)):
                return hit
    return None


def uses(sources: list[str], function: str) -> set[str]:
    """Return the names of the submission's own functions that `function` reaches, except `function`."""
    definitions, _ = _read(tuple(sources))
    return {name for name, _, _ in _reachable(definitions, function) if name in definitions} - {function}


@lru_cache(maxsize=2)
def _read(sources: tuple[str, ...]) -> tuple[dict[str, list[ast.AST]], dict[str, str]]:
    """Return the definitions of each top-level name, and the dotted name of each imported name."""
    definitions: dict[str, list[ast.AST]] = {}
    imports: dict[str, str] = {}
    for source in sources:
        for statement in statements(source):
            _collect(statement, definitions, imports)
    return definitions, imports


def _reachable(
    definitions: dict[str, list[ast.AST]], function: str
) -> Iterator[tuple[str, dict[str, str | None], list[str]]]:
    """Yield each top-level name that `function` reaches.

    With each name comes its last definition: the names that it binds, and the dotted names that it mentions.
    """
    visited: set[str] = set()
    read: set[int] = set()
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        local_names: dict[str, str | None] = {}
        dotted_names: list[str] = []
        for node in definitions.get(name, ())[-1:]:
            if id(node) in read:  # a = b = f
                continue
            read.add(id(node))
            local_names = bound_names(node)
            dotted_names = list(_names(node) if name == function else _callables(node))
        yield name, local_names, dotted_names
        waiting += [root for dotted in dotted_names if (root := dotted.partition(".")[0]) not in local_names]


def describe_violation(found: str, written: str | None = None) -> str:
    """Return the sentence about a forbidden call for the student.

    Args:
        found: the dotted name of the forbidden call.
        written: the name in the student's own source, if it is known.
    """
    if found.endswith(".<module>"):
        module = found.split(".")[0]
        return f"Your code imports `{module}`, which has the function that this exercise asks you to write."
    if written and written.split(".")[-1] != found.split(".")[-1]:
        return f"`{written}` calls `{found}`, which this exercise asks you to write. Write it yourself."
    return f"`{written or found}` is what this exercise asks you to write. Write it yourself."


@lru_cache(maxsize=256)
def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell, also those in its magics; none if the cell does not parse."""
    try:
        return ast.parse(source).body
    except (ValueError, RecursionError, MemoryError):
        return []
    except SyntaxError:
        pass
    if is_long_to_read(source):
        return []
    try:
        nodes = ast.parse(_transformer().transform_cell(source)).body
    except Exception:  # IPython's own reader may raise any
        return []
    return [*nodes, *(inner for text in _code_in_magics(nodes) for inner in statements(text))]


def is_long_to_read(source: str) -> bool:
    """Return whether a cell with magics takes IPython too long to read."""
    return len(source) * sum(map(source.count, "%!?")) > MOST_TO_READ


@cache
def _transformer() -> Any:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


def _code_in_magics(cell_statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the code in ``%time f(x)`` and below ``%%time``, which IPython passes to the magic as a text."""
    for node in (inner for statement in cell_statements for inner in ast.walk(statement)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "_magic" in node.func.attr:
            yield from (str(a.value) for a in node.args[1:] if isinstance(a, ast.Constant) and a.value)


def defined_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a cell defines or changes."""
    definitions: dict[str, list[ast.AST]] = {}
    _collect(statement, definitions, {})
    return set(definitions)


def _collect(statement: ast.stmt, definitions: dict[str, list[ast.AST]], imports: dict[str, str]) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for name, dotted in imported_names(statement).items():
            imports[name] = dotted
            definitions.pop(name, None)
        return
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        definitions.setdefault(statement.name, []).append(statement)
        return
    for target, value in _bindings(statement):
        for bound in ast.walk(target):
            if isinstance(bound, ast.Name):
                definitions.setdefault(bound.id, []).append(value)
    for inner in ast.iter_child_nodes(statement):
        if isinstance(inner, ast.stmt):
            _collect(inner, definitions, imports)


def _bindings(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets that a statement binds with their values; ``for f in [g]`` counts as ``f = g``."""
    if isinstance(statement, ast.Assign):
        yield from ((target, statement.value) for target in statement.targets)
    elif isinstance(statement, ast.AnnAssign) and statement.value:
        yield statement.target, statement.value
    elif isinstance(statement, ast.For):
        yield statement.target, statement.iter
    elif isinstance(statement, ast.With):
        yield from ((item.optional_vars, item.context_expr) for item in statement.items if item.optional_vars)
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.expr):
            walrus = (inner for inner in ast.walk(part) if isinstance(inner, ast.NamedExpr))
            yield from ((inner.target, inner.value) for inner in walrus)


def imported_names(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Return the names that an import binds, each with its dotted name."""
    if isinstance(node, ast.Import):
        return {
            a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
        }
    return {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}


def bound_names(node: ast.AST) -> dict[str, str | None]:
    """Return the names that a function binds itself; an imported name comes with its dotted name."""
    names: dict[str, str | None] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            names[inner.arg] = None
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            names[inner.id] = None
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef) and inner is not node:
            names[inner.name] = None
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            names |= imported_names(inner)
    return names


def _callables(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition may call later: all names in a function, none in a computed value.

    ``e = f(x)`` is a number, but ``g = f``, ``g = partial(f)`` and ``g = {"f": f}`` keep code.
    """
    if isinstance(node, ast.Call):
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            yield from _callables(argument)
    elif isinstance(node, ast.Dict | ast.List | ast.Set | ast.Tuple):
        for inner in ast.iter_child_nodes(node):
            yield from _callables(inner)
    elif isinstance(node, ast.IfExp):
        yield from _callables(node.body)
        yield from _callables(node.orelse)
    elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda) or _is_dotted(node):
        yield from _names(node)


def _is_dotted(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield every dotted name inside a node in its full length: ``torch.nn.functional.softmax``."""
    for inner in ast.walk(node):
        parts: list[str] = []
        step: ast.AST = inner
        if isinstance(inner, ast.Call) and _is_getattr(inner):
            step, attribute = inner.args[0], inner.args[1]
            parts = [str(attribute.value)] if isinstance(attribute, ast.Constant) else []
        while isinstance(step, ast.Attribute) and len(parts) < LONGEST:
            parts.append(step.attr)
            step = step.value
        if isinstance(step, ast.Name):
            yield ".".join([step.id, *reversed(parts)])


def _is_getattr(call: ast.Call) -> bool:
    return len(call.args) > 1 and isinstance(call.func, ast.Name) and call.func.id == "getattr"


def _hit(dotted: str, forbidden: tuple[str, ...]) -> str | None:
    """Return the dotted name if it is forbidden, else None."""
    module, _, last = dotted.rpartition(".")
    return dotted if of_names(forbidden).have(module or dotted, last if module else "") else None
