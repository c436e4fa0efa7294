"""nbgrader's gradebook: what a teacher entered stays, what the grader found is up to date, all or nothing."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import nbformat
import pytest
from alembic.script import ScriptDirectory
from nbgrader import dbutil
from nbgrader.api import Gradebook
from scratch import ASSIGNMENT, FEW, FULL, LIMITS, SEED, graded, hand_in, tree

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import batch, gradebook, written
from autograder.grading.store import VerdictStore
from autograder.release.publish import notebooks


def opened(course):
    return Gradebook(f"sqlite:///{course / 'gradebook.db'}")


def row(course, student):
    return next(r for r in gradebook.read(Course.at(course), ASSIGNMENT) if r.student == student)


def manual_cell(course):
    """The grade_id of the written question."""
    with opened(course) as book:
        cells = book.find_notebook(ASSIGNMENT, ASSIGNMENT).grade_cells
        return next(cell.name for cell in cells if cell.cell_type == "markdown")


def by_hand(course, student, **scores):
    """Enters points as formgrader does."""
    with opened(course) as book:
        for name, score in scores.items():
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, student)
            grade.manual_score, grade.needs_manual_grade = score, False
        book.db.commit()


def held(course, student, name):
    with opened(course) as book:
        grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, student)
        return grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade


@pytest.mark.slow
def test_points_of_each_cell(few, students):
    for student in ("style-01", "mistake-01", "blank"):
        scores = row(few, student).scores
        assert {name: scores[name] for name in students[student][1]} == students[student][1]
        assert row(few, student).max_total == FULL + 3


def test_written_answers_wait_for_a_person(few):
    name = manual_cell(few)
    assert row(few, "style-01").needs_manual_grade == (name,)
    assert row(few, "blank").needs_manual_grade == ()  # as in nbgrader: no answer, nothing to read
    with opened(few) as book:
        comment = book.find_comment(name, ASSIGNMENT, ASSIGNMENT, "blank")
        assert comment.comment == "No response."


@pytest.mark.slow
def test_hand_given_points_survive_a_regrade(few, students):
    name = manual_cell(few)
    by_hand(few, "style-01", **{name: 2.5, "softmax": 1.0})
    with opened(few) as book:
        book.find_grade("softmax", ASSIGNMENT, ASSIGNMENT, "style-01").extra_credit = 0.25
        book.find_comment(name, ASSIGNMENT, ASSIGNMENT, "style-01").manual_comment = "well said"
        book.db.commit()
    assert row(few, "style-01").total == FULL - 3 + 1.0 + 0.25 + 2.5
    graded(few)  # nothing new: nothing is touched
    assert held(few, "style-01", name) == (None, 2.5, None, False)
    assert held(few, "style-01", "softmax") == (3.0, 1.0, 0.25, False)
    hand_in(few, "style-01", students["mistake-01"][0])  # handed in again: to be looked at again
    graded(few)
    auto = students["mistake-01"][1]["softmax"]
    assert held(few, "style-01", "softmax") == (auto, 1.0, 0.25, True)
    assert held(few, "style-01", name) == (None, 2.5, None, False)  # its own text is what it was
    with opened(few) as book:
        assert book.find_comment(name, ASSIGNMENT, ASSIGNMENT, "style-01").comment == "well said"


@pytest.mark.slow
def test_forced_regrade_changes_no_hand_given_points(few):
    by_hand(few, "style-01", softmax=1.0)
    done = graded(few, force=True)
    assert all(one.new for one in done.graded)
    assert held(few, "style-01", "softmax")[1] == 1.0


@pytest.mark.slow
def test_stale_points_are_reset(few, students):
    """Full marks, then a blank notebook without tests: stock nbgrader keeps the old points."""
    notebook = json.loads(json.dumps(students["test-cells-deleted"][0]))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = "raise NotImplementedError()"
    hand_in(few, "style-01", notebook)
    graded(few)
    auto = {name: held(few, "style-01", name)[0] for name in students["style-01"][1]}
    assert set(auto.values()) == {0.0}


@pytest.mark.slow
def test_deleted_gradebook_is_filled_again_without_grading(few):
    before = gradebook.read(Course.at(few), ASSIGNMENT)
    (few / "gradebook.db").unlink()
    done = graded(few)
    assert not any(one.new for one in done.graded)
    assert gradebook.read(Course.at(few), ASSIGNMENT) == before


@pytest.fixture
def two_notebooks(course, students):
    """A course with a second notebook that has a question of the same name, and one graded student."""
    folder = course / "solutions" / ASSIGNMENT
    notebook = json.loads((folder / f"{ASSIGNMENT}.ipynb").read_bytes())
    notebook["cells"] = [
        cell
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown" and cell["metadata"].get("nbgrader", {}).get("grade")
    ]
    (folder / "second.ipynb").write_text(json.dumps(notebook))
    second = notebooks(Course.at(course), ASSIGNMENT)["second"]
    hand_in(course, "blank", students["blank"][0]).with_name("second.ipynb").write_bytes(second)
    graded(course)
    return course


@pytest.mark.slow
def test_cells_of_one_name_in_two_notebooks_both_count(two_notebooks):
    name = manual_cell(two_notebooks)
    most = row(two_notebooks, "blank").max_total
    with opened(two_notebooks) as book:
        for notebook in (ASSIGNMENT, "second"):
            grade = book.find_grade(name, notebook, ASSIGNMENT, "blank")
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.db.commit()
        submission = book.find_submission(ASSIGNMENT, "blank")
        assert (most, 2.0) == (submission.max_score, submission.score)
    assert row(two_notebooks, "blank").total == 2.0
    assert not graded(two_notebooks).changes


@pytest.mark.slow
def test_a_notebook_of_written_answers_is_entered_again_too(two_notebooks):
    before = gradebook.read(Course.at(two_notebooks), ASSIGNMENT)
    (two_notebooks / "gradebook.db").unlink()
    graded(two_notebooks)
    assert gradebook.read(Course.at(two_notebooks), ASSIGNMENT) == before


@pytest.mark.slow
def test_a_run_killed_before_the_gradebook_resumes(few_template, template, students, tmp_path, monkeypatch):
    """Verdicts are on disk before the gradebook is touched; what was graded is not graded again."""
    course = tmp_path / "killed"
    shutil.copytree(template, course)
    shutil.copytree(few_template / "submitted", course / "submitted")

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batch._Run, "_enter", killed)
        with pytest.raises(KeyboardInterrupt):
            graded(course)
    assert not (course / "gradebook.db").exists()
    assert not (course / "autograded").exists()
    done = graded(course)
    assert not any(one.new for one in done.graded)
    assert gradebook.read(Course.at(course), ASSIGNMENT) == gradebook.read(
        Course.at(few_template), ASSIGNMENT
    )


@pytest.mark.slow
def test_a_run_killed_before_the_notebooks_resumes(few, students, monkeypatch):
    """The gradebook has the points and autograded/ is old: the next run writes it, and asks for a look."""
    hand_in(few, "style-01", students["mistake-01"][0])
    with monkeypatch.context() as patch:
        patch.setattr(batch.written, "write", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            graded(few)
    done = graded(few)
    assert not any(one.new for one in done.graded)
    path = few / "autograded" / "style-01" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    assert path.read_bytes() == (few / "autograded" / "mistake-01" / ASSIGNMENT / path.name).read_bytes()


@pytest.mark.slow
def test_a_run_killed_at_any_moment_resumes(few_template, template, students, tmp_path):
    """``kill -9`` of the real command, after one verdict and after three: the same gradebook at the end."""
    course = tmp_path / "killed"
    shutil.copytree(template, course)
    shutil.copytree(few_template / "submitted", course / "submitted")
    grade = [
        sys.executable,
        "-m",
        "autograder.cli",
        "grade",
        "--submissions",
        "submitted",
        "--seed",
        str(SEED),
    ]
    limits = ["--cell-limit", "3", "--workers", "1", "--json"]
    verdicts = course / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl"
    for wanted in (1, 3):
        running = subprocess.Popen([*grade, *limits], cwd=course, stdout=subprocess.DEVNULL)
        while running.poll() is None and lines(verdicts) < wanted:
            time.sleep(0.002)
        running.kill()
        running.wait()
        assert running.returncode == -9
        assert not (course / "autograded").exists()
    done = subprocess.run([*grade, *limits], cwd=course, capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert told["unchanged"] >= 3
    assert told["graded"] + told["unchanged"] == len(FEW)
    assert gradebook.read(Course.at(course), ASSIGNMENT) == gradebook.read(
        Course.at(few_template), ASSIGNMENT
    )
    assert tree(course / "autograded") == tree(few_template / "autograded")


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_an_error_while_entering_changes_nothing(few, students, monkeypatch):
    """One transaction: no half of a class in the gradebook."""
    before = gradebook.read(Course.at(few), ASSIGNMENT)
    for student in ("style-01", "blank"):
        hand_in(few, student, students["mistake-01"][0])
    entered = []
    enter = gradebook.GradebookWriter.enter

    def failing(self, *args):
        enter(self, *args)
        entered.append(args)
        if len(entered) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(gradebook.GradebookWriter, "enter", failing)
    with pytest.raises(KeyboardInterrupt):
        graded(few)
    assert len(entered) == 2
    assert gradebook.read(Course.at(few), ASSIGNMENT) == before


@pytest.mark.slow
def test_torn_last_line_of_the_verdicts_is_no_line(few):
    path = few / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
    done = graded(few)
    assert sum(one.new for one in done.graded) == 1
    assert sum(one.new for one in graded(few).graded) == 0
    with VerdictStore(path) as store:
        assert len(store._places) == len(lines)


@pytest.mark.slow
def test_equal_submissions_are_graded_once(course, students):
    for student in ("ada", "bob"):
        hand_in(course, student, students["style-01"][0])
    done = graded(course)
    assert [one.score for one in done.graded] == [FULL, FULL]
    with VerdictStore(course / ".autograder" / "verdicts" / f"{ASSIGNMENT}.jsonl") as store:
        assert len(store._places) == 1


@pytest.mark.slow
def test_another_seed_or_limit_is_another_verdict(few):
    assert all(one.new for one in graded(few, seed=SEED + 1).graded)
    assert all(one.new for one in graded(few, limits=replace(LIMITS, cell_seconds=4.0)).graded)


@pytest.mark.slow
def test_code_that_touches_the_grader_is_shown_to_a_teacher_and_costs_nothing(course, students):
    notebook = json.loads(json.dumps(students["style-01"][0]))
    blinds = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(1, blinds | {"source": "import sys\nsys.setprofile(None)"})
    hand_in(course, "ada", notebook)
    (one,) = graded(course).graded
    assert one.score == one.max_score == FULL
    (remark,) = [remark for remark in one.remarks if remark.kind == "machinery"]
    assert (remark.exercise, remark.line) == ("", "sys.setprofile(None)")
    assert remark.place == "Cell 2, outside the answers, line 2"
    assert row(course, "ada").needs_manual_grade == ("explain_the_picture",)
    assert row(course, "ada").total == FULL


@pytest.mark.slow
def test_late_submissions(few, students):
    with opened(few) as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate="2026-03-01 17:00:00 UTC")
    hand_in(few, "late", students["style-02"][0], timestamp="2026-03-01 17:30:00 UTC")
    hand_in(few, "early", students["style-02"][0], timestamp="2026-03-01 16:30:00 UTC")
    hand_in(few, "odd", students["style-02"][0], timestamp="yesterday, I think")
    done = graded(few)
    assert row(few, "late").late_seconds == 1800
    assert row(few, "early").late_seconds == 0
    assert row(few, "odd").late_seconds == 0
    assert any("yesterday" in remark for remark in done.remarks)
    assert (
        (few / "autograded" / "late" / ASSIGNMENT / "timestamp.txt")
        .read_text()
        .startswith("2026-03-01 17:30")
    )


@pytest.mark.slow
def test_the_same_work_handed_in_again_later(few, students):
    with opened(few) as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate="2026-03-01 19:00:00 UTC")
    assert row(few, "style-01").late_seconds == 0
    hand_in(few, "style-01", students["style-01"][0], timestamp="2026-03-01 19:30:00 UTC")
    assert not any(one.new for one in graded(few).graded)
    assert row(few, "style-01").late_seconds == 1800


@pytest.mark.slow
def test_a_due_date_that_comes_later_costs_and_can_be_taken_back(few, monkeypatch):
    from nbgrader.plugins import LateSubmissionPlugin

    monkeypatch.setattr(LateSubmissionPlugin, "penalty_method", "zero")
    by_hand(few, "style-01", **{manual_cell(few): 2.5})
    whole = row(few, "style-01").total
    for date, total in (("2026-03-01 17:00:00 UTC", 0), ("2026-03-31 17:00:00 UTC", whole)):
        with opened(few) as book:
            book.update_or_create_assignment(ASSIGNMENT, duedate=date)
        assert not any(one.new for one in graded(few).graded)
        assert row(few, "style-01").total == total
        assert held(few, "style-01", manual_cell(few))[1] == 2.5


def change_release(course, edit):
    path = course / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    edit(notebook)
    path.write_text(json.dumps(notebook))


def grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def add_question(notebook):
    marks = {"schema_version": 3, "grade_id": "another", "points": 2, "grade": True, "solution": True}
    notebook["cells"].append(
        {
            "cell_type": "markdown",
            "id": "another",
            "source": "A long enough answer to another question.",
            "metadata": {"nbgrader": {**marks, "locked": False, "task": False}},
        }
    )


@pytest.mark.slow
def test_a_question_added_later(few):
    """SaveCells refuses to add a cell once there are submissions; we enter it for all of them."""
    by_hand(few, "style-01", softmax=1.0)
    change_release(few, add_question)
    graded(few)
    for student in ("style-01", "mistake-01"):
        assert row(few, student).max_scores["another"] == 2
    assert held(few, "style-01", "softmax")[1] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("same", "waits"), [(True, False), (False, True)])
def test_what_was_marked_waits_again_only_where_other_work_has_come(few, same, waits):
    name, folder = manual_cell(few), few / "autograded" / "style-01" / ASSIGNMENT
    by_hand(few, "style-01", **{name: 2.5})
    notebook = json.loads((folder / f"{ASSIGNMENT}.ipynb").read_text())
    other = json.loads(json.dumps(notebook))
    for cell in other["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
        elif not same and grade_id(cell) == name:
            cell["source"] += " I see it otherwise now."
    unchanged = written.cells_with_equal_answers(notebook, other)
    assert (name in unchanged) is same
    assert "softmax" in unchanged
    scores = row(few, "style-01").scores
    points = {k: v for k, v in scores.items() if k != name}
    with gradebook.opened(Course.at(few)) as book:
        book.enter(ASSIGNMENT, "style-01", {ASSIGNMENT: nbformat.from_dict(other)}, points, None, unchanged)
    _, marked, _, needed = held(few, "style-01", name)
    assert (marked, needed) == (2.5, waits)


@pytest.mark.slow
def test_a_question_taken_away_later(few):
    name = manual_cell(few)

    def remove(notebook):
        notebook["cells"] = [c for c in notebook["cells"] if grade_id(c) != name]

    change_release(few, remove)
    graded(few)
    assert name not in row(few, "style-01").scores


@pytest.mark.slow
def test_a_question_that_was_graded_by_hand_is_not_taken_away(few):
    name = manual_cell(few)
    by_hand(few, "style-01", **{name: 2.0})

    def remove(notebook):
        notebook["cells"] = [c for c in notebook["cells"] if grade_id(c) != name]

    change_release(few, remove)
    before = gradebook.read(Course.at(few), ASSIGNMENT)
    with pytest.raises(BadInputError, match="graded by hand"):
        graded(few)
    assert gradebook.read(Course.at(few), ASSIGNMENT) == before


def test_autograded_notebooks_are_valid(few):
    from nbgrader.nbgraderformat import MetadataValidator

    for path in (few / "autograded").rglob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        for cell in notebook.cells:
            marks = cell.metadata.get("nbgrader", {})
            if marks.get("grade") and not marks.get("solution"):
                (output,) = cell.outputs
                float(output.data["text/plain"])


@pytest.mark.slow
def test_a_students_name_with_an_apostrophe_or_a_space(course, students):
    for name in ("o'brien", "Zoë", "a b"):
        hand_in(course, name, students["blank"][0])
    assert {one.student for one in graded(course).graded} == {"o'brien", "Zoë", "a b"}
    assert len(gradebook.read(Course.at(course), ASSIGNMENT)) == 3


def test_the_expected_schema_is_the_last_of_nbgraders_migrations():
    assert gradebook.expected_revision() == ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head()
