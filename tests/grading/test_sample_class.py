"""The sample class through the real command line: points are those that the declarations say."""

import csv
import io
import json

import pytest
from scratch import OF_THE_CLASS, command, tree

from autograder import exercises
from autograder.course.files import read_record
from autograder.course.layout import Course
from autograder.grading import gradebook, written
from autograder.proof.samples import make

pytestmark = pytest.mark.slow


def reports_of(folder, student, assignment):
    path = folder / "autograded" / student / assignment / f"{assignment}.ipynb"
    return written.reports_in(read_record(path))["reports"]


def test_every_student_gets_the_expected_points(graded_class):
    folder, told = graded_class
    expected = json.loads((folder / "sample" / "expected.json").read_text())
    wrong = []
    compared = 0
    for assignment in exercises.assignments():
        for row in gradebook.read(Course.at(folder), assignment):
            points = {name: row.scores[name] for name in expected[row.student][assignment]}
            compared += 1
            if points != expected[row.student][assignment]:
                wrong.append((row.student, assignment, points, expected[row.student][assignment]))
    assert not wrong
    assert compared == told["graded"] == sum(map(len, expected.values()))
    assert told["problems"] == []


def test_mistakes_are_named_in_the_students_reports(graded_class):
    """At least nine in ten, where one mistake may hide another; `autograder verify` asks for all."""
    folder, _ = graded_class
    named = asked = 0
    for assignment in exercises.assignments():
        banks = {e.function_name: e.misconceptions for e in exercises.of_assignment(assignment)}
        for number, mistakes in enumerate(make.spread(banks, make.WRONG), 1):
            reports = reports_of(folder, f"mistake-{number:02d}", assignment)
            for name, mistake in mistakes.items():
                asked += 1
                named += reports[name]["diagnosis"] == mistake.name
                assert not reports[name]["passed"], f"{name}: {mistake.name}"
    assert asked > 100
    assert named >= 0.9 * asked


def test_grading_again_grades_nothing(graded_class):
    folder, told = graded_class
    before = tree(folder)
    again = command("grade", *OF_THE_CLASS, cwd=folder)
    assert again.returncode == 0, again.stderr
    figures = json.loads(again.stdout)
    assert (figures["graded"], figures["unchanged"]) == (0, told["graded"])
    assert tree(folder) == before


def test_fifty_megabytes_of_output_are_cut(graded_class):
    folder, _ = graded_class
    path = folder / "autograded" / "fifty-megabytes-of-output" / "ch02_qkv" / "ch02_qkv.ipynb"
    assert path.stat().st_size < 1 << 20
    assert "characters were cut" in path.read_text()


def test_the_secret_seed_is_nowhere(graded_class):
    folder, told = graded_class
    path = folder / ".autograder" / "seed"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    seed = path.read_text().strip()
    assert len(seed) > 9
    assert seed not in json.dumps(told)
    for place in ("autograded", ".autograder/verdicts", ".autograder/problems"):
        for file in (folder / place).rglob("*"):
            assert not file.is_file() or seed.encode() not in file.read_bytes()


def test_the_sample_is_the_same_each_time(graded_class, tmp_path):
    folder, _ = graded_class
    make.make(Course.at(folder), tmp_path)
    assert tree(tmp_path) == tree(folder / "sample")


def test_feedback_report_and_export_of_the_class(graded_class):
    folder, told = graded_class
    done = command("feedback", make.EVERY_ACCIDENT, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert len(figures["written"]) == len(gradebook.read(Course.at(folder), make.EVERY_ACCIDENT))
    assert figures["missing"] == []
    done = command("report", "--json", cwd=folder)
    overviews = json.loads(done.stdout)
    assert [one["assignment"] for one in overviews] == list(exercises.assignments())
    (overview,) = (one for one in overviews if one["assignment"] == make.EVERY_ACCIDENT)
    named = {m["name"] for m in overview["misconceptions"] if m["exercise"] == "softmax"}
    made = make.spread(
        {"softmax": exercises.find(f"{make.EVERY_ACCIDENT}/softmax").misconceptions}, make.WRONG
    )
    assert {wrong["softmax"].name for wrong in made} <= named
    looks = {one["student"] for one in overview["needs_a_look"]}
    assert {"process-ended-in-a-cell", "library-called", "endless-loop-in-a-function"} <= looks
    done = command("export", "--format", "csv", cwd=folder)
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert sum(not line["remark"].startswith("not handed in") for line in lines) == told["graded"]


def test_an_option_is_no_folder(monkeypatch):
    monkeypatch.setattr("sys.argv", ["make", "--help"])
    monkeypatch.setattr(make, "make", lambda course, folder: pytest.fail(f"{folder} was made"))
    with pytest.raises(SystemExit, match="usage"):
        make.main()
