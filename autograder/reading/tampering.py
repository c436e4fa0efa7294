"""Find source code of a submission that touches the grader's own machinery.

The cage, the watch over forbidden calls and the meters run in the submission's process, so its code can
rewrite them. The teacher gets a remark about code that touches them. No points depend on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from autograder.course.remark import Remark
from autograder.reading import forbidden_calls

CONNECTION = "can use the connection to the grader"
MACHINERY = {
    "is the grader's own code": r"^cage(\.\w+)?|^sys\.meta_path",
    "can switch off the watch over forbidden calls": r"""
        \.(setprofile|addaudithook) | ^(sys|threading)\.settrace | ^sys\.monitoring
        | \.(_pop_mode(_temporarily)?|_disable_current_modes|TorchFunctionMode\.__(enter|exit)__\ =)
        | \.(DisableTorchFunction(Subclass)?|_?(Ex|In)cludeDispatchKeyGuard|DispatchKeySet)
        | \.(_(Force|Preserve)DispatchKeyGuard|_op_dk|_dispatch_call_boxed)
        | (?<!\.self)\.redispatch(_boxed)?""",
    "can search the process for the grader's objects": r"""
        ^gc\.(get_objects|get_referrers|get_referents|\.\.) | ^sys\._current_frames
        | \.(f_back|f_globals|f_builtins) | \.(object|__base__)\.__subclasses__""",
    "can read and write all memory of the process": r"^_?ctypes",
    "replaces the code of a function": r"(?<!\.self)\.__code__\ =",
    "changes what the grader's code calls": r"""
        ^(contextlib|copy|dis|gc|json|re|socket|struct|threading)\.\w+\ = | ^builtins\.__import__\ =
        | (?<!\.self)\.(run_cell|run_code|run_ast_nodes)\ =""",
    CONNECTION: r"""
        ^(os|posix)\.(closerange|dup2?|fstat|p?readv?|p?writev?|sendfile)
        | ^(os\.fdopen|io\.(open|FileIO)|\.open)\(number\) | ^socket\.(fromfd|socket\(fileno=\))""",
}
"""The end of a remark, with the names that cause it. ``^`` begins the name of a module, a dot begins an
attribute of any object, and `` =`` ends a name that the code assigns to."""

_HITS = {why: re.compile(rf"(?:{names})(?!\w)", re.VERBOSE) for why, names in MACHINERY.items()}
_ANY = re.compile("|".join(f"(?:{names})" for names in MACHINERY.values()), re.VERBOSE)
_DOTTED = re.compile(r"\w+(\.\w+)+")
_OPENS_DESCRIPTORS = re.compile(r"mkstemp|os\.open|os\.pipe|fileno\(\)")
"""Code that opens file descriptors itself, and may then read, write and copy those, by their names."""
BY_NUMBER = "(number)"
"""The end of the name of a call whose first argument is a number, or a name that the cell gives a number."""
IMPORTERS = ("__import__", "import_module")


@dataclass(frozen=True)
class Cell:
    """A cell of the notebook that was run.

    Args:
        source: the code of the cell.
        number: the place of the cell in the notebook, counted from 1.
        answers: the exercise that the cell answers, or an empty text.
    """

    source: str
    number: int
    answers: str = ""

    @property
    def kind(self) -> str:
        return f"the answer to {self.answers}" if self.answers else "outside the answers"


def remarks(cells: Sequence[Cell], functions: Sequence[str], given: Container[str] = ()) -> list[Remark]:
    """Return a remark for each name of the grader's machinery in the code, once for each exercise.

    Args:
        cells: the cells of a submission, in the order in which they ran.
        functions: the names of the exercises' functions.
        given: the sources of released cells, which are not searched.
    """
    sources = [cell.source for cell in cells]
    imports = _imports(sources)
    remarks_by_name: dict[tuple[str, str], Remark] = {}
    reached: dict[str, set[str]] = {}
    for cell in cells:
        for touched in () if cell.source in given else _find_touched(cell.source, imports):
            reached = reached or {name: {name} | forbidden_calls.uses(sources, name) for name in functions}
            reaching = [name for name in functions if reached[name] & touched.definitions]
            exercise = " and ".join(reaching) or cell.answers
            if (touched.name, exercise) not in remarks_by_name:
                number, line = _line(cell.source, touched)
                place = f"Cell {cell.number}, {cell.kind}, line {number}"
                remark = Remark(f"`{touched.name}` {touched.why}", "machinery", exercise, place, line)
                remarks_by_name[touched.name, exercise] = remark
    return list(remarks_by_name.values())


def _imports(sources: list[str]) -> dict[str, str]:
    """Return the imported names with their dotted names, without names that some cell assigns to."""
    nodes = [
        node
        for source in sources
        for statement in forbidden_calls.statements(source)
        for node in ast.walk(statement)
    ]
    imports: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= forbidden_calls.imported_names(node)
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)}
    return {name: dotted for name, dotted in imports.items() if name not in stored}


@dataclass(frozen=True)
class _Touched:
    """A name of the machinery in the code: the reason, its line, and the names that its statement defines."""

    name: str
    why: str
    number: int
    definitions: set[str]


def _find_touched(source: str, imports: dict[str, str]) -> Iterator[_Touched]:
    statements = forbidden_calls.statements(source)
    numbers = {name for statement in statements for name in _numbers(statement)}
    names_used = [
        (statement, text, number)
        for statement in statements
        for text, number in _names(statement, imports, numbers)
    ]
    uses_modules = any(text.startswith("sys.modules") for _, text, _ in names_used)
    for statement, text, number in names_used:
        text = "cage" if text == ".cage" and uses_modules else text
        if not _ANY.search(text):
            continue
        for why, names in _HITS.items():
            hit = names.search(text)
            if (
                hit
                and not (text[0] == "." and text[-1] == "=" != hit[0][-1])
                and not (
                    why == CONNECTION and not text.endswith(BY_NUMBER) and _OPENS_DESCRIPTORS.search(source)
                )
            ):
                yield _Touched(hit[0].lstrip("."), why, number, forbidden_calls.defined_names(statement))


def _line(source: str, touched: _Touched) -> tuple[int, str]:
    """Return the number and the text of a name's line; IPython may have moved the code to another line."""
    lines = source.splitlines()
    number = min(touched.number, len(lines))
    word = re.findall(r"\w+", touched.name.removesuffix(BY_NUMBER))[-1]
    if word not in lines[number - 1]:
        number = next((n for n, line in enumerate(lines, 1) if word in line), number)
    return number, lines[number - 1].strip()[:100]


def _numbers(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives a number that it spells, or the numbers of a range in turn."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign) and _is_number(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
            items = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else []
            in_range = isinstance(node.iter, ast.Call) and _name(node.iter.func) == "range"
            if in_range or (items and all(map(_is_number, items))):
                yield node.target.id


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _names(
    statement: ast.stmt, imports: dict[str, str], numbers: Container[str]
) -> Iterator[tuple[str, int]]:
    """Yield every dotted name that a statement uses, assigns to or spells in a string, with its line.

    Args:
        statement: a statement of a cell.
        imports: the imported names with their dotted names.
        numbers: names with a number as their value.
    """
    known = {
        name: dotted for name, dotted in (imports | forbidden_calls.bound_names(statement)).items() if dotted
    }
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            whole = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from (
                (name, node.lineno) for name in (*whole, *forbidden_calls.imported_names(node).values())
            )
        elif isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id in known):
            assigned = " =" if isinstance(node, ast.Attribute) and _is_stored(node) else ""
            yield _full_name(node, known) + assigned, node.lineno
        elif isinstance(node, ast.Subscript) and (text := _text(node.slice)):
            yield _spelled_name(text), node.lineno
        elif isinstance(node, ast.Call):
            yield from ((text, node.lineno) for text in _names_in_call(node, known))
            first = node.args[0] if node.args else None
            if first and (_is_number(first) or (isinstance(first, ast.Name) and first.id in numbers)):
                yield _full_name(node.func, known) + BY_NUMBER, node.lineno


def _spelled_name(text: str) -> str:
    """Return a string as a dotted name of a module, or as the attribute of some object: ``.f_back``."""
    return text if _DOTTED.fullmatch(text) else f".{text}"


def _is_stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _names_in_call(call: ast.Call, imports: dict[str, str]) -> Iterator[str]:
    """Yield the names that a call reads or sets by a string, and a mark where it passes ``fileno``."""
    function = _full_name(call.func, imports)
    if _name(call.func) in IMPORTERS:
        yield _full_name(call, imports)
    if function != ".print":
        yield from map(_spelled_name, filter(None, map(_text, call.args)))
    if any(keyword.arg == "fileno" for keyword in call.keywords):
        yield f"{function}(fileno=)"
    if function in (".getattr", ".setattr", ".vars") and call.args:
        name = _text(call.args[1]) if len(call.args) > 1 else None
        assigned = " =" if function == ".setattr" else ""
        yield f"{_full_name(call.args[0], imports)}.{name or '...'}{assigned}"


def _full_name(node: ast.expr, imports: dict[str, str]) -> str:
    """Return the full dotted name, such as ``sys.modules`` for ``s.modules`` after ``import sys as s``.

    A name that is not imported gets a dot in front.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < forbidden_calls.LONGEST:
        parts.append(node.attr)
        node = node.value
    root = ""
    if isinstance(node, ast.Name):
        root = imports.get(node.id, f".{node.id}")
    elif isinstance(node, ast.Call) and _name(node.func) in IMPORTERS and node.args:
        root = _text(node.args[0]) or ""
    return ".".join([root, *reversed(parts)])


def _name(function: ast.expr) -> str:
    """Return the last part of the name of a called function."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.AST) -> str | None:
    """Return the string that a node spells, also in pieces such as ``"set" + "profile"``, or None."""
    pieces: list[str] = []
    waiting = [node]
    while waiting and len(pieces) < forbidden_calls.LONGEST:
        last = waiting.pop()
        if isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add):
            waiting += [last.left, last.right]
        elif isinstance(last, ast.Constant) and isinstance(last.value, str):
            pieces.append(last.value)
        else:
            return None
    return "".join(reversed(pieces))
