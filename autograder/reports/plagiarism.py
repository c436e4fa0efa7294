"""Finds code that two students share, as MOSS does: by fragments that few others wrote.

A student's answer is read as its syntax tree, statement by statement, so that layout, comments, names,
numbers and the order of statements do not matter. Every run of `LENGTH` words inside a statement is a
fragment. What the release gives and what many in the class wrote counts for nothing; what is left and shared
is evidence of common work. It is a hint for a person, never a verdict.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

LENGTH = 8
"""Words of syntax in a fragment; ``y = x - x.max(axis=1)`` has ten."""
LONGEST = 20_000
"""An answer of more characters is not compared; an honest one has a tenth of that."""
MANY, PART = 3, 50
"""What more than `MANY` students wrote, and more than one in `PART`, is what people write."""
ALIKE = 0.7
"""An exercise is nearly the same if the pair shares so much of the longer one's fragments."""
ENOUGH = 30
"""A pair is told if it shares so many fragments of exercises that are nearly the same."""

Answers = Mapping[str, Mapping[str, str]]
"""By student and exercise, the code."""


@dataclass(frozen=True)
class Shared:
    """What a pair of students shares of one exercise."""

    exercise: str
    fragments: int
    """How many rare fragments both have."""
    share: float
    """Of the rare fragments of the one who has more."""


@dataclass(frozen=True)
class Pair:
    """Two students whose code is nearly the same in some exercises."""

    students: tuple[str, str]
    exercises: tuple[Shared, ...]

    @property
    def fragments(self) -> int:
        return sum(one.fragments for one in self.exercises)


def pairs(answers: Answers, given: Iterable[str] = ()) -> list[Pair]:
    """The pairs whose code is nearly the same, those first that share most.

    Only who shares a rare fragment is compared, so the work grows with the class and not with its square.

    Args:
        answers: what each student wrote.
        given: code that everybody got.
    """
    known = frozenset().union(*map(fragments, given))
    found: dict[tuple[str, str], list[Shared]] = {}
    for exercise in sorted({name for own in answers.values() for name in own}):
        written = {
            student: fragments(own[exercise]) - known
            for student, own in sorted(answers.items())
            if exercise in own
        }
        for pair, shared in _shared(exercise, _rare(written, common_from(len(answers)))):
            found.setdefault(pair, []).append(shared)
    told = [Pair(students, tuple(shared)) for students, shared in found.items()]
    enough = [pair for pair in told if pair.fragments >= ENOUGH]
    return sorted(enough, key=lambda pair: (-pair.fragments, pair.students))


def common_from(students: int) -> int:
    """How many students may have a fragment before it counts for nothing."""
    return max(MANY, students // PART)


def _rare(written: dict[str, frozenset[int]], most: int) -> dict[str, frozenset[int]]:
    counts = Counter(fragment for own in written.values() for fragment in own)
    return {student: frozenset(f for f in own if counts[f] <= most) for student, own in written.items()}


def _shared(exercise: str, rare: dict[str, frozenset[int]]) -> Iterator[tuple[tuple[str, str], Shared]]:
    holders: dict[int, list[str]] = {}
    for student, own in rare.items():
        for fragment in own:
            holders.setdefault(fragment, []).append(student)
    counts = Counter(pair for students in holders.values() for pair in combinations(students, 2))
    for (one, other), count in counts.items():
        share = count / max(len(rare[one]), len(rare[other]))
        if share >= ALIKE:
            yield (one, other), Shared(exercise, count, share)


def answers_in(notebook: Mapping[str, Any]) -> dict[str, str]:
    """The code in the answer cells of a graded notebook, by exercise."""
    found = {}
    for cell in notebook.get("cells", []):
        marks = cell.get("metadata", {}).get("nbgrader", {})
        if cell.get("cell_type") == "code" and marks.get("solution"):
            source = cell.get("source", "")
            found[str(marks.get("grade_id")).removesuffix("_answer")] = "".join(source)
    return found


def fragments(source: str) -> frozenset[int]:
    """The fragments of some code, as numbers; none where it is no Python."""
    found: set[int] = set()
    for statement in _statements(source):
        words = list(_words(statement))
        found.update(hash(tuple(words[i : i + LENGTH])) for i in range(len(words) - LENGTH + 1))
    return frozenset(found)


def _statements(source: str) -> Iterator[ast.stmt]:
    """Every statement of some code, inner ones too; magics, shell lines and docstrings left out."""
    if len(source) > LONGEST:
        return
    plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield node


def _words(statement: ast.stmt) -> Iterator[str]:
    """A statement as words: kinds of syntax, what is looked up, and names by the order in which they come."""
    names: dict[str, str] = {}
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name):
                yield name if name in _BUILT_IN else names.setdefault(name, f"name {len(names)}")
            case ast.arg(arg=name):
                yield names.setdefault(name, f"name {len(names)}")
                continue
            case ast.Attribute(attr=name, value=ast.Name(id="self")):
                yield names.setdefault(f"self.{name}", f"name {len(names)}")
                continue
            case ast.Attribute(attr=name):
                yield f".{name}"
            case ast.keyword(arg=name):
                yield f"{name}="
            case ast.Constant(value=value):
                yield str(value) if isinstance(value, bool | None) else type(value).__name__
            case _:
                yield type(node).__name__
        inner = ast.iter_child_nodes(node)
        waiting += reversed([n for n in inner if not isinstance(n, ast.stmt | ast.expr_context)])


_BUILT_IN = frozenset(vars(builtins))
