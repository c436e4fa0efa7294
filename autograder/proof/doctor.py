"""What this machine gives the course, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

from autograder.course.layout import CONFIG, Course

Level = Literal["ok", "note", "problem"]
NEEDED_BYTES = 2 << 30
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
SAID = {
    "A": "a submission sees no network, no process and no file but the libraries, and its own empty home",
    "B": "a submission opens no socket, reaches no process, and reads no file but the libraries and its "
    "home; that files and processes exist it can see",
    "C": "the container around it is the only wall: a submission can read and change what is in it. "
    "`autograder grade` wants --allow-unsafe here",
    "D": "no walls: a submission can read and change what you can. `autograder grade` wants --allow-unsafe "
    "here. Grade only people you trust, or on a machine that holds nothing else",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at: "problem" means that something will not work until it is put right."""

    what: str
    level: Level
    says: str


def examine(course: Course | None) -> list[Finding]:
    """Everything looked at, in the order in which it is told."""
    return [
        _python(),
        *_packages(course),
        _disk(course.root if course else Path()),
        _gradebook(course),
        _chromium(),
        *_confinement(),
    ]


def _python() -> Finding:
    version, wanted = platform.python_version(), _wanted_python()
    if "{}.{}.{}".format(*sys.version_info) in wanted:  # Debian's version may end in a plus sign
        return Finding("Python", "ok", version)
    return Finding("Python", "problem", f"{version}; the course needs {wanted}")


def _wanted_python() -> SpecifierSet:
    """Return the versions of Python that the installed course, or its wheel, asks for."""
    for name in ("transformers-from-first-principles", "transformers-from-first-principles-autograder"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return SpecifierSet(importlib.metadata.metadata(name)["Requires-Python"])
    return SpecifierSet()


_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;#]+)(?: *; *([^#\n]+))?", re.MULTILINE)


def _packages(course: Course | None) -> Iterator[Finding]:
    """The installed versions against those that requirements.txt names."""
    path = course.root / "requirements.txt" if course else None
    if path is None or not path.is_file():
        yield Finding("packages", "note", "no requirements.txt here to compare with")
        return
    wrong, missing, right = [], [], 0
    for name, wanted, where in _PIN.findall(path.read_text()):
        if where and not Marker(where).evaluate():
            continue  # a package for other machines
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{name}=={wanted}")
            continue
        if found.split("+")[0] == wanted:
            right += 1
        else:
            wrong.append(f"{name} {found} (tested: {wanted})")
    if missing:
        yield Finding("packages missing", "problem", f"{', '.join(missing)}. Run: make setup")
    if wrong:
        yield Finding("packages", "note", f"other versions than tested: {', '.join(wrong)}")
    if right:
        yield Finding("packages", "ok", f"{right} have the tested version")


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free
    return Finding("disk", "ok" if free > NEEDED_BYTES else "problem", f"{free / 2**30:.1f} GiB free")


def _gradebook(course: Course | None) -> Finding:
    if course is None:
        return Finding("course", "problem", f"no {CONFIG} here; run this in the folder of the course")
    try:
        from autograder.course import databases
        from autograder.course.errors import BadInputError
        from autograder.grading import gradebook
    except ImportError as error:
        return Finding("gradebook", "problem", f"nbgrader cannot be imported ({error}). Run: make setup")
    try:
        there = gradebook.exists(course)
    except BadInputError as error:
        return Finding("gradebook", "problem", str(error))
    where = course.db_file.name if course.db_file else databases.describe(course.db_url)
    says = f"{where}, schema {gradebook.expected_revision()}"
    return Finding("gradebook", "ok", says if there else "none yet; the first grading makes it")


def find_chromium() -> str | None:
    """The browser that CHROMIUM names, or the first of the usual names that is installed."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


def _chromium() -> Finding:
    if path := find_chromium():
        return Finding("browser", "ok", f"{path} for the tests of the book")
    return Finding("browser", "note", "no Chromium; browser tests are skipped (Debian: apt install chromium)")


def _confinement() -> Iterator[Finding]:
    from autograder.grading import cages

    held = cages.strongest()
    yield Finding(
        "isolation", "ok" if held.tier in cages.SAFE else "problem", f"tier {held.tier}: {SAID[held.tier]}"
    )
    for tier, what in held.missing.items():
        yield Finding(f"tier {tier}", "note", f"does not hold: {what}")
    if held.tier in cages.SAFE:
        yield from _grader(held.tier)


def _grader(tier: str) -> Iterator[Finding]:
    """What keeps the grader from grading at a tier that holds: libraries, say, that the walls do not show."""
    from autograder import exercises
    from autograder.grading.pair import Pair, PairError, file_task
    from autograder.grading.session import Limits

    with Pair(tier) as pair:
        try:
            verdict = pair.grade(file_task(exercises.names()[0], b"", False, 0, Limits()))
        except PairError as error:
            yield Finding("grader", "problem", f"it does not start at tier {tier}: {error}")
            return
    if verdict.status != "graded":
        yield Finding("grader", "problem", f"it grades nothing at tier {tier}: {verdict.note}")
