"""The gradebook on a PostgreSQL server of its own: what SQLite gives, and what only a server can do wrong."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from scratch import AS_GRADED, ASSIGNMENT, graded, hand_in, in_process, tree

from autograder.course import databases
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.release.publish import notebooks
from autograder.reports import feedback

psycopg = pytest.importorskip("psycopg", reason="needs psycopg, which speaks to PostgreSQL")
from nbgrader.api import Gradebook  # noqa: E402

pytestmark = pytest.mark.slow

PASSWORD = "s3cr:t@w/rd"
IN_A_URL = "s3cr%3At%40w%2Frd"
GRADE = ("grade", "--executor", "kept", *AS_GRADED, "--submissions")


class Server:
    """A throw-away cluster on loopback, run by an account that may not be root's."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.account = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.count = 0
        if self.account:
            shutil.chown(folder, **self.account)
        (folder / "password").write_text(PASSWORD)
        owner = ["-U", "teacher", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}"]
        self._run("initdb", "-D", folder / "data", "--no-sync", "--no-locale", "-E", "UTF8", *owner)

    def _run(self, program, *args):
        with (self.folder / "log").open("a") as log:
            subprocess.run(
                [self.programs / program, *args],
                cwd=self.folder,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=60,
                **self.account,
            )

    def start(self):
        on = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-o", on, "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def url(self, database, user="teacher", password=IN_A_URL):
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    @contextlib.contextmanager
    def connected(self, database):
        address = f"host=127.0.0.1 port={self.port} user=teacher password='{PASSWORD}' dbname={database}"
        with contextlib.closing(psycopg.connect(address, autocommit=True)) as connection:
            yield connection

    def new_database(self):
        self.count += 1
        name = f"course_{self.count}"
        with self.connected("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name


def programs():
    """Where the server's programs lie: Debian keeps them off the path, a folder for each version."""
    if found := shutil.which("pg_ctl"):
        return Path(found).parent
    of_versions = Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")
    newest = max(of_versions, key=lambda path: float(path.parts[-3]), default=None)
    return newest.parent if newest else None


@pytest.fixture(scope="module")
def server(do_without):
    found = programs()
    if not found:
        do_without("postgres", "no PostgreSQL server here (Debian: apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:  # under pytest's the account sees nothing
        Path(folder).chmod(0o755)
        server = Server(found, Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def database(server):
    return server.new_database()


@pytest.fixture
def db(server, database):
    return server.url(database)


def rows(course, db=None):
    return gradebook.read(Course.at(course, db), ASSIGNMENT)


def row(course, db, student):
    return next(row for row in rows(course, db) if row.student == student)


def refused(*args, cwd, says):
    """The command ends with 2 and these words, without a traceback or the password."""
    done = in_process(*args, cwd=cwd)
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, done.stdout + told
    assert not re.search("Traceback|s3cr|teacher|sqlalche", done.stdout + told), told
    for words in says:
        assert words in told
    return told


def test_the_same_grades_as_in_a_file(few, db):
    """Entered from the verdicts that the file was filled from; nothing in the folder holds the password."""
    done = in_process(*GRADE, few / "submitted", "--db", db, cwd=few)
    assert done.exit_code == 0, done.stderr
    assert rows(few, db) == rows(few)
    (few / "gradebook.db").rename(few / "other.db")
    filed = in_process("export", "--db", "sqlite:///other.db", cwd=few)
    assert in_process("export", "--db", db, cwd=few).stdout == filed.stdout != ""
    assert in_process("report", ASSIGNMENT, "--json", "--db", db, cwd=few).exit_code == 0
    assert not (few / "gradebook.db").exists()
    assert not any(b"s3cr" in path.read_bytes() for path in few.rglob("*") if path.is_file())


@pytest.mark.slow
def test_the_same_feedback_as_from_a_file(few, db):
    graded(few, db)
    (few / "gradebook.db").rename(few / "other.db")
    assert in_process("feedback", "--db", "sqlite:///other.db", cwd=few).exit_code == 0
    filed = tree(few / "feedback")
    assert len(filed) > len(rows(few, db))
    done = in_process("feedback", "--db", db, "--force", cwd=few)
    assert done.exit_code == 0, done.stderr
    assert tree(few / "feedback") == filed
    assert not (few / "gradebook.db").exists()


def by_hand(course, db, student, **scores):
    """Enters points as formgrader does, by nbgrader's own classes."""
    with Gradebook(Course.at(course, db).db_url) as book:
        for name, score in scores.items():
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, student)
            grade.manual_score, grade.needs_manual_grade = score, False
        book.db.commit()


def test_points_given_by_hand_stay(few, db, students):
    graded(few, db)
    by_hand(few, db, "style-01", softmax=1.0)
    before = row(few, db, "style-01")
    graded(few, db)
    assert row(few, db, "style-01") == before
    assert before.scores["softmax"] == 1.0
    hand_in(few, "style-01", students["mistake-01"][0])
    graded(few, db)
    now = row(few, db, "style-01")
    assert now.scores["softmax"] == 1.0
    assert "softmax" in now.needs_manual_grade


def test_a_question_put_in_and_taken_away_later(few, db):
    """A server holds rows to their keys, which SQLite does not."""
    from test_gradebook import add_question, change_release

    graded(few, db)
    course = Course.at(few, db)
    for edit, questions in ((add_question, {"another"}), (lambda nb: nb["cells"].pop(), set())):
        change_release(few, edit)
        with gradebook.opened(course) as book:
            book.learn(ASSIGNMENT, notebooks(course, ASSIGNMENT))
        assert row(few, db, "style-01").scores.keys() - row(few, None, "style-01").scores.keys() == questions
    assert rows(few, db) == rows(few)


def waiting(connection):
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    return connection.execute(query).fetchone()[0]


def test_two_graders_at_once(few, db, server, database, students, tmp_path):
    """From two folders into one empty database: the second waits for the first; both are entered."""
    other = Path(shutil.copytree(few, tmp_path / "other"))
    shutil.move(other / "submitted" / "style-01", other / "submitted" / "another")
    problems = []

    def grade_other():
        try:
            graded(other, db)
        except BaseException as error:
            problems.append(error)

    second = threading.Thread(target=grade_other)
    course = Course.at(few, db)
    with server.connected(database) as looking, gradebook.opened(course) as book:
        book.learn(ASSIGNMENT, notebooks(course, ASSIGNMENT))
        second.start()
        deadline = time.monotonic() + 30
        while not waiting(looking) and second.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    second.join(60)
    assert not problems
    graded(few, db)
    assert {one.student for one in rows(few, db)} == {one.student for one in rows(few)} | {"another"}
    assert [one for one in rows(few, db) if one.student != "another"] == rows(few)


def test_a_server_that_stops_while_points_are_entered(few, db, server, monkeypatch):
    enter, entered = gradebook.GradebookWriter.enter, []

    def enter_and_stop(self, *args):
        enter(self, *args)
        self.book.db.flush()
        entered.append(args)
        if len(entered) == 2:
            server.stop()

    try:
        with monkeypatch.context() as patch:
            patch.setattr(gradebook.GradebookWriter, "enter", enter_and_stop)
            refused(*GRADE, few / "submitted", "--db", db, cwd=few, says=["Nothing in it has changed"])
        before = tree(few)
        for args in ((*GRADE, few / "submitted"), ("feedback",), ("report", ASSIGNMENT), ("export",)):
            says = ["cannot be used", "on 127.0.0.1", "Make sure that the server runs"]
            refused(*args, "--db", db, cwd=few, says=says)
        assert tree(few) == before
    finally:
        server.start()
    assert len(entered) == 2
    assert not gradebook.exists(Course.at(few, db)) or not rows(few, db)
    assert not any(one.new for one in graded(few, db).graded)
    assert rows(few, db) == rows(few)


def test_a_server_that_stops_while_feedback_is_written_costs_no_page(few, db, server):
    graded(few, db)
    course = Course.at(few, db)

    def stop(done, total):
        if done == 1:
            server.stop()

    try:
        feedback.write_feedback(course, [ASSIGNMENT], progress=stop)
    finally:
        server.start()
    assert len(list((few / "feedback").rglob("*.html"))) == len(rows(few))


def test_a_table_that_another_program_holds(few, db, server, database, monkeypatch):
    graded(few, db)
    before = rows(few, db), tree(few)
    monkeypatch.setitem(databases.BOUNDS, "options", "-c lock_timeout=300ms")
    with server.connected(database) as other, other.transaction():
        other.execute("LOCK TABLE grade IN ACCESS EXCLUSIVE MODE")
        for args in ((*GRADE, few / "submitted"), ("feedback",), ("report", ASSIGNMENT), ("export",)):
            refused(*args, "--db", db, cwd=few, says=["is locked by another program", "wait until"])
    assert (rows(few, db), tree(few)) == before


def test_an_account_that_may_only_read(few, db, server, database):
    """It is told before anything is graded."""
    graded(few, db)
    with server.connected(database) as connection:
        connection.execute("DROP ROLE IF EXISTS assistant")
        connection.execute("CREATE ROLE assistant LOGIN PASSWORD 'x'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO assistant")
    reading = server.url(database, "assistant", "x")
    before = tree(few)
    refused(*GRADE, few / "submitted", "--force", "--db", reading, cwd=few, says=["permission denied"])
    assert tree(few) == before
    assert in_process("export", "--db", reading, cwd=few).stdout.count("\n") > 1
    with server.connected(database) as connection:
        connection.execute("DROP OWNED BY assistant; DROP ROLE assistant")


def test_another_database(few, db, server, database):
    with server.connected(database) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    name = f"the database {database} on 127.0.0.1"
    says = [name, "is not a gradebook of nbgrader", "Name another database"]
    for args in ((*GRADE, few / "submitted"), ("export",)):
        refused(*args, "--db", db, cwd=few, says=says)


def test_a_wrong_password_or_database_is_told_without_the_password(few, server):
    for url in (server.url("course_1", password="s3cret"), server.url("nowhere")):
        refused("export", "--db", url.replace("teacher", "tutor"), cwd=few, says=["cannot be used"])
    refused("export", "--db", server.url("nowhere"), cwd=few, says=['"nowhere" does not exist'])


@pytest.mark.parametrize(
    "address",
    ["grades.db", "postgresql://u@host:s3cr/d", "mysql://u:s3cr@h/d", "postgresql://h", "sqlite://"],
)
def test_what_is_no_address(few, address):
    refused("export", "--db", address, cwd=few, says=["expected sqlite:///FILE or postgresql://"])


def test_nbgraders_own_db_option_reaches_the_plugin(few, monkeypatch):
    from traitlets.config import Application, Config

    from autograder.platforms.nbgrader_plugin import teach_gradebook

    monkeypatch.chdir(few)
    (few / "gradebook.db").unlink()
    Application.clear_instance()
    Application.instance(config=Config({"CourseDirectory": {"db_url": "sqlite:///other.db"}}))
    try:
        teach_gradebook(ASSIGNMENT, "ada", [])
    finally:
        Application.clear_instance()
    assert (few / "other.db").exists()
    assert not (few / "gradebook.db").exists()
