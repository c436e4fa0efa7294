"""Names from the command line and from the disk are names, and never paths, addresses or other people."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from classroom import FIRST, SECOND, add_work, new_class, opened
from scratch import in_process, tree

from autograder.course.layout import Course
from autograder.grading import submissions


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return new_class(tmp_path_factory.mktemp("odd") / "course", {("ada", FIRST): 8, ("bob", FIRST): 2})


@pytest.fixture
def course(made, tmp_path):
    return shutil.copytree(made, tmp_path / "course")


def around(course):
    """What the folder around the course holds, without the lock of a command."""
    return {name: what for name, what in tree(course.parent).items() if ".autograder" not in name}


NO_NAMES = ["..", ".", "", "../solutions", f"ada/{FIRST}", "ABSOLUTE"]


@pytest.mark.parametrize("student", NO_NAMES)
@pytest.mark.parametrize(
    "command",
    [("forget", "STUDENT", "--yes"), ("rename", "STUDENT", "eve"), ("merge", "STUDENT", "bob")],
    ids=lambda command: command[0],
)
def test_a_path_is_not_a_student(course, command, student):
    before = around(course)
    student = student.replace("ABSOLUTE", str(course / "submitted"))
    done = in_process(*(student if word == "STUDENT" else word for word in command), cwd=course)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert around(course) == before


@pytest.mark.parametrize("student", NO_NAMES)
def test_nobody_is_given_the_work_of_others(course, student):
    student = student.replace("ABSOLUTE", str(course / "submitted"))
    done = in_process("export", "--student", student, "--output", course / "all.zip", cwd=course)
    assert done.exit_code == 2
    assert not (course / "all.zip").exists()


@pytest.mark.parametrize("name", ["C# course", "why?", "50%41", "a:b&mode=rw"])
def test_a_course_may_lie_in_a_folder_of_any_name(made, tmp_path, name):
    course = shutil.copytree(made, tmp_path / name)
    done = in_process("export", FIRST, "--output", course / "grades.csv", cwd=course)
    assert done.exit_code == 0, done.stderr
    assert "ada" in (course / "grades.csv").read_text()
    other = shutil.copy(made / "gradebook.db", tmp_path / f"{name}.db")
    done = in_process("adopt", other, cwd=course)
    assert "softmax of ch02_qkv is out of 3 here" in done.stderr  # so it was read


def test_a_folder_of_saved_copies_is_no_assignment(course):
    copies = course / "solutions" / ".ipynb_checkpoints"
    copies.mkdir()
    (copies / f"{FIRST}-checkpoint.ipynb").write_text("{}")
    assert Course.at(course).assignments == (FIRST, SECOND)


def test_an_id_of_an_older_gradebook_names_no_folder_elsewhere(course):
    with opened(course) as book:
        book.add_student("../../evil")
        book.update_or_create_submission(FIRST, "../../evil")
        book.find_grade("softmax", FIRST, FIRST, "../../evil").auto_score = 5
        book.db.commit()
    before = around(course)
    done = in_process(
        "export", FIRST, "--format", "gradescope", "--output", course / "out" / "gs", cwd=course
    )
    assert done.exit_code == 2
    assert "cannot be a student's id" in " ".join(done.stderr.split())
    assert around(course) == before


@pytest.mark.slow
def test_a_page_of_ones_own_in_the_reports_stays(course):
    notes = course / "reports" / "notes.html"
    notes.parent.mkdir()
    notes.write_text("ada asked for more time")
    assert in_process("rename", "ada", "ada01", cwd=course).exit_code == 0
    in_process("forget", "ada01", "--yes", cwd=course)
    assert notes.read_text() == "ada asked for more time"


@pytest.mark.parametrize(
    ("text", "late"),
    [
        ("2026-03-08 23:59:00 UTC", False),
        ("2026-03-09 00:59:00 +0100", False),  # as git writes it
        ("2026-03-09 00:59:00 +01:00", False),
        ("2026-03-09T00:59:00+01:00", False),
        ("2026-03-09 00:59:00 CET", False),
        ("2026-03-08 11:59 PM", False),
        ("2026-03-08 23:59:01 UTC", True),
        ("2026-03-08 23:59:00 -0100", True),
        ("2026-03-09 00:59:01 +01:00", True),
        ("2026-03-09 12:00 AM", True),
    ],
)
def test_a_time_is_read_with_its_zone_and_its_half_of_the_day(course, text, late):
    add_work(course, "new", SECOND, 0)
    with opened(course) as book:
        book.remove_submission(SECOND, "new")
    (course / "submitted" / "new" / SECOND / "timestamp.txt").write_text(f"{text}\n")
    assert (" (1 late)" in in_process("status", SECOND, cwd=course).stdout) is late


def test_a_time_in_an_unknown_zone_is_told(course, students):
    home = course / "submitted" / "ada" / FIRST
    (home / f"{FIRST}.ipynb").write_bytes(b"{}")
    (home / "timestamp.txt").write_text("2026-03-09 12:00:00 XYZT")
    done = in_process("grade", FIRST, "--executor", "kept", cwd=course)
    assert "'2026-03-09 12:00:00 XYZT', which is not a time" in " ".join(done.stderr.split())


def test_more_time_counts_before_the_work_is_graded_and_capitals_in_a_heading_do_not(course):
    late = "2026-03-10 10:00:00 UTC"
    add_work(course, "new", SECOND, 0, timestamp=late)
    with opened(course) as book:
        book.remove_submission(SECOND, "new")
    assert "(1 late)" in in_process("status", SECOND, cwd=course).stdout
    (course / "class.csv").write_text(f"Student,Groups,Extension {SECOND}\nnew,A; B,2\n")
    assert "late" not in in_process("status", SECOND, cwd=course).stdout
    assert in_process("extension", "new", FIRST, 1, cwd=course).exit_code == 0
    head, line = (course / "class.csv").read_text().splitlines()
    assert head == f"student,groups,extension {FIRST},extension {SECOND}"
    assert line == "new,A; B,1,2"


@pytest.mark.slow
def test_more_time_replaces_that_of_the_students_other_id(course):
    """The list of the class may name a student after the platform's own name had got an extension."""
    add_work(course, "ozoe_13", FIRST, 8, timestamp="2026-03-11 22:00:00 UTC")
    in_process("late", "--percent", 10, cwd=course)
    in_process("extension", "ozoe_13", FIRST, 1, cwd=course)
    (course / "list.csv").write_text("id,name,lms_user_id\nzoe02,Zoe O,13\n")
    in_process("roster", "import", course / "list.csv", cwd=course)
    done = in_process("extension", "zoe02", FIRST, 5, cwd=course)
    assert "is now 0" in done.stderr
    done = in_process("extension", "zoe02", FIRST, 0, cwd=course)
    assert "is now 2.4" in done.stderr


@contextlib.contextmanager
def as_nobody():
    """Lets permissions count for root too."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("locked", ["bob", f"bob/{FIRST}"])
def test_a_folder_that_cannot_be_read_stops_nobody_else(locked):
    wanted = {name: [name] for name in (FIRST, SECOND)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for student in ("ada", "bob", "cyd"):
            home = folder / student / FIRST
            home.mkdir(parents=True)
            (home / f"{FIRST}.ipynb").write_text("{}")
        (folder / locked).chmod(0)
        try:
            with as_nobody():
                found = submissions.scan(folder, wanted)
        finally:
            (folder / locked).chmod(0o755)
    assert [submission.student for submission in found.submissions] == ["ada", "cyd"]
    ((student, assignment, reason),) = [(p.student, p.assignment, p.what) for p in found.problems]
    assert (student, assignment) == ("bob", FIRST)
    assert "cannot be read (Permission denied); make it readable" in reason
