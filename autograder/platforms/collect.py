"""Copy submissions from a learning platform to ``submitted/<student>/<assignment>/<notebook>.ipynb``.

Every entry of the archive is accounted for, and each notebook that another replaces is kept.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.course.class_list import Roster, squeeze
from autograder.course.errors import BadInputError
from autograder.course.files import read_record, require_writable, write_atomically, write_if_changed
from autograder.course.layout import Course
from autograder.course.lock import require_no_move
from autograder.course.visible import one_line
from autograder.platforms import identification
from autograder.platforms.account import Collected
from autograder.platforms.archives import UNREADABLE, Archive, File, read
from autograder.platforms.choice import Candidate, Choice, Release, choose, has_work, is_another
from autograder.platforms.formats import FORMATS
from autograder.platforms.history import History, Version
from autograder.platforms.identification import Grouped, HandedIn
from autograder.platforms.metadata import in_utc, written_time
from autograder.release import publish
from autograder.roster import move, people, traces


def collect(
    course: Course,
    assignment: str,
    source: Path,
    into: Path,
    platform: str | None = None,
    names: Path | None = None,
    timezone: str | None = None,
) -> Collected:
    """Copy the notebooks of one assignment from an archive or a folder to the folder of submissions.

    Args:
        course: the course.
        assignment: the name of the assignment.
        source: the zip archive from the platform, or a folder.
        into: the folder of submissions.
        platform: a name in `FORMATS`; by default the paths of the files determine it.
        names: a CSV table with the columns `file` and `student`, for files whose paths name nobody.
        timezone: the time zone of times without one; by default this computer's.

    Raises:
        BadInputError: the source cannot be read or its layout is unknown. No file has changed then.
    """
    releases = [Release(name, data) for name, data in sorted(publish.notebooks(course, assignment).items())]
    wanted = [release.name for release in releases]
    require_no_move(course)
    zone = _zone(timezone)
    _require_source(course, source, platform)
    done = Collected(platform or "")
    with Archive(source) as archive:
        files = _readable(done, archive)
        if not files:
            why = f" that can be read ({done.problems[0]})" if done.problems else ""
            raise BadInputError(f"{source} holds no notebook{why}. Name the archive from the platform.")
        roster, history = people.read(course), History(course, assignment)
        same, knows = _is_same(roster), _knows(roster, assignment, history.beginnings("github"))
        found = identification.group_by_student(files, wanted, assignment, platform, names, zone, same, knows)
        done.platform = found.platform
        done.remarks += found.remarks
        _record_others(done, found)
        _leave_out_test_student(done, found)
        others = {path.stem for path in course.solutions.glob("*/*.ipynb")} - {*wanted}
        downloaded = archive.newest_entry if found.stamped_by_download else ""
        by_student = sorted(_by_ids_of_the_class_list(done, course, roster, found, into, assignment).items())
        if platform is None and found.platform == "folder" and len(by_student) == 1:
            _refuse_several_people(by_student[0][1], releases, others)
        for folder in (into, course.state):
            require_writable(folder)
        try:
            for student, items in by_student:
                notebooks = _notebooks(done, student, items)
                choices = [
                    (release, choose(release, notebooks, others, len(wanted) == 1))
                    for release in (releases if notebooks else ())
                ]
                _record_choices(done, student, choices, notebooks)
                for release, choice in choices:
                    if choice.chosen:
                        folder = into / student / assignment
                        _write_notebook(done, history, folder, release, choice, downloaded)
        finally:  # saved even if the run stops: an older archive must replace nothing
            if history.known:
                history.save()
    _add_common_remarks(done)
    return done


def _add_common_remarks(done: Collected) -> None:
    """Add one remark of each kind, with the names of all its students."""
    if done.unread_times:
        who = ", ".join(f"{student} ({text!r})" for student, text in done.unread_times.items())
        done.remarks.append(
            f"submissions that do not count as late, since their time cannot be read: {who}; write each time "
            "into the student's timestamp.txt, such as 2026-03-07 18:00:00 UTC"
        )
    if done.kept_times:
        who = ", ".join(dict.fromkeys(done.kept_times))
        done.remarks.append(
            f"kept the times of {who}; to read them again from the archive, delete their timestamp.txt and "
            "collect again"
        )
    if done.blank:
        who = "students who handed in the released notebook without any work"
        done.remarks.append(f"{who}: {', '.join(done.blank)}")


def _by_ids_of_the_class_list(
    done: Collected, course: Course, roster: Roster, found: Grouped, into: Path, assignment: str
) -> dict[str, list[HandedIn]]:
    """Return the files by student, under the ids of the class list where it knows a student by another name.

    Two names of one person stay apart, and so does a name under which work was collected before.
    """
    is_numbered = found.platform in move.NUMBERED
    moved = read_record(course.state / traces.NAMES / f"{assignment}.json") if is_numbered else {}
    ids = {name: student for student, names_before in moved.items() for name in names_before}
    names: dict[str, list[str]] = defaultdict(list)
    strangers = []
    for name in found.by_student:
        known = roster.find(name, is_numbered=is_numbered)
        student = ids.get(name) or (known.student if known else name)
        names[name if (into / name / assignment).exists() else student].append(name)
        if name not in ids and (known is None or not known.is_described):
            strangers.append(name)
    if strangers and any(person.name or person.email for person in roster.known):
        done.remarks.append(
            f"names that fit no student of the class list, or two: {', '.join(sorted(strangers))}. "
            "To assign the work to a student of the list, run: autograder merge NAME ID"
        )
    by_student: dict[str, list[HandedIn]] = {}
    for student, known_as in names.items():
        if len(known_as) > 1:
            done.remarks.append(
                f"{' and '.join(sorted(known_as))} may be one student, {student}; if so, run: autograder "
                "roster unite"
            )
            by_student |= {name: found.by_student[name] for name in known_as}
        else:
            items = found.by_student[known_as[0]]
            by_student[student] = [replace(item, student=student) for item in items]
    return by_student


def _is_same(roster: Roster) -> Callable[[str, str], bool]:
    """Return a function that decides whether a name may be the student in the table of names."""

    def is_same(name: str, student: str) -> bool:
        known, named = roster.find(name), roster.find(student)
        return known is None or named is None or not known.is_described or known.student == named.student

    return is_same


def _knows(roster: Roster, assignment: str, beginnings: set[str]) -> identification.Knows:
    """Return a function that rates how likely the end of a folder's name is a student's id.

    The rating is 2 if the beginning is the name of the assignment, or if folders that were collected before
    had the same beginning. It is 1 if the class list has the id, else 0.
    """

    def knows(folder: str, student: str) -> int:
        beginning = folder.removesuffix(student)
        if beginning in beginnings or squeeze(beginning) == squeeze(assignment):
            return 2
        return int(roster.find(student, is_numbered=False) is not None)

    return knows


def _require_source(course: Course, source: Path, platform: str | None) -> None:
    if platform is not None and platform not in FORMATS:
        raise BadInputError(f"no platform is called {platform!r}. The platforms are: {', '.join(FORMATS)}.")
    course_folders = (course.root, course.solutions, course.notebooks)
    if any(folder.resolve().is_relative_to(source.resolve()) for folder in course_folders):
        raise BadInputError(
            f"{source} is the course itself and does not hold submissions. Name the platform's archive, "
            "or the folder that you unpacked it into."
        )


def _zone(timezone: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(timezone) if timezone else None
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInputError(f"no time zone is called {timezone!r}. Write one like Europe/Berlin.") from error


def _readable(done: Collected, archive: Archive) -> list[File]:
    """Return the files of an archive that can be read; record the others."""
    files = []
    for entry in archive.entries():
        if isinstance(entry, File):
            files.append(entry)
        elif entry.expected:
            done.record(str(entry.path), "own", entry.reason)
        else:
            done.record(str(entry.path), "undecided", entry.reason)
            done.problems.append(f"left out {str(entry.path)!r}: {entry.reason}")
    return files


def _record_others(done: Collected, found: Grouped) -> None:
    """Record the platform's own files, and files whose student is unknown."""
    for file in found.own:
        done.record(file.entry, "own", f"{found.platform} adds it")
    for file, reason in found.unknown:
        done.record(file.entry, "undecided", reason)
        done.problems.append(f"{file.entry}: {reason}; {identification.BY_HAND}")
    for item in found.others:
        done.record(item.file.entry, "older", "the table names another file of the student", item.student)


def _leave_out_test_student(done: Collected, found: Grouped) -> None:
    """Leave out the student that a teacher can act as, who is not in the class, and add a remark."""
    if found.platform not in FORMATS:  # a table names the students
        return
    for student in [*found.by_student]:
        if re.fullmatch(FORMATS[found.platform].test_student, student):
            for item in found.by_student.pop(student):
                done.record(item.file.entry, "own", "it belongs to the platform's test student", student)
            done.remarks.append(
                f"{student}: left out, since it is {found.platform.capitalize()}'s test student"
            )


def _notebooks(done: Collected, student: str, handed: list[HandedIn]) -> list[Candidate]:
    """Return a student's notebooks. Record the other files, and a student without notebooks as a problem."""
    notebooks = [item for item in handed if item.file.is_notebook and not item.draft and not item.instead]
    instead = []
    for item in handed:
        if item in notebooks:
            continue
        if item.draft and item.file.is_notebook:
            what, outcome = f"a draft that was not handed in ({item.name})", "older"
        else:
            what, outcome = _describe(item), "no_notebook"
        done.record(item.file.entry, outcome, what, student)
        instead.append(what)
    if not notebooks:
        what = ", ".join(sorted(set(instead))) or "no file"
        done.problems.append(f"{student}: handed in no usable notebook, but {what}")
    return [Candidate(item) for item in notebooks]


def _describe(item: HandedIn) -> str:
    """Describe a file that is not a notebook: a link with its target, a pasted text, or its name."""
    name = one_line(item.name)
    if item.file.path.suffix.casefold() not in (".html", ".htm"):
        return f"{item.instead} ({name})" if item.instead else name
    try:
        text = read(item.file)[:10_000].decode("utf8", "replace")
    except UNREADABLE:
        text = ""
    target = re.search(r"""http-equiv=["']?refresh["'][^>]*?url=([^"'>\s]+)""", text, re.IGNORECASE)
    if target or item.instead == "a link":
        return f"a link{f' to {one_line(target[1][:200])}' if target else ''} ({name})"
    return f"{item.instead or 'a page'} ({name})"


def _refuse_several_people(handed: list[HandedIn], releases: list[Release], others: set[str]) -> None:
    """Refuse a folder with different work in it: nothing shows that all of it is one student's work.

    Raises:
        BadInputError: there are several notebooks with work.
    """
    notebooks = [Candidate(item) for item in handed if item.file.is_notebook]
    mine = [item for item in notebooks if not is_another(item.file.stem, others)]
    for release in releases:
        work = [
            item
            for item in mine
            if not item.is_blank(release)
            and (item.content.error or release.is_named_by(item.file.stem) or release.resembles(item.content))
        ]
        if len({item.content.sources or item.content.data for item in work}) > 1:
            raise identification.several_people_error([item.file.file.entry for item in notebooks])


def _record_choices(
    done: Collected, student: str, choices: list[tuple[Release, Choice]], handed: list[Candidate]
) -> None:
    """Record the outcome of each of a student's notebooks, with remarks and problems for the teacher."""
    for release, choice in choices:
        for item, reason in choice.losers:
            done.record(item.file.file.entry, "older", reason, student)
        if choice.problem:
            done.problems.append(f"{student}: {choice.problem}")
            for item in choice.different or handed:
                done.record(item.file.file.entry, "undecided", choice.problem, student)
        if chosen := choice.chosen:
            if not release.is_named_by(chosen.file.stem):
                done.remarks.append(f"{student}: {chosen.file.name} is collected as {release.name}.ipynb")
            if chosen.file.late:
                done.remarks.append(f"{student}: the platform marks the submission as late")
            if choice.blank:
                done.blank.append(student)
            if chosen.content.error:
                name, why = chosen.file.name, chosen.content.error
                done.remarks.append(f"{student}: {name} cannot be graded: {why}")
    for item in handed:
        if item.file.file.entry not in done.entries and all(
            choice.chosen is not item for _, choice in choices
        ):
            reason = "the student's notebook of the assignment is another file"
            done.record(item.file.file.entry, "older", reason, student)


def _write_notebook(
    done: Collected,
    history: History,
    folder: Path,
    release: Release,
    choice: Choice,
    downloaded: str,
) -> None:
    """Write a notebook unless the folder holds a later one; keep the notebook that it replaces."""
    item, path, stamp = choice.chosen, folder / f"{release.name}.ipynb", folder / "timestamp.txt"
    assert item is not None
    assert item.content.data is not None
    student, entry, data, time = item.file.student, item.file.file.entry, item.content.data, item.file.time
    before = stamp.read_text(errors="replace").strip() if stamp.is_file() else ""
    present, version = (
        history.version(student, in_utc(written_time(before))),
        Version(done.platform, time, item.file.order, downloaded, entry),
    )
    written = path.read_bytes() if path.is_file() else None
    path_in_course = os.path.relpath(folder.parents[1] / path.name, history.course.root)
    if written == data:
        done.unchanged.append(student)
        done.record(entry, "unchanged", "", student)
        if time and not before:
            write_if_changed(stamp, _line(time))
        elif item.file.is_in_named_zone and time != present.time:
            done.kept_times.append(student)
        _record_unread_time(done, student, stamp, item.file)
        if not version.is_before(present):
            history.remember(student, version, path_in_course, data)
        return
    if written is not None and history.was_last_collected(student, path_in_course, data, present, version):
        why = "which was changed after this version was collected"
        done.unchanged.append(student)
        done.remarks.append(
            f"{student}: kept the present notebook, {why}; to take this version again, delete {path} and "
            "collect again"
        )
        done.record(entry, "unchanged", f"the present notebook is kept, {why}", student)
        return
    if written is not None and (why := _is_older(history, student, present, version, data)):
        done.remarks.append(f"{student}: kept the present notebook, {why}{f' ({before})' if before else ''}")
        done.record(entry, "older", f"the present notebook is kept, {why}", student)
        return
    if written is not None and choice.blank and has_work(release, written):
        why = "the new one is the released notebook without any work"
        done.remarks.append(f"{student}: kept the present notebook; {why}")
        done.record(entry, "older", f"the present notebook is kept; {why}", student)
        return
    if written is not None:
        when = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%S")
        history.course.make_private()
        write_atomically(history.replaced_folder(student) / f"{when}-{path.name}", written)
    _write_time(done, student, stamp, before, time)  # first: an interrupted run replaces the notebook again
    _record_unread_time(done, student, stamp, item.file)
    write_atomically(path, data)
    (done.written if written is None else done.replaced).append(student)
    done.record(entry, "taken", "", student)
    history.remember(student, version, path_in_course, data)


def _write_time(done: Collected, student: str, stamp: Path, before: str, time: datetime | None) -> None:
    """Write the time of a new version, or remove the time of the version that it replaces."""
    if time:
        write_if_changed(stamp, _line(time))
    elif stamp.is_file():
        done.remarks.append(
            f"{student}: the new version has no time, and the time of the replaced version "
            f"({before}) was removed; if the new version was late, write its time into timestamp.txt"
        )
        stamp.unlink()


def _record_unread_time(done: Collected, student: str, stamp: Path, file: HandedIn) -> None:
    if file.unread_time is not None and not stamp.is_file():
        done.unread_times[student] = file.unread_time


def _is_older(history: History, student: str, present: Version, version: Version, data: bytes) -> str:
    """Return why the present notebook is kept, or an empty text if the new version is newer."""
    if version.is_before(present):
        return "which was handed in later"
    if not present.is_before(version) and history.was_replaced(student, data):
        return "which has replaced this version before"
    return ""


def _line(time: datetime) -> bytes:
    """Return the line of ``timestamp.txt``."""
    return f"{time.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f UTC')}\n".encode()
