"""Beside nbgrader: the same points for honest work, and its own commands safe in this repository."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from scratch import ASSIGNMENT, FEW, ROOT, command, graded, hand_in, in_process

from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.proof.samples import make

pytestmark = pytest.mark.slow


def nbgrader(*args, cwd):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *args],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done


def held(course):
    """All that the gradebook holds of each student's work."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        return {
            submission.student.id: (
                {
                    g.name: (g.auto_score, g.needs_manual_grade)
                    for n in submission.notebooks
                    for g in n.grades
                },
                {c.name: c.comment for n in submission.notebooks for c in n.comments},
                submission.timestamp,
                submission.score,
            )
            for submission in book.assignment_submissions(ASSIGNMENT)
        }


def test_stock_nbgrader_gives_the_same_points():
    """Every honest student of a light class; the benchmark compares the classes of all chapters."""
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "grading.py", "--points", "light", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["submissions"]["compared"] == 9
    assert told["different"] == {}


STUDENTS = (
    "style-02",
    "mistake-01",
    "blank",
    "metadata-stripped",
    "test-cells-deleted",
    "test-cells-skipped",
    "test-cells-forged",
    "process-ended-in-a-cell",
    "warnings-on-stderr",
)


@pytest.fixture(scope="module")
def both(template, students, tmp_path_factory):
    """The same submissions graded by ``nbgrader autograde`` through the plugin, and by our command."""
    import shutil

    folder = tmp_path_factory.mktemp("both")
    for name in ("plugin", "ours"):
        shutil.copytree(template, folder / name)
        for student in STUDENTS:
            hand_in(folder / name, student, students[student][0], timestamp="2026-03-01 18:00:00 UTC")
        hand_in(folder / name, STUDENTS[0], students[STUDENTS[0]][0], timestamp="7.3.2026 18:00:00 +0100")
        hand_in(folder / name, STUDENTS[1], students[STUDENTS[1]][0], timestamp="Sun 8 March 18:00")
        hand_in(folder / name, "ghost", b"not json")
    done = nbgrader("autograde", ASSIGNMENT, cwd=folder / "plugin")
    graded(folder / "ours", seed=None)
    return done, folder / "plugin", folder / "ours"


def test_plain_autograde_uses_our_grader(both, students):
    done, plugin, _ = both
    points = held(plugin)
    for student in STUDENTS:
        grades = points[student][0]
        assert {name: grades[name][0] for name in students[student][1]} == students[student][1], done.stderr


def test_plain_autograde_gives_what_our_command_gives(both):
    _, plugin, ours = both
    theirs = held(plugin)
    theirs.pop("ghost", None)  # nbgrader enters what it could not read, without points; we do not
    assert theirs == held(ours)
    assert theirs[STUDENTS[0]][2] == datetime(2026, 3, 7, 17), "the day is first between dots"
    assert theirs[STUDENTS[1]][2] is None, "a date without a year is not a time"


def test_plain_autograde_survives_what_it_cannot_read(both):
    done, plugin, ours = both
    assert done.returncode != 0
    assert "ghost" in done.stderr
    assert not (plugin / "autograded" / "ghost").exists()
    assert not (ours / "autograded" / "ghost").exists()


def test_stock_feedback_from_our_notebooks(few):
    done = nbgrader("generate_feedback", ASSIGNMENT, cwd=few)
    assert done.returncode == 0, done.stderr
    html = (few / "feedback" / "mistake-01" / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
    assert "exp overflows for large scores" in html
    page = few / "feedback" / "script-in-the-answer" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    soup = BeautifulSoup(page.read_text(), "html.parser")
    assert not soup.find_all("script")
    assert "document.title = 'owned'" in soup.get_text()


def test_our_feedback_is_the_stock_one(few, tmp_path):
    """Byte for byte: the command only makes several at once, and only those that changed."""
    assert in_process("feedback", cwd=few).exit_code == 0
    pages = sorted((few / "feedback").rglob("*.html"))
    ours = [page.read_bytes() for page in pages]
    assert ours
    nbgrader("generate_feedback", ASSIGNMENT, "--force", cwd=few)
    # Named, not shown: the difference of two pages of a megabyte would take minutes to print.
    assert [page.parts[-3] for page, our in zip(pages, ours, strict=True) if page.read_bytes() != our] == []


def test_stock_generate_assignment_works_beside_ours(course):
    assert in_process("release", cwd=course).exit_code == 0
    done = nbgrader("generate_assignment", ASSIGNMENT, "--force", cwd=course)
    assert done.returncode == 0, done.stderr
    assert gradebook.exists(Course.at(course))


def test_stock_export(few):
    done = nbgrader("export", "--to", "grades.csv", cwd=few)
    assert done.returncode == 0, done.stderr
    assert "mistake-01" in (few / "grades.csv").read_text()


@pytest.fixture
def exchange(course, tmp_path):
    """Runs nbgrader's commands with an exchange of one's own, in the course or in a student's home."""
    home, outbound = tmp_path / "home", tmp_path / "exchange"
    home.mkdir()
    outbound.mkdir()
    outbound.chmod(0o777)
    course_id = Course.at(course).config.CourseDirectory.course_id

    def run(*args, cwd=course):
        of = [] if cwd == course else [f"--course={course_id}"]
        done = nbgrader(*args, *of, f"--Exchange.root={outbound}", cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run, home, outbound / course_id


def test_a_term_by_the_exchange(course, exchange, students):
    """Released, fetched, handed in and given back by nbgrader's commands; released and graded by ours."""
    run, home, shared = exchange
    assert in_process("release", ASSIGNMENT, cwd=course).exit_code == 0
    run("release_assignment", ASSIGNMENT)
    assert ASSIGNMENT in run("list")
    run("fetch_assignment", ASSIGNMENT, cwd=home)
    work = home / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    assert work.read_bytes() == (course / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_bytes()
    work.write_bytes(make.as_bytes(students["style-01"][0]))
    run("submit", ASSIGNMENT, cwd=home)
    run("collect", ASSIGNMENT)
    (student,) = (folder.name for folder in (course / "submitted").iterdir())
    told = json.loads(in_process("status", ASSIGNMENT, "--json", cwd=course).stdout)
    assert [(one["handed_in"], one["to_grade"]) for one in told] == [(1, 1)]
    again = json.loads(in_process("collect", ASSIGNMENT, shared / "inbound", "--json", cwd=course).stdout)
    assert again["unchanged"] == [student]
    graded(course)
    assert in_process("feedback", ASSIGNMENT, cwd=course).exit_code == 0
    page = course / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
    run("release_feedback", ASSIGNMENT)
    run("fetch_feedback", ASSIGNMENT, cwd=home)
    (given,) = (home / ASSIGNMENT / "feedback").rglob("*.html")
    assert given.read_bytes() == page.read_bytes()


def test_nbgrader_db_beside_ours(few):
    """Students and dates that its command enters are those of our commands, and the other way round."""

    def db(*args):
        done = nbgrader("db", *args, cwd=few)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    before = gradebook.read(Course.at(few), ASSIGNMENT)
    assert ASSIGNMENT in db("assignment", "list")
    (few / "class.csv").write_text("id,first_name,last_name,email\nada,Ada,Lovelace,ada@example.org\n")
    db("student", "import", "class.csv")
    told = db("student", "list")
    assert all(student in told for student in (*FEW, "ada"))
    assert gradebook.read(Course.at(few), ASSIGNMENT) == before
    db("assignment", "add", ASSIGNMENT, "--duedate", "2026-03-01 17:00:00 UTC")
    late = gradebook.read(Course.at(few), ASSIGNMENT)
    assert {row.late_seconds for row in late} == {3600}
    db("student", "remove", "blank", "--force")
    rows = gradebook.read(Course.at(few), ASSIGNMENT)
    assert {row.student for row in rows} == {*FEW} - {"blank"}


def test_formgrader_runs_no_script_of_a_students(few):
    """The page on which a teacher reads answers, rendered as formgrader does it, under our configuration."""
    code = f"""
import os, sys
from pathlib import Path
os.chdir({str(few)!r})
from autograder.course.layout import Course
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config
config = Course.at(Path()).config
config.HTMLExporter.template_name = "formgrade"
config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
exporter = HTMLExporter(config=config)
keys = "assignment_id notebook_id submission_id student last_name first_name notebook_path".split()
resources = dict.fromkeys(keys, "x") | {{"index": 0, "total": 1, "base_url": ""}}
path = "autograded/script-in-the-answer/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
print(exporter.from_filename(path, resources=resources)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    soup = BeautifulSoup(done.stdout, "html.parser")
    assert not [s for s in soup.find_all("script") if "owned" in s.get_text()]
    assert not soup.find_all(onerror=True)
    assert "document.title = 'owned'" in soup.get_text()


def test_command_line_help_of_the_installed_script(course):
    done = command("--help", cwd=course)
    assert done.returncode == 0
    assert "release" in done.stdout
