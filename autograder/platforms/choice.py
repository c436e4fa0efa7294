"""Choose the notebook that counts among all notebooks that a student handed in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from rapidfuzz import fuzz

from autograder.course.cells import marks_of
from autograder.grading.matching import UnreadableError, read_notebook
from autograder.platforms.archives import UNREADABLE, read
from autograder.platforms.identification import HandedIn

NEARLY, PART = 80, 5_000
"""Two texts count as the same if their first `PART` characters are at least `NEARLY` percent alike."""
_COPY = re.compile(r"(?i:(?:-copy|-kopie)\d*| ?\(\d+\)|[-_]\d+| - (?:copy|kopie|copie)|[-_ ]final)$")
"""The suffixes that platforms, browsers, editors and people add to the name of a copy."""


class Release:
    """A released notebook, to be compared with by its cells' sources."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        cells = json.loads(data)["cells"]
        marks = [(cell, marks_of(cell)) for cell in cells]
        self.sources = {cell["source"].strip() for cell in cells}
        self.given = [cell["source"].strip() for cell, mark in marks if not mark.get("solution")]
        self.ids = {mark["grade_id"] for _, mark in marks if "grade_id" in mark}

    def is_named_by(self, stem: str) -> bool:
        """Return whether a file's name contains the name of this notebook as a word of its own.

        A digit or letter directly beside it makes it another name.
        """
        return bool(re.search(rf"(?<![^\W_]){re.escape(self.name)}(?![^\W_])", stem, re.IGNORECASE))

    def has_work(self, sources: Iterable[str]) -> bool:
        """Return whether a cell has new text: not a released source, and not nearly a given cell's source."""
        new = set(sources) - self.sources - {""}
        return any(
            all(fuzz.ratio(source[:PART], given[:PART]) < NEARLY for given in self.given) for source in new
        )

    def resembles(self, content: Content) -> bool:
        """Return whether a notebook has half of the release's marked cells, or half of its sources."""
        shared_ids, shared = self.ids & content.ids, self.sources & set(content.sources)
        return 2 * len(shared_ids) >= len(self.ids) or 2 * len(shared) >= len(self.sources)


@dataclass(frozen=True)
class Content:
    """The content of a handed-in file.

    Args:
        sources: the sources of a notebook's cells; empty if it is not a notebook.
        ids: the names of its marked cells.
        data: the bytes.
        error: the reason why the file cannot be read as a notebook.
    """

    sources: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()
    data: bytes | None = None
    error: str = ""


@dataclass(frozen=True)
class Candidate:
    """A file that may be a student's work, with its content."""

    file: HandedIn

    @cached_property
    def content(self) -> Content:
        try:
            data = read(self.file.file)
        except UNREADABLE as error:
            return Content(error=str(error))
        try:
            cells = read_notebook(data)["cells"]
        except UnreadableError as error:
            return Content(data=data, error=str(error))
        ids = frozenset(cell["grade_id"] for cell in cells if cell["grade_id"])
        return Content(tuple(cell["source"].strip() for cell in cells), ids, data)

    def is_blank(self, release: Release) -> bool:
        return not self.content.error and not release.has_work(self.content.sources)


def has_work(release: Release, data: bytes) -> bool:
    """Return whether a notebook is not just the released one."""
    try:
        cells = read_notebook(data)["cells"]
    except UnreadableError:
        return True
    return release.has_work(cell["source"].strip() for cell in cells)


@dataclass
class Choice:
    """The file chosen for a notebook of the assignment, and the reasons against the other files.

    Args:
        chosen: the file that counts, or None.
        losers: the other files, each with the reason.
        problem: why nothing was chosen.
        blank: whether the chosen file is the released notebook without any work.
        different: the files with different work.
    """

    chosen: Candidate | None = None
    losers: list[tuple[Candidate, str]] = field(default_factory=list)
    problem: str = ""
    blank: bool = False
    different: list[Candidate] = field(default_factory=list)


def choose(release: Release, handed: list[Candidate], others: set[str], is_only: bool) -> Choice:
    """Return the file that counts for a notebook of an assignment.

    A file with work in it goes before the released notebook, whatever its name; then the latest counts. A
    file with another name is considered only if it resembles the notebook, or if it is the only file.

    Args:
        release: the released notebook.
        handed: the notebooks that one student handed in.
        others: the names of other assignments' notebooks.
        is_only: whether the assignment has no other notebook.
    """
    unnamed = [item for item in handed if not is_another(item.file.stem, others)]
    rivals = [item for item in unnamed if release.is_named_by(item.file.stem)]
    rivals += [item for item in unnamed if item not in rivals and release.resembles(item.content)]
    if not rivals and is_only and len({item.file.stem for item in unnamed}) == 1:
        rivals = unnamed
    if not rivals:
        names = ", ".join(sorted({item.file.name for item in handed}))
        return Choice(problem=f"{release.name}.ipynb is missing; handed in: {names}")
    readable = [item for item in rivals if item.content.data is not None]
    if not readable:
        why = "; ".join(
            f"{item.file.file.path.name} cannot be read ({item.content.error})" for item in rivals
        )
        return Choice(problem=f"{why}; ask for the file again")
    return _latest(release, rivals, readable)


def is_another(stem: str, others: set[str]) -> bool:
    """Return whether a file is called like the notebook of another assignment."""
    plain = stem
    while (shorter := _COPY.sub("", plain)) != plain:
        plain = shorter
    return {stem.casefold(), plain.casefold()} & {other.casefold() for other in others} != set()


def _latest(release: Release, rivals: list[Candidate], readable: list[Candidate]) -> Choice:
    blank = {id(item): item.is_blank(release) for item in readable}
    with_work = [item for item in readable if not blank[id(item)]]
    finalists = with_work or readable
    newest = max(_order(item) for item in finalists)
    latest = [item for item in finalists if _order(item) == newest or item.file.unread_time is not None]
    different = list({item.content.sources or item.content.data: item for item in reversed(latest)}.values())
    sound = [item for item in different if not item.content.error]
    if len(sound) == 1:
        different = sound
    if len(different) > 1 and with_work:
        paths = ", ".join(sorted(item.file.file.entry for item in latest))
        several = f"several notebooks for {release.name}.ipynb"
        which = f"{several}, and the archive does not show which is the latest: {paths}"
        problem = f"{which}; name the right one, and its student, with --names"
        return Choice(problem=problem, different=different)
    chosen = min(
        (item for item in latest if item.content.sources == different[0].content.sources),
        key=lambda item: (item.file.time is None, item.file.stem != release.name, item.file.file.entry),
    )
    choice = Choice(chosen, blank=not with_work, different=different)
    for item in rivals:
        if item is not chosen:
            choice.losers.append((item, _reason(item, chosen, bool(blank.get(id(item))))))
    return choice


def _order(item: Candidate) -> tuple[float, int]:
    return item.file.time.timestamp() if item.file.time else 0.0, item.file.order


def _reason(item: Candidate, chosen: Candidate, blank: bool) -> str:
    if item.content.data is None:
        return f"it cannot be read ({item.content.error})"
    if blank and chosen.content.sources != item.content.sources:
        return "the released notebook without any work"
    same = item.content.sources == chosen.content.sources
    return f"the same work as {chosen.file.file.entry}" if same else f"older than {chosen.file.file.entry}"
