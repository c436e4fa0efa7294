"""Finds, in the text of a submission, names that no honest answer needs: a reason to look, and no more.

A submission may rewrite the grader's code in its own process and then lie about what only that process knows.
It cannot do so without getting hold of it, and the ways there have names. For most of them the teacher gets a
remark; the points of a notebook with one that has no other use wait until the teacher has looked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from autograder import cage, forbidden

LIES = "may rewrite the grader's code in its own process, to lie about what was called and what it cost"
BLINDS = "may blind the watch over forbidden calls"
SEARCHES = "may search its process for the grader's objects"
TAKES = "takes hold of the grader's code in its own process"
SPEAKS = "may speak to the grader in the place of its code"
HIDES = "runs text as code and may hide what is called"

OURS = [f"cage.{path.stem}" for path in sorted(Path(cage.__file__).parent.glob("[a-z]*.py"))]

TELLTALE = {
    **dict.fromkeys(OURS, TAKES),
    "cage": LIES,
    "sys.modules": LIES,
    "sys.meta_path": LIES,
    "sys.path_hooks": LIES,
    "__code__": LIES,
    "__globals__": LIES,
    "__closure__": LIES,
    "__builtins__": LIES,
    "ctypes": LIES,
    "setprofile": BLINDS,
    "settrace": BLINDS,
    "addaudithook": BLINDS,
    "DisableTorchFunction": BLINDS,
    "DisableTorchFunctionSubclass": BLINDS,
    "torch.overrides": BLINDS,
    "torch._C": BLINDS,
    "CompilationUnit": BLINDS,
    **dict.fromkeys(("ExcludeDispatchKeyGuard", "IncludeDispatchKeyGuard", "DispatchKeySet"), BLINDS),
    **dict.fromkeys(("import_ir_module", "import_ir_module_from_buffer", "parse_ir"), BLINDS),
    **dict.fromkeys(("ScriptFunction", "LiteScriptModule"), BLINDS),
    "redispatch": BLINDS,
    "_op_dk": BLINDS,
    "get_objects": TAKES,
    "get_referrers": TAKES,
    "get_referents": TAKES,
    **dict.fromkeys(("os.dup", "os.dup2", "os.fstat", "os.fdopen", "os.read", "os.write"), SPEAKS),
    **dict.fromkeys(("socket.socket", "socket.SocketType", "socket.fromfd"), SPEAKS),
    **dict.fromkeys(("run_cell", "run_code", "run_ast_nodes", "safe_execfile"), HIDES),
    "_getframe": SEARCHES,
    "_current_frames": SEARCHES,
    "currentframe": SEARCHES,
    "inspect.stack": SEARCHES,
    "__subclasses__": SEARCHES,
    "f_back": SEARCHES,
    "f_globals": SEARCHES,
    "f_locals": SEARCHES,
    "tb_frame": SEARCHES,
    **{f"{module}.*": SEARCHES for module in ("sys", "gc", "inspect", "builtins", "threading")},
    "builtins.exec": HIDES,
    "builtins.eval": HIDES,
    "builtins.compile": HIDES,
    "builtins.__import__": HIDES,
}
"""A name, whole or with the module it belongs to, and what it may be there for; ``*`` is one put together."""

WITHHOLDING = (BLINDS, TAKES, SPEAKS)
"""What no notebook is for: its points are not given unseen."""

_DOTTED = re.compile(r"[\w.]+")
_ANY = re.compile(rf"\.({'|'.join(map(re.escape, TELLTALE))})(?=\.)")


def remarks(sources: list[str]) -> list[str]:
    """A remark for each telltale name in the cells of a submission, with the line where it first stands."""
    return [
        f"no answer needs `{name}`, which {TELLTALE[name]}; it stands in `{line}`"
        for name, line in _found(sources).items()
    ]


def withholds(sources: list[str]) -> list[str]:
    """The names for whose sake the points of a submission wait for a person."""
    return [name for name in _found(sources) if TELLTALE[name] in WITHHOLDING]


def _found(sources: list[str]) -> dict[str, str]:
    """By telltale name, the line where it first stands."""
    found: dict[str, str] = {}
    for source in sources:
        lines = source.splitlines()
        for name, number in _names(source):
            for hit in _ANY.findall(f".{name}."):
                found.setdefault(hit, lines[min(number, len(lines)) - 1].strip()[:100])
    return found


@lru_cache(maxsize=256)
def _names(source: str) -> tuple[tuple[str, int], ...]:
    """Every dotted name that a cell uses or spells out as a text, with the number of its line."""
    return tuple(_read(source))


def _read(source: str) -> Iterator[tuple[str, int]]:
    statements = forbidden.statements(source)
    if not statements and forbidden.is_long_to_read(source):  # it may run all the same
        for number, line in enumerate(source.splitlines(), 1):
            yield from ((name, number) for name in _DOTTED.findall(line))
    nodes = [inner for statement in statements for inner in ast.walk(statement)]
    imports: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = forbidden.imported(node)
            imports |= imported
            whole = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            yield from ((dotted, node.lineno) for dotted in (*whole, *imported.values()))
    own = _own(nodes)
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in own:
            continue
        if isinstance(node, ast.Attribute | ast.Name):
            yield _resolved(node, imports), node.lineno
        elif isinstance(node, ast.Constant | ast.BinOp) and (text := _text(node)):
            yield text, node.lineno
        elif isinstance(node, ast.Call) and (module := imports.get(_looked_into(node))):
            spelled = _text(node.args[1]) if len(node.args) > 1 else None
            yield f"{module}.{spelled or '*'}", node.lineno


def _own(nodes: list[ast.AST]) -> set[str]:
    """The names that a cell binds itself, which are those of nobody else."""
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return defined | {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _resolved(node: ast.Attribute | ast.Name, imports: dict[str, str]) -> str:
    """``s.modules`` as ``sys.modules``, where `s` stands for the module; a bare name is Python's own."""
    parts: list[str] = []
    step: ast.expr = node
    while isinstance(step, ast.Attribute) and len(parts) < forbidden.LONGEST:
        parts.append(step.attr)
        step = step.value
    if not isinstance(step, ast.Name):
        return ".".join(["", *reversed(parts)])
    root = imports.get(step.id) or (step.id if parts else f"builtins.{step.id}")
    return ".".join([root, *reversed(parts)])


def _looked_into(call: ast.Call) -> str:
    """What ``getattr(sys, name)`` or ``vars(sys)`` takes something of, if it has a name."""
    by_name = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "vars")
    return call.args[0].id if by_name and call.args and isinstance(call.args[0], ast.Name) else ""


def _text(node: ast.AST) -> str | None:
    """The text that a node spells out, also piece by piece: ``"set" + "profile"``."""
    pieces: list[str] = []
    waiting = [node]
    while waiting and len(pieces) < forbidden.LONGEST:
        last = waiting.pop()
        if isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add):
            waiting += [last.left, last.right]
        elif isinstance(last, ast.Constant) and isinstance(last.value, str):
            pieces.append(last.value)
        else:
            return None
    return "".join(reversed(pieces))
