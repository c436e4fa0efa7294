"""``--course DIR`` runs a command as if one stood in DIR: a term from outside is the term from inside."""

import os
import shutil

import pytest
from scratch import AS_GRADED, ASSIGNMENT, SEED, in_process, tree
from typer.testing import CliRunner

from autograder.cli import app
from autograder.course.layout import Course
from autograder.grading import gradebook

TERM = (
    ("release", ASSIGNMENT),
    ("release", ASSIGNMENT, "--variant", "front"),
    ("simulate", ASSIGNMENT, "--students", "3"),
    ("collect", ASSIGNMENT, f"simulated/{ASSIGNMENT}"),
    ("grade", ASSIGNMENT, "--executor", "kept", *AS_GRADED),
    ("feedback", ASSIGNMENT),
    ("report", ASSIGNMENT),
    ("export", "--output", "grades.csv"),
    ("export", "--format", "gradescope", "--output", "results"),
    ("bundle", "student", ASSIGNMENT),
    ("bundle", "gradescope", ASSIGNMENT, "--output", "upload.zip"),
    ("audit", "notebooks", "variants", "bundles/student.zip"),
    ("status", ASSIGNMENT),
)
VERDICTS = f".autograder/verdicts/{ASSIGNMENT}.jsonl"
MADE = (
    *("notebooks", "variants", "simulated", "submitted", "autograded", "feedback", "reports", "bundles"),
    *("gradebook.db", "grades.csv", "results", "upload.zip"),
)


def a_term(course, *options):
    """Runs every command; returns what they printed, but for the folder's name and how long it took."""
    (course / ".autograder").mkdir(exist_ok=True)
    (course / ".autograder" / "seed").write_text(f"{SEED}\n")
    printed = []
    for command in TERM:
        done = CliRunner().invoke(app, [*command, *options])
        assert done.exit_code == 0, (command, done.stdout, done.stderr, done.exception)
        if command[0] != "grade":
            printed.append(done.stdout.replace(str(course), "COURSE"))
    return printed


def what_is_there(course):
    """All files but two: the gradebook, whose keys are random, and the verdicts, which hold times."""
    held = tree(course)
    return {name: held[name] for name in held.keys() - {"gradebook.db", VERDICTS}}


def rows(course):
    return gradebook.read(Course.at(course), ASSIGNMENT)


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_a_term_from_outside_is_the_term_from_inside(course, tmp_path, monkeypatch):
    inside, elsewhere = tmp_path / "inside", tmp_path / "elsewhere"
    shutil.copytree(course, inside)
    elsewhere.mkdir()
    monkeypatch.chdir(inside)
    from_inside = a_term(inside)
    monkeypatch.chdir(elsewhere)
    from_outside = a_term(course, "--course", "../course")
    assert [
        text.replace(" --course ../course", "").replace("cd ../course && ", "") for text in from_outside
    ] == (from_inside)
    ours, theirs = what_is_there(course), what_is_there(inside)
    assert {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)} == set()
    assert len(rows(course)) == 3
    assert rows(course) == rows(inside)
    assert {name for name in MADE if not (course / name).exists()} == set()
    assert tree(elsewhere) == {}


def test_one_stands_where_one_stood_afterwards(course, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert in_process("status", cwd=course.name).exit_code == 0
    assert in_process("status", "ch99_nothing", cwd=course.name).exit_code == 2
    assert os.getcwd() == str(tmp_path)


def test_no_such_folder(tmp_path):
    done = in_process("status", cwd=tmp_path / "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--course" in done.stderr
    assert "nbgrader_config.py" in done.stderr
