"""Remove every trace of a student from a course, and find other programs' files that name the student."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import escape
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from autograder.course.class_file import ClassFile
from autograder.course.class_list import Person
from autograder.course.errors import BadInputError
from autograder.course.files import read_if_there, read_record, write_atomically, write_record
from autograder.course.layout import Course
from autograder.course.lock import hold_lock, require_no_move
from autograder.grading import gradebook, written
from autograder.grading.verdict import Verdict
from autograder.roster import people, traces

BEGUN = "forgetting.json"
"""The file of the people whose removal has begun and has not ended."""
SHORT = 4
SQLITE = b"SQLite format 3\0"
"""The first bytes of a SQLite database."""
NOTHING = b"(?!)"
"""A pattern that is found nowhere."""
LOG = ".nbgrader.log"
"""The log of nbgrader's own commands, which has the ids of students."""


@dataclass
class Forgotten:
    """What was removed, and the files that still name the student."""

    student: str
    files: int = 0
    submissions: int = 0
    verdicts: int = 0
    left: list[str] = field(default_factory=list)


def require_trace(course: Course, student: str) -> Person:
    """Return the student with exactly this id.

    Raises:
        BadInputError: the course has nothing of a student with this id, or something under another id too.
    """
    if begun := read_record(course.state / BEGUN).get(student):
        return Person(**begun | {"groups": tuple(begun["groups"])})
    roster = people.read(course)
    others = sorted(other for other, known in roster.other_ids.items() if known == student)
    if others:
        raise BadInputError(
            f"{student} is also in the gradebook as {', '.join(others)}. Unite the ids first, with: "
            "autograder roster unite"
        )
    for person in roster.known:
        if person.student == student:
            return person
    in_records = any(traces.entries_of(path, student) for path in traces.records(course))
    if in_records or traces.homes(course, student) or student in ClassFile.read(course).lines:
        return Person(student)
    near = people.similar(roster, student)
    raise BadInputError(f"this course keeps nothing of a student with the id {student!r}.{near}")


def forget(course: Course, person: Person) -> Forgotten:
    """Remove a student's files, rows, verdicts and lines. A run that was interrupted can be repeated.

    A record of the student is kept until the end, so that the same command finds the student. Verdicts go
    first, since they are found by the files.

    Raises:
        BadInputError: the course is being graded, or the gradebook cannot be written.
    """
    student, done = person.student, Forgotten(person.student)
    with hold_lock(course):
        require_no_move(course)
        if gradebook.exists(course):
            gradebook.require_usable(course)
        begun = read_record(course.state / BEGUN)
        write_record(course.state / BEGUN, begun | {student: asdict(person)})
        done.verdicts = _forget_verdicts(course, student)
        for path in traces.packed_feedback(course, student):
            done.files += _delete(path)
        for folder in [*traces.homes(course, student), *traces.variants(course, student)]:
            done.files += _delete(folder)
        for path in traces.records(course):
            entries = read_record(path)
            kept = {key: what for key, what in entries.items() if traces.owner(key) != student}
            if kept != entries:
                write_record(path, kept)
        with ClassFile.changing(course) as here:
            here.forget(student)
        _forget_in_log(course.root / LOG, student)
        done.submissions = len(traces.entered(course, student))
        _forget_entries(course, student)
        if others := {other: what for other, what in begun.items() if other != student}:
            write_record(course.state / BEGUN, others)
        else:
            (course.state / BEGUN).unlink()
    return done


def _delete(folder: Path) -> int:
    """Delete a folder or a link, and return the number of its files."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
        return 1
    count = sum(path.is_file() for path in folder.rglob("*"))
    shutil.rmtree(folder)
    return count


def _forget_entries(course: Course, student: str) -> None:
    """Delete the student's rows, and write the file of the gradebook again without their free space."""
    if not gradebook.exists(course):
        return
    if student in people.read(course):
        with gradebook.opened(course) as writer:
            for assignment in sorted(traces.entered(course, student)):
                writer.book.remove_submission(assignment, student)
            writer.book.db.flush()
            writer.book.db.expire_all()
            writer.book.remove_student(student)
    if course.db_file:
        engine = create_engine(course.db_url)
        try:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM"))
        except SQLAlchemyError as error:
            raise gradebook.cannot_be_used(course, error) from error
        finally:
            engine.dispose()


def _forget_verdicts(course: Course, student: str) -> int:
    """Remove the verdicts on the student's notebooks, unless somebody else handed in the same file."""
    submitted = course.folder("submitted_directory", "submitted")
    files = [*submitted.glob("*/*/*.ipynb"), *(course.state / "replaced").glob("*/*/*.ipynb")]
    theirs: set[str] = set()
    others: set[str] = set()
    homes = traces.homes(course, student)
    for path in files:
        digest = hashlib.sha256(read_if_there(path) or b"").hexdigest()
        (theirs if any(path.is_relative_to(home) for home in homes) else others).add(digest)
    graded = {path.read_bytes() for path in (course.autograded / student).glob("*/*.ipynb")}
    count = 0
    for store in sorted((course.state / "verdicts").glob("*.jsonl")):
        kept = []
        for line in store.read_bytes().splitlines(keepends=True):
            if _is_about(line, theirs - others, graded, others):
                count += 1
            else:
                kept.append(line)
        write_atomically(store, b"".join(kept), mode=0o600)
    return count


def _is_about(line: bytes, theirs: set[str], graded: set[bytes], others: set[str]) -> bool:
    """Return whether a verdict is on a notebook of the student, by its hash or by the graded notebook."""
    try:
        record = json.loads(line)
        if record["submission"] in theirs:
            return True
        if record["submission"] in others or record["status"] != "graded":
            return False
        return written.as_bytes(written.with_results(Verdict.from_dict(record["verdict"]))) in graded
    except (ValueError, KeyError, TypeError):
        return False  # a line that was cut off


def _forget_in_log(path: Path, student: str) -> None:
    """Remove the lines that name a student."""
    lines, named = (read_if_there(path) or b"").splitlines(keepends=True), _pattern([student])
    kept = [line for line in lines if not named.search(line)]
    if kept != lines:
        write_atomically(path, b"".join(kept))


def files_that_name(course: Course, person: Person) -> Iterator[Path]:
    """Yield the files of the course that name a student: by id, name or e-mail address, as whole words.

    A word of fewer than `SHORT` characters may be in any text, so it counts only where it is the whole name
    of a file or folder, or a whole value of a table. The solutions, the releases and installed libraries are
    not searched: nothing in them is about a student.
    """
    words = {person.student, person.email, person.name if person.first_name else ""} - {""}
    short = {word for word in words if len(word) < SHORT}
    whole, part = (_pattern(sorted(words - short), is_whole) for is_whole in (True, False))
    without = {course.solutions, course.notebooks, course.root / "bundles"}
    without |= {path.parent for path in course.root.glob("*/pyvenv.cfg")}  # virtual environments
    for folder, folders, names in os.walk(course.root):
        searched = {name for name in folders if Path(folder, name) not in without}
        folders[:] = sorted(searched - {".git", "node_modules"})
        for name in sorted([*names, *folders]):
            path = Path(folder, name)
            data = read_if_there(path) or b"" if path.is_file() else b""
            is_text = b"\0" not in data[:1024]
            if (
                whole.search(os.fsencode(name))
                or not short.isdisjoint((name, path.stem))
                or (whole if is_text else part).search(data)
                or (short and not short.isdisjoint(_values(path, data)))
            ):
                yield path


def _values(path: Path, data: bytes) -> Iterator[Any]:
    """Yield the values of a table in a file or of the tables in a database; none for other files."""
    if path.suffix in (".csv", ".tsv"):
        yield from re.split(r"[,;\t\r\n\"]+", data.decode(errors="replace"))
    elif data.startswith(SQLITE):
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        with contextlib.closing(database), contextlib.suppress(sqlite3.Error):  # a damaged copy
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    yield from row


def _pattern(words: list[str], whole: bool = True) -> re.Pattern[bytes]:
    """Return a pattern for words as text, JSON and HTML write them; unless `whole`, also inside of words."""
    forms = {form for word in words for form in (word, json.dumps(word)[1:-1], str(escape(word)))}
    either = b"|".join(re.escape(form.encode()) for form in sorted(forms)) or NOTHING
    return re.compile(rb"(?<![\w.@-])(?:" + either + rb")(?![\w@-])" if whole else either)
