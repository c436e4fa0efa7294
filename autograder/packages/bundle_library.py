"""Provide, for bundles, the course's packages as wheels and the tested versions of their dependencies."""

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
"""A package, with the needed groups of its optional dependencies."""

REQUIREMENTS = "requirements.txt"
FOR_CHECK = ("autograder/__init__.py", "autograder/student.py", "autograder/cage/", "autograder/exercises/")
"""The files of the grader's package that `check` starts from; students also get the modules they import."""


@cache
def student_wheels() -> Files:
    """Return the same two wheels without the modules that only grading needs."""
    sources = wheels.sources("autograder")
    needed_paths = _with_imports(sources, [path for path in sources if path.startswith(FOR_CHECK)])
    student_files = {
        path: data
        for path, data in sources.items()
        if path in needed_paths or not path.startswith("autograder/")
    }
    return wheels.build("tfcore", wheels.sources("tfcore")) | wheels.build("autograder", student_files)


def _with_imports(sources: Files, first: list[str]) -> set[str]:
    """Return the paths in `first` with all modules of `sources` that they import, directly or indirectly."""
    paths: set[str] = set()
    waiting = list(first)
    while waiting:
        path = waiting.pop()
        if path in sources and path not in paths:
            paths.add(path)
            for node in ast.walk(ast.parse(sources[path])) if path.endswith(".py") else ():
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
                    waiting += [f"{name.replace('.', '/')}.py" for name in names]
    return paths


def pinned(course: Course, needs: Iterable[str], extras: tuple[str, ...] = ()) -> str:
    """Return the lines of requirements.txt for the dependencies of the course's packages and for `needs`.

    The lines also cover all indirect dependencies.

    Args:
        course: the course whose requirements.txt is read; if it has none, the grader's own file is read.
        needs: names of further packages.
        extras: groups of the project's optional dependencies.

    Raises:
        BadInputError: requirements.txt is missing, or lacks a needed package.
    """
    lines = _tested_lines(course)
    waiting: list[Needed] = [(canonicalize_name(name), ()) for name in needs]
    waiting += _active(wheels.requirements(extras), ())
    if missing := sorted({name for name, _ in waiting} - lines.keys()):
        raise BadInputError(f"{REQUIREMENTS} lacks {', '.join(missing)}. Add the tested version.")
    reached: set[Needed] = set()
    while waiting:
        if (needed := waiting.pop()) not in reached:
            reached.add(needed)
            waiting += _required(*needed)
    return "".join(f"{lines[name]}\n" for name in sorted({name for name, _ in reached} & lines.keys()))


def pins(course: Course, names: Iterable[str]) -> list[str]:
    """Return these packages, without their dependencies, each with its tested version.

    Raises:
        BadInputError: requirements.txt is missing, or lacks one of the packages.
    """
    lines, wanted = _tested_lines(course), [canonicalize_name(name) for name in names]
    if missing := sorted(set(wanted) - lines.keys()):
        raise BadInputError(f"{REQUIREMENTS} lacks {', '.join(missing)}. Add the tested version.")
    return [lines[name].split()[0].rstrip(";") for name in wanted]


def _tested_lines(course: Course) -> dict[str, str]:
    """Return the lines of requirements.txt by package; some packages have a line for each of two Pythons."""
    for path in (course.root / REQUIREMENTS, wheels.resources()[REQUIREMENTS]):
        if path.is_file():
            lines: dict[str, str] = {}
            for line in (line.split("#")[0].strip() for line in path.read_text().splitlines()):
                if "==" in line:
                    name = canonicalize_name(line.split("==")[0])
                    lines[name] = f"{lines[name]}\n{line}" if name in lines else line
            return lines
    raise BadInputError(
        f"{course.root} lacks {REQUIREMENTS}, the list of tested versions. Copy it from the course's source."
    )


@cache
def _required(name: str, extras: tuple[str, ...]) -> list[Needed]:
    """Return the packages that a package requires on any machine; none if it is not installed here."""
    try:
        requirements = [Requirement(line) for line in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []
    return _active(requirements, extras)


def _active(requirements: list[Requirement], extras: tuple[str, ...]) -> list[Needed]:
    """Return the requirements that hold always or for one of the extras."""
    wanted = [r for r in requirements if not r.marker or "extra" not in str(r.marker)]
    wanted += [r for r in requirements for extra in extras if f'extra == "{extra}"' in str(r.marker)]
    return [(canonicalize_name(r.name), tuple(sorted(r.extras))) for r in wanted]
