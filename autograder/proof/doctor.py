"""Examine this machine: report which requirements of the course it meets and which are missing."""

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
CHROMIUMS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
)
"""The usual names. The first is Chromium without windows, which opens a page in half of the time."""
TIER_WORDS = {
    "A": "a submission sees no network, no other process, and no files except the libraries and its own "
    "empty home",
    "B": "a submission opens no socket, reaches no process, and reads no file but the libraries and its "
    "home; it can see that other files and processes exist",
    "C": "only the container protects this machine: a submission can read and change every file in the "
    "container. `autograder grade` needs --allow-unsafe here",
    "D": "no sandbox: a submission can read and change every file that you can. `autograder grade` needs "
    "--allow-unsafe here. Grade only people you trust, or on a machine that holds nothing else",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check of this machine.

    The level "problem" means that a part of the course will not work until the problem is solved.
    """

    what: str
    level: Level
    says: str


def examine(course: Course | None) -> list[Finding]:
    """Return the findings of all checks, in the order in which they are printed."""
    return [
        _python(),
        *_packages(course),
        _disk(course.root if course else Path()),
        _gradebook(course),
        _chromium(),
        *_isolation(),
    ]


def _python() -> Finding:
    version, required = platform.python_version(), _required_python()
    if "{}.{}.{}".format(*sys.version_info) in required:  # Debian's version may end in a plus sign
        return Finding("Python", "ok", version)
    return Finding("Python", "problem", f"{version}; the course needs {required}")


def _required_python() -> SpecifierSet:
    """Return the versions of Python that the installed course, or its wheel, requires."""
    for name in ("transformers-from-first-principles", "transformers-from-first-principles-autograder"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return SpecifierSet(importlib.metadata.metadata(name)["Requires-Python"])
    return SpecifierSet()


_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;#]+)(?: *; *([^#\n]+))?", re.MULTILINE)


def _packages(course: Course | None) -> Iterator[Finding]:
    """Compare the installed versions with the versions in requirements.txt."""
    path = course.root / "requirements.txt" if course else None
    if path is None or not path.is_file():
        yield Finding("packages", "note", "no requirements.txt here to compare with")
        return
    wrong, missing, right = [], [], 0
    for name, tested, marker in _PIN.findall(path.read_text()):
        if marker and not Marker(marker).evaluate():
            continue  # a package for other machines
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{name}=={tested}")
            continue
        if installed.split("+")[0] == tested:
            right += 1
        else:
            wrong.append(f"{name} {installed} (tested: {tested})")
    if missing:
        yield Finding("packages missing", "problem", f"{', '.join(missing)}. Run: make setup")
    if wrong:
        yield Finding("packages", "note", f"other versions than tested: {', '.join(wrong)}")
    if right:
        yield Finding("packages", "ok", f"{right} have the tested version")


def _disk(root: Path) -> Finding:
    if not os.access(root, os.W_OK):
        why = f"{root.resolve()} cannot be written, so nothing can be graded. Give yourself permission"
        return Finding("disk", "problem", why)
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
        exists = gradebook.exists(course)
    except BadInputError as error:
        return Finding("gradebook", "problem", str(error))
    database = course.db_file.name if course.db_file else databases.describe(course.db_url)
    description = f"{database}, schema {gradebook.expected_revision()}"
    return Finding("gradebook", "ok", description if exists else "none yet; the first grading makes it")


def find_chromium() -> str | None:
    """Return the browser in the variable CHROMIUM, or the first installed program with a usual name.

    Return None if no browser is installed.
    """
    return shutil.which(os.environ.get("CHROMIUM", "")) or next(
        filter(None, map(shutil.which, CHROMIUMS)), None
    )


def _chromium() -> Finding:
    if path := find_chromium():
        return Finding("browser", "ok", f"{path} for the tests of the book")
    install = "Debian: apt install chromium-headless-shell"
    return Finding("browser", "note", f"no Chromium; browser tests are skipped ({install})")


def _isolation() -> Iterator[Finding]:
    from autograder.grading import cages

    held = cages.strongest()
    yield Finding(
        "isolation",
        "ok" if held.tier in cages.SAFE else "problem",
        f"tier {held.tier}: {TIER_WORDS[held.tier]}",
    )
    for tier, missing in held.missing.items():
        yield Finding(f"tier {tier}", "note", f"does not hold: {missing}")
    if held.tier in cages.SAFE:
        yield from _grader(held.tier)


def _grader(tier: str) -> Iterator[Finding]:
    """Grade an empty answer at this tier and yield a problem if the grader fails.

    The grader fails, for example, if the walls hide a library that it needs.
    """
    from autograder import exercises
    from autograder.grading.pair import Pair, PairError, file_task
    from autograder.grading.session import Limits

    with Pair(tier) as pair:
        try:
            verdict = pair.grade(file_task(exercises.names()[0], b"", False, 0, Limits()))
        except PairError as error:
            yield Finding("grader", "problem", f"the grader does not start at tier {tier}: {error}")
            return
    if verdict.status != "graded":
        yield Finding("grader", "problem", f"the grader cannot grade at tier {tier}: {verdict.note}")
