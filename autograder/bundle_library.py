"""The course's own packages as a wheel, and the tested versions of what they need, for bundles."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import re
import stat
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.errors import BadInputError
from autograder.layout import Course

Files = dict[str, bytes]
"""Files by their path."""

Needed = tuple[str, tuple[str, ...]]
"""A package and which groups of its optional dependencies."""

PROJECT = "transformers-from-first-principles"
PACKAGES = ("autograder", "tfcore", "tfwidgets")
REQUIREMENTS = "requirements.txt"
ABOUT = (
    "Metadata-Version",
    "Name",
    "Version",
    "Summary",
    "Requires-Python",
    "Requires-Dist",
    "Provides-Extra",
)
FOR_CHECK = ("autograder/__init__.py", "autograder/student.py", "autograder/cage/", "autograder/exercises/")
"""What `check` is made of, with what these import; all else in the grader's package is for who grades."""


def packed(files: Files, comment: bytes = b"") -> bytes:
    """A zip file that is the same each time: in order, without the time of day. Scripts can be run."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = comment
        for path, data in sorted(files.items()):
            about = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            about.create_system = 3  # Unix, where permissions count
            about.external_attr = (stat.S_IFREG | (0o755 if data.startswith(b"#!") else 0o644)) << 16
            archive.writestr(about, data, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


@cache
def grader() -> Files:
    """The whole grader, the reference and the widgets as one wheel."""
    return _wheel(_sources(), with_commands=True)


@cache
def for_students() -> Files:
    """The same without what grades, and without the bank's right answers."""
    sources = _sources()
    kept = _imported(sources, [path for path in sources if path.startswith(FOR_CHECK)])
    return _wheel(
        {
            path: without_right_answers(data) if path.startswith("autograder/exercises/") else data
            for path, data in sources.items()
            if path in kept or not path.startswith("autograder/")
        },
        with_commands=False,
    )


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


def without_right_answers(source: bytes) -> bytes:
    """An exercise's module without its accepted styles, which `check` does not need."""
    lines = source.decode().splitlines(keepends=True)
    for node in ast.parse(source).body:
        marks = getattr(node, "decorator_list", [])
        if any(ast.unparse(mark).startswith("EXERCISE.style(") for mark in marks):
            lines[marks[0].lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - marks[0].lineno + 1)
    return "".join(lines).rstrip().encode() + b"\n"


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
    waiting += _required(PROJECT, extras)
    if missing := sorted({name for name, _ in waiting} - lines.keys()):
        raise BadInputError(f"{REQUIREMENTS} names no version of {', '.join(missing)}. Add what was tested.")
    reached: set[Needed] = set()
    while waiting:
        if (one := waiting.pop()) not in reached:
            reached.add(one)
            waiting += _required(*one)
    return "".join(f"{lines[name]}\n" for name in sorted({name for name, _ in reached} & lines.keys()))


def _tested(course: Course) -> dict[str, str]:
    """The lines of requirements.txt by the name of the package."""
    for folder in (course.root, Path(__file__).parents[1]):
        if (folder / REQUIREMENTS).is_file():
            told = (folder / REQUIREMENTS).read_text().splitlines()
            return {canonicalize_name(line.split("==")[0]): line for line in told if "==" in line}
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
    wanted = [one for one in told if not one.marker or "extra" not in str(one.marker)]
    wanted += [one for one in told for extra in extras if f'extra == "{extra}"' in str(one.marker)]
    return [(canonicalize_name(one.name), tuple(sorted(one.extras))) for one in wanted]


def _sources() -> Files:
    """The packages' files, as they lie in site-packages."""
    files: Files = {}
    for name in PACKAGES:
        found = find_spec(name)
        if found is None or found.origin is None:
            raise BadInputError(f"the package {name} is not installed. Run: make setup")
        folder = Path(found.origin).parent
        files |= {
            f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
        }
    return files


def _wheel(files: Files, with_commands: bool) -> Files:
    """A wheel of the files, by its name."""
    about = metadata.distribution(PROJECT)
    name = f"{re.sub(r'[-_.]+', '_', PROJECT)}-{about.version}"
    told = {
        "METADATA": "".join(
            f"{key}: {value}\n" for key in ABOUT for value in about.metadata.get_all(key) or ()
        ),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: autograder\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **({"entry_points.txt": about.read_text("entry_points.txt") or ""} if with_commands else {}),
    }
    files = files | {f"{name}.dist-info/{part}": text.encode() for part, text in told.items()}
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in sorted(files.items())]
    files[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    return {f"{name}-py3-none-any.whl": packed(files)}


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
