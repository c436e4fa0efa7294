"""Declare how each platform names the files of an archive of submissions.

A new platform is a row of `FORMATS`; ``tests/grading/platform_archives.py`` makes an archive of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from autograder.platforms import metadata
from autograder.platforms.archives import File
from autograder.platforms.metadata import Metadata

Parts = dict[str, str]
"""What the named groups of a pattern found, without the empty ones."""


@dataclass(frozen=True)
class Format:
    """How a platform names the files of an archive.

    Args:
        name: the name for ``--from``.
        source: the documentation or open source that the format is from.
        pattern: a pattern of paths, below the folders that all files share. `file` is the name that the
            student gave; `name`, `id`, `login` and `anonymous` identify the student; `time` or `order` give
            the latest of several files; `late` is the platform's mark; `text` and `link` were handed in
            instead of a file. ``{notebook}`` is the name of a wanted notebook.
        student: makes the student's id from these parts.
        time: reads the part `time`. A time without a zone is a local time of the platform.
        sign: the part that every path has. A file whose path lacks it is a draft, not handed in.
        own: a pattern of the paths that the platform adds itself.
        metadata: reads the platform's own files, if they contain more than the paths.
        specific: whether the pattern fits no other layout, so that it is searched for at every level.
        entry_times: whether each entry of a zip archive has the time of its submission.
        stamped_by_download: whether each entry has the time of the download.
        copies_ascend: whether the later of two files of one name has the higher number: ``name (2).ipynb``.
        test_student: a pattern of the id of the student that a teacher can act as.
    """

    name: str
    source: str
    pattern: str
    student: Callable[[Parts], str]
    time: Callable[[str], datetime | None] = lambda text: None
    sign: str = "file"
    own: str = "(?!)"
    metadata: Callable[[list[File]], Metadata] = lambda files: Metadata()
    specific: bool = True
    entry_times: bool = False
    stamped_by_download: bool = False
    copies_ascend: bool = False
    test_student: str = "(?!)"

    def matcher(self, wanted: list[str]) -> re.Pattern[str]:
        """Return the pattern for an assignment with these notebooks."""
        return re.compile(self.pattern.replace("{notebook}", f"(?i:{'|'.join(map(re.escape, wanted))})"))

    @cached_property
    def own_files(self) -> re.Pattern[str]:
        return re.compile(self.own)


def parts_of(match: re.Match[str]) -> Parts:
    """Return the nonempty parts of a path; a group whose name ends with _ is another place for its part."""
    found = {name.rstrip("_"): value for name, value in match.groupdict().items() if value}
    return {**found, "file": found.get("stem", "") + found.get("file", "")}


def _name_and_id(parts: Parts) -> str:
    """Return the name with the platform's number, since two students may share a name."""
    return "_".join(part for part in (parts.get("name"), parts.get("id")) if part)


def _canvas_student(parts: Parts) -> str:
    return parts.get("anonymous") or _name_and_id(parts)


def _ilias_student(parts: Parts) -> str:
    """Return the login, or the whole folder where underscores in names leave open where the login begins."""
    folder = parts["name"]
    return folder.split("_")[2] if folder.count("_") == 3 else folder


def _only_name(parts: Parts) -> str:
    return parts.get("name", "")


_TAIL = r"(?:.*/)?(?P<file>[^/]+)"
_PLAIN = r"(?:(?! - )[^/])*?"
_CLOCK = rf"{_PLAIN}\d{{4}}{_PLAIN} \d{{3,4}}(?: ?[AaPp]\.?[Mm]\.?)?"
_DATED = r"(?=[^/+]*(?:\d\d[^\d/+]\d\d|\d{6}))"
_VERSION = r"(?i:vers\w*|wersja|verze|версия|バージョン|版本) ?"
_COPY = r"(?i:copy|kopie|copie|copia|final|\d+)"

FORMATS = {
    row.name: row
    for row in (
        Format(
            "blackboard",
            "github.com/kwurst/bb-file-cleanup, github.com/timdrysdale/gradex-cli (the receipts), and "
            "nbgrader's documentation of zip_collect",
            r"(?P<name>[^/]+?)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>[^/]+)|(?P<text>\.txt))",
            _only_name,
            time=metadata.blackboard_time,
            metadata=metadata.blackboard,
        ),
        Format(
            "canvas",
            "Canvas, lib/content_zipper.rb",
            r"(?:(?:(?P<late>LATE)_)?(?P<anonymous>anon_[^\W_]+)"
            r"|(?P<name>[^/]+?)_(?:(?P<late_>LATE)_)?(?P<id>\d+))"
            r"_(?:(?P<order>\d+)_(?P<file>[^/]+)|(?P<text>text\.html)|(?P<link>link\.html))",
            _canvas_student,
            stamped_by_download=True,
            test_student=r"studenttest_\d+",  # "Student, Test" in the gradebook
        ),
        Format(
            "moodle",
            "Moodle, mod/assign/classes/downloader.php",
            r"(?P<name>[^/_]+?)(?:_(?P<id>\d+))?_assignsubmission_"
            r"(?:onlinetext(?:_?/|_)(?P<text>[^/]+)|[a-z]+(?:_?/(?:.*/)?|_)(?P<file>[^/]+))",
            _name_and_id,
            stamped_by_download=True,
        ),
        Format(
            "brightspace",
            "github.com/cgmb/d2lmf (folders) and github.com/OfficeCoffee/GradingFileProject (flat)",
            r"(?P<number>\d+)-\d+ - (?:(?P<login>[A-Za-z]{0,2}\d{4,}) - )?(?P<name>[^/]+?) - "
            rf"(?P<time>{_CLOCK})(?: - (?P<file>[^/]+)|/(?:.*/)?(?P<file_>[^/]+))",
            lambda parts: parts.get("login") or f"{parts['name']}_{parts['number']}",
            time=metadata.written_time,
            own=r"index\.html",
        ),
        Format(
            "gradescope",
            "an export of submissions with its submission_metadata.yml",
            rf"submission_(?P<id>\d+)/{_TAIL}",
            lambda parts: f"_{parts['id']}",
            metadata=metadata.gradescope,
        ),
        Format(
            "exchange",
            "nbgrader, exchange/default/submit.py; an id may contain a +, the name of an assignment may not",
            rf"(?P<name>[^/]+?)\+[^/+]+\+(?P<time>{_DATED}[^/+]+(?:\+\d\d(?::?\d\d)?)?)"
            rf"(?:\+[^/+]*)?/{_TAIL}",
            _only_name,
            time=metadata.written_time,
            own=r"[^/]+/(?:timestamp|submission_secret)\.txt",
        ),
        Format(
            "teams",
            "github.com/lwchkg/teams_assignment_explorer",
            rf"(?:(?P<box>[^/]+)/)??(?P<name>[^/]+)/[^/]+/(?:{_VERSION}(?P<order>\d+)/)?(?P<file>[^/]+)",
            _only_name,
            sign="order",
        ),
        Format(
            "ilias",
            "ILIAS, Modules/Exercise/classes/class.ilExSubmission.php",
            r"(?!Feedback_files/)(?:[^/]+/)??(?:(?P<team>[^/]+ \d+)/)?(?P<name>[^/\d_]*_[^/\d]*_[^/]+_\d+)/"
            r"(?:(?P<late>(?:Late Submission|Versp(?:ä|ae?)tete Abgabe)) - )?(?P<file>[^/]+)",
            _ilias_student,
            own=r"Feedback_files/.*|[^/]+\.(?:xlsx?|csv|xml)",
            entry_times=True,
            copies_ascend=True,
        ),
        Format(
            "github",
            "the clones that GitHub Classroom makes: a folder <assignment>-<login> for each repository",
            rf"(?P<name>[^/]+-[^/]+)/{_TAIL}",
            _only_name,
            specific=False,
        ),
        Format(
            "google",
            "no documentation says how Google Classroom names files in Drive; only a file whose name has the "
            "assignment on one side of a dash and a person on the other is taken",
            r"(?P<name>[^/]+?) - (?P<file>[^/]*{notebook}[^/]*)"
            rf"|(?P<stem>[^/]*{{notebook}}[^/]*?) - (?!{_COPY}\W)(?P<name_>[^/]+?)"
            r"(?: ?\(\d+\))?(?P<file_>\.[^/.]+)",
            _only_name,
            specific=False,
        ),
        Format(
            "folder",
            "a folder for each student, as in nbgrader's submitted/",
            rf"(?P<name>[^/]+)/{_TAIL}",
            _only_name,
            own=r"(?:.*/)?timestamp\.txt",
            metadata=metadata.timestamps,
            specific=False,
        ),
    )
}
"""The formats of archives, in the order in which they are tried."""
