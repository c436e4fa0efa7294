"""Take over a gradebook that stock nbgrader made, with its students, points, marks by hand and comments.

Cells are found by their grade_id. Marks that are in the course's gradebook stay: adopting only fills gaps.
Copies of both gradebooks are kept before anything changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbgrader import api

from autograder.course import student_ids
from autograder.course.cells import marks_of
from autograder.course.errors import BadInputError
from autograder.course.files import Files, require_writable, write_atomically
from autograder.course.layout import Course
from autograder.course.lock import require_no_move
from autograder.grading import gradebook, other_gradebook
from autograder.grading.other_gradebook import Cell, Handed, Marks, OtherGradebook
from autograder.grading.rows import ABOUT_STUDENT
from autograder.release import publish

FOLDER = "adopted"
"""The folder in the course's state with the copies."""
FILLED = ("auto_score", "manual_score", "extra_credit")
AUTOMATIC = ("auto_score", "auto_comment")
COMMENTS = ("auto_comment", "manual_comment")


@dataclass(frozen=True)
class NotTaken:
    """Marks that were not taken over, with the reason."""

    assignment: str
    student: str
    cell: str
    marks: dict[str, float | str]
    reason: str


@dataclass
class Adopted:
    """The result of a run: numbers of new entries, and the marks that were left."""

    copies: list[Path] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    """The assignments that were in both."""
    students: int = 0
    """The students that are new in the gradebook, as are the next three."""
    submissions: int = 0
    scores: int = 0
    comments: int = 0
    other_changes: int = 0
    """Due dates, times, names and the name of the course."""
    left: list[NotTaken] = field(default_factory=list)
    not_in_course: list[str] = field(default_factory=list)
    """The assignments that this course does not have."""
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Return whether the run changed the gradebook."""
        return any((self.students, self.submissions, self.scores, self.comments, self.other_changes))


class _NothingToDo(Exception):
    """Rolls back a run without changes."""


def adopt(course: Course, file: Path | None = None) -> Adopted:
    """Take over a gradebook of stock nbgrader into the course's gradebook.

    Args:
        course: the course.
        file: the gradebook's file; by default the course's own gradebook, which stock nbgrader has made.

    Raises:
        BadInputError: there is no such gradebook, or one of the two cannot be used. Nothing has changed then.
    """
    own = course.db_file
    path = file.resolve() if file else own
    if path is None:
        raise BadInputError(
            "only a gradebook in a file can be adopted, and this one is on a server. Name the file."
        )
    in_place = path == (own and own.resolve())
    source = Course(course.root, f"sqlite:///{quote(str(path))}")
    if not gradebook.exists(source):
        raise BadInputError(f"there is no gradebook {path}. Name the file of the old gradebook.")
    other = other_gradebook.read(source)
    ours = {name: publish.notebooks(course, name) for name in course.assignments if name in other.due}
    if not ours:
        raise BadInputError(
            f"{path} holds none of this course's assignments. It has "
            f"{', '.join(sorted(other.due)) or 'none'}; this course has {', '.join(course.assignments)}."
        )
    require_no_move(course)
    gradebook.require_usable(course)
    require_writable(course.state)
    done = Adopted(assignments=list(ours), not_in_course=sorted(other.due.keys() - ours.keys()))
    new_copies = _keep_copies(course, {each for each in (path, own) if each and each.exists()}, done)
    with contextlib.suppress(_NothingToDo), gradebook.opened(course) as writer:
        _take_students(writer.book, other, in_place, done)
        for name, released in ours.items():
            if in_place:
                _make_room(writer.book, name, released, done)
            writer.learn(name, released)
            _take_assignment(writer.book, name, released, other, in_place, done)
        if not done.changed:
            raise _NothingToDo
    if not done.changed:
        for path in new_copies:
            path.unlink()
        done.copies = [path for path in done.copies if path not in new_copies]
    return done


def _keep_copies(course: Course, files: set[Path], done: Adopted) -> list[Path]:
    """Copy gradebooks into the course's state, each under a hash of its content; return the new copies.

    Raises:
        BadInputError: a copy cannot be made, such as on a full disk.
    """
    course.make_private()
    new = []
    for file in sorted(files):
        with tempfile.TemporaryDirectory(dir=course.state) as scratch:
            copy = Path(scratch, "gradebook.db")
            source = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)
            with closing(source), closing(sqlite3.connect(copy)) as backup:
                try:
                    source.backup(backup)
                except sqlite3.Error as error:
                    raise BadInputError(
                        f"no copy of {file} can be made in {course.state} ({error}). Nothing has changed. "
                        "Make room there, close programs that write the gradebook, and run the command again."
                    ) from error
            data = copy.read_bytes()
        path = course.state / FOLDER / f"{file.stem}-{hashlib.sha256(data).hexdigest()[:12]}.db"
        if not path.exists():
            write_atomically(path, data, mode=0o600)
            new.append(path)
        done.copies.append(path)
    return new


def _take_students(book: api.Gradebook, other: OtherGradebook, in_place: bool, done: Adopted) -> None:
    known = {student.id: student for student in book.students}
    for name, about in other.students.items():
        if not student_ids.is_valid(name):
            where = "here" if in_place else "in the course of that gradebook"
            done.notes.append(
                f"the student {name!r} is not taken over: {student_ids.RULE}. Run autograder rename {where}, "
                "then adopt the gradebook again"
            )
        elif name not in known:
            book.add_student(name, **about)
            done.students += 1
        else:
            for key in ABOUT_STUDENT:
                if about[key] and not getattr(known[name], key):
                    setattr(known[name], key, about[key])
                    done.other_changes += 1


def _ids(notebook: bytes) -> dict[str, set[str]]:
    """Return the ids of the cells of a released notebook, by ``grade`` and ``solution``."""
    marks = [marks_of(cell) for cell in json.loads(notebook)["cells"]]
    return {kind: {m["grade_id"] for m in marks if m.get(kind)} for kind in ("grade", "solution")}


def _make_room(book: api.Gradebook, assignment: str, released: Files, done: Adopted) -> None:
    """Remove the cells that the release does not have, and let the assignment belong to this course.

    Their marks are in the copy of the gradebook and, if another cell has their id, are filled in there.
    """
    known = book.find_assignment(assignment)
    if known.course_id != book.course_id:
        known.course_id = book.course_id
        done.other_changes += 1
    ids = {name: _ids(data) for name, data in released.items()}
    for notebook in list(known.notebooks):
        if notebook.name not in released:
            book.remove_notebook(notebook.name, assignment)
            done.other_changes += 1
            continue
        for cell in list(notebook._base_cells):
            kind = "solution" if isinstance(cell, api.SolutionCell) else "grade"
            if isinstance(cell, api.TaskCell) or cell.name not in ids[notebook.name][kind]:
                for row in [*cell.grades, *cell.comments, cell]:
                    book.db.delete(row)
                done.other_changes += 1
    book.db.flush()
    book.db.expire_all()


def _take_assignment(
    book: api.Gradebook,
    assignment: str,
    released: Files,
    other: OtherGradebook,
    in_place: bool,
    done: Adopted,
) -> None:
    known = book.find_assignment(assignment)
    if known.duedate is None and other.due[assignment]:
        known.duedate = other.due[assignment]
        done.other_changes += 1
    here = {name: set().union(*_ids(data).values()) for name, data in released.items()}
    held = {submission.student_id: submission for submission in known.submissions}
    for (name, student), work in other.submissions.items():
        if name != assignment:
            continue
        if not student_ids.is_valid(student):
            done.left += [
                NotTaken(assignment, student, "/".join(cell), given, "the student's id is not allowed here")
                for cell, place, _ in _places(work, here)
                if (given := work.cells[cell].given()) and not (in_place and place)
            ]
            continue
        submission = held.get(student)
        is_new = submission is None
        if submission is None:
            submission = book.add_submission(assignment, student)
            book.db.flush()
            done.submissions += 1
        _add_notebooks(book, known, submission)
        _take_times(submission, work, is_new, done)
        for cell, place, reason in _places(work, here):
            marks = work.cells[cell]
            if place is None:
                given = marks.given()
                if given:
                    done.left.append(NotTaken(assignment, student, "/".join(cell), given, reason))
            else:
                _take_marks(submission, place, marks, is_new or in_place, done)


def _places(work: Handed, here: dict[str, set[str]]) -> Iterator[tuple[Cell, Cell | None, str]]:
    """Yield each cell of a submission with its cell in the release, or with the reason why there is none."""
    taken = {(notebook, cell) for notebook, cell in work.cells if cell in here.get(notebook, ())}
    for notebook, cell in work.cells:
        if (notebook, cell) in taken:
            yield (notebook, cell), (notebook, cell), ""
            continue
        same = [(name, cell) for name, cells in here.items() if cell in cells]
        if not same:
            yield (notebook, cell), None, "the released notebook has no such cell"
        elif len(same) > 1 or same[0] in taken:
            yield (notebook, cell), None, "several cells have this id"
        else:
            taken.add(same[0])
            yield (notebook, cell), same[0], ""


def _add_notebooks(book: api.Gradebook, assignment: Any, submission: Any) -> None:
    """Give a submission a row for each notebook and cell that it lacks, as nbgrader does for a new one."""
    has = {submitted.notebook_id for submitted in submission.notebooks}
    for notebook in assignment.notebooks:
        if notebook.id not in has:
            submitted = api.SubmittedNotebook(notebook=notebook, assignment=submission)
            book.db.add(submitted)
            book.db.add_all(api.Grade(cell_id=cell.id, notebook=submitted) for cell in notebook.grade_cells)
            book.db.add_all(
                api.Comment(cell_id=cell.id, notebook=submitted) for cell in notebook.solution_cells
            )
    book.db.flush()


def _take_times(submission: Any, work: Handed, is_new: bool, done: Adopted) -> None:
    for name in ("timestamp", "extension"):
        if getattr(submission, name) is None and getattr(work, name) is not None:
            setattr(submission, name, getattr(work, name))
            done.other_changes += 1
    first = next(iter(submission.notebooks), None)
    if is_new and first is not None:
        first.late_submission_penalty, first.flagged = work.late_penalty, work.flagged


def _take_marks(submission: Any, place: Cell, marks: Marks, with_automatic: bool, done: Adopted) -> None:
    """Fill in the points and comments of one cell; a different mark that is there already stays.

    Args:
        submission: the submission in the course's gradebook.
        place: the cell there.
        marks: the points and comments of the other gradebook.
        with_automatic: take also points and comments by a grader, not only those by a person.
        done: counts what was taken.
    """
    notebook = next(n for n in submission.notebooks if n.name == place[0])
    rows = {
        FILLED: next((grade for grade in notebook.grades if grade.name == place[1]), None),
        COMMENTS: next((comment for comment in notebook.comments if comment.name == place[1]), None),
    }
    left: dict[str, float | str] = {}
    for names, row in rows.items():
        for name, value in marks.given().items():
            if name not in names or (name in AUTOMATIC and not with_automatic):
                continue
            if row is None:
                left[name] = value
            elif getattr(row, name) is None:
                setattr(row, name, value)
                done.scores += names is FILLED
                done.comments += names is COMMENTS
                if name == "manual_score":
                    row.needs_manual_grade = bool(marks.needs_manual_grade)
            elif getattr(row, name) != value and name not in AUTOMATIC:
                left[name] = value
    grade = rows[FILLED]
    if with_automatic and grade is not None and marks.needs_manual_grade is not None:
        grade.needs_manual_grade = marks.needs_manual_grade
    if left:
        reason = "the gradebook holds another mark" if grade is not None else "the cell is not graded here"
        student = submission.student_id
        done.left.append(NotTaken(submission.assignment.name, student, "/".join(place), left, reason))
    if grade is not None and marks.max_score not in (None, grade.cell.max_score):
        note = f"{place[1]} of {submission.assignment.name} is out of {grade.cell.max_score:g} here"
        note += f", but was out of {marks.max_score:g}; its marks stay as they are"
        if note not in done.notes:
            done.notes.append(note)
