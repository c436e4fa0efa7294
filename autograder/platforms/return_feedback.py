"""Pack the pages of feedback as a platform takes them, one archive for each assignment.

The names in an archive identify the students. They are made from the path that the submission had in the
platform's own archive, which `collect` remembers.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course.errors import BadInputError
from autograder.course.files import replacing, require_writable
from autograder.course.layout import Course
from autograder.platforms.feedback_mail import Mail, find_addresses, require_sender, write_mailbox
from autograder.platforms.history import History
from autograder.roster import people as roster


@dataclass(frozen=True)
class FeedbackArchive:
    """An archive of pages that a platform takes.

    Args:
        path: the pattern in the path that a submission had in the platform's archive.
        member: the name of a page in our archive, from the groups of `path`, the student and the page's name.
        upload: what to do with the archive.
    """

    path: str
    member: str
    upload: str


ARCHIVES = {
    # is_valid_filename_for_import in mod/assign/feedback/file/importziplib.php of moodle/moodle: the number
    # after the first underscore identifies the student, and the assignment must have the plugin.
    "moodle": FeedbackArchive(
        r"(?:[^/]+/)*?(?P<folder>[^/_]+_\d+_assignsubmission_[a-z]+)(?:[_/].*)?",
        "{folder}/{page}",
        "in Moodle choose View all submissions, Upload multiple feedback files in a zip; the assignment "
        "needs the feedback type Feedback files",
    ),
    # infer_comment_context_from_filename in app/models/abstract_assignment.rb of instructure/canvas-lms: the
    # first two numbers are the student's and the handed-in file's, whose name Canvas shows.
    "canvas": FeedbackArchive(
        r"(?:[^/]+/)*?(?P<prefix>(?:LATE_)?anon_(?:LATE_)?[^/_]+_\d+|[^/]+?_\d+_\d+)_[^/]*",
        "{prefix}_{page}",
        "in Canvas open the assignment and choose Upload Submissions; each page becomes a comment under the "
        "name of the notebook that was handed in, so tell your students to save it as .html",
    ),
    # No page of Gradescope's guides has an upload of files for students; its autograder shows the reports.
    "gradescope": FeedbackArchive(
        r".*",
        "{student}/{page}",
        "Gradescope takes no files for students; share each folder with its student in another way",
    ),
}
"""The archives by platform. The outermost match in a path counts, since students choose the names inside."""
MAIL = "mail"
PLATFORMS = (*ARCHIVES, MAIL)
_SEND = "nothing was sent; open the mailbox with your mail program, or run: formail -s sendmail -t < FILE"


@dataclass
class Returned:
    """The result of packing.

    Args:
        upload: what to do with the archives.
        remedy: what to do about students who are left out.
        archives: the archives with the number of students in each.
        left_out: the students who are in no archive, each with the reason.
        elsewhere: how many students handed in through another platform that takes an archive, by platform.
    """

    upload: str
    remedy: str
    archives: dict[Path, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    elsewhere: Counter[str] = field(default_factory=Counter)


def require_known(platform: str, sender: str = "") -> None:
    """Check the platform and the sender of mails.

    Raises:
        BadInputError: there is no archive for the platform, or the sender is not an e-mail address.
    """
    if sender and platform != MAIL:
        raise BadInputError(f"--sender is the sender of mails, so it needs --for {MAIL}.")
    if platform not in PLATFORMS:
        raise BadInputError(f"no platform is called {platform!r}. The platforms are: {', '.join(PLATFORMS)}.")
    require_sender(sender)


def pack(course: Course, platform: str, pages: Iterable[Path], into: Path, sender: str = "") -> Returned:
    """Pack pages of feedback for a platform, each assignment in an archive of its own.

    Args:
        course: the course.
        platform: one of `PLATFORMS`.
        pages: the pages, ``<student>/<assignment>/<notebook>.html`` in the course's folder of feedback.
        into: the folder to write the archives into.
        sender: the sender of mails; the mail program's own address, if empty.

    Raises:
        BadInputError: the platform is not known, or the folder cannot be written.
    """
    require_known(platform, sender)
    require_writable(into)
    by_assignment: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for page in sorted(pages):
        student, assignment, _ = page.relative_to(course.feedback).parts
        by_assignment[assignment][student].append(page)
    if platform == MAIL:
        returned = Returned(_SEND, "enter a class list with their addresses: autograder roster import FILE")
    else:
        remedy = f"collect the archive from {platform.capitalize()} once more, then run this again"
        returned = Returned(ARCHIVES[platform].upload, remedy)
    known = roster.read(course).known if platform == MAIL else ()
    people = {person.student: person for person in known}
    elsewhere: set[tuple[str, str]] = set()
    for assignment, by_student in sorted(by_assignment.items()):
        if platform == MAIL:
            target = into / f"feedback-{assignment}.mbox"
            addresses, left_out = find_addresses(list(by_student), people)
            mails = [Mail(to, assignment, tuple(by_student[student])) for student, to in addresses.items()]
            if mails:
                with replacing(target) as temporary:
                    write_mailbox(temporary, mails, sender)
        else:
            target = into / f"feedback-{platform}-{assignment}.zip"
            history = History(course, assignment)
            came_from = {student: history.version(student, None).platform for student in by_student}
            others = {s: one for s, one in came_from.items() if one in ARCHIVES and one != platform}
            if platform != "gradescope":  # its folders take the pages of all
                elsewhere |= others.items()
                by_student = {s: by_student[s] for s in by_student if s not in others}
            members, left_out = _members(platform, by_student, history)
            if members:
                with replacing(target) as temporary:
                    _write_zip(temporary, members)
        if count := len(by_student) - len(left_out):
            returned.archives[target] = count
        returned.left_out += [f"{student}, {assignment}: {why}" for student, why in left_out.items()]
    returned.elsewhere = Counter(sorted(platform for _, platform in elsewhere))
    return returned


def _members(
    platform: str, by_student: Mapping[str, list[Path]], history: History
) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the pages by their names in the archive, and the reasons by student without a place in it."""
    archive = ARCHIVES[platform]
    members: dict[str, Path] = {}
    left_out: dict[str, str] = {}
    for student, pages in by_student.items():
        version = history.version(student, None)
        match = re.fullmatch(archive.path, version.path)
        if match is None:
            known = version.platform
            source = "a folder" if known == "folder" else known
            where = f"was collected from {source}" if known else "was not collected from an archive"
            left_out[student] = f"the notebook {where}, so its place in {platform.capitalize()} is not known"
            continue
        names = {
            archive.member.format(student=student, page=page.name, **match.groupdict()): page
            for page in pages
        }
        if names.keys() & members.keys():
            same = f"another student's page has the same name in the archive, {min(names)}"
            left_out[student] = f"{same}; send it by mail: --for mail"
            continue
        members |= names
    return members, left_out


def _write_zip(path: Path, members: Mapping[str, Path]) -> None:
    """Write a zip archive; the same pages give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, page in members.items():
            info = zipfile.ZipInfo(name)  # dated 1980
            info.external_attr = 0o644 << 16
            archive.writestr(info, page.read_bytes(), zipfile.ZIP_DEFLATED)
