"""A student who is forgotten is in no file and no table; one who asks gets everything."""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest
from classroom import FIRST, SECOND, add_work, new_class, opened, rows
from scratch import in_process, tree
from sqlalchemy import inspect
from sqlalchemy.exc import OperationalError

from autograder.course.class_file import ClassFile
from autograder.course.layout import Course
from autograder.grading.store import Identity, VerdictStore
from autograder.grading.verdict import Verdict
from autograder.roster import forget
from autograder.roster.people import Person, write

ADA, MAIL = "zoë.o'neill", "zo.neill@uni.de"
TRACES = (
    ADA,
    json.dumps(ADA)[1:-1],
    "zoë.o&#39;neill",
    MAIL,
    "Zoë",
    "O'Neill",
    "O&#39;Neill",
    "private remark",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A class with a student of whom there is something at every place, and another beside."""
    folder = new_class(tmp_path_factory.mktemp("forget") / "course", {("bob", FIRST): 2})
    for assignment in (FIRST, SECOND):
        add_work(folder, ADA, assignment, 8)
    course = Course.at(folder)
    write(course, [Person(ADA, "Zoë", "O'Neill", MAIL, "13", ("Monday",)), Person("bob", "Bob", "B")])
    with opened(folder) as book:
        book.find_comment("explain", FIRST, FIRST, ADA).manual_comment = "a private remark " * 3000
        book.db.commit()
    state = folder / ".autograder"
    for path, text in (
        (state / "replaced" / FIRST / ADA / "1.ipynb", f"the version before of {ADA}"),
        (state / "problems" / f"{SECOND}.json", json.dumps({ADA: f"{ADA}: not JSON", "bob": "empty"})),
        (state / "feedback.json", json.dumps({f"{ADA}/{FIRST}/{FIRST}": "1", f"bob/{FIRST}/{FIRST}": "2"})),
        (state / "collected" / f"{FIRST}.json", json.dumps({ADA: {"path": f"x/{ADA}.ipynb"}, "bob": {}})),
        (folder / "reports" / f"feedback-mail-{FIRST}.mbox", f"to {ADA}"),
        (folder / "variants" / ADA / FIRST / "x.ipynb", "{}"),
        (state / "variants" / ADA / f"{FIRST}.md", "answers"),
        (folder / ".nbgrader.log", f"autograde {ADA}\nautograde bob\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    here = ClassFile.read(course)
    here.set_extension(ADA, FIRST, 2)
    here.write()
    for student in (ADA, "bob"):
        data = (folder / "submitted" / student / FIRST / f"{FIRST}.ipynb").read_bytes()
        with VerdictStore(state / "verdicts" / f"{FIRST}.jsonl") as store:
            identity = Identity(hashlib.sha256(data).hexdigest(), "c", {})
            store.add(identity, Verdict("graded", f"of {student}", notebook=json.loads(data)))
    return folder


@pytest.fixture
def course(made, tmp_path):
    return shutil.copytree(made, tmp_path / "course")


def naming(folder, texts):
    """The files whose path or bytes have one of the texts, and the tables with it in a row."""
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        name = str(path.relative_to(folder))
        if "solutions" not in name and any(t in name or t.encode() in data for t in texts):
            found.append(name)
    with opened(folder) as book:
        tables = inspect(book.engine).get_table_names()
    with sqlite3.connect(folder / "gradebook.db") as connection:
        for table in tables:
            content = "\n".join(map(str, connection.execute(f"SELECT * FROM {table}")))
            found += [table] if any(text in content for text in texts) else []
    return found


@pytest.mark.slow
def test_no_trace_is_left(course):
    in_process("report", FIRST, cwd=course)
    expected = {"gradebook.db", "class.csv", ".nbgrader.log", f"reports/{FIRST}.html", "student", "comment"}
    expected |= {f".autograder/{name}" for name in ("feedback.json", f"verdicts/{FIRST}.jsonl")}
    assert {*naming(course, TRACES)} >= expected
    bob, others = rows(course)["bob"], naming(course, ["bob"])
    done = in_process("forget", ADA, "--yes", cwd=course)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert f"{ADA} is forgotten: 16 files, 2 submissions, 1 verdict" in done.stdout.replace("\n", " ")
    assert naming(course, TRACES) == []
    with sqlite3.connect(course / "gradebook.db") as connection:  # where SQLite overwrites nothing by itself
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert (rows(course)["bob"], naming(course, ["bob"])) == (bob, others)
    again = in_process("forget", ADA, "--yes", cwd=course)
    assert again.exit_code == 2


def test_nothing_is_removed_without_a_yes(course):
    before = tree(course)
    for args, message in (((ADA,), "add --yes"), (("nobody", "--yes"), "nothing of a student")):
        done = in_process("forget", *args, cwd=course)
        assert done.exit_code == 2
        assert message in done.stderr
    assert tree(course) == before


@pytest.mark.slow
def test_what_two_handed_in_stays_for_the_other(course):
    same = (course / "submitted" / ADA / FIRST / f"{FIRST}.ipynb").read_bytes()
    (course / "submitted" / "bob" / FIRST / f"{FIRST}.ipynb").write_bytes(same)
    in_process("forget", ADA, "--yes", cwd=course)
    assert len((course / ".autograder" / "verdicts" / f"{FIRST}.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.slow
def test_files_of_ones_own_that_name_the_student_are_told(course):
    (course / "grades.csv").write_text(f"student,points\n{ADA},8\n")
    shutil.copy(course / "gradebook.db", course / "gradebook.db.bak")
    (course / "other.txt").write_text(f"x{ADA}x")  # another word
    for name in (".venv/pyvenv.cfg", "env/pyvenv.cfg", ".venv/lib/a.py", "env/lib/a.py", "node_modules/a.js"):
        (course / name).parent.mkdir(parents=True, exist_ok=True)
        (course / name).write_text(ADA)  # libraries are not about a student
    done = in_process("forget", ADA, "--yes", "--json", cwd=course)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["left"] == ["gradebook.db.bak", "grades.csv"]


def test_one_student_gets_everything_and_nothing_of_others(course):
    (course / "grades.csv").write_text(f"student,points\n{ADA},8\nbob,2\n")
    done = in_process("export", "--student", ADA, "--output", course / "zoe.zip", cwd=course)
    assert done.exit_code == 0, done.stderr
    with zipfile.ZipFile(course / "zoe.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    whole = b"\n".join(files.values()).decode()
    for text in (ADA, MAIL, "private remark", "the version before", "Monday", "not JSON", f"of {ADA}"):
        assert text in whole, text
    assert "bob" not in whole
    ours = {*(f"{place}/{name}/{name}" for place in ("submitted", "autograded") for name in (FIRST, SECOND))}
    assert {name.removesuffix(".ipynb") for name in files} >= ours
    assert "grades.csv" in files["README.txt"].decode()
    (first, _) = sorted(json.loads(files["grades.json"]), key=lambda one: one["assignment"])
    assert [grade["auto_score"] for grade in first["notebooks"][0]["grades"]] == [4, 4]
    data = (course / "zoe.zip").read_bytes()
    (course / "zoe.zip").unlink()
    in_process("export", "--student", ADA, "--output", course / "zoe.zip", cwd=course)
    assert (course / "zoe.zip").read_bytes() == data


def test_everything_of_nobody_is_refused(course):
    for args in (("nobody", "--output", course / "x.zip"), (ADA,)):
        assert in_process("export", "--student", *args, cwd=course).exit_code == 2
    assert not (course / "x.zip").exists()


@pytest.mark.parametrize("also", [("--json",), (FIRST,), ("--format", "canvas")])
def test_everything_is_exported_in_one_form(course, also):
    done = in_process("export", "--student", ADA, "--output", course / "x.zip", *also, cwd=course)
    assert done.exit_code == 2
    assert "--student takes no" in done.stderr
    assert not (course / "x.zip").exists()


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_finished_by_the_same_command(course, monkeypatch):
    """Stopped before each of its deletions in turn."""
    delete, stops = shutil.rmtree, 0
    while True:
        left = [stops]

        def stopping(*args, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return delete(*args)

        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", stopping)
            done = in_process("forget", ADA, "--yes", cwd=course)
        if done.exit_code == 0:
            break
        assert done.exit_code == 130
        assert rows(course)[ADA].total == 8
        stops += 1
    assert stops > 0
    assert naming(course, TRACES) == []


@pytest.mark.slow
def test_a_gradebook_that_cannot_be_written_anew_is_finished_by_the_same_command(course, monkeypatch):
    statement = forget.text

    def fails(words):
        if words == "VACUUM":
            raise OperationalError(words, None, Exception("database or disk is full"))
        return statement(words)

    with monkeypatch.context() as patched:
        patched.setattr(forget, "text", fails)
        done = in_process("forget", ADA, "--yes", cwd=course)
    assert done.exit_code == 2
    assert "disk is full" in done.stderr
    (course / "grades.csv").write_text("student\nZoë O'Neill\n")
    again = in_process("forget", ADA, "--yes", "--json", cwd=course)
    assert json.loads(again.stdout)["left"] == ["grades.csv"]
    (course / "grades.csv").unlink()
    assert naming(course, TRACES) == []
    assert in_process("forget", ADA, "--yes", cwd=course).exit_code == 2


@pytest.mark.slow
def test_a_short_id_is_no_word_of_a_text(course):
    (course / ".autograder" / "problems" / f"{SECOND}.json").write_text('{"a": "not JSON"}')
    (course / "notes.txt").write_text("a note\n")
    (course / "a note.csv").write_text("what\nthis is a note\n")
    (course / "old.csv").write_text("student,points\na,8\n")
    with contextlib.closing(sqlite3.connect(course / "old.db")) as database:
        database.execute("CREATE TABLE student (id TEXT)")
        database.execute("INSERT INTO student VALUES ('a')")
        database.commit()
    (course / "folder" / "a").mkdir(parents=True)
    done = in_process("forget", "a", "--yes", "--json", cwd=course)
    assert json.loads(done.stdout)["left"] == ["old.csv", "old.db", "folder/a"]


def test_a_name_in_another_encoding_and_a_damaged_copy_stop_nothing(course):
    """An old program has unpacked the files; a copy of a database was cut off."""
    for folder in (course, course / "submitted" / "bob" / FIRST):
        Path(folder, os.fsdecode(b"Pr\xfcfung bob.csv")).write_text("bob;1")
    (course / "old.db").write_bytes((course / "gradebook.db").read_bytes()[:8000])
    for extra in ((), ("--json",)):
        folder = shutil.copytree(course, course.parent / f"copy{len(extra)}")
        done = in_process("export", "--student", "bob", "--output", folder / "bob.zip", cwd=folder)
        assert done.exit_code == 0, done.stderr
        with zipfile.ZipFile(folder / "bob.zip") as archive:
            assert f"submitted/{FIRST}/Pr\\udcfcfung bob.csv" in archive.namelist()
        (folder / "bob.zip").unlink()
        done = in_process("forget", "bob", "--yes", *extra, cwd=folder)
        assert done.exit_code == 1, done.output
        assert r"Pr\udcfcfung bob.csv" in done.output


def test_a_student_of_whom_only_a_record_is_left_is_forgotten(course):
    """A run was interrupted after it had deleted the only file, which could not be graded."""
    (course / ".autograder" / "problems" / f"{SECOND}.json").write_text('{"quentin": "not JSON", "bob": "x"}')
    assert in_process("forget", "quentin", "--yes", cwd=course).exit_code == 0
    assert naming(course, ["quentin"]) == []


@pytest.mark.parametrize(
    "args", [("forget", ADA, "--yes"), ("export", "--student", ADA, "--output", "x.zip")]
)
def test_work_under_another_name_is_not_overlooked(course, args):
    with opened(course) as book:
        name = "Zoë O'Neill_13"
        book.update_or_create_student(name)
    before = tree(course)
    done = in_process(*args, cwd=course)
    assert done.exit_code == 2
    assert f"{ADA} is also in the gradebook as {name}" in done.stderr
    assert "autograder roster unite" in done.stderr
    assert tree(course) == before
