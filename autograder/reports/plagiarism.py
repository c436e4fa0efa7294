"""Find code that two students share, as MOSS does: by fragments that few others wrote.

The module compares the syntax trees of answers, statement by statement, so that layout, comments, names,
numbers and the order of statements do not matter. Every run of `LENGTH` words inside a statement is a
fragment. Fragments from the release, and fragments that many students wrote, do not count. Other shared
fragments are evidence of common work: a hint for a person, never a verdict.
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

from autograder.course.cells import marks_of

LENGTH = 8
"""The number of words of syntax in a fragment; ``y = x - x.max(axis=1)`` has ten."""
LONGEST = 20_000
"""An answer of more characters is not compared; a usual answer has a tenth of that."""
MANY, PART = 3, 50
"""A fragment is common if more than `MANY` students wrote it, and more than one in `PART`."""
ALIKE = 0.7
"""The code of a pair is nearly the same if they share this part of the longer code's fragments."""
ENOUGH = 30
"""A pair is reported if it shares this many fragments or more in exercises with nearly the same code."""

Answers = Mapping[str, Mapping[str, str]]
"""The code of each answer, by student and exercise."""


@dataclass(frozen=True)
class Shared:
    """The code of one exercise that a pair of students shares."""

    exercise: str
    fragments: int
    """The number of rare fragments that both students have."""
    share: float
    """The shared part of the rare fragments of the student who has more."""


@dataclass(frozen=True)
class Pair:
    """Two students whose code is nearly the same in some exercises."""

    students: tuple[str, str]
    exercises: tuple[Shared, ...]

    @property
    def fragments(self) -> int:
        return sum(shared.fragments for shared in self.exercises)


def find_pairs(answers: Answers, given: Iterable[str] = ()) -> list[Pair]:
    """Return the pairs of students whose code is nearly the same; pairs that share most are first.

    Only students who share a rare fragment are compared, so the work grows with the size of the class and not
    with its square.

    Args:
        answers: the code of each answer, by student and exercise.
        given: the code of the release.
    """
    known = frozenset().union(*map(fragments, given))
    shared_by: dict[tuple[str, str], list[Shared]] = {}
    for exercise in sorted({name for code_of in answers.values() for name in code_of}):
        written = {
            student: fragments(code_of[exercise]) - known
            for student, code_of in sorted(answers.items())
            if exercise in code_of
        }
        for students, shared in _shared(exercise, _rare(written, common_from(len(answers)))):
            shared_by.setdefault(students, []).append(shared)
    all_pairs = [Pair(students, tuple(shared)) for students, shared in shared_by.items()]
    enough = [pair for pair in all_pairs if pair.fragments >= ENOUGH]
    return sorted(enough, key=lambda pair: (-pair.fragments, pair.students))


def common_from(students: int) -> int:
    """Return the largest number of students who may share a fragment that counts."""
    return max(MANY, students // PART)


def _rare(written: dict[str, frozenset[int]], most: int) -> dict[str, frozenset[int]]:
    counts = Counter(fragment for whole in written.values() for fragment in whole)
    return {student: frozenset(f for f in whole if counts[f] <= most) for student, whole in written.items()}


def _shared(exercise: str, rare: dict[str, frozenset[int]]) -> Iterator[tuple[tuple[str, str], Shared]]:
    holders: dict[int, list[str]] = {}
    for student, rare_fragments in rare.items():
        for fragment in rare_fragments:
            holders.setdefault(fragment, []).append(student)
    counts = Counter(pair for students in holders.values() for pair in combinations(students, 2))
    for (one, other), count in counts.items():
        share = count / max(len(rare[one]), len(rare[other]))
        if share >= ALIKE:
            yield (one, other), Shared(exercise, count, share)


def answers_in(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return the code in the answer cells of a graded notebook, by exercise."""
    answers = {}
    for cell in notebook.get("cells", []):
        marks = marks_of(cell)
        if cell.get("cell_type") == "code" and marks.get("solution"):
            source = cell.get("source", "")
            answers[str(marks.get("grade_id")).removesuffix("_answer")] = "".join(source)
    return answers


def fragments(source: str) -> frozenset[int]:
    """Return the fragments of a piece of code as hashes; an empty set if it is not Python."""
    hashes: set[int] = set()
    for statement in _statements(source):
        words = list(_words(statement))
        hashes.update(hash(tuple(words[i : i + LENGTH])) for i in range(len(words) - LENGTH + 1))
    return frozenset(hashes)


def _statements(source: str) -> Iterator[ast.stmt]:
    """Yield every statement of a piece of code, also inner ones, without magics and docstrings."""
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
    """Yield the words of a statement: kinds of syntax, attributes, and names numbered in order."""
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
