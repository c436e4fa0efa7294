"""nbgrader's gradebook: checked before it is touched, written in one transaction, read for every report."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import nbformat
from alembic.script import ScriptDirectory
from nbgrader import api, dbutil
from nbgrader.preprocessors import AssignLatePenalties, SaveCells
from nbgrader.utils import compute_checksum, is_grade, is_solution
from sqlalchemy import Connection, create_engine, false, func, inspect, select, text, update
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from sqlalchemy.orm import Session, selectinload

from autograder.course import databases
from autograder.course.errors import BadInputError
from autograder.course.files import Files, require_writable
from autograder.course.layout import Course
from autograder.course.student_ids import require_valid

_NAMED = "--db or c.CourseDirectory.db_url in nbgrader_config.py"
_HELD = ("locked", "busy", "lock timeout")
_ONE_WRITER = 0x6772616465  # "grade"; the server's lock that a grader holds while it writes
_QUIET = logging.Logger("nbgrader-gradebook", logging.CRITICAL)


@dataclass(frozen=True)
class Row:
    """One student's assignment as the gradebook has it. Scores are what counts: a teacher's before ours."""

    student: str
    assignment: str
    scores: dict[str, float] = field(default_factory=dict)
    max_scores: dict[str, float] = field(default_factory=dict)
    needs_manual_grade: tuple[str, ...] = ()
    late_seconds: float = 0.0
    late_penalty: float = 0.0
    comments: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.scores.values()) - self.late_penalty

    @property
    def max_total(self) -> float:
        return sum(self.max_scores.values())


def expected_revision() -> str:
    """The schema that the installed nbgrader works with."""
    return str(ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head())


def exists(course: Course) -> bool:
    """Whether there is a gradebook, of the right schema.

    Reads only: a gradebook that is not ours to change is not changed by looking.

    Raises:
        BadInputError: something else is in its place.
    """
    path, name = course.db_file, databases.describe(course.db_url)
    if path is not None and (not path.exists() or path.stat().st_size == 0):
        return False
    away = "Move it away, or name another" if path else "Name another database"
    url = f"sqlite:///file:{path}?mode=ro&uri=true" if path else course.db_url
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            looked = inspect(connection)
            tables = set(looked.get_table_names())
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
                if column.name not in {there["name"] for there in looked.get_columns(name)}
            ]
    except SQLAlchemyError as error:
        raise cannot_be_used(course, error) from error
    finally:
        engine.dispose()
    missing = set(api.Base.metadata.tables) - tables
    if revision is None or (revision == expected_revision() and missing):
        raise BadInputError(
            f"{name} is no gradebook of nbgrader: it lacks the tables "
            f"{', '.join(sorted(missing or {'alembic_version'}))}. {away} with {_NAMED}."
        )
    if revision != expected_revision():
        raise BadInputError(
            f"{name} has the schema {revision}, but the installed nbgrader expects "
            f"{expected_revision()}. Make a copy of it, then run: nbgrader db upgrade"
        )
    if lacking:
        raise BadInputError(
            f"{name} lacks the columns {', '.join(lacking)}, which nbgrader needs: "
            "something other than nbgrader has changed it. Put back a copy from before, or move it away."
        )
    return True


def cannot_be_used(course: Course, error: SQLAlchemyError) -> BadInputError:
    """What to tell of a gradebook that cannot be read: one that is only busy must not be moved away."""
    path, why, name = course.db_file, _why(error), databases.describe(course.db_url)
    if any(word in why for word in _HELD):
        return BadInputError(
            f"{name} is held by another program ({why}), perhaps formgrader or another command of nbgrader. "
            "Close that, or wait until it has ended, then run this again. Leave it where it is."
        )
    if path is None:
        return BadInputError(
            f"{name} cannot be used ({why}). Make sure that the server runs and that you may use that "
            "database, then run this again: what was graded is remembered."
        )
    if path.is_dir():
        return BadInputError(
            f"{name} is a folder, but must be the file of the gradebook. Move that folder away, or name "
            f"another place with {_NAMED}."
        )
    if "disk I/O" in why or "unable to open" in why:
        return BadInputError(
            f"{name} cannot be read from the disk ({why}). Make sure that the disk is well and that you may "
            "read the file, then run this again; keep a copy of it."
        )
    return BadInputError(
        f"{name} cannot be opened as a gradebook ({why}). Move it away, or name another with {_NAMED}."
    )


def require(course: Course) -> None:
    """Makes sure that there is a gradebook to read.

    Raises:
        BadInputError: there is none yet.
    """
    if not exists(course):
        raise BadInputError(
            "there is no gradebook yet: nothing has been graded here. Run: autograder grade --submissions DIR"
        )


def require_usable(course: Course) -> None:
    """Makes sure that grades can be written, before anything is.

    Raises:
        BadInputError: why not.
    """
    exists(course)
    if course.db_file is None:
        with _taken_back(course) as connection:  # the server may not let us, or only let us read
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
            with _taken_back(course) as connection:
                _begin(connection)


@contextmanager
def opened(course: Course) -> Iterator[GradebookWriter]:
    """A writer whose changes all take effect at the end of the block, or not at all.

    Raises:
        BadInputError: the gradebook is locked by another program, or the disk is full.
    """
    api.app_log.disabled = True  # nbgrader logs the whole trace of what is told in a sentence below
    try:
        _create(course)
        book = api.Gradebook(course.db_url, str(course.coursedir().course_id or "default_course"))
        with book, warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # of nbgrader's way of linking new rows
            commit = book.db.commit
            book.db.commit = book.db.flush
            try:
                _begin(book.db.connection())
                book.check_course()  # the name under which nbgrader's own preprocessors open a gradebook
                yield GradebookWriter(book, course)
                commit()
            except BaseException:
                book.db.rollback()
                raise
    except (api.InvalidEntry, SQLAlchemyError) as error:
        raise BadInputError(
            f"the gradebook cannot be written ({_why(error)}). Nothing in it has changed. If another "
            "program holds it, close that; then run the same command again: what was graded is remembered."
        ) from error
    finally:
        api.app_log.disabled = False


def _why(error: Exception) -> str:
    """What the database says, in one line; SQLAlchemy adds the statement, and its values, after it."""
    told = str(getattr(error, "orig", None) or (error.args or [error])[0]).splitlines()[0]
    return re.sub(r"^\([\w.]+\) ", "", told)


def _create(course: Course) -> None:
    """Makes an empty gradebook, if there is none. nbgrader does it by alembic, which takes four seconds."""
    if exists(course):
        return
    engine = create_engine(course.db_url)
    with engine.begin() as connection:
        _create_tables(connection)
    engine.dispose()


def _create_tables(connection: Connection) -> None:
    _begin(connection)
    if inspect(connection).get_table_names():  # made while we waited
        return
    api.Base.metadata.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    insert = text("INSERT INTO alembic_version (version_num) VALUES (:head)")
    connection.execute(insert, {"head": expected_revision()})


def _begin(connection: Connection) -> None:
    """Waits until no other grader writes; until this transaction ends, others wait for us.

    For a file it also begins the transaction, which Python's driver would do only after tables are made.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(_ONE_WRITER)))


@contextmanager
def _taken_back(course: Course) -> Iterator[Connection]:
    """A connection to try on whether the gradebook can be written; what is written is taken back."""
    engine = create_engine(course.db_url)
    try:
        with engine.connect() as connection:
            yield connection
            connection.rollback()
    except SQLAlchemyError as error:
        raise cannot_be_used(course, error) from error
    finally:
        engine.dispose()


class GradebookWriter:
    """Enters what the grader found; never touches what a teacher entered."""

    def __init__(self, book: api.Gradebook, course: Course) -> None:
        self.book = book
        self._penalties = AssignLatePenalties(config=course.config, log=_QUIET)
        self._penalties.init_plugin()

    def learn(self, assignment: str, released: Files) -> None:
        """Enters an assignment with its graded cells, or brings them up to date.

        Raises:
            BadInputError: a cell has gone that a teacher has graded by hand.
        """
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
        graded: dict[str, nbformat.NotebookNode],
        scores: dict[str, float],
        timestamp: str | None,
        unchanged: Set[str] = frozenset(),
    ) -> None:
        """Enters one student's graded notebooks.

        Args:
            assignment: the assignment.
            student: who.
            graded: the notebooks as written for nbgrader, by name.
            scores: points by grade_id; a cell that is not in it waits for a person.
            timestamp: when it was handed in.
            unchanged: the cells whose answer is what it was when it was entered last; what a teacher has
                marked there need not be looked at again.

        Raises:
            BadInputError: that cannot be a student's id.
        """
        self.book.update_or_create_student(require_valid(student))
        submission = self.book.update_or_create_submission(assignment, student, timestamp=timestamp)
        for submitted in submission.notebooks:
            if notebook := graded.get(submitted.name):
                self._enter_notebook(submitted, notebook, scores, unchanged)
                self._penalise(submission, submitted)

    def penalise(self, assignment: str, student: str) -> None:
        """Works out the late penalty of a submission that is entered: a due date may have come since."""
        submission = self.book.find_submission(assignment, student)
        for submitted in submission.notebooks:
            self._penalise(submission, submitted)

    def held(self, assignment: str, student: str) -> dict[str, float | None]:
        """The points that the gradebook has from the grader, by grade_id; nothing of who is not in it."""
        try:
            submission = self.book.find_submission(assignment, student)
        except api.MissingEntry:
            return {}
        return {grade.name: grade.auto_score for nb in submission.notebooks for grade in nb.grades}

    def _enter_notebook(
        self,
        submitted: api.SubmittedNotebook,
        notebook: nbformat.NotebookNode,
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

    def _reconcile(self, assignment: str, name: str, notebook: nbformat.NotebookNode) -> None:
        """Adds and removes cells of a notebook that has submissions, which `SaveCells` refuses to do."""
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
        there = {cell.name for cell in known.grade_cells}, {cell.name for cell in known.solution_cells}
        for grade_id in set(grades) - there[0]:
            info = grades[grade_id].metadata.nbgrader
            cell = self.book.add_grade_cell(
                grade_id, name, assignment, max_score=float(info.points), cell_type=grades[grade_id].cell_type
            )
            self.book.db.add_all(api.Grade(cell_id=cell.id, notebook=s) for s in known.submissions)
        for grade_id in set(solutions) - there[1]:
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
                    f"for {row.student.id}. Put the cell back, or delete that grade in formgrader. Nothing "
                    "has changed."
                )
            self.book.db.delete(row)
        self.book.db.delete(cell)


def _untouched(cell: nbformat.NotebookNode) -> bool:
    return bool(cell.metadata.nbgrader.get("checksum") == compute_checksum(cell))


def read(course: Course, assignment: str) -> list[Row]:
    """What the gradebook holds of an assignment: a row for each student who handed it in, by name.

    Raises:
        BadInputError: there is no gradebook, or it cannot be read.
    """
    require(course)
    engine = create_engine(course.db_url)
    submitted = api.SubmittedAssignment
    query = (
        select(submitted)
        .join(api.Assignment)
        .where(api.Assignment.name == assignment)
        .options(
            selectinload(submitted.assignment),
            selectinload(submitted.notebooks)
            .selectinload(api.SubmittedNotebook.grades)
            .selectinload(api.Grade.cell),
        )
    )
    try:
        with Session(engine) as session:
            rows = [_row(assignment, submission) for submission in session.scalars(query)]
    except SQLAlchemyError as error:
        raise cannot_be_used(course, error) from error
    finally:
        engine.dispose()
    return sorted(rows, key=lambda row: row.student)


def _row(assignment: str, submission: api.SubmittedAssignment) -> Row:
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    return Row(
        student=submission.student_id,
        assignment=assignment,
        scores={grade.name: float(grade.score) for grade in grades},
        max_scores={grade.name: float(grade.cell.max_score) for grade in grades},
        needs_manual_grade=tuple(sorted(grade.name for grade in grades if grade.needs_manual_grade)),
        late_seconds=float(submission.total_seconds_late),
        late_penalty=sum(n.late_submission_penalty or 0.0 for n in submission.notebooks),
        comments={c.name: c.comment for n in submission.notebooks for c in n.comments if c.comment},
    )
