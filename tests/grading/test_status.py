"""Where a term is: each number against what was done, the next command, nothing changed, nothing slow."""

import json
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta

import pytest
from nbgrader.api import Gradebook
from scratch import AS_GRADED, ASSIGNMENT, FEW, hand_in, in_process, tree
from sqlalchemy import Engine, event

from autograder.course.layout import Course
from autograder.grading.gradebook import opened

OTHER = "ch03_scaling"
WRITTEN = "explain_the_picture"


def status(course, assignment=ASSIGNMENT, *options):
    done = in_process("status", assignment, "--json", *options, cwd=course)
    assert done.exit_code == 0, done.stderr
    (told,) = json.loads(done.stdout)
    return told


def book(course):
    return Gradebook(f"sqlite:///{course / 'gradebook.db'}")


def next_command(course, **about):
    """What comes next, without the option that names the course."""
    told = status(course)
    assert {name: told[name] for name in about} == about
    return told["next"] and told["next"].removesuffix(f" --course {course}")


def test_a_term_begins(course):
    assert next_command(course, released=False, handed_in=0) == f"autograder release {ASSIGNMENT}"
    (course / "notebooks" / ASSIGNMENT).mkdir(parents=True)
    (course / "notebooks" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").write_text("{}")
    assert next_command(course, released=True) == f"autograder collect {ASSIGNMENT} ARCHIVE"
    hand_in(course, "ada", b"{}")
    (course / "submitted" / "bob" / ASSIGNMENT).mkdir(parents=True)
    about = {"handed_in": 2, "to_grade": 1, "not_gradable": 1, "graded": 0}
    assert next_command(course, **about) == f"autograder grade {ASSIGNMENT}"
    assert status(course, OTHER)["handed_in"] == 0
    elsewhere = course / "inbox"
    (course / "submitted").rename(elsewhere)
    told = status(course, ASSIGNMENT, "--submissions", elsewhere, "--db", "sqlite:///other.db")
    where = f"--submissions {elsewhere} --db sqlite:///other.db --course {course}"
    assert (told["handed_in"], told["next"]) == (2, f"autograder grade {ASSIGNMENT} {where}")


def test_a_term_goes_on(few):
    """`blank` has nothing to read, and the four others have a written answer."""
    graded = {"handed_in": len(FEW), "to_grade": 0, "graded": len(FEW), "by_hand": len(FEW) - 1}
    assert next_command(few, **graded, pages=0, exported="no") == f"cd {few} && jupyter lab"
    with book(few) as gradebook:
        for student in set(FEW) - {"blank"}:
            grade = gradebook.find_grade(WRITTEN, ASSIGNMENT, ASSIGNMENT, student)
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        gradebook.db.commit()
    assert next_command(few, by_hand=0, pages_expected=len(FEW)) == f"autograder feedback {ASSIGNMENT}"
    assert in_process("feedback", ASSIGNMENT, cwd=few).exit_code == 0
    export = f"autograder export {ASSIGNMENT} --output {ASSIGNMENT}.csv"
    assert next_command(few, pages=len(FEW), exported="no") == export
    assert in_process("export", "--output", few / "all grades.csv", cwd=few).exit_code == 0
    assert next_command(few, exported="yes") is None
    with book(few) as gradebook:
        gradebook.find_grade(WRITTEN, ASSIGNMENT, ASSIGNMENT, "style-01").manual_score = 2.0
        gradebook.db.commit()
    assert next_command(few, pages=len(FEW) - 1, exported="changed") == f"autograder feedback {ASSIGNMENT}"
    assert in_process("feedback", cwd=few).exit_code == 0
    assert next_command(few) == f"autograder export --output '{few / 'all grades.csv'}'"
    again = ("export", ASSIGNMENT, "--format", "gradescope", "--output", "results")
    assert in_process(*again, cwd=few).exit_code == 0
    told = status(few)
    assert (told["next"], told["exported"], told["export_arguments"]) == (None, "yes", [*again[1:]])


def test_new_work_is_graded_first(few, students):
    hand_in(few, "style-01", students["blank"][0])
    hand_in(few, "new", students["blank"][0])
    assert next_command(few, handed_in=len(FEW) + 1, to_grade=2, graded=len(FEW)) == (
        f"autograder grade {ASSIGNMENT}"
    )


@pytest.mark.parametrize("time", ["2026-02-28 12:00:00 UTC", None])
def test_a_changed_time_is_graded_again(few, time):
    stamp = few / "submitted" / "style-01" / ASSIGNMENT / "timestamp.txt"
    stamp.write_text(f"{time}\n") if time else stamp.unlink()
    assert next_command(few, to_grade=1) == f"autograder grade {ASSIGNMENT}"
    assert in_process("grade", ASSIGNMENT, *AS_GRADED, cwd=few).exit_code == 0
    assert status(few)["to_grade"] == 0


def test_a_later_notebook_that_cannot_be_graded_is_not_tried_again(few):
    hand_in(few, "style-01", b"no notebook", timestamp="2026-03-02 12:00:00 UTC")
    assert status(few)["to_grade"] == 1
    in_process("grade", ASSIGNMENT, *AS_GRADED, cwd=few)
    told = status(few)
    assert (told["to_grade"], told["not_gradable"], told["graded"]) == (0, 1, len(FEW))


def test_late_as_the_gradebook_counts(few):
    """Everybody handed in on March 1 at 18:00; one has more time."""
    with book(few) as gradebook:
        gradebook.update_or_create_assignment(ASSIGNMENT, duedate="2026-03-01 12:00:00 UTC")
        gradebook.grant_extension(ASSIGNMENT, "style-01", days=1)
    assert status(few)["late"] == len(FEW) - 1
    hand_in(few, "new", b"{}", timestamp="2026-03-01 12:00:01 UTC")
    hand_in(few, "in time", b"{}", timestamp="2026-03-01 12:00:00 UTC")
    assert status(few)["late"] == len(FEW)


def test_it_changes_nothing_and_says_it_in_words(few):
    before = tree(few)
    done = in_process("status", ASSIGNMENT, OTHER, cwd=few)
    assert tree(few) == before
    first, step, second, other = done.stdout.splitlines()
    assert first == (
        f"{ASSIGNMENT}: not released, 5 handed in, 5 graded, 4 to mark by hand, "
        "0 of 5 pages of feedback up to date, not exported"
    )
    assert (second, step.split(": ")[0].strip()) == (f"{OTHER}: not released", "next")
    assert other.strip().startswith(f"next: autograder release {OTHER}")


def test_it_loads_no_torch(few):
    code = (
        "import sys\nfrom autograder.cli import app\napp(['status'], standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=few, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
def test_more_students_cost_no_more_queries(course):
    due = datetime(2026, 3, 1)
    with opened(Course.at(course)):
        pass
    with book(course) as gradebook:
        for assignment in (ASSIGNMENT, OTHER):
            gradebook.add_assignment(assignment, duedate=due)
            gradebook.add_notebook(assignment, assignment)
            for cell in ("one", "two"):
                gradebook.add_grade_cell(cell, assignment, assignment, max_score=2, cell_type="code")
                gradebook.add_solution_cell(cell, assignment, assignment)
    asked = Counter()

    def count(connection, cursor, statement, *rest):
        asked.update(re.findall(r"^\s*SELECT.*?\nFROM (\w+)", statement, re.DOTALL))

    queries = []
    for numbers in (range(3), range(3, 8)):
        with book(course) as gradebook:
            for number in numbers:
                gradebook.add_student(f"student-{number}")
                for assignment in (ASSIGNMENT, OTHER):
                    submission = gradebook.add_submission(
                        assignment, f"student-{number}", timestamp=due + timedelta(number)
                    )
                    for grade in submission.notebooks[0].grades:
                        grade.auto_score = 1.0
            gradebook.db.commit()
        asked.clear()
        event.listen(Engine, "before_cursor_execute", count)
        try:
            done = in_process("status", "--json", cwd=course)
        finally:
            event.remove(Engine, "before_cursor_execute", count)
        told = {one["assignment"]: (one["graded"], one["late"]) for one in json.loads(done.stdout)}
        class_size = numbers.stop
        assert (told[ASSIGNMENT], told[OTHER]) == ((class_size, class_size - 1),) * 2
        assert told["ch04_multi_head"] == (0, 0)
        queries.append(dict(asked))
    assert queries[0] == queries[1]
    assert {"submitted_assignment", "grade", "comment"} <= set(queries[0])
