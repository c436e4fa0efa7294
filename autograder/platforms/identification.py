"""Find out whose file each entry of an archive is, and when it was handed in."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path, PurePosixPath

from autograder.course import student_ids
from autograder.course.errors import BadInputError
from autograder.course.tables import read_table, unguard
from autograder.platforms.archives import File
from autograder.platforms.formats import FORMATS, Format, Parts, parts_of
from autograder.platforms.metadata import Metadata, common_prefix

Names = dict[str, list[str]]
"""The students of the files that a table lists, by the path of the file."""
Knows = Callable[[str, str], int]
"""A function of a folder's name and the end of that name. It returns how likely the end is a student's id."""
NO_NAME = "the name does not identify a student"
BY_HAND = "copy the file by hand, or say whose it is with --names"
DOWNLOAD = timedelta(hours=1)
"""Entries whose times are all within this span have the time of the download."""


@dataclass(frozen=True)
class HandedIn:
    """A file that a student handed in.

    Args:
        student: the student's id.
        file: the file.
        name: the name that the student gave to the file.
        time: when it was handed in, in UTC, if the archive gives it.
        unread_time: the text of a time in the archive that cannot be read, else None.
        order: the place among a student's files, if the archive gives one: the greater is the later.
        late: whether the platform marks it as late.
        instead: ``a link`` or ``a pasted text``, if the student handed in one of these instead of a file.
        draft: whether it was not handed in.
        is_in_named_zone: whether the archive gives the time without a time zone, and `--timezone` named it.
    """

    student: str
    file: File
    name: str
    time: datetime | None = None
    order: int = 0
    late: bool = False
    instead: str = ""
    draft: bool = False
    unread_time: str | None = None
    is_in_named_zone: bool = False

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


@dataclass
class Grouped:
    """The files of an archive by the platform that named them, and by student."""

    platform: str
    by_student: dict[str, list[HandedIn]] = field(default_factory=lambda: defaultdict(list))
    own: list[File] = field(default_factory=list)
    """The platform's own files."""
    stamped_by_download: bool = False
    """True if each entry has the time of the download."""
    unknown: list[tuple[File, str]] = field(default_factory=list)
    """Files whose student is unknown, each with the reason."""
    others: list[HandedIn] = field(default_factory=list)
    """Files that do not count, since the table names another file of the same student."""
    remarks: list[str] = field(default_factory=list)


def group_by_student(
    files: list[File],
    wanted: list[str],
    assignment: str,
    platform: str | None = None,
    names: Path | None = None,
    zone: tzinfo | None = None,
    is_same: Callable[[str, str], bool] = lambda name, student: name == student,
    knows: Knows = lambda folder, student: 0,
) -> Grouped:
    """Group the files of an archive by student.

    Args:
        files: the readable files.
        wanted: the names of the assignment's notebooks.
        assignment: the name of the assignment.
        platform: a name in `FORMATS`; by default the paths determine it.
        names: a table of files and students, for files whose paths do not name the student.
        zone: the time zone of times without one; by default this computer's.
        is_same: whether a name in the archive may be the student that the table names.
        knows: rates how likely the end of a folder's name is a student's id.

    Raises:
        BadInputError: the layout is unknown, or the table cannot be used.
    """
    listed = read_names(names, files) if names else {}
    rest = [file for file in files if str(file.path) not in listed]
    found = _recognise(rest, wanted, assignment, platform, listed, knows)
    result = Grouped("names" if found is None else found[0].name)
    if found is None:
        result.unknown = [(file, NO_NAME) for file in rest]
    else:
        result.stamped_by_download = found[0].stamped_by_download
        prefix = _login_prefix(result, found[1], knows) if found[0].name == "github" else ""
        _by_path(result, *found, wanted, zone, prefix)
    in_archive = _as_the_archive_has_them(files, wanted, assignment, platform, zone, listed)
    for path, students in listed.items():
        owner = in_archive[path].student if path in in_archive else ""
        mine = [owner] if len(set(students)) == 1 and is_same(owner, students[0]) else []
        for student in (*students, *mine):
            result.others += result.by_student.pop(student, [])
    for file in files:
        for student in listed.get(str(file.path), ()):
            item = in_archive.get(str(file.path), HandedIn(student, file, file.path.name))
            result.by_student[student].append(replace(item, student=student, file=file))
    return result


def _as_the_archive_has_them(
    files: list[File],
    wanted: list[str],
    assignment: str,
    platform: str | None,
    zone: tzinfo | None,
    listed: Names,
) -> dict[str, HandedIn]:
    """Return the listed files as their paths describe them: with time, order and mark of lateness."""
    found = _recognise(files, wanted, assignment, platform, listed) if listed else None
    if found is None or not found[0].specific:
        return {}
    described = Grouped(found[0].name)
    _by_path(described, *found, wanted, zone)
    items = [item for items in described.by_student.values() for item in items]
    whole = {file.entry: str(file.path) for file in files}
    return {whole[item.file.entry]: item for item in items if whole[item.file.entry] in listed}


def read_names(table: Path, files: list[File]) -> Names:
    """Return the students of each listed file, by its path in the archive.

    Raises:
        BadInputError: the table has no columns `file` and `student`, or names a missing or ambiguous file.
    """
    expected = "a table with the columns file and student and a line for each file"
    lines = read_table(table, expected, ["file", "student"]).lines
    paths = defaultdict(list)
    for file in files:
        path = _composed(str(file.path))
        for end in {path, path.rpartition("/")[2]}:
            paths[end].append(str(file.path))
    listed: dict[str, list[str]] = defaultdict(list)
    for number, line in lines:
        name, student = _composed(line["file"]), _composed(unguard(line["student"]))
        if not name and not student:
            continue
        if len(paths[name]) != 1:
            there = "is not in the archive" if not paths[name] else f"could be {' or '.join(paths[name])}"
            raise BadInputError(f"line {number} of {table}: {name!r} {there}. Write its path in the archive.")
        if not student_ids.is_valid(student):
            raise BadInputError(
                f"line {number} of {table}: {student!r} cannot be a student's id: {student_ids.RULE}."
            )
        listed[paths[name][0]].append(student)
    return listed


def _composed(text: str) -> str:
    """Return the text with composed letters: macOS writes ü as u and two dots."""
    return unicodedata.normalize("NFC", text)


def _recognise(
    files: list[File],
    wanted: list[str],
    assignment: str,
    platform: str | None,
    listed: Names,
    knows: Knows = lambda folder, student: 0,
) -> tuple[Format, list[File]] | None:
    """Return the format and the files below the folders that all share; None if only a table can tell.

    Of several levels, the level with the most students counts, and of these the highest.
    """
    levels = list(_levels(files)) or [[]]
    rows = [row for row in FORMATS.values() if (row.specific if platform is None else row.name == platform)]
    best: tuple[int, int, Format, list[File]] | None = None
    for depth, level in enumerate(levels):
        if found := next(((row, n) for row in rows if (n := _fits(row, level, wanted))), None):
            row, students = found
            if best is None or (students, -depth) > best[:2]:
                best = students, -depth, row, level
    if best and best[2].specific:
        return best[2:]
    if platform:
        folders = list(_levels_of_folders(levels, assignment))
        fitting = (level for level in folders if _fits(rows[0], level, wanted))
        return rows[0], next(fitting, folders[0])
    notebooks = [file for file in files if file.is_notebook]
    if notebooks and (guessed := _guess(levels, wanted, assignment, listed, knows)):
        return guessed
    if listed:
        return None
    if not notebooks:
        raise BadInputError("the archive holds no notebook. Name the archive from the platform.")
    raise several_people_error([str(file.path) for file in notebooks])


def _guess(
    levels: list[list[File]], wanted: list[str], assignment: str, listed: Names, knows: Knows
) -> tuple[Format, list[File]] | None:
    """Return a format whose pattern would also fit other layouts, with the files.

    The folders do not name students if the table assigns a file in a folder to somebody else.
    """
    students_folders, *below = _levels_of_folders(levels, assignment)
    tops = _tops(students_folders)
    ratings = _ratings(tops, knows) if len(tops) > 1 else {}
    are_logins = max(ratings, key=lambda prefix: (ratings[prefix], len(prefix)), default="") != ""
    if are_logins and _fits(FORMATS["github"], students_folders, wanted):
        return FORMATS["github"], students_folders
    for level in (students_folders, *below):
        if _fits(FORMATS["google"], level, wanted):
            return FORMATS["google"], level
    are_students = all(set(students) <= set(PurePosixPath(path).parts) for path, students in listed.items())
    if are_students and _fits(FORMATS["folder"], students_folders, wanted):
        return FORMATS["folder"], students_folders
    return None


def several_people_error(paths: list[str]) -> BadInputError:
    """Return the error for a folder that holds several people's notebooks side by side."""
    several = "One folder holds the notebooks of several people. " * (len(paths) > 1)
    return BadInputError(
        f"it is not clear whose notebooks these are: {', '.join(paths[:3])}{', ...' * (len(paths) > 3)}. "
        f"{several}Say who is who with --names FILE, a CSV table "
        "with the columns file and student and a line for each notebook; or name the platform with --from "
        f"({', '.join(FORMATS)}); or put the notebooks into <student>/ folders."
    )


def _levels(files: list[File]) -> Iterable[list[File]]:
    """Yield the files, then the files without their first folder, as long as all share it."""
    while files:
        yield files
        if len({file.path.parts[0] for file in files}) > 1 or any(len(f.path.parts) < 2 for f in files):
            return
        files = [replace(file, path=PurePosixPath(*file.path.parts[1:])) for file in files]


def _levels_of_folders(levels: list[list[File]], assignment: str) -> Iterable[list[File]]:
    """Yield the lowest level at which the first folder may be a student's, and the level below it."""
    for number, level in enumerate(levels):
        notebooks = [file.path.parts for file in level if file.is_notebook]
        last = number == len(levels) - 1
        if last or any(len(parts) < 3 or parts[1] == assignment for parts in notebooks):
            yield level
            yield from levels[number + 1 : number + 2]
            return


def _ratings(tops: set[str], knows: Knows) -> dict[str, int]:
    """Rate each beginning that all names share: how well the rest of each name is known as an id."""
    shared = common_prefix(tops, "-")
    prefixes = [shared[:n] for n in range(len(shared) + 1) if n == 0 or shared[n - 1] == "-"]
    return {prefix: sum(knows(top, top.removeprefix(prefix)) for top in tops) for prefix in prefixes}


def _login_prefix(result: Grouped, files: list[File], knows: Knows) -> str:
    """Return the text before the logins in the names of the clones that GitHub Classroom makes.

    Raises:
        BadInputError: there is one clone, and its login may begin at several places.
    """
    tops = _tops(files)
    ratings = _ratings(tops, knows)
    ratings.pop("")
    *others, prefix = [name for name in ratings if ratings[name] == max(ratings.values())] or [""]
    if others and len(tops) == 1:
        raise BadInputError(
            f"the folder {min(tops)} does not show where the login begins. Collect all clones together, "
            "import the class list with autograder roster import, or say who it is with --names FILE, a CSV "
            "table with the columns file and student."
        )
    if others:
        result.remarks.append(
            f"the text after {prefix} in a folder's name is read as the login. If a login begins earlier, "
            "change the student's id with autograder rename"
        )
    return prefix


def _tops(files: list[File]) -> set[str]:
    return {file.path.parts[0] for file in files if file.is_notebook and len(file.path.parts) > 1}


def _fits(row: Format, files: list[File], wanted: list[str]) -> int:
    """Return the number of students whose files have a row's paths, if most notebooks have them.

    In an archive without notebooks, all files count.
    """
    files = [file for file in files if not row.own_files.fullmatch(str(file.path))]
    evidence = [file for file in files if file.is_notebook] or files
    pattern = row.matcher(wanted)
    matches = [match for file in evidence if (match := pattern.fullmatch(str(file.path)))]
    parts = [found for match in matches if (found := parts_of(match)).get(row.sign) or _is_instead(found)]
    few = 2 * len(matches) <= len(evidence) or 4 * len(parts) < len(evidence)
    if few or (row.name == "gradescope" and not row.metadata(files).read):
        return 0
    return len({row.student(found) for found in parts})


def _is_instead(parts: Parts) -> bool:
    return "text" in parts or "link" in parts


def _by_path(
    result: Grouped,
    row: Format,
    files: list[File],
    wanted: list[str],
    zone: tzinfo | None,
    prefix: str = "",
) -> None:
    """Add the files to their students; remove `prefix` from the students' names."""
    pattern, found = row.matcher(wanted), row.metadata(files)
    entry_times = row.entry_times and _spread(files)
    assumed = False
    for file in files:
        path = str(file.path)
        match = pattern.fullmatch(path)
        is_own = path in found.read - found.texts or row.own_files.fullmatch(path)
        if is_own or not match:
            (result.own.append(file) if is_own else result.unknown.append((file, NO_NAME)))
        if not match:
            continue
        parts = parts_of(match)
        parts["name"] = parts.get("name", "").removeprefix(prefix)
        number, beside = parts.get("id", ""), str(file.path.parent)
        time = row.time(parts.get("time", "")) or found.times.get(number) or found.times.get(beside)
        time = time or (file.changed if entry_times else None)
        unread = parts.get("time") or found.unread.get(number, found.unread.get(beside))
        is_local = time is not None and time.tzinfo is None
        if time and is_local:
            assumed, time = zone is None, time.replace(tzinfo=zone) if zone else time.astimezone()
        handed_in = HandedIn(
            "",
            file,
            parts["file"] or file.path.name,
            time and time.astimezone(UTC),
            int(parts.get("order") or (_copy_number(parts["file"]) if row.copies_ascend else 0)),
            "late" in parts,
            "a link" if "link" in parts else "a pasted text" if "text" in parts else "",
            row.sign not in parts and not _is_instead(parts),
            None if time else unread,
            is_local and zone is not None,
        )
        for student in _students(result, row, parts, found, file):
            handed = result.by_student[student]  # also of a student with nothing but the platform's own file
            if not is_own:
                handed.append(replace(handed_in, student=student))
    if assumed:
        here = datetime.now().astimezone().tzname()
        result.remarks.append(
            f"the archive's times have no time zone and were read in this computer's zone ({here}); "
            "--timezone names another"
        )


def _students(result: Grouped, row: Format, parts: Parts, found: Metadata, file: File) -> list[str]:
    """Return the students of a file, or none with the reason in `result`."""
    students = [row.student(parts)]
    if found.people is not None:
        students = found.people.get(parts.get("id") or parts["name"], [])
        if not students:
            result.unknown.append((file, f"{row.name}'s own list does not identify a student"))
    valid = []
    for student in map(_composed, students):
        if student_ids.is_valid(student):
            valid.append(student)
        else:
            result.unknown.append((file, f"{student!r} cannot be a student's id: {student_ids.RULE}"))
    return valid


def _spread(files: list[File]) -> bool:
    """Return whether the entries' times differ by more than a download takes."""
    times = [file.changed for file in files if file.changed]
    return bool(times) and max(times) - min(times) > DOWNLOAD


def _copy_number(name: str) -> int:
    match = re.search(r" ?\((\d+)\)(?=\.[^.]*$|$)", name)
    return int(match[1]) if match else 1
