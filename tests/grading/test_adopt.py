"""A gradebook of stock nbgrader is taken over: what a person gave is there, or is named; nothing is lost."""

import json
import shutil
import sqlite3
from datetime import datetime, timedelta
from functools import partial

import nbformat
import pytest
from classroom import new_class
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from scratch import ASSIGNMENT, graded, hand_in, in_process, tree
from test_bad_input import refuses
from test_stock_nbgrader import nbgrader

pytestmark = pytest.mark.slow

WRITTEN, OLD = "explain_the_picture", "old_question"
DUE = datetime(2026, 3, 8, 23, 59, 59)


def cell(kind, source, **about):
    made = (new_code_cell if kind == "code" else new_markdown_cell)(source)
    none = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    made.metadata["nbgrader"] = none | about
    return made


CELLS = (
    cell("code", "### BEGIN SOLUTION\nx = 1\n### END SOLUTION", grade_id="softmax_answer", solution=True),
    cell("code", "assert x == 1", grade_id="softmax", grade=True, locked=True, points=5),
    *(
        cell("markdown", "words", grade_id=name, grade=True, solution=True, points=3)
        for name in (WRITTEN, OLD)
    ),
)


def opened(folder):
    return Gradebook(f"sqlite:///{folder / 'gradebook.db'}")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """A course of stock nbgrader, graded by its own autograde: `ada` has answers, `bob` has none."""
    folder = tmp_path_factory.mktemp("stock")
    python = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    source = folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    source.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=list(CELLS), metadata=python), source)
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'last_year'\n"
    )
    done = nbgrader("generate_assignment", ASSIGNMENT, "--create", cwd=folder)
    assert done.returncode == 0, done.stderr
    for student, answer in (("ada", "x = 1"), ("bob", "x = 2")):
        work = folder / "submitted" / student / ASSIGNMENT
        shutil.copytree(folder / "release" / ASSIGNMENT, work)
        notebook = nbformat.read(work / f"{ASSIGNMENT}.ipynb", 4)
        notebook.cells[0].source = answer
        notebook.cells[2].source = notebook.cells[3].source = f"the words of {student}"
        nbformat.write(notebook, work / f"{ASSIGNMENT}.ipynb")
        (work / "timestamp.txt").write_text("2026-03-07 18:00:00 UTC")
    done = nbgrader("autograde", ASSIGNMENT, "--create", cwd=folder)
    assert done.returncode == 0, done.stderr
    with opened(folder) as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate=str(DUE))
        book.update_or_create_assignment("ps1")
        book.update_or_create_student("ada", first_name="Ada", email="ada@example.org")
        book.update_or_create_student("new", last_name="Nobody")
        book.grant_extension(ASSIGNMENT, "bob", days=2)
        for name, points in ((WRITTEN, 2.5), (OLD, 1.0)):
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "ada")
            grade.manual_score, grade.needs_manual_grade = points, False
        book.find_comment(WRITTEN, ASSIGNMENT, ASSIGNMENT, "ada").manual_comment = "well said"
        book.find_comment(OLD, ASSIGNMENT, ASSIGNMENT, "ada").manual_comment = "as last year"
        book.find_grade("softmax", ASSIGNMENT, ASSIGNMENT, "bob").extra_credit = 0.5
        book.db.commit()
    return folder


def held(course, student):
    """What nbgrader finds in the gradebook about a student's work."""
    with opened(course) as book:
        submission = book.find_submission(ASSIGNMENT, student)
        (notebook,) = submission.notebooks
        return {
            "scores": {
                grade.name: (grade.auto_score, grade.manual_score, grade.extra_credit)
                for grade in notebook.grades
                if (grade.auto_score, grade.manual_score) != (None, None)
            },
            "waits": {grade.name for grade in notebook.grades if grade.needs_manual_grade}
            & {WRITTEN, "softmax"},
            "comments": {c.name: c.manual_comment for c in notebook.comments if c.manual_comment},
            "times": (submission.timestamp, submission.duedate),
        }


ADA = {
    "scores": {"softmax": (5.0, None, None), WRITTEN: (None, 2.5, None)},
    "waits": set(),
    "comments": {WRITTEN: "well said"},
    "times": (datetime(2026, 3, 7, 18), DUE),
}
BOB = {
    "scores": {"softmax": (0.0, None, 0.5)},
    "waits": {WRITTEN},
    "comments": {},
    "times": (datetime(2026, 3, 7, 18), DUE + timedelta(days=2)),
}
LEFT = {
    "ada": {"manual_score": 1.0, "manual_comment": "as last year"},
}


def adopt(course, *args):
    done = in_process("adopt", *args, "--json", cwd=course)
    assert done.stdout, done.stderr
    return done.exit_code, json.loads(done.stdout)


def content(file):
    """All rows of a gradebook."""
    with sqlite3.connect(file) as book:
        return list(book.iterdump())


@pytest.fixture
def in_place(course, stock):
    """A course in which stock nbgrader has graded before."""
    shutil.copy(stock / "gradebook.db", course)
    return course


def test_from_a_file(course, stock):
    before = tree(stock)
    code, told = adopt(course, stock / "gradebook.db")
    assert tree(stock) == before
    assert (held(course, "ada"), held(course, "bob")) == (ADA, BOB)
    with opened(course) as book:
        assert {student.id: student.email for student in book.students} == {
            "ada": "ada@example.org",
            "bob": None,
            "new": None,
        }
        assert book.find_student("new").last_name == "Nobody"
    assert code == 2
    assert {one["student"]: one["marks"] for one in told["left"]} == LEFT
    assert {one["cell"] for one in told["left"]} == {f"{ASSIGNMENT}/{OLD}"}
    assert told["not_in_course"] == ["ps1"]
    assert ["softmax" in note and "out of 3 here, but was out of 5" in note for note in told["notes"]] == [
        True
    ]
    (copy,) = told["copies"]
    assert content(copy) == content(stock / "gradebook.db")


def test_a_second_run_changes_nothing(course, stock):
    adopt(course, stock / "gradebook.db")
    before = tree(course)
    code, told = adopt(course, stock / "gradebook.db")
    assert (code, told["changed"]) == (2, False)
    assert {one["student"]: one["marks"] for one in told["left"]} == LEFT
    assert tree(course) == before


def test_the_course_own_gradebook(in_place, stock):
    code, told = adopt(in_place)
    assert code == 2
    assert (held(in_place, "ada"), held(in_place, "bob")) == (ADA, BOB)
    assert {one["student"]: one["marks"] for one in told["left"]} == LEFT
    (copy,) = told["copies"]
    assert content(copy) == content(stock / "gradebook.db")
    with opened(in_place) as book:
        assert {a.name: a.course_id for a in book.assignments} == {
            ASSIGNMENT: "transformers_from_first_principles",
            "ps1": "default_course",
        }
    before = tree(in_place)
    assert adopt(in_place)[0] == 0
    assert tree(in_place) == before


@pytest.mark.parametrize("own", [False, True])
def test_marks_under_an_id_that_is_not_allowed_are_listed(course, stock, own):
    """In the course's own gradebook, the marks of the other cells stay where they are."""
    file = course / ("gradebook.db" if own else "old.db")
    shutil.copy(stock / "gradebook.db", file)
    with sqlite3.connect(file) as book:
        book.execute("UPDATE student SET id = 'auth0|ada' WHERE id = 'ada'")
        book.execute("UPDATE submitted_assignment SET student_id = 'auth0|ada' WHERE student_id = 'ada'")
    code, told = adopt(course, file)
    assert code == 2
    left = {one["cell"] for one in told["left"] if one["student"] == "auth0|ada"}
    elsewhere = {f"{ASSIGNMENT}/softmax", f"{ASSIGNMENT}/{WRITTEN}"}
    assert left - {f"{ASSIGNMENT}/{OLD}"} == (set() if own else elsewhere)
    place = "here" if own else "in the course of that gradebook"
    assert any(f"Run autograder rename {place}" in note for note in told["notes"])


def test_grading_goes_on_with_what_a_person_gave(in_place, students):
    for student in ("ada", "bob"):
        hand_in(in_place, student, students["style-01"][0], timestamp="2026-03-07 18:00:00 UTC")
    refused = in_process("grade", "--executor", "kept", cwd=in_place)
    assert refused.exit_code == 2
    assert f"'{OLD}', which was graded by hand for ada" in refused.stderr
    assert "autograder adopt" in refused.stderr
    adopt(in_place)
    graded(in_place)
    ada, bob = held(in_place, "ada"), held(in_place, "bob")
    assert ada["scores"][WRITTEN] == (None, 2.5, None)
    assert ada["comments"] == ADA["comments"]
    assert bob["scores"]["softmax"] == (3.0, None, 0.5)
    assert WRITTEN in bob["waits"]


def test_marks_that_are_there_stay(few, stock, tmp_path):
    """`few` is graded by us; one of its students is in the old gradebook with other marks."""
    shutil.copy(stock / "gradebook.db", tmp_path / "old.db")
    with sqlite3.connect(tmp_path / "old.db") as old:
        old.execute("UPDATE submitted_assignment SET student_id = 'new' WHERE student_id = 'bob'")
        old.execute("UPDATE student SET id = 'style-01' WHERE id = 'ada'")
        old.execute("UPDATE submitted_assignment SET student_id = 'style-01' WHERE student_id = 'ada'")
    with opened(few) as book:
        grade = book.find_grade(WRITTEN, ASSIGNMENT, ASSIGNMENT, "style-01")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        book.db.commit()
    code, told = adopt(few, tmp_path / "old.db")
    now = held(few, "style-01")
    assert (now["scores"][WRITTEN], now["scores"]["softmax"]) == ((None, 3.0, None), (3.0, None, None))
    assert now["comments"] == ADA["comments"]
    assert code == 2
    other = {"student": "style-01", "marks": {"manual_score": 2.5}, "cell": f"{ASSIGNMENT}/{WRITTEN}"}
    assert any(one.items() >= other.items() and "another mark" in one["reason"] for one in told["left"])
    assert len(told["copies"]) == 2
    assert held(few, "new")["scores"] == BOB["scores"]


def test_a_notebook_of_another_name(in_place):
    with sqlite3.connect(in_place / "gradebook.db") as book:
        book.execute("UPDATE notebook SET name = 'problem 1'")
    _, told = adopt(in_place)
    assert (held(in_place, "ada"), held(in_place, "bob")) == (ADA, BOB)
    assert {one["cell"] for one in told["left"]} == {f"problem 1/{OLD}"}
    before = tree(in_place)
    adopt(in_place)
    assert tree(in_place) == before


def test_it_says_it_in_words(in_place):
    done = in_process("adopt", cwd=in_place)
    assert done.stdout.startswith(
        f"{ASSIGNMENT}: 0 students, 0 submissions, 0 scores, 0 comments taken over\n"
    )
    told = " ".join(done.stderr.split())
    assert f"not taken: {ASSIGNMENT}/{OLD} of {ASSIGNMENT}, 1 student: the released notebook" in told
    assert "note: ps1 is not an assignment of this course" in told


def test_what_is_no_gradebook(course, stock, tmp_path):
    refuses(course, "adopt", says=["there is no gradebook", "gradebook.db"])
    refuses(course, "adopt", tmp_path / "nowhere.db", says=["there is no gradebook"])
    (tmp_path / "notes.txt").write_text("not a database at all, but long enough to be read as one" * 20)
    refuses(course, "adopt", tmp_path / "notes.txt", says=["cannot be opened as a gradebook"])
    shutil.copy(stock / "gradebook.db", tmp_path)
    with sqlite3.connect(tmp_path / "gradebook.db") as book:
        book.execute("UPDATE assignment SET name = 'ps2' WHERE name != 'ps1'")
    refuses(course, "adopt", tmp_path / "gradebook.db", says=["none of this course's assignments", "ps1"])


class FullDisk(sqlite3.Connection):
    """A database of which no copy can be made."""

    def backup(self, *args, **how):
        raise sqlite3.OperationalError("database or disk is full")


def test_nothing_changes_where_no_copy_can_be_made(tmp_path, monkeypatch):
    folder = new_class(tmp_path / "course", {("ada", ASSIGNMENT): 8})
    before = content(folder / "gradebook.db")
    with monkeypatch.context() as patched:
        full = partial(sqlite3.connect, factory=FullDisk)
        patched.setattr("autograder.grading.adopt.sqlite3.connect", full)
        done = in_process("adopt", cwd=folder)
    assert done.exit_code == 2
    assert "disk is full" in done.stderr
    assert "Make room" in done.stderr
    assert content(folder / "gradebook.db") == before
    assert not list(folder.glob(".autograder/**/*.db"))
