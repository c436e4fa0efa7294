"""Finds, in the text of a submission, what cannot be followed there: a reason to let a person look.

The watch over forbidden calls and the counts of what a call costs live in the submission's own process. Plain
code does not get hold of them: it imports known modules, changes none of them, hands none of them on, and
every attribute that it asks for stands in its text. The points of other code wait until a teacher has looked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from keyword import iskeyword

from autograder import forbidden, open_modules
from autograder.plain_names import (
    ABSENT,
    BY_TEXT,
    CAREFUL,
    DECORATES,
    ENVIRONMENT,
    GIVEN,
    HONEST,
    INHERITED,
    INSIDES,
    MIXED_IN,
    OVER_MEMORY,
    PUBLIC,
    READERS,
    RESERVED,
    SETTINGS,
    SWITCHES,
    beyond,
    is_module,
)

MAKES = "makes names of text while it runs"
CHANGES = "changes a library for all that comes after"
HANDS = "hands a whole library on, so that what is taken of it has no name"
LEADS = "leads to Python's or a library's own insides"
MAKES_KINDS = "makes a class otherwise than from one other, with what stands in it"

MAGICS = {
    *("autoreload", "capture", "cd", "conda", "config", "env", "ls", "lsmagic", "mamba", "matplotlib"),
    *("pinfo", "pinfo2", "pip", "precision", "prun", "pwd", "time", "timeit", "uv", "who", "who_ls", "whos"),
    *(
        "bash",
        "sh",
        "script",
        "python",
        "python3",
        "perl",
        "ruby",
        "system",
        "sx",
        "html",
        "latex",
        "markdown",
    ),
}
"""Magics that run no text but what is read here."""
RUN_CODE = {"capture", "prun", "time", "timeit"}
"""Of these, those that run what stands behind them. Elsewhere IPython fills in ``{what it computes}``."""
ASKING = {"isinstance", "issubclass", "print", "repr", "str"}
"""Builtins that are told a class and neither keep nor call it."""
OUTPUTS = re.compile(r"_{1,3}\d*|_i{1,3}\d*")
OPTIONS = re.compile(r"^\s*+(-\w++(\s++\d++(?!\S))?(\s++|$))+")
SHELL = {"run_line_magic", "run_cell_magic", "system", "getoutput"}

MOST_MEANINGS = 20
"""Of one name. What has more is told."""

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Found = tuple[str, str, int]
"""A name, what it does, and the number of its line."""


def obscure(sources: list[str], given: Iterable[str] = ()) -> dict[str, str]:
    """What is not plain in the cells of a submission: by its name, a remark with the line where it stands.

    Args:
        sources: the cells in order.
        given: cells that were handed out; those are not read, but that they import something is known.
    """
    ours = frozenset(given)
    everything = tuple(dict.fromkeys([*sources, *ours]))
    imports, private = _imports(everything), _private(everything)
    found: dict[str, str] = {}
    for name, meant in imports.items():
        if len(meant) >= MOST_MEANINGS:
            found[name] = f"`{name}` stands for {len(meant)} things that were imported"
    for source in sources:
        if source in ours:
            continue
        lines = source.splitlines()
        for name, why, number in _read(source, imports, private):
            line = lines[min(number, len(lines)) - 1].strip()[:100]
            found.setdefault(name, f"`{name}` {why}; it stands in `{line}`")
    return found


@lru_cache(maxsize=64)
def _imports(sources: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """What each name may stand for that some cell imports, also as another name for an imported module."""
    nodes = [
        node
        for source in sources
        for statement in forbidden.statements(source)
        for node in ast.walk(statement)
    ]
    imports: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, dotted in forbidden.imported(node).items():
                imports.setdefault(name, set()).add(dotted)
    aliases = [
        (node.targets[0].id, node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ]
    of_root: dict[str, list[tuple[str, ast.expr]]] = {}
    for name, value in aliases:
        of_root.setdefault(_root(value), []).append((name, value))
    waiting = list(imports)
    while waiting:  # F = torch.nn.functional; f = F
        for name, value in of_root.get(waiting.pop(), ()):
            meant = {d for d in _meant(value, imports) if is_module(d) or _is_class(d)}
            known = imports.setdefault(name, set())
            if len(known) < MOST_MEANINGS and not meant <= known:
                known |= meant
                waiting.append(name)
    return {name: frozenset(meant) for name, meant in imports.items()}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_class(dotted: str) -> bool:
    """Whether a name reads like that of a class; ``torch.Tensor.T`` is an attribute of one."""
    *before, last = dotted.split(".")
    return dotted in OVER_MEMORY or (last[:1].isupper() and not any(name[:1].isupper() for name in before))


def _meant(node: ast.AST, imports: Mapping[str, Set[str]]) -> list[str]:
    """The dotted names that a chain of attributes stands for, if it begins with something imported."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    rest = "".join(f".{part}" for part in reversed(parts))
    return [f"{dotted}{rest}" for dotted in imports.get(node.id, ())] if isinstance(node, ast.Name) else []


@lru_cache(maxsize=64)
def _private(sources: tuple[str, ...]) -> frozenset[str]:
    """The names with an underscore that the cells give to something themselves: ``self._cache = ...``."""
    found: set[str] = set()
    for source in sources:
        for node in (inner for statement in forbidden.statements(source) for inner in ast.walk(statement)):
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
    return frozenset(found)


def _read(source: str, imports: dict[str, frozenset[str]], private: frozenset[str]) -> Iterator[Found]:
    statements = forbidden.statements(source)
    if not statements:
        yield from _unread(source)
    if source.strip() == "pylab":
        yield "pylab", HANDS, 1
    reader = _Reader(imports, private)
    try:
        for statement in statements:
            reader.visit(statement)
    except RecursionError:
        yield "a nest of brackets or branches", LEADS, 1
    yield from reader.found


def _unread(source: str) -> Iterator[Found]:
    """What a cell may run though it does not parse: a magic without its sign."""
    code = source.strip()
    if code and forbidden.is_long_to_read(source):
        yield "a long cell with magics", MAKES, 1
    elif code and "\n" not in code:
        word = re.match(r"[^\W\d]\w*(?=\s)", code)
        if word and not iskeyword(word[0]) and word[0] not in MAGICS:
            yield word[0], MAKES, 1


class _Reader(ast.NodeVisitor):
    """Walks through a cell and notes what is not plain."""

    def __init__(self, imports: dict[str, frozenset[str]], private: frozenset[str]) -> None:
        self.imports = imports
        self.private = private
        self.scopes: list[frozenset[str]] = []
        self.in_class = False
        self.found: list[Found] = []

    def note(self, name: str, why: str, node: ast.AST) -> None:
        self.found.append((name, why, getattr(node, "lineno", 1)))

    def is_own(self, name: str) -> bool:
        """Whether a function around here has a variable of that name."""
        return any(name in scope for scope in self.scopes)

    def meant(self, node: ast.AST) -> list[str]:
        """What a chain of attributes stands for here."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        own = isinstance(root, ast.Name) and self.is_own(root.id)
        return [] if own else _meant(node, self.imports)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.given(node.name, node)
        for decorator in node.decorator_list:
            wraps = isinstance(decorator, ast.Call) and DECORATES in self.meant(decorator.func)
            if wraps and len(decorator.args) == 1 and not decorator.keywords:  # type: ignore[attr-defined]
                self.visit(decorator.args[0])  # type: ignore[attr-defined]
            else:
                self.visit(decorator)
        self.visit(node.args)
        self.annotated(node.returns)
        self.inside(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self.inside(node, [node.body])

    def inside(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Iterable[ast.AST]
    ) -> None:
        """Reads the body of a function, whose variables are its own."""
        self.scopes.append(_variables(node))
        before, self.in_class = self.in_class, False
        for each in body:
            self.visit(each)
        self.scopes.pop()
        self.in_class = before

    def given(self, name: str, node: ast.AST) -> None:
        """Notes a name that Python or a library asks for, where the submission gives it a meaning."""
        if _is_dunder(name) and name not in GIVEN:
            self.note(name, CHANGES, node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self.in_class = self.in_class, True
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        library = [dotted for base in bases for dotted in self.meant(base)]
        if (
            node.keywords
            or sum(not MIXED_IN.intersection(self.meant(base)) for base in bases) > 1
            or not all(dotted.startswith(INHERITED) for dotted in library)
        ):
            self.note(node.name, MAKES_KINDS, node)
        self.generic_visit(node)
        self.in_class = before

    def in_comprehension(self, node: Comprehension) -> None:
        """Reads a comprehension, which has variables of its own but where it first looks."""
        self.visit(node.generators[0].iter)
        targets = [inner for each in node.generators for inner in ast.walk(each.target)]
        self.scopes.append(frozenset(inner.id for inner in targets if isinstance(inner, ast.Name)))
        self.generic_visit(node)
        self.scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = in_comprehension

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if not is_module(one.name) and one.name.partition(".")[0] not in ABSENT:
                self.note(one.name, LEADS, node)
            elif self.in_class:  # A.re
                self.note(one.name, HANDS, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            name = f"{node.module}.{one.name}"
            if one.name == "*" and open_modules.OPEN.get(node.module or "") != "":
                self.note(name, HANDS, node)
            elif outside := beyond(name):
                self.note(outside, LEADS, node)
            elif name == ENVIRONMENT or name in CAREFUL or (self.in_class and is_module(name)):
                self.note(name, HANDS, node)
            self.attribute(one.name, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        named = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if (
            named
            and not self.scopes
            and not self.in_class
            and (meant := self.meant(node.value))
            and all(is_module(dotted) or dotted in OVER_MEMORY for dotted in meant)
        ):
            self.visit_inner(node.value)  # another name for it
            return
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.given(node.id, node)
            return
        if self.is_own(node.id):
            return
        if node.id == "type":
            self.note("type", MAKES_KINDS, node)
        if node.id in INSIDES or (node.id in RESERVED and node.id not in self.imports):
            self.note(node.id, LEADS, node)
        elif node.id.startswith("_") and not OUTPUTS.fullmatch(node.id):
            self.attribute(node.id, node)
        elif node.id in READERS or node.id in BY_TEXT:
            self.note(node.id, MAKES, node)
        for dotted in self.imports.get(node.id, ()):
            if is_module(dotted):
                self.note(dotted, HANDS, node)
            elif outside := beyond(dotted):
                self.note(outside, LEADS, node)
            elif dotted in OVER_MEMORY:
                self.note(dotted, LEADS, node)
            elif dotted == DECORATES:
                self.note(dotted, CHANGES, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        meant = self.meant(node)
        for dotted in meant:
            if outside := beyond(dotted):
                self.note(outside, LEADS, node)
            elif isinstance(node.ctx, ast.Store | ast.Del) and not dotted.startswith(SWITCHES):
                self.note(dotted, CHANGES, node)
            elif is_module(dotted) or dotted in CAREFUL:
                self.note(dotted, HANDS, node)
            elif f"{dotted}.".startswith(f"{ENVIRONMENT}."):
                self.note(ENVIRONMENT, HANDS, node)
            elif dotted in OVER_MEMORY:
                self.note(dotted, LEADS, node)
            elif dotted == DECORATES:
                self.note(dotted, CHANGES, node)
        if _is_kind(node):
            self.note(node.attr, MAKES_KINDS, node)
        if isinstance(node.ctx, ast.Store | ast.Del) and _is_dunder(node.attr):
            self.note(node.attr, CHANGES, node)
        self.visit_inner(node)

    def visit_inner(self, node: ast.expr) -> None:
        """Reads a chain of attributes name by name; the module that it begins with is not handed on."""
        while isinstance(node, ast.Attribute):
            if not any(map(is_module, self.meant(node))):
                self.attribute(node.attr, node)
            node = node.value
        if not (isinstance(node, ast.Name) and node.id in self.imports) and not self.is_asked_about(node):
            self.visit(node)

    def attribute(self, name: str, node: ast.AST) -> None:
        """Notes an attribute that no answer asks for."""
        inside = (
            name not in HONEST
            if _is_dunder(name)
            else name.startswith("_") and name not in self.private | PUBLIC
        )
        if inside or name in RESERVED:
            self.note(name, LEADS, node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self.attribute(name, node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operators = [None, *node.ops]
        for operator, each in zip(operators, [node.left, *node.comparators], strict=True):
            table = self.meant(each) in (["sys.modules"], [ENVIRONMENT])
            looked_up = isinstance(operator, ast.In | ast.NotIn) and table
            if not (looked_up or self.is_asked_about(each)):  # "google.colab" in sys.modules
                self.visit(each)

    def is_asked_about(self, node: ast.expr) -> bool:
        """Reads an expression that gives a class where nobody can keep it; False if it is no such."""
        if _is_type(node) or ((meant := self.meant(node)) and OVER_MEMORY.issuperset(meant)):
            return True
        if isinstance(node, ast.Tuple | ast.List):
            for each in node.elts:
                if not self.is_asked_about(each):
                    self.visit(each)
            return True
        if _is_kind(node) or (isinstance(node, ast.Attribute) and node.attr == "grad_fn"):
            self.visit(node.value if isinstance(node, ast.Attribute) else node.args[0])  # type: ignore[attr-defined]
            return True
        return False

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if not self.is_asked_about(node.value):
            self.visit(node.value)
        if node.format_spec:
            self.visit(node.format_spec)

    def visit_arg(self, node: ast.arg) -> None:
        self.annotated(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self.annotated(node.annotation)
        if node.value:
            self.visit(node.value)

    def annotated(self, node: ast.expr | None) -> None:
        """Reads an annotation; the classes in it are kept where nobody gets at them."""
        if isinstance(node, ast.BinOp | ast.Subscript | ast.Tuple | ast.List):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self.annotated(part)
        elif node and not self.is_asked_about(node):
            self.visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.meant(node.value) != [ENVIRONMENT]:
            self.generic_visit(node)
            return
        key, whole = _beginning(node.slice)
        if not isinstance(node.ctx, ast.Load) and not (whole and key in SETTINGS):
            self.note(ENVIRONMENT, CHANGES, node)
        self.visit(node.slice)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "module://" in node.value:
            self.note("module://", MAKES, node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_of_the_shell(node):
            self.magic(node)
            return
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if _is_type(node.func):
            self.note("type", MAKES_KINDS, node)  # where it is not asked about
        elif _is_kind(node.func):
            if len(node.args) > 2 or _is_starred(node.args) or not all(k.arg for k in node.keywords):
                self.note("type", MAKES_KINDS, node)
            self.is_asked_about(node.func)
        elif isinstance(node.func, ast.Name) and node.func.id in ASKING:
            given = [each for each in given if not self.is_asked_about(each)]
        elif isinstance(node.func, ast.Name) and node.func.id in BY_TEXT and not self.is_own(node.func.id):
            self.by_text(node.func.id, node)
            if node.args and self.meant(node.args[0]):
                self.visit_inner(given.pop(0))  # what is taken of it has a name
        elif any(_is_careful(node, dotted) for dotted in self.meant(node.func)):
            self.visit_inner(node.func)
        elif self.meant(node.func) == [f"{ENVIRONMENT}.get"]:
            pass
        elif not _is_farewell(node):
            self.visit(node.func)
        for each in given:
            self.visit(each)
        for keyword in node.keywords:
            if keyword.arg in ("buf", "buffer"):
                self.note(keyword.arg, LEADS, node)

    def by_text(self, reader: str, node: ast.Call) -> None:
        """Reads a call of `getattr`, `setattr` or `open`, whose text should stand there."""
        place = 0 if reader == "open" else 1
        asked = node.args[place] if len(node.args) > place and not _is_starred(node.args) else None
        text, whole = _beginning(asked) if asked else ("", False)
        if not text or (not whole and any(name.startswith(text) for name in RESERVED)) or text == "_":
            self.note(reader, LEADS if reader == "open" else MAKES, node)
        elif reader == "setattr" and _is_dunder(text):
            self.note(text, CHANGES, node)
        elif reader != "open":
            self.attribute(text, node)
            for dotted in self.meant(node.args[0]):
                if not whole or (outside := beyond(f"{dotted}.{text}")):
                    self.note(outside if whole and outside else reader, LEADS if whole else MAKES, node)
                elif reader == "setattr":
                    self.note(f"{dotted}.{text}", CHANGES, node)

    def magic(self, node: ast.Call) -> None:
        """Reads a line that began with a sign of IPython's."""
        assert isinstance(node.func, ast.Attribute)
        if not node.func.attr.endswith("_magic"):
            return
        name, *texts = [_beginning(arg)[0] for arg in node.args] or [""]
        known = name in MAGICS or [name, *texts] == ["load_ext", "autoreload"]
        if name == "env" and texts[0].strip() and re.split(r"[\s=]", texts[0].strip())[0] not in SETTINGS:
            known = "=" not in texts[0] and len(texts[0].split()) == 1
        filled_in = name not in RUN_CODE and any(sign in text for sign in "{$" for text in texts[:1])
        if not known or filled_in or (name == "config" and not texts[0].startswith("InlineBackend")):
            self.note(f"%{name}", MAKES, node)
        elif name in RUN_CODE:
            for code in filter(str.strip, (OPTIONS.sub("", text) for text in texts)):
                if not forbidden.statements(code):
                    self.note(f"%{name}", MAKES, node)
                for statement in forbidden.statements(code):
                    self.visit(statement)


def _is_of_the_shell(node: ast.Call) -> bool:
    """Whether it is what IPython makes of a magic or of ``!ls``."""
    func = node.func
    return (
        all(_beginning(arg)[1] for arg in node.args)
        and isinstance(func, ast.Attribute)
        and func.attr in SHELL
        and isinstance(func.value, ast.Call)
        and isinstance(func.value.func, ast.Name)
        and func.value.func.id == "get_ipython"
    )


def _is_careful(node: ast.Call, function: str) -> bool:
    """Whether a function that can run text is called so that it runs none."""
    if function not in CAREFUL or _is_starred(node.args):
        return False
    most, names = CAREFUL[function]
    return len(node.args) <= most and {keyword.arg for keyword in node.keywords} <= names


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "type"


def _is_kind(node: ast.expr) -> bool:
    """Whether it is ``type(x)`` or ``x.__class__``."""
    if isinstance(node, ast.Call):
        return _is_type(node.func) and len(node.args) == 1 and not _is_starred(node.args)
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_farewell(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("exit", "quit") and not node.args


def _is_starred(args: list[ast.expr]) -> bool:
    return any(isinstance(arg, ast.Starred) for arg in args)


def _beginning(node: ast.expr) -> tuple[str, bool]:
    """The text with which an expression begins, and whether that is all of it."""
    if isinstance(node, ast.Constant):
        return (node.value, True) if isinstance(node.value, str) else ("", False)
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])[0], False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, whole = _beginning(node.left)
        right, too = _beginning(node.right) if whole else ("", False)
        return left + right, whole and too
    return "", False


def _variables(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The variables of a function: its parameters, and what it binds but by an import."""
    bound = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    others: set[str] = set()
    body = function.body if isinstance(function.body, list) else [function.body]
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            others |= set(forbidden.imported(node))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            others |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            continue
        elif isinstance(node, ast.comprehension):
            waiting += [node.iter, *node.ifs]  # its target is a variable of its own
            continue
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return frozenset(bound - others)
