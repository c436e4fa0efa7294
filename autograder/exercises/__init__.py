"""The catalogue: every exercise is a file ``autograder/exercises/<assignment>/<function>.py``.

Its accepted styles and its mistakes are beside it, in ``<function>_styles.py`` and
``<function>_mistakes.py``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from autograder.checking.declaration import Exercise
from autograder.course.errors import BadInputError

_FOLDER = Path(__file__).parent


class UnknownExerciseError(BadInputError, LookupError):
    """Raised when no exercise, or no assignment, has that name."""


@cache
def names() -> tuple[str, ...]:
    """Return all exercises as ``assignment/function``, in the order of the course.

    Within an assignment, ``ORDER`` in its ``__init__.py`` gives the order.
    """
    return tuple(
        f"{assignment}/{function}"
        for assignment in assignments()
        for function in import_module(f"{__name__}.{assignment}").ORDER
    )


@cache
def assignments() -> tuple[str, ...]:
    """Return the assignments that have exercises."""
    return tuple(sorted(path.parent.name for path in _FOLDER.glob("ch*/__init__.py")))


def title(assignment: str) -> str:
    """Return the title of an assignment: the first sentence of its package's docstring, else its name.

    >>> title("ch02_qkv")
    'Chapter 2: query, key, value'
    """
    described = import_module(f"{__name__}.{assignment}").__doc__ or assignment
    return described.partition(".")[0]


@cache
def chapter_of(assignment: str) -> str:
    """Return the name of the book's chapter that an assignment belongs to, such as ``02_qkv``.

    It is the assignment's own name, unless its ``__init__.py`` has ``CHAPTER``: a chapter may have several
    notebooks.

    >>> chapter_of("ch02_qkv"), chapter_of("ch08_serving")
    ('02_qkv', '08_kv_cache')
    """
    folder = import_module(f"{__name__}.{assignment}")
    return str(getattr(folder, "CHAPTER", assignment.removeprefix("ch")))


def find(name: str) -> Exercise:
    """Return the exercise of that name: ``ch02_qkv/softmax``, or ``softmax`` alone."""
    matches = [known for known in names() if name in (known, known.split("/")[1])]
    if not matches:
        near = [known for known in names() if known.split("/")[0] == name.split("/")[0]] or names()
        raise UnknownExerciseError(f"no exercise is called {name!r}. Known: {', '.join(near)}.")
    declared, *_ = [import_module(module) for module in modules_of(matches[0])]
    exercise: Exercise = declared.EXERCISE
    return exercise


def modules_of(name: str) -> list[str]:
    """Return the modules of an exercise, ``assignment/function``: declaration, styles, mistakes."""
    module = f"{__name__}.{name.replace('/', '.')}"
    return [module, f"{module}_styles", f"{module}_mistakes"]


def names_of(assignment: str) -> list[str]:
    """Return the names of an assignment's exercises, in the order of its notebook, without importing them."""
    if assignment not in assignments():
        raise UnknownExerciseError(
            f"the grader knows no exercises of {assignment!r}. Known: {', '.join(assignments())}."
        )
    return [name for name in names() if name.startswith(f"{assignment}/")]


def names_tested_by(notebook: dict[str, Any], assignment: str) -> list[str]:
    """Return the names of an assignment's exercises, and of others that its released notebook tests.

    An exercise may have moved to another assignment after the notebook was released.

    Raises:
        UnknownExerciseError: the notebook has a test cell that belongs to no exercise.
    """
    own = names_of(assignment)
    marks = [cell.get("metadata", {}).get("nbgrader", {}) for cell in notebook["cells"]]
    tests = [str(mark["grade_id"]) for mark in marks if mark.get("grade") and not mark.get("solution")]
    if unknown := [test for test in tests if not any(name.endswith(f"/{test}") for name in names())]:
        raise UnknownExerciseError(
            f"{assignment} has a test cell {unknown[0]!r}, but no exercise has this name: the grader cannot "
            "grade it. Declare the exercise, or make the cell an answer that is graded by a person."
        )
    return [*own, *(find(test).name for test in tests if f"{assignment}/{test}" not in own)]


def of_assignment(assignment: str) -> list[Exercise]:
    """Return the exercises of an assignment, in the order of its notebook."""
    return [find(name) for name in names_of(assignment)]


def names_chosen(chosen: list[str]) -> list[str]:
    """Return the names of the chosen exercises and of all exercises in the chosen assignments.

    If `chosen` is empty, return the names of all exercises.
    """
    if unknown := [name for name in chosen if name not in (*assignments(), *names())]:
        near = [name for name in names() if name.split("/")[0] == unknown[0].split("/")[0]]
        known = ", ".join(near or assignments())
        raise BadInputError(f"no exercise or assignment is called {unknown[0]!r}. The names are: {known}.")
    return [name for name in names() if not chosen or name in chosen or name.split("/")[0] in chosen]
