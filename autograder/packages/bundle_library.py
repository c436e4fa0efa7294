"""The course's own packages as wheels, and the tested versions of what they need, for bundles."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.course.errors import BadInputError
from autograder.course.files import Files
from autograder.course.layout import Course
from autograder.packages import wheels

Needed = tuple[str, tuple[str, ...]]
"""A package and which groups of its optional dependencies."""

REQUIREMENTS = "requirements.txt"
FOR_CHECK = ("autograder/__init__.py", "autograder/student.py", "autograder/cage/", "autograder/exercises/")
"""What `check` is made of, with what these import; all else in the grader's package is for who grades."""


@cache
def grader() -> Files:
    """The whole grader, the reference and the widgets, as two wheels."""
    return wheels.both()


@cache
def for_students() -> Files:
    """The same without what grades."""
    sources = wheels.sources("autograder")
    kept = _imported(sources, [path for path in sources if path.startswith(FOR_CHECK)])
    theirs = {
        path: data for path, data in sources.items() if path in kept or not path.startswith("autograder/")
    }
    return wheels.of("tfcore", wheels.sources("tfcore")) | wheels.of("autograder", theirs)


def _imported(sources: Files, first: list[str]) -> set[str]:
    """The modules among the sources that these import, with those that they import in turn."""
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        path = waiting.pop()
        if path in sources and path not in found:
            found.add(path)
            for node in ast.walk(ast.parse(sources[path])) if path.endswith(".py") else ():
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
                    waiting += [f"{name.replace('.', '/')}.py" for name in names]
    return found


def pinned(course: Course, needs: Iterable[str], extras: tuple[str, ...] = ()) -> str:
    """The lines of requirements.txt that the course's packages and `needs` come to, with all that they need.

    Args:
        course: whose requirements.txt is read; the grader's own, if the course has none.
        needs: names of packages beside those that the course's packages always need.
        extras: groups of the project's optional dependencies.

    Raises:
        BadInputError: there is no requirements.txt, or a package that is needed is not in it.
    """
    lines = _tested(course)
    waiting: list[Needed] = [(canonicalize_name(name), ()) for name in needs]
    waiting += _named(wheels.needs(extras), ())
    if missing := sorted({name for name, _ in waiting} - lines.keys()):
        raise BadInputError(f"{REQUIREMENTS} names no version of {', '.join(missing)}. Add what was tested.")
    reached: set[Needed] = set()
    while waiting:
        if (one := waiting.pop()) not in reached:
            reached.add(one)
            waiting += _required(*one)
    return "".join(f"{lines[name]}\n" for name in sorted({name for name, _ in reached} & lines.keys()))


def pins(course: Course, names: Iterable[str]) -> list[str]:
    """These packages alone, each with its tested version.

    Raises:
        BadInputError: there is no requirements.txt, or one of them is not in it.
    """
    lines, wanted = _tested(course), [canonicalize_name(name) for name in names]
    if missing := sorted(set(wanted) - lines.keys()):
        raise BadInputError(f"{REQUIREMENTS} names no version of {', '.join(missing)}. Add what was tested.")
    return [lines[name].split()[0].rstrip(";") for name in wanted]


def _tested(course: Course) -> dict[str, str]:
    """The lines of requirements.txt, by the name of their package; some have one for each of two Pythons."""
    for path in (course.root / REQUIREMENTS, wheels.resources()[REQUIREMENTS]):
        if path.is_file():
            found: dict[str, str] = {}
            for line in (line.split("#")[0].strip() for line in path.read_text().splitlines()):
                if "==" in line:
                    name = canonicalize_name(line.split("==")[0])
                    found[name] = f"{found[name]}\n{line}" if name in found else line
            return found
    raise BadInputError(
        f"{course.root} has no {REQUIREMENTS}, which says what was tested. Copy it from the course's source."
    )


@cache
def _required(name: str, extras: tuple[str, ...]) -> list[Needed]:
    """The packages that a package asks for on any machine; none where it is not installed here."""
    try:
        told = [Requirement(line) for line in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []
    return _named(told, extras)


def _named(told: list[Requirement], extras: tuple[str, ...]) -> list[Needed]:
    """Those of the requirements that hold always or for one of the extras."""
    wanted = [one for one in told if not one.marker or "extra" not in str(one.marker)]
    wanted += [one for one in told for extra in extras if f'extra == "{extra}"' in str(one.marker)]
    return [(canonicalize_name(one.name), tuple(sorted(one.extras))) for one in wanted]
