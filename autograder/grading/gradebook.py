"""Check, write and read nbgrader's gradebook; all points of a run are written in one transaction."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Set
from contextlib import contextmanager
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbgrader import api, dbutil
from nbgrader.utils import compute_checksum, is_grade, is_solution
from sqlalchemy import URL, Connection, create_engine, false, func, inspect, select, text, update
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from sqlalchemy.orm import Session

from autograder.course import databases
from autograder.course.class_file import ClassFile
from autograder.course.class_list import Roster
from autograder.course.errors import BadInputError
from autograder.course.files import Files, require_writable
from autograder.course.layout import Course
from autograder.course.student_ids import require_valid
from autograder.grading.late import LatePenalty
from autograder.grading.rows import Row, find_rows, read_students

if TYPE_CHECKING:
    from nbformat import NotebookNode

_NAMED = "--db or c.CourseDirectory.db_url in nbgrader_config.py"
_LOCKED = ("locked", "busy", "lock timeout")
_ONE_WRITER = 0x6772616465  # "grade"; the server's lock that a grader holds while it writes
_QUIET = logging.Logger("nbgrader-gradebook", logging.CRITICAL)


@cache
def expected_revision() -> str:
    """Return the version of the database schema that the installed nbgrader works with."""
    steps = [path.read_text() for path in Path(dbutil.ALEMBIC_DIR, "versions").glob("*.py")]
    versions, earlier = (
        {found[1] for step in steps if (found := re.search(rf"^{name} = '(\w+)'", step, re.MULTILINE))}
        for name in ("revision", "down_revision")
    )
    (latest,) = versions - earlier  # alembic reads the same, but its import takes a tenth of a command
    return latest


def exists(course: Course) -> bool:
    """Return whether the course has a gradebook; check its schema without changing it.

    Raises:
        BadInputError: the file or database is not a gradebook, or has another schema.
    """
    path, name = course.db_file, databases.describe(course.db_url)
    if path is not None and (not path.exists() or path.stat().st_size == 0):
        return False
    remedy = "Name another" + (" file" if path else " database")
    if path and not course.db:
        remedy = "Move it away, or name another"
    with connected(course, databases.read_only(path) if path else None) as connection:
        inspector = inspect(connection)
        tables = set(inspector.get_table_names())
        if not tables and not path:
            return False
        revision = None
        if "alembic_version" in tables:
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        lacking = [
            f"{name}.{column.name}"
            for name, table in api.Base.metadata.tables.items()
            if name in tables
            for column in table.columns
            if column.name not in {existing["name"] for existing in inspector.get_columns(name)}
        ]
    missing = set(api.Base.metadata.tables) - tables
    if revision is None or (revision == expected_revision() and missing):
        raise BadInputError(
            f"{name} is not a gradebook of nbgrader: it lacks the tables "
            f"{', '.join(sorted(missing or {'alembic_version'}))}. {remedy} with {_NAMED}."
        )
    if revision != expected_revision():
        address = f" --db {course.db_url!r}" if course.db and path else ""
        raise BadInputError(
            f"{name} has the schema {revision}, but the installed nbgrader expects "
            f"{expected_revision()}. Make a copy of it, then run: nbgrader db upgrade{address}"
        )
    if lacking:
        raise BadInputError(
            f"{name} lacks the columns {', '.join(lacking)}, which nbgrader needs: "
            "another program has changed it. Restore an older copy, or move it away."
        )
    return True


def cannot_be_used(course: Course, error: SQLAlchemyError) -> BadInputError:
    """Return the error for a gradebook that cannot be read; a user must not move away a gradebook in use."""
    path, why, name = course.db_file, _why(error), databases.describe(course.db_url)
    if any(word in why for word in _LOCKED):
        return BadInputError(
            f"{name} is locked by another program ({why}), perhaps formgrader or a command of nbgrader. "
            "Close that program, or wait until it has ended, then run this again. Do not move the gradebook."
        )
    if path is None:
        return BadInputError(
            f"{name} cannot be used ({why}). Make sure that the server runs and that you may use that "
            "database, then run this again: all verdicts are saved."
        )
    if path.is_dir():
        return BadInputError(
            f"{name} is a folder, but the gradebook is a file. Move the folder away, or name another file "
            f"with {_NAMED}."
        )
    if "disk I/O" in why or "unable to open" in why:
        return BadInputError(
            f"{name} cannot be read from the disk ({why}). Make sure that the disk works and that you may "
            "read the file, then run this again; keep a copy of it."
        )
    return BadInputError(
        f"{name} cannot be opened as a gradebook ({why}). Move it away, or name another with {_NAMED}."
    )


def require(course: Course) -> None:
    """Make sure that the course has a gradebook.

    Raises:
        BadInputError: the course has no gradebook yet, or it cannot be used.
    """
    if not exists(course):
        raise BadInputError("this course has no gradebook yet: nothing is graded. Run: autograder grade")


def require_usable(course: Course) -> None:
    """Make sure that grades can be written.

    Raises:
        BadInputError: the gradebook or its folder cannot be written; the message has the reason.
    """
    exists(course)
    if course.db_file is None:
        with connected(course) as connection:  # the server may refuse access, or allow only reading
            _create_tables(connection)
            connection.execute(update(api.Grade).where(false()).values(auto_score=0.0))
    else:
        require_writable(course.db_file.parent)
        if course.db_file.exists():
            try:
                course.db_file.open("r+b").close()
            except OSError as error:
                raise BadInputError(
                    f"{course.db_file} must be writable ({error.strerror}). Give yourself that permission."
                ) from error
            with connected(course) as connection:
                _begin(connection)


@contextmanager
def opened(course: Course) -> Iterator[GradebookWriter]:
    """Yield a writer; its changes are all committed at the end of the block, or not at all.

    Raises:
        BadInputError: the gradebook is locked by another program, or the disk is full.
    """
    api.app_log.disabled = True  # nbgrader logs a whole traceback; the errors below are one sentence
    try:
        _create(course)
        book = api.Gradebook(course.db_url, str(course.coursedir().course_id or "default_course"))
        with book, warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader's way of linking new rows causes warnings
            commit = book.db.commit
            book.db.commit = book.db.flush
            try:
                _begin(book.db.connection())
                book.check_course()  # nbgrader's preprocessors look for the course by this name
                yield GradebookWriter(book, course)
                commit()
            except BaseException:
                book.db.rollback()
                raise
    except (api.InvalidEntry, SQLAlchemyError) as error:
        raise BadInputError(
            f"the gradebook cannot be written ({_why(error)}). Nothing in it has changed. If another "
            "program locks it, close that program; then run the same command again: all verdicts are saved."
        ) from error
    finally:
        api.app_log.disabled = False


def _why(error: Exception) -> str:
    """Return the database's own message in one line, without the statement that SQLAlchemy adds."""
    message = str(getattr(error, "orig", None) or (error.args or [error])[0]).splitlines()[0]
    return re.sub(r"^\([\w.]+\) ", "", message)


def _create(course: Course) -> None:
    """Create an empty gradebook, if there is none. nbgrader would use alembic, which takes four seconds."""
    if exists(course):
        return
    engine = create_engine(course.db_url)
    with engine.begin() as connection:
        _create_tables(connection)
    engine.dispose()


def _create_tables(connection: Connection) -> None:
    _begin(connection)
    if inspect(connection).get_table_names():  # another process created them during the wait
        return
    api.Base.metadata.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    insert = text("INSERT INTO alembic_version (version_num) VALUES (:head)")
    connection.execute(insert, {"head": expected_revision()})


def _begin(connection: Connection) -> None:
    """Wait until no other grader writes, then lock the gradebook until the connection's transaction ends.

    For a file it also begins the transaction; Python's driver would begin it only after tables are created.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(_ONE_WRITER)))


@contextmanager
def connected(course: Course, url: URL | None = None) -> Iterator[Connection]:
    """Yield a connection to the gradebook; changes that are not committed are rolled back.

    Raises:
        BadInputError: the gradebook cannot be used.
    """
    engine = create_engine(url or course.db_url)
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise cannot_be_used(course, error) from error
    finally:
        engine.dispose()


class GradebookWriter:
    """An open gradebook, into which the grader enters its points; it never changes a teacher's points."""

    def __init__(self, book: api.Gradebook, course: Course) -> None:
        from nbgrader.preprocessors import AssignLatePenalties  # with nbconvert, which a reader never needs

        self.book = book
        self._class_file = ClassFile.read(course)
        config = course.config
        config.AssignLatePenalties.setdefault("plugin_class", LatePenalty)
        self._penalties = AssignLatePenalties(config=config, log=_QUIET)
        self._penalties.init_plugin()

    def learn(self, assignment: str, released: Files) -> None:
        """Enter an assignment with its graded cells, or update its cells.

        Args:
            assignment: the name of the assignment.
            released: its released notebooks, by name.

        Raises:
            BadInputError: the release no longer has a cell that a teacher has graded by hand.
        """
        import nbformat
        from nbgrader.preprocessors import SaveCells

        self.book.update_or_create_assignment(assignment)
        for name, data in released.items():
            notebook = nbformat.reads(data.decode(), as_version=4)
            self._reconcile(assignment, name, notebook)
            saver = SaveCells(log=_QUIET)
            saver.gradebook, saver.notebook_id, saver.assignment_id = self.book, name, assignment
            saver.new_grade_cells, saver.new_solution_cells = {}, {}
            saver.new_task_cells, saver.new_source_cells = {}, {}
            for place, cell in enumerate(notebook.cells):
                saver.preprocess_cell(cell, {}, place)
            saver._create_notebook(notebook)
        self.book.db.flush()

    def enter(
        self,
        assignment: str,
        student: str,
        graded: dict[str, NotebookNode],
        scores: dict[str, float],
        timestamp: str | None,
        unchanged: Set[str] = frozenset(),
    ) -> None:
        """Enter one student's graded notebooks.

        Args:
            assignment: the name of the assignment.
            student: the id of the student.
            graded: the notebooks as written for nbgrader, by name.
            scores: points by grade_id; a cell without points waits for a person.
            timestamp: the time of submission.
            unchanged: the cells whose answer has not changed since they were entered last; the points that a
                teacher gave for them need no second look.

        Raises:
            BadInputError: `student` cannot be a student's id.
        """
        self.book.update_or_create_student(require_valid(student))
        submission = self.book.update_or_create_submission(assignment, student, timestamp=timestamp)
        self._extend(submission)
        for submitted in submission.notebooks:
            if notebook := graded.get(submitted.name):
                self._enter_notebook(submitted, notebook, scores, unchanged)
                self._penalise(submission, submitted)

    def penalise(self, assignment: str, student: str) -> None:
        """Update the late penalty of an entered submission: the due date may have changed since."""
        submission = self.book.find_submission(assignment, student)
        self._extend(submission)
        for submitted in submission.notebooks:
            self._penalise(submission, submitted)

    def extend(self, assignment: str, student: str) -> None:
        """Give an entered submission the time that `class.csv` has for this student beyond the due date."""
        self._extend(self.book.find_submission(assignment, student))

    def _extend(self, submission: api.SubmittedAssignment) -> None:
        if submission.assignment.duedate is None:  # nbgrader cannot add to it
            submission.extension = None
            return
        assignment, student = submission.assignment.name, submission.student_id
        extra = self._class_file.extension(student, assignment)
        if extra is None and self._class_file.lines:
            person = self._roster.find(student)
            extra = self._class_file.extension(person.student, assignment) if person else None
        if extra is not None:
            submission.extension = extra or None

    @cached_property
    def _roster(self) -> Roster:
        return read_students(self.book.db, self._class_file)

    def held(self, assignment: str, student: str, notebook: str) -> dict[str, float | None]:
        """Return the grader's points by grade_id; an empty dictionary for a notebook without points."""
        try:
            grades = self.book.find_submission_notebook(notebook, assignment, student).grades
        except api.MissingEntry:
            return {}
        return {
            grade.name: grade.auto_score
            for grade in grades
            if grade.auto_score is not None or grade.manual_score is not None
        }

    def _enter_notebook(
        self,
        submitted: api.SubmittedNotebook,
        notebook: NotebookNode,
        scores: dict[str, float],
        unchanged: Set[str],
    ) -> None:
        cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}
        for grade in submitted.grades:
            cell, before = cells.get(grade.name), grade.auto_score
            if cell is not None and is_grade(cell) and is_solution(cell) and _untouched(cell):
                grade.auto_score = 0.0  # as nbgrader does: no answer, no points, nothing to read
            else:
                grade.auto_score = scores.get(grade.name)
            marked = grade.manual_score is not None
            if not (marked and grade.name in unchanged and grade.auto_score == before):
                grade.needs_manual_grade = marked or grade.auto_score is None
        for comment in submitted.comments:
            cell = cells.get(comment.name)
            comment.auto_comment = "No response." if cell is not None and _untouched(cell) else None

    def _penalise(self, submission: api.SubmittedAssignment, submitted: api.SubmittedNotebook) -> None:
        submitted.late_submission_penalty = None
        if submission.total_seconds_late > 0:
            self.book.db.flush()
            self.book.db.refresh(submitted)
            penalty = self._penalties.plugin_inst.late_submission_penalty(
                submission.student.id, submitted.score, submission.total_seconds_late
            )
            if penalty is not None:
                submitted.late_submission_penalty = self._penalties._check_late_penalty(submitted, penalty)

    def _reconcile(self, assignment: str, name: str, notebook: NotebookNode) -> None:
        """Add and remove cells of a notebook that has submissions, which `SaveCells` refuses to do."""
        try:
            known = self.book.find_notebook(name, assignment)
        except api.MissingEntry:
            return
        if not known.submissions:
            return
        marks = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}
        grades = {i: c for i, c in marks.items() if c.metadata.nbgrader.grade}
        solutions = {i: c for i, c in marks.items() if c.metadata.nbgrader.solution}
        for cell in [*known.grade_cells, *known.solution_cells]:
            if cell.name not in (grades if isinstance(cell, api.GradeCell) else solutions):
                self._remove(cell)
        for cell in known.source_cells:
            if cell.name not in marks:
                self.book.db.delete(cell)
        self.book.db.flush()
        self.book.db.expire(known)
        grade_ids = {cell.name for cell in known.grade_cells}
        solution_ids = {cell.name for cell in known.solution_cells}
        for grade_id in set(grades) - grade_ids:
            info = grades[grade_id].metadata.nbgrader
            cell = self.book.add_grade_cell(
                grade_id, name, assignment, max_score=float(info.points), cell_type=grades[grade_id].cell_type
            )
            self.book.db.add_all(api.Grade(cell_id=cell.id, notebook=s) for s in known.submissions)
        for grade_id in set(solutions) - solution_ids:
            cell = self.book.add_solution_cell(grade_id, name, assignment)
            self.book.db.add_all(api.Comment(cell_id=cell.id, notebook=s) for s in known.submissions)
        for grade_id in set(marks) - {cell.name for cell in known.source_cells}:
            self.book.add_source_cell(grade_id, name, assignment, cell_type=marks[grade_id].cell_type)
        self.book.db.flush()
        self.book.db.expire_all()

    def _remove(self, cell: Any) -> None:
        for row in [*cell.grades, *cell.comments]:
            by_hand = getattr(row, "manual_score", None), getattr(row, "extra_credit", None)
            if any(x is not None for x in by_hand) or getattr(row, "manual_comment", None):
                raise BadInputError(
                    f"the released notebook no longer has the cell {cell.name!r}, which was graded by hand "
                    f"for {row.student.id}. Nothing has changed. Put the cell back, or run autograder adopt. "
                    "It keeps a copy of the gradebook and lists the marks that have no cell any more."
                )
            self.book.db.delete(row)
        self.book.db.delete(cell)


def _untouched(cell: NotebookNode) -> bool:
    return bool(cell.metadata.nbgrader.get("checksum") == compute_checksum(cell))


@contextmanager
def reading(course: Course) -> Iterator[Session]:
    """Yield a session to read the gradebook with.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    require(course)
    with connected(course) as connection, Session(connection) as session:
        yield session


def due_dates(course: Course) -> dict[str, datetime]:
    """Return the due date for everybody of each assignment that has one, in UTC.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    with reading(course) as session:
        found = session.execute(select(api.Assignment.name, api.Assignment.duedate)).all()
    return {name: due for name, due in found if due}


def read(course: Course, assignment: str) -> list[Row]:
    """Return the rows of an assignment in the gradebook: one for each student with a submission, by name.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    return read_all(course, [assignment])[assignment]


def read_all(course: Course, assignments: list[str]) -> dict[str, list[Row]]:
    """Return the rows of several assignments, by assignment, with one query for each table.

    Raises:
        BadInputError: the course has no gradebook, or it cannot be read.
    """
    with reading(course) as session:
        rows = sorted(find_rows(session, assignments), key=lambda row: row.student)
    return {name: [row for row in rows if row.assignment == name] for name in assignments}
