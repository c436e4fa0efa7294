"""Make mutants: right answers of the bank, each with one fault."""

from __future__ import annotations

import ast
import linecache
import random
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import ismodule
from itertools import zip_longest
from typing import Any

from autograder import exercises
from autograder.checking.declaration import Answer, Exercise, Function

Edit = tuple[str, ast.AST, str, Any]
"""One fault: its kind, the changed node, the changed field of the node, and the field's new value."""

OPERATORS = (
    *(
        "Add Sub",
        "Mult Div",
        "Mult Add",
        "Div FloorDiv",
        "Mod FloorDiv",
        "Pow Mult",
        "BitAnd BitOr",
        "And Or",
    ),
    *("Lt LtE", "Lt Gt", "LtE GtE", "Gt GtE", "Eq NotEq", "Is IsNot", "In NotIn"),
)
FUNCTIONS = (
    *("min max", "minimum maximum", "argmin argmax", "amin amax", "any all", "floor ceil", "zeros ones"),
    *("zeros_like ones_like", "zeros empty", "triu tril", "sin cos", "sum mean", "log exp", "log2 log"),
    *("randn rand", "cumsum cumprod", "sqrt square", "var std", "append extend"),
)
"""Pairs of functions that are easily confused."""
LEFT_OUT = {
    "cast": "to astype float double half long int bool type type_as asarray array tensor clone copy "
    "contiguous detach deepcopy",
    "call": "exp log sqrt rsqrt square abs round rint trunc floor ceil clamp clip clamp_min clamp_max "
    "softmax sigmoid silu tanh relu gelu transpose swapaxes permute flip tril triu masked_fill nan_to_num "
    "sort max min mean sum unsqueeze squeeze expand sorted norm item",
}
"""Calls that are easily forgotten, by kind. Without the call, its object or its first argument remains."""
COMMUTE = ("max", "min", "maximum", "minimum", "hypot", "logaddexp", "swapaxes", "transpose", "isinstance")
"""Calls whose last two arguments may be exchanged, or are never exchanged by mistake: they keep the order."""
LIBRARIES = ("np", "torch", "F", "math", "nn")
IN_ORDER = re.compile(r"nn\.|rng|rand|generator|model\(|next\(|pop\(")
"""Statements with a side effect, such as a random draw: the order of two of them matters."""
WORD = re.compile(r"(?:self\.)?\w+")


@dataclass(frozen=True)
class Mutant:
    """A right answer with one fault: its source, and the change as the lines before and after it."""

    exercise: str
    style: str
    kind: str
    change: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the key of this mutant in the reviewed list."""
        return self.exercise, self.style, self.change

    def function(self) -> Function:
        """Run the source as a student's cell, with the libraries of its style, and return the function.

        The names of the exercise's given cell, and the answers that it brings, are defined too.
        """
        exercise = exercises.find(self.exercise)
        (style,) = (style for style in exercise.styles if style.name == self.style)
        namespace: dict[str, Any] = {name: each.function for name, each in exercise.brings.items()}
        namespace |= (vars(exercise.given) if exercise.given else {}) | {"__name__": "__main__"}
        for name, value in vars(sys.modules[style.function.__module__]).items():
            if ismodule(value) and not value.__name__.startswith(("tfcore", "autograder")):
                namespace[name] = value
        filename = f"<{self.exercise}, {self.style}: {self.change}>"
        linecache.cache[filename] = (len(self.source), None, self.source.splitlines(True), filename)
        exec(_compiled(self.source, filename), namespace)
        function: Function = namespace[exercise.function_name]
        return function


def _compiled(source: str, filename: str) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return compile(source, filename, "exec", dont_inherit=True)


def sample(names: list[str], number: int, seed: int) -> list[Mutant]:
    """Draw different mutants, evenly over the exercises, and evenly over the kinds of faults in each.

    The same seed draws the same mutants, and a smaller number draws the first of them.

    Args:
        names: exercises, as ``assignment/function``.
        number: the number of mutants; fewer are drawn if the styles do not have so many.
        seed: the seed of the draw.
    """
    drawn: list[Mutant] = []
    for turn in zip_longest(*(mutants_of(exercises.find(name), seed) for name in names)):
        drawn += filter(None, turn)
        if len(drawn) >= number:
            break
    return drawn[:number]


def mutants_of(exercise: Exercise, seed: int) -> Iterator[Mutant]:
    """Draw the mutants of an exercise, one of each kind in turn.

    The order of the mutants of a style does not depend on the other styles.
    """
    by_kind: dict[str, list[tuple[float, Answer, str, ast.Module, Edit]]] = {}
    seen: set[str] = set()
    for style in exercise.styles:
        rng = random.Random(f"{seed} {exercise.name} {style.name}")
        tree = ast.parse(style.source(exercise.function_name))
        before = ast.unparse(tree)
        seen.add(before)
        for edit in edits(tree, {}):
            by_kind.setdefault(edit[0], []).append((rng.random(), style, before, tree, edit))
    drawn = (sorted(of_a_kind, key=lambda draw: draw[0]) for of_a_kind in by_kind.values())
    for turn in zip_longest(*drawn):
        for _, style, before, tree, edit in filter(None, turn):
            after = edited(tree, edit)
            if after is not None and after not in seen:
                seen.add(after)
                yield Mutant(exercise.name, style.name, edit[0], change(before, after), after)


def edited(tree: ast.Module, edit: Edit) -> str | None:
    """Return the source with one edit; None if it is not valid Python or means the same as before."""
    _, node, field, value = edit
    before, old_value = ast.dump(tree), getattr(node, field)
    setattr(node, field, value)
    try:
        source = ast.unparse(tree)
        _compiled(source, "<mutant>")
    except (SyntaxError, ValueError):
        return None
    finally:
        setattr(node, field, old_value)
    return None if ast.dump(ast.parse(source)) == before else source


def change(before: str, after: str) -> str:
    """Describe a change by the lines before and after it.

    The description begins with a line number if the first changed line occurs more than once.
    """
    old, new = (list(map(str.strip, text.splitlines())) for text in (before, after))
    start = _common_start(before.splitlines(), after.splitlines())
    same = _common_start(before.splitlines()[start:][::-1], after.splitlines()[start:][::-1])
    start -= start == len(old) - same  # show an added line together with the line before it
    where = f"{start + 1}: " if old.count(old[start]) > 1 else ""
    removed, added = (" ; ".join(part[start : len(part) - same]) for part in (old, new))
    return f"{where}{removed} -> {added}"


def _common_start(one: list[str], other: list[str]) -> int:
    """Return the number of equal lines at the start of both texts."""
    return next((i for i, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]), len(one))


def edits(tree: ast.AST, names: dict[str, bool]) -> Iterator[Edit]:
    """Yield every fault that can be made in a tree.

    Args:
        tree: the source, or a part of it.
        names: the variables of the enclosing functions, and whether each is a parameter.
    """
    if isinstance(tree, ast.ClassDef | ast.FunctionDef | ast.Lambda):
        stored = (ast.unparse(n) for n in ast.walk(tree) if isinstance(getattr(n, "ctx", None), ast.Store))
        names = names | dict.fromkeys(filter(WORD.fullmatch, stored), False)
    if isinstance(tree, ast.FunctionDef | ast.Lambda):
        parameters = (n.arg for n in ast.walk(tree.args) if isinstance(n, ast.arg) and n.arg != "self")
        names = names | dict.fromkeys(parameters, True)
    yield from _in_node(tree)
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns") or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        children = value if isinstance(value, list) else [value]
        for i, child in enumerate(children):
            if not isinstance(child, ast.AST) or getattr(child, "arg", None) == "strict":
                continue  # `strict` guards against errors that a right answer never makes
            for kind, new in _replacements(child, names):
                if kind != "sign" or not isinstance(tree, ast.UnaryOp):  # a UnaryOp drops its sign itself
                    replaced = [*children[:i], new, *children[i + 1 :]]
                    yield kind, tree, field, replaced if isinstance(value, list) else new
            yield from edits(child, names)


def _others(name: str, pairs: tuple[str, ...]) -> Iterator[str]:
    for pair in map(str.split, pairs):
        if name in pair:
            yield pair[pair[0] == name]


def _without(items: list[Any], i: int) -> list[Any]:
    return [*items[:i], *items[i + 1 :]]


def _exchanged(items: Any, i: int) -> list[Any]:
    return [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def _off_by_one(value: ast.expr) -> Iterator[ast.expr]:
    for by in (ast.Add(), ast.Sub()):
        yield ast.BinOp(value, by, ast.Constant(1))


def _in_node(node: ast.AST) -> Iterator[Edit]:
    """Yield faults in a node's own fields: operators, function names, lists of statements or arguments."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            for other in _others(type(op).__name__, OPERATORS):
                yield "operator", node, "op", getattr(ast, other)()
        case ast.Compare(ops=[op, *rest]):
            for other in _others(type(op).__name__, OPERATORS):
                yield "comparison", node, "ops", [getattr(ast, other)(), *rest]
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
            for other in _others(name, FUNCTIONS):
                yield "function", node, "attr" if isinstance(node, ast.Attribute) else "id", other
        case ast.Call():
            yield from _in_call(node)
        case ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()):
            for i in range(len(elements) - 1):
                yield "order", node, "elts", _exchanged(elements, i)
        case ast.Slice():
            yield from _in_slice(node)
        case ast.comprehension(ifs=[_, *rest]):
            yield "condition", node, "ifs", rest
    for field in ("body", "orelse"):
        if isinstance(statements := getattr(node, field, None), list):
            yield from _in_body(node, field, statements)


def _in_call(call: ast.Call) -> Iterator[Edit]:
    name = getattr(call.func, "attr", getattr(call.func, "id", None))
    for i in range(len(call.args) - 1 - (name in COMMUTE)):
        yield "order", call, "args", _exchanged(call.args, i)
    for i, keyword in enumerate(call.keywords):
        if keyword.arg == "strict":
            continue
        kind = (keyword.arg or "").replace("keepdims", "keepdim")
        kind = kind if kind in ("device", "dtype", "keepdim") else "argument"
        yield kind, call, "keywords", _without(call.keywords, i)
        if fixed := {"device": "'cpu'", "dtype": "torch.float32"}.get(kind):
            yield kind, keyword, "value", ast.parse(fixed, mode="eval").body
    if name == "range":
        for i, bound in enumerate(call.args[:2]):
            for new in _off_by_one(bound):
                yield "range", call, "args", [*call.args[:i], new, *call.args[i + 1 :]]
        if len(call.args) == 1:
            yield "range", call, "args", [ast.Constant(1), *call.args]


def _in_slice(node: ast.Slice) -> Iterator[Edit]:
    for field in ("lower", "upper", "step"):
        if (bound := getattr(node, field)) is not None:
            yield "slice", node, field, None
            for new in _off_by_one(bound) if field != "step" else ():
                yield "slice", node, field, new
        elif field != "step" and node.step is None:
            bounds = {"lower": ast.Constant(1), "upper": ast.UnaryOp(ast.USub(), ast.Constant(1))}
            yield "slice", node, field, bounds[field]


def _in_body(node: ast.AST, field: str, body: list[ast.stmt]) -> Iterator[Edit]:
    for i, statement in enumerate(body):
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if text or isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Pass):
            continue
        if not isinstance(statement, ast.Return) or i < len(body) - 1:
            yield "line", node, field, _without(body, i) or ([ast.Pass()] if field == "body" else [])
        if isinstance(statement, ast.If):
            for branch in filter(None, (statement.body, statement.orelse)):
                yield "condition", node, field, [*body[:i], *branch, *body[i + 1 :]]
        if i + 1 < len(body) and _have_an_order(statement, body[i + 1]):
            yield "order of lines", node, field, _exchanged(body, i)


def _have_an_order(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether the order of two neighbouring statements may matter."""
    pair = (first, second)
    guards = (isinstance(s, ast.If) and all(isinstance(inner, ast.Raise) for inner in s.body) for s in pair)
    if isinstance(second, ast.Return | ast.FunctionDef) or any(guards):
        return False
    if not (isinstance(first, ast.Assign) and isinstance(second, ast.Assign)):
        return True
    texts = [ast.unparse(statement) for statement in pair]
    words = [set(WORD.findall(text)) for text in texts]
    targets, next_targets = (
        set(WORD.findall(" ".join(map(ast.unparse, s.targets)))) for s in (first, second)
    )
    return all(map(IN_ORDER.search, texts)) or bool(targets & words[1] or next_targets & words[0])


def _replacements(node: ast.AST, names: dict[str, bool]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kind of a fault and a node to replace this node: a part of it, or a similar node."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from (("term", left), ("term", right))
            if not isinstance(op, ast.Add | ast.Mult):
                yield "order", ast.BinOp(right, op, left)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield "sign", operand
        case ast.BoolOp(op=op, values=values):
            for i in range(len(values)):
                others = _without(values, i)
                yield "condition", others[0] if len(others) == 1 else ast.BoolOp(op, others)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (("condition", body), ("condition", orelse))
        case ast.Attribute(attr="T" | "mT", value=value):
            yield "call", value
        case ast.Subscript(value=value, slice=ast.Name() | ast.BinOp() as index, ctx=context):
            yield from (("index", ast.Subscript(value, new, context)) for new in _off_by_one(index))
        case ast.Call(func=function, args=arguments):
            name = getattr(function, "attr", getattr(function, "id", None))
            owner = getattr(function, "value", None)
            remains = arguments[:1] if owner is None or getattr(owner, "id", None) in LIBRARIES else [owner]
            kinds = [kind for kind, known in LEFT_OUT.items() if name in known.split()]
            yield from ((kind, rest) for kind in kinds for rest in remains)
        case ast.Constant(value=value):
            kind = "axis" if type(value) is int and value in (0, 1, 2) else "constant"
            yield from ((kind, ast.Constant(new)) for new in _constants(value))
            if type(value) in (int, float) and value:
                yield "sign", ast.UnaryOp(ast.USub(), node)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(value=ast.Name("self"), ctx=ast.Load()):
            name, of_self = ast.unparse(node), isinstance(node, ast.Attribute)
            for other in names if name in names else ():
                if other != name and other.startswith("self.") == of_self:
                    yield "name", ast.parse(other, mode="eval").body
        case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.BinOp(ast.Name(id=left), op, right)):
            if name == left and names.get(name):
                yield "in place", ast.AugAssign(target, op, right)
        case ast.AugAssign(target=target, value=value):
            yield "term", ast.Assign([target], value, lineno=1)


def _constants(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value)
    elif isinstance(value, float):
        yield from (0.0, 1.0, 2 * value, value / 2, 10 * value)
    elif value in ("inf", "-inf"):
        yield value[1:] if value[0] == "-" else f"-{value}"
    elif isinstance(value, str) and "->" in value:  # einsum
        inputs, _, output = value.partition("->")
        for i in range(len(output) - 1):
            yield f"{inputs}->{''.join(_exchanged(output, i))}"
