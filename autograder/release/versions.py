"""Versions of what verdicts depend on: hashes of source, so that a fix concerns just what runs through it.

A verdict on an exercise depends on the grader's heart (the judge, the pair, the cage), on the libraries, and
on the exercise's own file with all that it imports, which is read off the ``import`` statements.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import autograder
import tfcore
from autograder import exercises

PACKAGES = {package.__name__: Path(str(package.__file__)).parent for package in (autograder, tfcore)}
HEART = (
    "autograder.grading.judge",
    "autograder.grading.pair",
    "autograder.cage.*",
    "tfcore.testing.meters",
    "tfcore.data",
)
"""The modules that every verdict runs through; those of the cage are also scripts of their own."""
LIBRARIES = ("numpy", "torch", "ipython", "matplotlib")


@cache
def of_heart() -> str:
    """The version of what all verdicts depend on."""
    libraries = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return _hashed(heart(), f"Python {platform.python_version()}", *libraries)


@cache
def of_exercise(name: str) -> str:
    """The version of one exercise, ``assignment/function``: of what it adds to the heart."""
    return _hashed(closure(exercises.modules_of(name)) - heart())


def of_assignment(assignment: str) -> dict[str, str]:
    """The versions of an assignment's exercises, by function."""
    return {name.split("/")[1]: of_exercise(name) for name in exercises.names_of(assignment)}


@cache
def of_everything() -> str:
    """The version of the heart and of all exercises."""
    told = [of_heart(), *(str(of_assignment(name)) for name in exercises.assignments())]
    return hashlib.sha256("".join(told).encode()).hexdigest()


@cache
def heart() -> frozenset[Path]:
    """The files of the heart."""
    roots = [name for name in HEART if not name.endswith(".*")]
    for name in HEART:
        if name.endswith(".*"):
            package = name.removesuffix(".*")
            roots += [
                f"{package}.{path.stem}"
                for path in _file(package).parent.glob("*.py")
                if path.stem != "__init__"
            ]
    return closure(roots)


def closure(modules: Iterable[str]) -> frozenset[Path]:
    """The files of these modules and of all of ours that they import, at whatever depth.

    A package counts where it is named itself; that importing one of its modules also runs its ``__init__``
    is left out, since ours only gather names.
    """
    found: dict[Path, None] = {}
    waiting = [_file(name) for name in modules]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += _imported(path)
    return frozenset(found)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Our files that a file's import statements name, wherever they stand in it."""
    package = _package_of(path)
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for one in node.names:
                inner = f"{base}.{one.name}"
                names.append(inner if _is_ours(inner) else base)
    return tuple(_file(name) for name in names if _is_ours(name))


def _package_of(path: Path) -> str:
    for name, folder in PACKAGES.items():
        if folder in path.parents:
            return ".".join([name, *path.parent.relative_to(folder).parts])
    raise ValueError(f"{path} is in none of the packages {', '.join(PACKAGES)}")


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in PACKAGES and _file(module).is_file()


def _file(module: str) -> Path:
    first, *rest = module.split(".")
    path = PACKAGES[first].joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _hashed(files: Iterable[Path], *words: str) -> str:
    told = hashlib.sha256("\0".join(words).encode())
    for path in sorted(files):
        told.update(f"{_package_of(path)} {path.name}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()
