"""Grades go back to the platform in its own file, to the right person or to nobody."""

import csv
import io
from dataclasses import replace

import pytest
from scratch import in_process

from autograder.course.errors import BadInputError
from autograder.grading.rows import Row
from autograder.platforms.fill_gradebook import fill

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,ch02_qkv (4711),ch03_scaling (4712),Final Score
Points Possible,,,,,20,20,
"Lovelace, Ada",101,u1,ada,A,,5,7
"Hopper, Grace",102,u2,grace@x.org,A,,6,7
"Turing, Alan",103,u3,alan,B,3,,7
"""
MOODLE = """Identifier,Full name,Email address,Status,Grade,Maximum grade,Grade can be changed,Comments
Participant 101,Ada Lovelace,ada@x.org,Submitted,,20.00,Yes,
Participant 102,Grace Hopper,grace@x.org,Submitted,,20.00,Yes,
Participant 103,Ada Lovelace,other@x.org,Submitted,,20.00,Yes,
"""


def graded(student, total):
    return Row(student, "ch02_qkv", {"softmax": total}, {"softmax": 20.0})


def filled(platform, text, rows, tmp_path):
    template = tmp_path / "from_the_platform.csv"
    template.write_text(text)
    done = fill(platform, template, "ch02_qkv", rows)
    assert template.read_text() == text
    return done, list(csv.DictReader(io.StringIO(done.text)))


@pytest.mark.parametrize("called", ["lovelaceada_101", "ada", "ADA", "u1", "101", "Lovelace, Ada"])
def test_canvas_knows_a_student_by_each_of_its_names(tmp_path, called):
    done, lines = filled("canvas", CANVAS, [graded(called, 17.5)], tmp_path)
    assert [line["ch02_qkv (4711)"] for line in lines] == ["20", "17.5", "", "3"]
    assert (done.given, done.notes) == ([called], [])


def test_two_ids_of_one_person_overwrite_nothing(tmp_path):
    rows = [graded("ada", 3), graded("grace", 9), graded("lovelaceada_101", 1)]
    done, lines = filled("canvas", CANVAS, rows, tmp_path)
    assert [line["ch02_qkv (4711)"] for line in lines] == ["20", "", "9", "3"]
    assert done.given == ["grace"]
    assert [note.split(";")[0].split(" in ")[0] for note in done.notes] == [
        "ada: another id has the same line",
        "lovelaceada_101: another id has the same line",
    ]


def test_canvas_gets_the_columns_that_it_takes_in_and_no_other_grade(tmp_path):
    _, lines = filled("canvas", CANVAS, [graded("grace", 9)], tmp_path)
    wanted = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "ch02_qkv (4711)"]
    assert list(lines[0]) == wanted
    assert lines[0]["Student"] == "Points Possible"
    assert lines[2]["ch02_qkv (4711)"] == "9"


@pytest.mark.parametrize("called", ["Ada Lovelace_101", "ada", "ada@x.org", "Participant 101"])
def test_moodle_knows_a_student_by_number_and_address(tmp_path, called):
    done, lines = filled("moodle", MOODLE, [graded(called, 4)], tmp_path)
    assert [line["Grade"] for line in lines] == ["4", "", ""]
    assert list(lines[0]) == MOODLE.splitlines()[0].split(",")
    assert not done.notes


@pytest.mark.parametrize(
    ("called", "why"), [("Ada Lovelace", "several lines"), ("bob", "no line"), ("10", "no line")]
)
def test_who_is_not_certain_gets_no_grade_and_is_named(tmp_path, called, why):
    done, lines = filled("moodle", MOODLE, [graded(called, 4)], tmp_path)
    assert not any(line["Grade"] for line in lines)
    assert done.notes == [f"{called}: {why} in from_the_platform.csv; enter 4 by hand"]


def test_grades_without_the_answers_that_nobody_has_read_are_told(tmp_path):
    rows = [replace(graded("ada", 4), needs_manual_grade=("explain",)), graded("grace", 9)]
    done, _ = filled("canvas", CANVAS, rows, tmp_path)
    assert done.notes == [
        "1 of 2 students have answers that nobody has read yet; their grades lack these points"
    ]


def test_a_grade_that_the_platform_has_locked_is_left_and_told(tmp_path):
    text = MOODLE.replace("ada@x.org,Submitted,,20.00,Yes", "ada@x.org,Submitted,3,20.00,No")
    done, lines = filled("moodle", text, [graded("ada", 4), graded("grace", 9)], tmp_path)
    assert [line["Grade"] for line in lines] == ["3", "9", ""]
    assert done.given == ["grace"]
    (told,) = done.notes
    assert told.startswith("ada: from_the_platform.csv does not allow changes to this grade")


@pytest.mark.parametrize(
    ("platform", "text"),
    [
        ("moodle", MOODLE.replace("20.00", "100,00").replace("100,00", '"100,00"')),
        ("moodle", MOODLE.replace("20.00", "100").replace("Maximum grade", "Maximum Grade")),
        ("canvas", CANVAS.replace("Points Possible,,,,,20", "    Points Possible,,,,,100")),
    ],
)
def test_another_number_of_points_is_told(tmp_path, platform, text):
    done, _ = filled(platform, text, [graded("ada", 4), graded("grace", 9)], tmp_path)
    assert done.given == ["ada", "grace"]
    (told,) = done.notes
    assert told.startswith("from_the_platform.csv is out of 100 points and these grades are out of 20")


@pytest.mark.parametrize(
    ("platform", "text", "told"),
    [
        ("canvas", "a,b\n1,2\n", "none of the columns"),
        ("canvas", CANVAS.replace("ch02_qkv (4711)", "week two"), "no column called 'ch02_qkv'"),
        ("canvas", CANVAS.replace("ch03_scaling (4712)", "ch02_qkv (9)"), "2 columns called"),
        ("moodle", MOODLE.replace(",Grade,", ",Mark,"), "no column 'Grade'"),
    ],
)
def test_a_file_that_is_something_else_is_told(tmp_path, platform, text, told):
    with pytest.raises(BadInputError, match=told):
        filled(platform, text, [graded("ada", 1)], tmp_path)


def test_the_command_fills_the_file_and_wants_it_named(few, tmp_path):
    template = tmp_path / "gradebook.csv"
    template.write_text(CANVAS.replace("ada,A", "style-01,A").replace("grace@x.org", "blank@x.org"))
    arguments = ("export", "ch02_qkv", "--format", "canvas", "--output", tmp_path / "upload.csv")
    refused = in_process(*arguments, cwd=few)
    assert refused.exit_code == 2
    assert "--into the gradebook that Canvas exports" in " ".join(refused.stderr.split())
    done = in_process(*arguments, "--into", template, cwd=few)
    assert done.exit_code == 0
    lines = list(csv.DictReader((tmp_path / "upload.csv").open()))
    assert float(lines[1]["ch02_qkv (4711)"]) > float(lines[2]["ch02_qkv (4711)"]) == 0
    assert "mistake-01: no line in gradebook.csv" in " ".join(done.stderr.split())


def test_nobody_takes_anothers_points_by_a_name_of_their_choice(tmp_path):
    template = tmp_path / "canvas.csv"
    template.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,ch02_qkv (1)\n"
        "Lovelace,4711,,ada,s,\nlovelaceada_4711,99,,mal,s,\n"
    )
    row = graded("lovelaceada_4711", 17)
    filled = fill("canvas", template, "ch02_qkv", [row])
    assert not filled.given
    assert "several lines" in filled.notes[0]
