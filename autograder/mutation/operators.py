"""Mutants: the right answers of the bank, each with one fault."""

from __future__ import annotations

import ast
import linecache
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import ismodule
from itertools import zip_longest
from typing import Any

from autograder import exercises
from autograder.exercise import Answer, Exercise, Function

Edit = tuple[str, ast.AST, str, Any]
"""One fault: its kind, the node that it changes, the field of the node, and the field's new value."""

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPPOSITES = (
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("amin", "amax"), ("any", "all")),
    *(("floor", "ceil"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("triu", "tril"), ("sin", "cos")),
    *(("sum", "mean"), ("log", "exp"), ("log2", "log"), ("randn", "rand"), ("zeros", "empty")),
    *(("cumsum", "cumprod"), ("sqrt", "square"), ("var", "std"), ("append", "extend")),
)
CASTS = ("to", "astype", "float", "double", "half", "long", "int", "bool", "type", "type_as", "asarray")
COPIES = ("clone", "copy", "contiguous", "detach", "deepcopy", "array", "tensor")
STEPS = (
    *("exp", "log", "sqrt", "rsqrt", "square", "abs", "round", "rint", "trunc", "floor", "ceil", "clamp"),
    *("clip", "clamp_min", "clamp_max", "softmax", "sigmoid", "silu", "tanh", "relu", "gelu", "transpose"),
    *("swapaxes", "permute", "flip", "tril", "triu", "masked_fill", "nan_to_num", "sort", "max", "min"),
    *("mean", "sum", "unsqueeze", "squeeze", "expand", "sorted", "int", "float", "norm", "item"),
)
"""Calls that a tired author leaves out; what is left is the call's object or its first argument."""
LIBRARIES = ("np", "torch", "F", "math", "nn")


@dataclass(frozen=True)
class Mutant:
    """A right answer with one fault: its source, and the change as one line before and after."""

    exercise: str
    style: str
    kind: str
    change: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What the reviewed list calls it."""
        return self.exercise, self.style, self.change

    def function(self) -> Function:
        """Make the mutant as a student's cell would, with the libraries of its style and the given cell."""
        exercise = exercises.find(self.exercise)
        (style,) = (style for style in exercise.styles if style.name == self.style)
        filename = f"<{self.exercise}/{self.style}: {self.change}>"
        linecache.cache[filename] = (len(self.source), None, self.source.splitlines(True), filename)
        namespace = {**_names_of_a_student(exercise, style), "__name__": "__main__"}
        exec(compile(self.source, filename, "exec", dont_inherit=True), namespace)
        function: Function = namespace[exercise.function_name]
        return function


def _names_of_a_student(exercise: Exercise, style: Answer) -> dict[str, Any]:
    """The imported libraries of the style's module and the names of the given cell, and no more."""
    around = vars(sys.modules[style.function.__module__])
    modules = {name: module for name, module in around.items() if ismodule(module)}
    ours = ("tfcore", "autograder")
    libraries = {name: m for name, m in modules.items() if m.__name__.split(".")[0] not in ours}
    return libraries | (vars(exercise.given) if exercise.given else {})


def sample(names: list[str], number: int, seed: int) -> list[Mutant]:
    """Draw that many different mutants, evenly over the exercises, and in each evenly over kinds of faults.

    The same seed draws the same mutants, and a smaller number draws the first of them.

    Args:
        names: exercises, as ``assignment/function``.
        number: how many; there are fewer if the styles have no more.
        seed: draws them.
    """
    found: list[Mutant] = []
    for round_ in zip_longest(*(_of_exercise(exercises.find(name), seed) for name in names)):
        found += [mutant for mutant in round_ if mutant]
        if len(found) >= number:
            break
    return found[:number]


def _of_exercise(exercise: Exercise, seed: int) -> Iterator[Mutant]:
    rng = random.Random(f"{seed} {exercise.name}")
    by_kind: dict[str, list[tuple[Answer, ast.Module, Edit]]] = {}
    for style in exercise.styles:
        tree = ast.parse(style.source(exercise.function_name))
        for edit in edits(tree):
            by_kind.setdefault(edit[0], []).append((style, tree, edit))
    for edited in by_kind.values():
        rng.shuffle(edited)
    seen = {ast.unparse(ast.parse(style.source(exercise.function_name))) for style in exercise.styles}
    for round_ in zip_longest(*by_kind.values()):
        for style, tree, edit in filter(None, round_):
            before, after = ast.unparse(tree), written(tree, edit)
            if after is not None and after not in seen:
                seen.add(after)
                yield Mutant(exercise.name, style.name, edit[0], change(before, after), after)


def written(tree: ast.Module, edit: Edit) -> str | None:
    """Write the source with one edit made; None if it is no Python, or the source that it was."""
    _, node, field, value = edit
    right = getattr(node, field)
    setattr(node, field, value)
    try:
        source = ast.unparse(tree)
        compile(source, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    finally:
        setattr(node, field, right)
    return None if ast.dump(ast.parse(source)) == ast.dump(ast.parse(ast.unparse(tree))) else source


def change(before: str, after: str) -> str:
    """Say which lines of a source became which others; a line that occurs more than once gets its number."""
    old, new = before.splitlines(), after.splitlines()
    start = next(i for i, (one, other) in enumerate(zip_longest(old, new)) if one != other)
    pairs = zip_longest(old[start:][::-1], new[start:][::-1])
    same = next((i for i, (one, other) in enumerate(pairs) if one != other), 0)
    gone, come = old[start : len(old) - same], new[start : len(new) - same]
    if not gone:  # a line that was added is seen beside the one before it
        gone, come, start = [old[start - 1]], [old[start - 1], *come], start - 1
    often = [line.strip() for line in old].count(gone[0].strip()) > 1
    where = f"{start + 1}: " if often else ""
    return f"{where}{_joined(gone)} -> {_joined(come)}"


def _joined(lines: list[str]) -> str:
    return " ; ".join(line.strip() for line in lines)


def edits(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[Edit]:
    """Find every fault that can be made in a tree.

    Args:
        tree: the source, or a part of it.
        names: the variables of the functions around the part.
    """
    if isinstance(tree, ast.FunctionDef | ast.Lambda):
        names = tuple(dict.fromkeys((*names, *_variables(tree))))
    yield from _own(tree)
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST):
                continue
            for kind, new in _instead(child, names):
                if kind == "minus" and isinstance(tree, ast.UnaryOp):
                    continue  # its sign is dropped elsewhere
                replaced = [*children[:place], new, *children[place + 1 :]]
                yield kind, tree, field, replaced if isinstance(value, list) else new
            yield from edits(child, names)


def _variables(function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    given = function.args
    yield from (arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs) if arg.arg != "self")
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _own(node: ast.AST) -> Iterator[Edit]:
    """The faults in a node's own fields: operators, names of functions, lists of statements and arguments."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        for other in OPERATORS.get(type(node.op), ()):
            yield "operator", node, "op", other()
    if isinstance(node, ast.Compare):
        for other in OPERATORS.get(type(node.ops[0]), ()):
            yield "comparison", node, "ops", [other(), *node.ops[1:]]
    field = {ast.Attribute: "attr", ast.Name: "id"}.get(type(node))
    if field and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
        for pair in OPPOSITES:
            if getattr(node, field) in pair:
                yield "opposite", node, field, pair[getattr(node, field) == pair[0]]
    if isinstance(node, ast.Call):
        yield from _arguments(node)
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        for i in range(len(node.elts) - 1):
            yield "order", node, "elts", _exchanged(node.elts, i)
    if isinstance(node, ast.Slice):
        yield from _slice(node)
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "condition", node, "ifs", node.ifs[1:]
    for field in ("body", "orelse"):
        if isinstance(statements := getattr(node, field, None), list):
            yield from _statements(node, field, statements)


def _exchanged(items: list[Any], i: int) -> list[Any]:
    return [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def _arguments(call: ast.Call) -> Iterator[Edit]:
    name = getattr(call.func, "attr", getattr(call.func, "id", None))
    for i in range(len(call.args) - 1):
        if name not in ("max", "min", "maximum", "minimum"):
            yield "order", call, "args", _exchanged(call.args, i)
    for i, given in enumerate(call.keywords):
        if given.arg == "strict":
            continue  # it only guards against what a right answer never does
        kind = given.arg if given.arg in ("device", "dtype") else "argument"
        kind = "keepdims" if given.arg in ("keepdims", "keepdim") else kind
        yield kind or "argument", call, "keywords", [*call.keywords[:i], *call.keywords[i + 1 :]]
        fixed = {"device": "'cpu'", "dtype": "torch.float32"}.get(given.arg or "")
        if fixed:
            value = ast.parse(fixed, mode="eval").body
            yield kind or "", given, "value", value
    if isinstance(call.func, ast.Name) and call.func.id == "range":
        for i, bound in enumerate(call.args[:2]):
            for new in _off_by_one(bound):
                yield "range", call, "args", [*call.args[:i], new, *call.args[i + 1 :]]
        if len(call.args) == 1:
            yield "range", call, "args", [ast.Constant(1), *call.args]


def _off_by_one(value: ast.expr) -> Iterator[ast.expr]:
    for by in (ast.Add(), ast.Sub()):
        yield ast.BinOp(value, by, ast.Constant(1))


def _slice(node: ast.Slice) -> Iterator[Edit]:
    for field in ("lower", "upper", "step"):
        if (bound := getattr(node, field)) is None:
            continue
        yield "slice", node, field, None
        if field != "step":
            for new in _off_by_one(bound):
                yield "slice", node, field, new
    if node.lower is None and node.step is None:
        yield "slice", node, "lower", ast.Constant(1)
    if node.upper is None and node.step is None:
        yield "slice", node, "upper", ast.UnaryOp(ast.USub(), ast.Constant(1))


def _statements(node: ast.AST, field: str, body: list[ast.stmt]) -> Iterator[Edit]:
    for i, one in enumerate(body):
        rest = [*body[:i], *body[i + 1 :]]
        final = isinstance(one, ast.Return) and i == len(body) - 1
        text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if not (final or text or isinstance(one, ast.FunctionDef | ast.ClassDef | ast.Pass)):
            yield "line", node, field, rest or ([ast.Pass()] if field == "body" else [])
        if isinstance(one, ast.If):
            yield "condition", node, field, [*body[:i], *one.body, *body[i + 1 :]]
            if one.orelse:
                yield "condition", node, field, [*body[:i], *one.orelse, *body[i + 1 :]]
        moved = i + 1 < len(body) and not isinstance(body[i + 1], ast.Return)
        if moved and not text and not isinstance(one, ast.FunctionDef) and _one_first(one, body[i + 1]):
            yield "order of lines", node, field, _exchanged(body, i)


IN_ORDER = re.compile(r"nn\.|rng|rand|generator|model\(|next\(|pop\(")
"""What draws, registers or asks: two such statements have an order, whatever their names."""


def _one_first(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether the order of two statements may matter."""
    if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign):
        return True
    if all(IN_ORDER.search(ast.unparse(statement)) for statement in (one, other)):
        return True
    (given, words), (others_given, others) = _names(one), _names(other)
    return bool(given & others or others_given & words)


def _names(statement: ast.Assign) -> tuple[set[str], set[str]]:
    """The names that a statement assigns or writes into, and all of its names."""
    targets = " ".join(map(ast.unparse, statement.targets))
    given, words = (set(re.findall(r"(?:self\.)?\w+", text)) for text in (targets, ast.unparse(statement)))
    return given, words


def _instead(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in the place of a node: a part of it, or another of its kind."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield "term", left
            yield "term", right
            if not isinstance(op, ast.Add | ast.Mult):
                yield "order", ast.BinOp(right, op, left)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield "sign", operand
        case ast.BoolOp(values=values):
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield "condition", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.IfExp(body=body, orelse=orelse):
            yield "condition", body
            yield "condition", orelse
        case ast.Attribute(attr="T" | "mT", value=value):
            yield "call", value
        case ast.Subscript(value=value, slice=ast.Name() | ast.BinOp() as index):
            for new in _off_by_one(index):
                yield "index", ast.Subscript(value, new, node.ctx)
        case ast.Call():
            yield from _without_call(node)
        case ast.Constant(value=value):
            for new in _constants(value):
                yield ("axis" if value in (0, 1, 2) and type(value) is int else "constant"), ast.Constant(new)
            if type(value) in (int, float) and value:
                yield "minus", ast.UnaryOp(ast.USub(), node)
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            for other in names:
                if other != name:
                    yield "name", ast.Name(other, ast.Load())
        case ast.Assign(
            targets=[ast.Name(id=name) as target], value=ast.BinOp(left=ast.Name(id=same)) as sum_
        ):
            if name == same:
                yield "in place", ast.AugAssign(target, sum_.op, sum_.right)
        case ast.AugAssign(target=target, value=value):
            yield "term", ast.Assign([target], value, lineno=1)


def _without_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    kind = "cast" if name in CASTS else "copy" if name in COPIES else "call" if name in STEPS else None
    if not kind:
        return
    if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", None) not in LIBRARIES:
        yield kind, node.func.value
    elif node.args:
        yield kind, node.args[0]


def _constants(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value)
    elif isinstance(value, float):
        yield from (0.0, 1.0, 2 * value, value / 2, 10 * value)
    elif isinstance(value, str):
        yield {"-inf": "inf", "inf": "-inf", "ij": "xy", "xy": "ij"}.get(value, value)
        inputs, arrow, output = value.partition("->")
        if arrow:
            for i in range(len(output) - 1):
                swapped = _exchanged(list(output), i)
                yield f"{inputs}->{''.join(swapped)}"
