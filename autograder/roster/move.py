"""Give a student another id, or unite two ids, with all work, points, marks by hand and feedback.

The plan is written before anything changes and removed at the end. Each step can be repeated, so a run that
was interrupted is finished by the same command. The gradebook changes in one transaction.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from nbgrader import api
from sqlalchemy import delete, update

from autograder.course.class_file import ClassFile
from autograder.course.class_list import number_in
from autograder.course.errors import BadInputError
from autograder.course.files import (
    read_record,
    require_writable,
    write_record,
)
from autograder.course.layout import Course
from autograder.course.lock import MOVE, hold_lock, require_no_move
from autograder.course.student_ids import require_valid
from autograder.course.workers import Progress
from autograder.grading import gradebook
from autograder.grading.rows import ABOUT_STUDENT
from autograder.roster import extensions, people, traces

NUMBERED = ("brightspace", "canvas", "ilias", "moodle")
"""The platforms whose archives have a number for the person behind the name."""


@dataclass(frozen=True)
class Move:
    """The plan of a move: from one id to another, and whose work counts where both have some.

    Args:
        old: the id that goes away.
        new: the id that stays.
        wins: the id whose work counts where both have some; empty if nobody has said.
        contested: the assignments for which both have work.
        entered: whether the gradebook has the id that goes away.
        assignments: the assignments with work of the id that goes away.
        settled: whether the other version of each contested assignment is set aside already.
    """

    old: str
    new: str
    wins: str = ""
    contested: tuple[str, ...] = ()
    entered: bool = True
    assignments: tuple[str, ...] = ()
    settled: bool = False

    @property
    def loser(self) -> str:
        """Return the id whose work does not count where both have some."""
        return self.old if self.wins == self.new else self.new


@dataclass(frozen=True)
class Moved:
    """The result of a move.

    Args:
        old: the id that went away.
        new: the id that stays.
        assignments: the assignments with work.
        set_aside: the assignments with a version set aside.
        penalties: the late penalties that changed.
    """

    old: str
    new: str
    assignments: tuple[str, ...]
    set_aside: tuple[str, ...]
    penalties: tuple[extensions.Change, ...] = ()


def rename(course: Course, old: str, new: str) -> Moved:
    """Give a student another id.

    Raises:
        BadInputError: nobody has the old id, or somebody has the new one. Nothing has changed then.
    """
    return _run(course, old, new, "", merging=False)


def merge(course: Course, old: str, into: str, wins: str = "") -> Moved:
    """Unite two ids: the work of one becomes the work of the other.

    Args:
        course: the course.
        old: the id that goes away.
        into: the id that stays.
        wins: the id whose work counts where both have work for one assignment.

    Raises:
        BadInputError: an id is unknown, or both have work and nobody has said which counts. Nothing has
            changed then.
    """
    return _run(course, old, into, wins, merging=True)


def unite(course: Course, progress: Progress) -> tuple[list[Moved], list[str]]:
    """Merge each id that is another name of somebody in the class list; return the moves and the refusals."""
    moved, problems = [], []
    others = people.read(course).other_ids
    for count, (other, student) in enumerate(sorted(others.items())):
        progress(count, len(others))
        try:
            moved.append(merge(course, other, student))
        except BadInputError as error:
            problems.append(str(error))
    return moved, problems


def _run(course: Course, old: str, new: str, wins: str, *, merging: bool) -> Moved:
    require_valid(new)
    with hold_lock(course):
        path = course.state / MOVE
        interrupted = _interrupted(course, old, new)
        plan = interrupted or _plan(course, old, new, wins, merging)
        for place in (course.root, course.state):
            require_writable(place)
        _save(path, plan)
        try:
            _move_entries(course, plan)
        except BadInputError:
            if not interrupted:
                path.unlink()
            raise
        _keep_names(course, plan)
        if not plan.settled:
            _set_aside(course, plan)
            plan = replace(plan, settled=True)
            _save(path, plan)
        _move_folders(course, plan)
        _move_variants(course, plan)
        _move_records(course, plan)
        with ClassFile.changing(course) as here:
            here.move(old, new)
        path.unlink()
        changes = _penalise(course, new)
    return Moved(old, new, plan.assignments, plan.contested, changes)


def _save(path: Path, plan: Move) -> None:
    write_record(path, asdict(plan))


def _interrupted(course: Course, old: str, new: str) -> Move | None:
    """Return the plan of an interrupted run, if there is one.

    Raises:
        BadInputError: the interrupted run was another one, which must be finished first.
    """
    saved = read_record(course.state / MOVE)
    if not saved:
        return None
    if (saved["old"], saved["new"]) != (old, new):
        require_no_move(course)
    lists = {name: tuple(saved.get(name, ())) for name in ("contested", "assignments")}
    return Move(**saved | lists)


def _plan(course: Course, old: str, new: str, wins: str, merging: bool) -> Move:
    """Return the plan, or refuse it before anything has changed."""
    if old == new:
        raise BadInputError(f"{old} and {new} are the same id. Name two.")
    roster = people.read(course)
    known = {name: name in roster or bool(_works(course, name)) for name in (old, new)}
    if not known[old]:
        near = people.similar(roster, old)
        raise BadInputError(f"nobody has the id {old!r}.{near} See: autograder roster list")
    if _share_a_folder(course, old, new):
        raise BadInputError(
            f"{old} and {new} are the same folder on this disk. Copy the course to a disk that tells the two "
            "names apart, such as a disk of Linux, and run this there."
        )
    if merging and not known[new]:
        command = shlex.join(["autograder", "rename", old, new])
        raise BadInputError(f"nobody has the id {new!r} yet. To change an id: {command}")
    if known[new] and not merging:
        command = shlex.join(["autograder", "merge", old, new])
        raise BadInputError(f"the id {new} is taken. To unite the two: {command}")
    if wins not in ("", old, new):
        raise BadInputError(f"--wins names {old} or {new}, not {wins!r}.")
    by_student = [
        {work.assignment for work in _works(course, name) if work.place != "replaced"}
        | traces.entered(course, name)
        for name in (old, new)
    ]
    contested = tuple(sorted(by_student[0] & by_student[1]))
    if contested and not wins:
        choice = " or ".join(shlex.join(["--wins", name]) for name in (old, new))
        raise BadInputError(
            f"{old} and {new} both have work for {', '.join(contested)}. Choose whose work counts, with "
            f"{choice}; the other's notebooks are kept in .autograder/replaced/."
        )
    assignments = {work.assignment for work in _works(course, old)} | traces.entered(course, old)
    return Move(old, new, wins, contested, old in roster, tuple(sorted(assignments)))


def _share_a_folder(course: Course, old: str, new: str) -> bool:
    """Return whether a folder of one id is also a folder of the other, such as Ada and ada on macOS."""
    tops = [[top for top in traces.homes(course, name) if top.exists()] for name in (old, new)]
    return any(os.path.samefile(*pair) for pair in product(*tops))


def _works(course: Course, student: str) -> list[traces.Work]:
    """Return a student's work, without the hidden folders that other programs make."""
    return [work for work in traces.works(course, student) if not work.assignment.startswith(".")]


def _move_entries(course: Course, plan: Move) -> None:
    """Move the rows of the gradebook in one transaction; the marks and comments stay with the submissions."""
    if plan.entered and plan.old not in people.read(course):
        return  # an interrupted run has moved them
    number = _number_of_platform(course, plan.old)
    if not plan.entered and not number and not gradebook.exists(course):
        return
    with gradebook.opened(course) as writer:
        book = writer.book
        _remove_contested(book, plan)
        if not plan.entered and not number:
            return
        new = book.update_or_create_student(plan.new)
        if plan.entered:
            old = book.find_student(plan.old)
            for name in ABOUT_STUDENT:
                setattr(new, name, getattr(new, name) or getattr(old, name))
        new.lms_user_id = new.lms_user_id or number or None
        if plan.entered:
            work = api.SubmittedAssignment
            book.db.execute(update(work).where(work.student_id == plan.old).values(student_id=plan.new))
            book.db.execute(delete(api.Student).where(api.Student.id == plan.old))
            book.db.expire_all()


def _number_of_platform(course: Course, student: str) -> str:
    """Return the number by which `collect` finds this student in the next archive of the same platform."""
    collected = (course.state / "collected").glob("*.json")
    found = [what for path in collected for what in traces.entries_of(path, student).values()]
    is_numbered = any(isinstance(what, dict) and what.get("platform") in NUMBERED for what in found)
    return number_in(student) if is_numbered else ""


def _keep_names(course: Course, plan: Move) -> None:
    """Remember the name that an assignment's archive gives to the student; Moodle's archives differ in it.

    A name belongs to one id, the one that got it last.
    """
    for path in sorted((course.state / "collected").glob("*.json")):
        collected, names = read_record(path).get(plan.old), course.state / traces.NAMES / path.name
        is_numbered = isinstance(collected, dict) and collected.get("platform") in NUMBERED
        entries = read_record(names)
        theirs = {*entries.pop(plan.old, ()), *([plan.old] if is_numbered else ())}
        if theirs:
            kept = {student: sorted({*known} - theirs) for student, known in entries.items()}
            kept[plan.new] = sorted(theirs.union(entries.get(plan.new, ())))
            write_record(names, {student: known for student, known in kept.items() if known})


def _remove_contested(book: api.Gradebook, plan: Move) -> None:
    for assignment in plan.contested:
        try:
            book.remove_submission(assignment, plan.loser)
        except api.MissingEntry:
            continue
    book.db.flush()


def _penalise(course: Course, student: str) -> tuple[extensions.Change, ...]:
    """Update the late penalties of a student, who may have more time under the id that stays."""
    if not gradebook.exists(course):
        return ()
    with gradebook.opened(course) as writer:
        submissions = writer.book.db.query(api.SubmittedAssignment).filter_by(student_id=student).all()
        return extensions.penalise(writer, submissions)


def _set_aside(course: Course, plan: Move) -> None:
    """Move the loser's contested notebooks to `replaced`.

    Delete the graded notebooks, the pages and the records about them.
    """
    for work in _works(course, plan.loser):
        if work.assignment in plan.contested and work.place != "replaced":
            if work.place == "submitted":
                aside = traces.folder_of(course, "replaced", plan.new, work.assignment)
                _move_files(work.folder, aside, prefix=f"{plan.loser}-")
            _remove(work.folder)
    for path in traces.records(course):
        if path.stem in plan.contested and path.parent.name != traces.NAMES:
            entries = read_record(path)
            write_record(path, {key: w for key, w in entries.items() if traces.owner(key) != plan.loser})


def _move_folders(course: Course, plan: Move) -> None:
    for work in _works(course, plan.old):
        target = traces.folder_of(course, work.place, plan.new, work.assignment)
        if work.place == "replaced":
            _move_files(work.folder, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(work.folder, target)
    for top in traces.homes(course, plan.old):
        if top.is_symlink():
            continue
        if any(path.is_file() for path in top.rglob("*")):  # files beside the work, such as .DS_Store
            _move_files(top, top.with_name(plan.new))
        else:
            shutil.rmtree(top)


def _move_variants(course: Course, plan: Move) -> None:
    """Move the releases and answers that were made for the old id; those of the new id stay."""
    for source in traces.variants(course, plan.old):
        target = source.with_name(plan.new)
        target.mkdir(exist_ok=True)
        for path in sorted(source.iterdir()):
            if os.path.lexists(target / path.name):
                _remove(path)
            else:
                os.rename(path, target / path.name)
        _remove(source)


def _move_files(source: Path, target: Path, prefix: str = "") -> None:
    """Move the files of a folder into another without replacing any.

    If the folder is a link, move the link.
    """
    target.mkdir(parents=True, exist_ok=True)
    for path in [source] if source.is_symlink() else sorted(source.iterdir()):
        new, count = target / f"{prefix}{path.name}", 1
        dot = "." if path.name.startswith(".") else ""
        while os.path.lexists(new):
            new, count = target / f"{dot}{count}-{prefix}{path.name}", count + 1
        os.rename(path, new)
    _remove(source)


def _remove(folder: Path) -> None:
    if not os.path.lexists(folder):
        return
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def _move_records(course: Course, plan: Move) -> None:
    """Move the entries of our records; drop the records of pages to be made again."""
    for path in traces.records(course):
        entries = read_record(path)
        theirs = {key: what for key, what in entries.items() if traces.owner(key) == plan.old}
        if not theirs:
            continue
        kept = {key: what for key, what in entries.items() if key not in theirs}
        if path.name != "feedback.json":
            kept = {f"{plan.new}{key[len(plan.old) :]}": what for key, what in theirs.items()} | kept
        write_record(path, kept)
