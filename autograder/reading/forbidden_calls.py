"""Finds, in the text of a submission, a call of the very function that the exercise asks for.

`autograder.cage.calling` sees such a call when it is made; this module sees it in the source, also when the
library is not installed where the work is graded. Only what the exercise's function reaches is searched: a
student may compare with the library in another cell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from autograder.cage.names import Forbidden

LONGEST = 50
"""Parts of a dotted name that are looked at; ``torch.nn.functional.softmax`` has four."""
MOST_TO_READ = 50_000
"""Characters of a cell times its magics, since IPython reads the cell again for each of them."""


def find(sources: list[str], function: str, forbidden: tuple[str, ...]) -> str | None:
    """The first forbidden call that `function` reaches, as a dotted name, or None.

    Args:
        sources: the submission's code, cell by cell; one that does not parse hides no other.
        function: the name of the exercise's function.
        forbidden: what is forbidden, as in `autograder.cage.names.Forbidden`.
    """
    definitions, imports = _read(tuple(sources))
    for name, own, dotted_names in _reached(definitions, function):
        if name in imports and name not in definitions and (hit := _hit(imports[name], forbidden)):
            return hit
        for dotted in dotted_names:
            root, _, rest = dotted.partition(".")
            meant = own[root] if root in own else imports.get(root)
            if meant and (hit := _hit(".".join(filter(None, [meant, rest])), forbidden)):
                return hit
    return None


def uses(sources: list[str], function: str) -> set[str]:
    """The names of the submission's own functions that `function` reaches, itself left out."""
    definitions, _ = _read(tuple(sources))
    return {name for name, _, _ in _reached(definitions, function) if name in definitions} - {function}


@lru_cache(maxsize=2)
def _read(sources: tuple[str, ...]) -> tuple[dict[str, list[ast.AST]], dict[str, str]]:
    """What each top-level name is defined as, and what each imported name stands for."""
    definitions: dict[str, list[ast.AST]] = {}
    imports: dict[str, str] = {}
    for source in sources:
        for statement in statements(source):
            _collect(statement, definitions, imports)
    return definitions, imports


def _reached(
    definitions: dict[str, list[ast.AST]], function: str
) -> Iterator[tuple[str, dict[str, str | None], list[str]]]:
    """Every top-level name that `function` reaches, with what its last definition binds and names."""
    seen: set[str] = set()
    read: set[int] = set()
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        own: dict[str, str | None] = {}
        dotted_names: list[str] = []
        for node in definitions.get(name, ())[-1:]:
            if id(node) in read:  # a = b = f
                continue
            read.add(id(node))
            own = bound(node)
            dotted_names = list(_names(node) if name == function else _callables(node))
        yield name, own, dotted_names
        waiting += [root for dotted in dotted_names if (root := dotted.partition(".")[0]) not in own]


def told(found: str, written: str | None = None) -> str:
    """The sentence for the student.

    Args:
        found: the call that was seen.
        written: what the student's source has in its place, if that is known.
    """
    if found.endswith(".<module>"):
        return f"Your code imports `{found.split('.')[0]}`, which holds what this exercise asks you to write."
    if written and written.split(".")[-1] != found.split(".")[-1]:
        return f"`{written}` calls `{found}`, which this exercise asks you to write. Write it yourself."
    return f"`{written or found}` is what this exercise asks you to write. Write it yourself."


@lru_cache(maxsize=256)
def statements(source: str) -> list[ast.stmt]:
    """The statements of a cell as IPython reads it, those in its magics too; none if it does not parse."""
    try:
        return ast.parse(source).body
    except (ValueError, RecursionError, MemoryError):
        return []
    except SyntaxError:
        pass
    if is_long_to_read(source):
        return []
    try:
        found = ast.parse(_transformer().transform_cell(source)).body
    except Exception:  # IPython's own reader may raise any
        return []
    return [*found, *(inner for text in _given_to_magics(found) for inner in statements(text))]


def is_long_to_read(source: str) -> bool:
    """Whether a cell with magics would take long to read."""
    return len(source) * sum(map(source.count, "%!?")) > MOST_TO_READ


@cache
def _transformer() -> Any:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


def _given_to_magics(found: list[ast.stmt]) -> Iterator[str]:
    """The code in ``%time f(x)`` and below ``%%time``, which IPython hands on as text."""
    for node in (inner for statement in found for inner in ast.walk(statement)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "_magic" in node.func.attr:
            yield from (str(a.value) for a in node.args[1:] if isinstance(a, ast.Constant) and a.value)


def defined(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a cell defines or adds to."""
    definitions: dict[str, list[ast.AST]] = {}
    _collect(statement, definitions, {})
    return set(definitions)


def _collect(statement: ast.stmt, definitions: dict[str, list[ast.AST]], imports: dict[str, str]) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for name, dotted in imported(statement).items():
            imports[name] = dotted
            definitions.pop(name, None)
    elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
        definitions.setdefault(statement.name, []).append(statement)
        return
    for target, value in _given_names(statement):
        for bound in ast.walk(target):
            if isinstance(bound, ast.Name):
                definitions.setdefault(bound.id, []).append(value)
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, ast.stmt):
                _collect(inner, definitions, imports)


def _given_names(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement gives names to, and what they then stand for: ``for f in [g]`` as ``f = g``."""
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


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, each with the dotted name it stands for."""
    if isinstance(node, ast.Import):
        return {
            a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
        }
    return {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}


def bound(node: ast.AST) -> dict[str, str | None]:
    """Return the names that a function binds itself; for an import, with the dotted name it stands for."""
    found: dict[str, str | None] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            found[inner.arg] = None
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found[inner.id] = None
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef) and inner is not node:
            found[inner.name] = None
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            found |= imported(inner)
    return found


def _callables(node: ast.AST) -> Iterator[str]:
    """The names that a definition may call later: all of a function's, none of a value that was computed.

    ``e = f(x)`` holds a number, ``g = f``, ``g = partial(f)`` and ``g = {"f": f}`` hold code.
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
    """Every dotted name inside a node, the longest forms: ``torch.nn.functional.softmax``."""
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
    module, _, last = dotted.rpartition(".")
    return dotted if Forbidden(forbidden).have(module or dotted, last if module else "") else None
