"""Bad input: a message that says what is wrong and what to do, exit code 2, and nothing changed."""

import contextlib
import csv
import io
import json
import os
import re
import sqlite3
import subprocess

import pytest
from scratch import AS_GRADED, ASSIGNMENT, FULL, command, graded, hand_in, in_process, tree

from autograder.grading import batch, gradebook

GRADE = ("grade", "--executor", "kept", *AS_GRADED, "--submissions")


def refuses(course, *args, says):
    """The command ends with 2 and these words, without a traceback, and all stays as it was."""
    before = tree(course)
    done = in_process(*args, cwd=course)
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, done.stdout + told
    assert not done.stdout
    assert "Traceback" not in told
    for words in says:
        assert words in told
    assert tree(course) == before
    return told


@pytest.fixture
def handed_in(course, students):
    hand_in(course, "ada", students["blank"][0])
    return course


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [("release",), (*GRADE, "submitted"), ("feedback",), ("report",), ("export",)]
)
def test_no_such_assignment(handed_in, args):
    refuses(
        handed_in,
        args[0],
        "ch99_nothing",
        *args[1:],
        says=["no assignment is called 'ch99_nothing'", ASSIGNMENT],
    )


@pytest.mark.parametrize("args", [("release",), (*GRADE, "submitted"), ("feedback",), ("verify",)])
def test_no_course(tmp_path, args):
    refuses(tmp_path, *args, says=["is not a course", "nbgrader_config.py", "--course"])


def test_no_solutions(course):
    for path in (course / "solutions").rglob("*.ipynb"):
        path.unlink()
    refuses(course, "release", says=["holds no assignment"])


def test_submissions_folder_that_does_not_exist(course):
    refuses(course, *GRADE, course / "nowhere", says=["does not exist", "--submissions names a folder"])


def test_submissions_folder_that_is_a_file(course):
    path = course / "file"
    path.write_text("x")
    refuses(course, *GRADE, path, says=["is a file", "--submissions names a folder"])


def test_folder_that_is_no_submission(course):
    (course / "submitted" / "ada" / "holiday").mkdir(parents=True)
    (course / "submitted" / "ada" / "holiday" / "photo.txt").write_text("x")
    refuses(course, *GRADE, course / "submitted", says=["holds no submission", "<student>"])


@pytest.mark.slow
def test_named_assignment_that_nobody_handed_in(handed_in):
    refuses(
        handed_in, "grade", "ch03_scaling", "--submissions", handed_in / "submitted", says=["ch03_scaling"]
    )


def test_unknown_executor(handed_in):
    refuses(
        handed_in,
        "grade",
        "--executor",
        "cloud",
        "--submissions",
        handed_in / "submitted",
        says=["no executor is called 'cloud'", "processes"],
    )


@pytest.mark.parametrize(
    "option", [("--workers", "0"), ("--cell-limit", "-1"), ("--memory", "x"), ("--nonsense",)]
)
def test_bad_usage(handed_in, option):
    refuses(handed_in, "grade", *option, "--submissions", handed_in / "submitted", says=["Usage"])


BROKEN = {
    "not-json": (b"\x80\x04 not json", "is not JSON"),
    "json-but-no-notebook": (b'{"cells": 3}', "not a notebook of format 4"),
    "empty": (b"", "the file is empty"),
    "deeply-nested": (b"[" * 100_000, "is not JSON"),
    "too-much-text": (
        json.dumps({"cells": [{"cell_type": "code", "source": "#" * 200_000}] * 11}).encode(),
        "at most 2,097,152 are read",
    ),
}


@pytest.mark.slow
def test_unreadable_notebooks_are_listed_and_the_others_graded(handed_in, students):
    for student, (data, _) in BROKEN.items():
        hand_in(handed_in, student, data)
    done = in_process(*GRADE, handed_in / "submitted", "--json", cwd=handed_in)
    assert done.exit_code == 2
    told = json.loads(done.stdout)
    assert told["graded"] == 1
    assert {p["student"]: p["what"] for p in told["problems"]}.keys() == BROKEN.keys()
    for problem in told["problems"]:
        assert BROKEN[problem["student"]][1] in problem["what"]
    (row,) = gradebook.read(course_at(handed_in), ASSIGNMENT)  # missing, not zero
    assert row.student == "ada"
    assert [path.name for path in (handed_in / "autograded").iterdir()] == ["ada"]
    assert "not-json" in in_process("report", ASSIGNMENT, cwd=handed_in).stdout


def course_at(folder):
    from autograder.course.layout import Course

    return Course.at(folder)


def test_only_unreadable_notebooks_make_no_gradebook(course):
    hand_in(course, "ada", b"{")
    done = in_process(*GRADE, course / "submitted", cwd=course)
    assert done.exit_code == 2
    assert "not graded: ada" in done.stderr
    assert not (course / "gradebook.db").exists()
    assert not (course / "autograded").exists()


@pytest.mark.slow
def test_submission_under_another_name(handed_in):
    folder = handed_in / "submitted" / "bob" / ASSIGNMENT
    folder.mkdir(parents=True)
    (folder / "Untitled (1).ipynb").write_text("{}")
    done = in_process(*GRADE, handed_in / "submitted", cwd=handed_in)
    assert done.exit_code == 2
    assert "Untitled (1).ipynb" in done.stderr
    assert "Rename" in done.stderr


@pytest.mark.slow
def test_odd_entries_are_skipped_with_a_remark(handed_in, tmp_path):
    submitted = handed_in / "submitted"
    (submitted / ".git").mkdir()
    (submitted / "readme.txt").write_text("x")
    (submitted / "line\nbreak").mkdir()
    (submitted / " padded").mkdir()
    (submitted / ("x" * 200)).mkdir()
    (submitted / "link").symlink_to(submitted / "ada")
    os.mkdir(os.fsencode(submitted) + b"/\xff\xfe")
    done = in_process(*GRADE, submitted, "--json", cwd=handed_in)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [one["student"] for one in told["submissions"]] == ["ada"]
    assert len(told["remarks"]) == 7


@pytest.mark.slow
def test_links_are_not_followed(handed_in, tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text('{"cells": [], "secret": 1}')
    folder = handed_in / "submitted" / "eve" / ASSIGNMENT
    folder.mkdir(parents=True)
    (folder / f"{ASSIGNMENT}.ipynb").symlink_to(secret)
    (handed_in / "submitted" / "mal").mkdir()
    (handed_in / "submitted" / "mal" / ASSIGNMENT).symlink_to(handed_in / "submitted" / "ada" / ASSIGNMENT)
    done = in_process(*GRADE, handed_in / "submitted", "--json", cwd=handed_in)
    assert done.exit_code == 2
    assert {p["student"] for p in json.loads(done.stdout)["problems"]} == {"eve", "mal"}


@pytest.mark.slow
def test_too_large_a_file_is_not_read(handed_in):
    path = hand_in(handed_in, "big", b"")
    with path.open("wb") as file:
        file.truncate(200 << 20)
    done = in_process(*GRADE, handed_in / "submitted", cwd=handed_in)
    assert done.exit_code == 2
    assert "at most" in done.stderr


@pytest.mark.parametrize("name", ["autograded", ".autograder"])
def test_output_folder_that_is_a_file(handed_in, name):
    import shutil

    shutil.rmtree(handed_in / name, ignore_errors=True)
    (handed_in / name).write_text("in the way")
    refuses(handed_in, *GRADE, handed_in / "submitted", says=["must be a folder", "Move that file away"])


@contextlib.contextmanager
def read_only(folder):
    """Makes a folder read-only for everybody, root too, by whatever this machine allows."""
    tools = [
        (["mount", "--bind", folder, folder], ["umount", folder], ["mount", "-o", "remount,ro,bind", folder]),
        (["chattr", "+i", folder], ["chattr", "-i", folder], ["true"]),
    ]
    for on, off, then in tools:
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run(on, capture_output=True).returncode == 0:
                try:
                    if subprocess.run(then, capture_output=True).returncode == 0:
                        yield
                        return
                finally:
                    subprocess.run(off, capture_output=True, check=True)
    if os.geteuid() == 0:
        pytest.skip("neither a bind mount nor chattr is allowed here, and root may write anywhere else")
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "args"),
    [
        ("autograded", (*GRADE, "submitted")),
        (".", (*GRADE, "submitted")),
        ("notebooks", ("release",)),
        ("feedback", ("feedback",)),
        ("reports", ("report",)),
    ],
)
def test_read_only_output_folder(few, folder, args):
    (few / folder).mkdir(exist_ok=True)
    args = [few / a if a == "submitted" else a for a in args]
    with read_only(few / folder):
        refuses(few, *args, says=["must be writable", "permission"])


@pytest.mark.slow
def test_full_disk_stops_cleanly_and_the_run_resumes(handed_in, monkeypatch):
    from autograder.grading import written

    def no_space(*args):
        raise OSError(28, "No space left on device", "somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(written, "write_if_changed", no_space)
        done = in_process(*GRADE, handed_in / "submitted", cwd=handed_in)
        assert done.exit_code == 2
        assert "No space left on device" in done.stderr
    done = in_process(*GRADE, handed_in / "submitted", "--json", cwd=handed_in)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["unchanged"] == 1
    assert (handed_in / "autograded" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").is_file()


def other_revision(path):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE alembic_version SET version_num = '724cde206c17'")


def other_database(path):
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE recipes (name TEXT)")


def old_database(path):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE alembic_version")


def lacking_table(path):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE comment")


def lacking_column(path):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE grade DROP COLUMN extra_credit")


def folder_instead(path):
    path.unlink()
    (path / "x").mkdir(parents=True)


def no_database(path):
    path.write_bytes(b"dear diary\n" * 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (other_revision, ["has the schema 724cde206c17", "nbgrader db upgrade"]),
        (other_database, ["is not a gradebook of nbgrader", "Move it away"]),
        (old_database, ["is not a gradebook of nbgrader", "alembic_version"]),
        (lacking_table, ["is not a gradebook of nbgrader", "comment"]),
        (lacking_column, ["lacks the columns grade.extra_credit"]),
        (folder_instead, ["is a folder", "Move the folder away"]),
        (no_database, ["cannot be opened as a gradebook", "Move it away"]),
    ],
)
@pytest.mark.parametrize("args", [(*GRADE, "submitted"), ("feedback",), ("report",), ("export",)])
def test_gradebook_of_another_schema(few, students, spoil, says, args):
    hand_in(few, "new", students["blank"][0])
    spoil(few / "gradebook.db")
    refuses(few, *[few / a if a == "submitted" else a for a in args], says=says)


@pytest.mark.slow
def test_a_gradebook_that_is_locked_while_we_grade(few, students, monkeypatch):
    monkeypatch.setattr(gradebook, "require_usable", lambda course: None)  # at the start it was free
    hand_in(few, "new", students["blank"][0])
    before = tree(few / "autograded"), (few / "gradebook.db").read_bytes()
    with contextlib.closing(sqlite3.connect(few / "gradebook.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        done = in_process(*GRADE, few / "submitted", cwd=few)
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert (tree(few / "autograded"), (few / "gradebook.db").read_bytes()) == before
    assert in_process(*GRADE, few / "submitted", cwd=few).exit_code == 0


@pytest.mark.slow
def test_a_gradebook_that_another_program_holds_is_not_moved_away(few):
    with contextlib.closing(sqlite3.connect(few / "gradebook.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = in_process("export", cwd=few)
    assert done.exit_code == 2
    assert "locked by another program" in done.stderr
    assert "Move" not in done.stderr


@pytest.mark.slow
def test_a_broken_resubmission_keeps_the_points_and_says_so(few):
    hand_in(few, "style-01", b"{")
    hand_in(few, "new", b"")
    done = in_process(*GRADE, few / "submitted", cwd=few)
    assert done.exit_code == 2
    assert f"style-01 keeps {FULL} from the earlier version" in done.stderr
    assert "new keeps" not in done.stderr
    assert f"Keeps {FULL} from the earlier version" in " ".join(in_process("report", cwd=few).stdout.split())
    done = in_process("export", cwd=few)
    assert done.exit_code == 0
    lines = {line["student"]: line for line in csv.DictReader(io.StringIO(done.stdout))}
    assert lines["style-01"]["total"] == str(FULL)
    assert lines["style-01"]["remark"].startswith(f"keeps {FULL} from the earlier version")
    assert (lines["new"]["total"], lines["blank"]["remark"]) == ("", "")
    assert "the file is empty" in lines["new"]["remark"]
    assert f"1 submission is not graded: new, {ASSIGNMENT}" in done.stderr


@pytest.mark.slow
def test_problems_of_others_are_not_forgotten(few, students, tmp_path):
    for student in ("bad-1", "bad-2"):
        hand_in(few, student, b"{")
    in_process(*GRADE, few / "submitted", cwd=few)
    hand_in(tmp_path, "bad-3", b"{")
    done = in_process(*GRADE, tmp_path / "submitted", cwd=few)
    (line,) = (line for line in done.stdout.splitlines() if ASSIGNMENT in line)
    assert re.findall(r"\d+", line.replace(ASSIGNMENT, "")) == ["0", "0", "1"]  # graded, unchanged, problems
    assert set(batch.problems(course_at(few), ASSIGNMENT)) == {"bad-1", "bad-2", "bad-3"}
    hand_in(tmp_path, "bad-1", students["blank"][0])
    in_process(*GRADE, tmp_path / "submitted", cwd=few)
    assert set(batch.problems(course_at(few), ASSIGNMENT)) == {"bad-2", "bad-3"}
    (few / "submitted" / "bad-2").rename(few / "submitted" / "good-2")
    hand_in(few, "good-2", students["blank"][0])
    in_process(*GRADE, few / "submitted", cwd=few)
    assert set(batch.problems(course_at(few), ASSIGNMENT)) == {"bad-1", "bad-3"}


@pytest.mark.slow
@pytest.mark.parametrize("args", [("verify",), ("check", "softmax", "mine.py"), (*GRADE, "submitted")])
def test_damaged_seed(few, monkeypatch, args):
    monkeypatch.chdir(few)
    (few / "mine.py").write_text("def softmax(z): ...")
    (few / ".autograder" / "seed").write_text("abc")
    refuses(few, *args, says=["must hold one number", "Delete it"])


@pytest.mark.slow
def test_a_folder_that_takes_no_page_stops_no_other(few):
    (few / "feedback" / "style-01").mkdir(parents=True)
    (few / "feedback" / "style-01" / ASSIGNMENT).write_text("in the way")
    done = in_process("feedback", cwd=few)
    assert done.exit_code == 2
    assert "4 pages written" in done.stdout
    assert f"not written: {few / 'feedback' / 'style-01' / ASSIGNMENT}" in done.stderr
    (few / "feedback" / "style-01" / ASSIGNMENT).unlink()
    assert "1 page written, 4 unchanged" in in_process("feedback", cwd=few).stdout


@pytest.mark.slow
def test_a_graded_notebook_that_cannot_be_written_stops_no_other(few, students):
    (few / "autograded" / "new").write_text("in the way")
    hand_in(few, "new", students["blank"][0])
    hand_in(few, "new-too", students["blank"][0])
    done = in_process(*GRADE, few / "submitted", cwd=few)
    assert done.exit_code == 2
    assert f"not written: {few / 'autograded' / 'new' / ASSIGNMENT}" in done.stderr
    assert (few / "autograded" / "new-too" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").is_file()


@pytest.mark.parametrize("args", [("feedback",), ("report",), ("export",)])
def test_nothing_graded_yet(course, args):
    refuses(course, *args, says=["Run: autograder grade"])


def test_unknown_export_format(few):
    refuses(few, "export", "--format", "pdf", says=["no format is called 'pdf'", "csv"])


@pytest.mark.slow
def test_export_to_a_folder(few):
    refuses(few, "export", "--output", few, says=["is a folder", "Name a file"])


@pytest.mark.slow
def test_export_makes_no_folder(few):
    refuses(few, "export", "--output", few / "new" / "grades.csv", says=["there is no folder", "Make it"])


@pytest.mark.slow
def test_export_into_a_file_for_a_folder(few):
    refuses(few, "export", "--output", few / "gradebook.db" / "x.csv", says=["must be a folder"])


def test_two_runs_at_once(handed_in):
    from autograder.course.layout import Course
    from autograder.course.lock import hold_lock

    with hold_lock(Course.at(handed_in)):
        refuses(handed_in, *GRADE, handed_in / "submitted", says=["already running"])


def test_a_lock_that_cannot_be_held(handed_in):
    (handed_in / ".autograder" / "lock").mkdir(parents=True)
    refuses(handed_in, *GRADE, handed_in / "submitted", says=["lock cannot be locked", "another disk"])


def test_broken_configuration(course):
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = (")
    refuses(course, "release", says=["nbgrader_config.py cannot be read", "Correct"])


@pytest.mark.slow
def test_as_a_person_sees_it(handed_in):
    """The exit code and the streams of the real process."""
    done = command("grade", "ch99", "--submissions", "submitted", cwd=handed_in)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: no assignment is called 'ch99'. The assignments are: ch01_rnn_bottleneck, ch02_qkv"
    )


def test_graded_helper_is_the_real_thing(course, students):
    hand_in(course, "ada", students["style-01"][0])
    assert graded(course).graded[0].score == FULL
