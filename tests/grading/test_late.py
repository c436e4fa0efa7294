"""More time, and what late work costs: in our grading and in nbgrader's, before and after handing in."""

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from classroom import FIRST, SECOND, add_work, new_class, opened, rows
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.preprocessors import AssignLatePenalties
from scratch import graded, hand_in, in_process
from traitlets.config import Config

from autograder.course.class_file import ClassFile
from autograder.course.layout import Course
from autograder.course.lock import hold_lock
from autograder.grading import gradebook
from autograder.grading.late import DAY, LatePenalty, LateRule

LATE = "2026-03-11 22:00:00 UTC"  # three days late, less two hours


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return new_class(tmp_path_factory.mktemp("late") / "course", {("bob", SECOND): 8})


@pytest.fixture
def late_class(made, tmp_path):
    folder = tmp_path / "course"
    shutil.copytree(made, folder)
    add_work(folder, "ada", FIRST, 8, timestamp=LATE)
    return folder


def penalties(folder, assignment=FIRST):
    return {student: row.late_penalty for student, row in rows(folder, assignment).items()}


@given(
    percent=st.floats(0, 100), grace=st.floats(0, 30), score=st.floats(0, 100), late=st.floats(0, 40 * DAY)
)
def test_a_penalty_is_never_more_than_the_points_and_never_falls_with_time(percent, grace, score, late):
    rule = LateRule(percent, grace)
    penalty = rule.penalty(score, late)
    assert 0 <= penalty <= score
    assert penalty <= rule.penalty(score, late + DAY)
    assert rule.penalty(score, grace * DAY) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("percent", "grace", "lost"), [(10, 0, 2.4), (10, 1, 1.6), (10, 3, 0), (50, 0, 8), (0, 0, 0)]
)
def test_a_rule_holds_for_graded_work_at_once(late_class, percent, grace, lost):
    done = in_process("late", "--percent", percent, "--grace", grace, cwd=late_class)
    assert done.exit_code == 0, done.stderr
    assert penalties(late_class)["ada"] == pytest.approx(lost)
    assert penalties(late_class, SECOND)["bob"] == 0
    shown = json.loads(in_process("late", "--json", cwd=late_class).stdout)
    assert (shown["percent"], shown["grace"]) == (percent, grace)


def test_a_rule_of_ones_own_is_not_replaced(late_class):
    config = late_class / "nbgrader_config.py"
    text = config.read_text()
    for line in (
        'c.LateSubmissionPlugin.penalty_method = "zero"',
        'c.AssignLatePenalties.plugin_class = "my.Own"',
    ):
        config.write_text(f"{text}\n{line}\n")
        for option in ("--percent", "--grace"):
            done = in_process("late", option, "1", cwd=late_class)
            assert done.exit_code == 2
            assert "Delete that line" in done.stderr
        assert not (late_class / "nbgrader_config.json").exists()


def test_a_rule_does_not_change_while_work_is_graded_by_it(late_class):
    with hold_lock(Course.at(late_class)):
        done = in_process("late", "--percent", "10", cwd=late_class)
    assert (done.exit_code, "already running" in done.stderr) == (2, True)
    assert not (late_class / "nbgrader_config.json").exists()


def test_nbgraders_own_method_holds_without_a_rule(late_class):
    config = Config({"LateSubmissionPlugin": {"penalty_method": "zero"}})
    late = AssignLatePenalties(config=config, plugin_class=LatePenalty)
    late.init_plugin()
    assert late.plugin_inst.late_submission_penalty("ada", 8.0, 1.0) == 8.0


def test_what_late_work_costs_is_shown_also_where_nbgrader_is_told_elsewhere(late_class):
    config = late_class / "nbgrader_config.py"
    text = config.read_text()
    for line, shown in (
        ("", "late work loses no points"),
        ('c.LateSubmissionPlugin.penalty_method = "zero"', "late work gets zero points"),
        ('c.AssignLatePenalties.plugin_class = "my.Own"', "a plugin of its own for late work: my.Own"),
    ):
        config.write_text(f"{text}\n{line}\n")
        assert shown in in_process("late", cwd=late_class).stdout


def test_settings_of_others_are_kept(late_class):
    settings = late_class / "nbgrader_config.json"
    settings.write_text('{"CourseDirectory": {"ignore": ["x"]}}')
    in_process("late", "--percent", 5, cwd=late_class)
    assert json.loads(settings.read_text())["CourseDirectory"] == {"ignore": ["x"]}
    settings.write_text("{")
    done = in_process("late", "--percent", 5, cwd=late_class)
    assert (done.exit_code, settings.read_text()) == (2, "{")
    assert "nbgrader_config.json cannot be read" in done.stderr


@pytest.mark.slow
def test_more_time_for_work_that_is_in(late_class):
    in_process("late", "--percent", 10, cwd=late_class)
    done = in_process("extension", "ada", FIRST, 2, cwd=late_class)
    assert done.stdout == f"ada has 2 more days for {FIRST}, until 2026-03-10 23:59 UTC\n"
    assert "was 2.4 and is now 0.8" in done.stderr
    assert rows(late_class)["ada"].late_seconds == 22 * 3600 + 60
    in_process("extension", "ada", FIRST, 0, cwd=late_class)
    assert penalties(late_class)["ada"] == pytest.approx(2.4)
    with opened(late_class) as book:
        assert book.find_submission(FIRST, "ada").extension is None


@pytest.mark.slow
def test_more_time_before_the_work_is_in(late_class):
    """As grading enters it, also where the platform calls the student by another name."""
    in_process("late", "--percent", 10, cwd=late_class)
    (late_class / "list.csv").write_text("id,name,lms_user_id\nzoe02,Zoe O,13\n")
    in_process("roster", "import", late_class / "list.csv", cwd=late_class)
    in_process("extension", "zoe02", FIRST, 3, cwd=late_class)
    for student in ("zoe02", "ozoe_13"):
        add_work(late_class, student, FIRST, 8, timestamp=LATE)
        with gradebook.opened(Course.at(late_class)) as writer:
            writer.penalise(FIRST, student)
    assert penalties(late_class) == {"ada": pytest.approx(2.4), "zoe02": 0, "ozoe_13": 0}


def test_extensions_that_come_at_once_all_count(late_class, monkeypatch):
    """Each command reads class.csv, changes a line, and writes it; none undoes another's line."""
    course, write, begun = Course.at(late_class), ClassFile.write, threading.Barrier(2)

    def write_slowly(here):
        with contextlib.suppress(threading.BrokenBarrierError):
            begun.wait(0.5)  # both have read, unless one waits for the other
        write(here)

    def give(student):
        with ClassFile.changing(course) as here:
            here.set_extension(student, FIRST, 2)

    monkeypatch.setattr(ClassFile, "write", write_slowly)
    with ThreadPoolExecutor() as pool:
        list(pool.map(give, ("ada", "bob")))
    here = ClassFile.read(course)
    assert [here.extensions(student) for student in ("ada", "bob")] == [{FIRST: 2}] * 2


def test_what_cannot_be_extended_is_refused(late_class):
    before = (late_class / "gradebook.db").read_bytes()
    for args, message in (
        (("adda", FIRST, 1), "Did you mean ada?"),
        (("ada", "ch99", 1), "no assignment"),
        (("ada", FIRST, 9999), "number of days"),
    ):
        done = in_process("extension", *args, cwd=late_class)
        assert done.exit_code == 2
        assert message in done.stderr
    assert not (late_class / "class.csv").exists()
    assert (late_class / "gradebook.db").read_bytes() == before


def test_before_anybody_is_known_the_refusal_says_so(tmp_path):
    done = in_process("extension", "ada", FIRST, 1, cwd=new_class(tmp_path / "course", {}))
    assert (done.exit_code, "Run: autograder roster import FILE" in done.stderr) == (2, True)


def test_an_assignment_without_a_due_date_is_never_late(late_class):
    with opened(late_class) as book:
        book.find_assignment(FIRST).duedate = None
        book.db.commit()
    done = in_process("extension", "ada", FIRST, 2, cwd=late_class)
    assert "no due date yet" in done.stderr
    assert rows(late_class)["ada"].late_seconds == 0


@pytest.mark.slow
def test_both_hold_when_nbgrader_grades(few, students, tmp_path):
    """Plain `nbgrader autograde` gives the time in class.csv and takes off the same points as we do."""
    with opened(few) as book:
        book.update_or_create_assignment(FIRST, duedate="2026-02-27 18:00:00 UTC")  # two days before
    in_process("late", "--percent", 10, cwd=few)
    in_process("extension", "style-01", FIRST, 1, cwd=few)
    ours = penalties(few)
    assert ours["style-01"] == pytest.approx(1.7)
    assert ours["style-02"] == pytest.approx(3.4)
    (few / "class.csv").write_text(f"student,extension {FIRST}\nnew,1\n")
    hand_in(few, "new", students["style-01"][0], timestamp="2026-03-01 18:00:00 UTC")
    subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", FIRST, "--student", "new"],
        cwd=few,
        check=True,
        capture_output=True,
    )
    assert penalties(few)["new"] == pytest.approx(1.7)
    graded(few)
    assert penalties(few) == {**ours, "new": pytest.approx(1.7)}
