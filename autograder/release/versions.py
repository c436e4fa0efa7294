"""Hash the source code that verdicts depend on, so that a change regrades only the exercises that use it.

A verdict on an exercise depends on the grader's core (the judge, the pair, the cage), on the libraries, and
on the file of the exercise with all modules that it imports, as its ``import`` statements name them.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import autograder
import tfcore
from autograder import exercises

PACKAGES = {package.__name__: Path(str(package.__file__)).parent for package in (autograder, tfcore)}
CORE = ("autograder.grading.judge", "autograder.grading.pair", "tfcore.testing.meters", "tfcore.data")
"""Every verdict depends on these modules and on those of the cage, which also run as scripts."""
LIBRARIES = ("numpy", "torch", "ipython", "matplotlib")


@cache
def hash_core() -> str:
    """Return the hash of the code that all verdicts depend on: the core, Python and the libraries."""
    return _hash_files(core_files(), *_versions(LIBRARIES))


@cache
def hash_exercise(name: str) -> str:
    """Return the hash of the files that one exercise, ``assignment/function``, uses beside the core."""
    return _hash_files(files_imported_by(exercises.modules_of(name)) - core_files())


def hash_exercises(names: Iterable[str]) -> dict[str, str]:
    """Return the hash of each exercise, ``assignment/function``, by function name."""
    return {name.split("/")[1]: hash_exercise(name) for name in names}


@cache
def hash_everything() -> str:
    """Return one hash of the core and of all exercises."""
    hashes = [hash_core(), *map(hash_exercise, exercises.names())]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def hash_modules(modules: Iterable[str], libraries: Iterable[str]) -> str:
    """Return the hash of modules with all modules of ours that they import, of Python and of libraries."""
    return _hash_files(files_imported_by(modules), *_versions(libraries))


def _versions(libraries: Iterable[str]) -> list[str]:
    named = [f"{name} {metadata.version(name)}" for name in libraries]
    return [f"Python {platform.python_version()}", *named]


@cache
def core_files() -> frozenset[Path]:
    """Return the files of the core."""
    cage = _file("autograder.cage").parent.glob("[!_]*.py")
    return files_imported_by([*CORE, *(f"autograder.cage.{path.stem}" for path in cage)])


def files_imported_by(modules: Iterable[str]) -> frozenset[Path]:
    """Return the files of these modules and of all of this repository's modules that they import.

    The ``__init__`` of a package is included only if an import names the package itself. To import one of its
    modules also runs it, but the ``__init__`` files of this repository only gather names.
    """
    files: dict[Path, None] = {}
    waiting = [_file(name) for name in modules]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files[path] = None
            waiting += _imported(path)
    return frozenset(files)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Return the files of this repository that the import statements of a file name, anywhere in it."""
    package = _package_of(path)
    names: list[str] = []
    for node in _statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                names.append(inner if _is_ours(inner) else base)
    return tuple(_file(name) for name in names if _is_ours(name))


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a module, those in functions and branches too; most nodes are no statements."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(tree, block, ()):
            yield statement
            yield from _statements(statement)


def _package_of(path: Path) -> str:
    for name, folder in PACKAGES.items():
        if folder in path.parents:
            return ".".join([name, *path.parent.relative_to(folder).parts])
    raise ValueError(f"{path} is not in any of the packages {', '.join(PACKAGES)}")


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in PACKAGES and _file(module).is_file()


def _file(module: str) -> Path:
    first, *rest = module.split(".")
    path = PACKAGES[first].joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _hash_files(files: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(files):
        digest.update(f"{_package_of(path)} {path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
