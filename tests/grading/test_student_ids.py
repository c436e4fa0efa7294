"""One rule for students' ids, wherever an id comes in."""

import csv
import io
import json
import shutil
import zipfile

import pytest
from scratch import AS_GRADED, ASSIGNMENT, hand_in, in_process

from autograder.course.class_file import ClassFile
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.student_ids import LONGEST, is_valid, require_valid
from autograder.grading import gradebook
from autograder.platforms.collect import collect

GOOD = (
    "ada",
    "s1234567",
    "0042",
    "ada.lovelace@uni-example.de",
    "zoë+tag@example.org",
    "octo-cat",
    "under_score",
    "_ada",
    "Ada Lovelace",
    "Lovelace, Ada (Erasmus)_48_112",
    "Siobhán O'Neill_77",
    "'t Hooft",
    "Nerea Sant–Gil",
    "Col·lell",
    "王小明",
    "Дмитрий",
    "محمد",
    "क्षितिज",
    "u\u0308mit",
    "ABC123=@uni.edu",
    "x" * LONGEST,
)
BAD = (
    "\u3164",
    "ann\ufe0f",
    "",
    ".",
    "..",
    ".ada",
    "-ada",
    "–ada",
    " ada",
    "ada ",
    "a/b",
    "a\\b",
    'q";alert(1);"',
    "<b>ada</b>",
    "a&b",
    "a;b",
    "a:b",
    "a|b",
    "a*",
    "a?",
    "a%2e",
    "a#b",
    "$HOME",
    "`ada`",
    "{ada}",
    "[ada]",
    "~root",
    "ada\n",
    "a\x1b[2Kb",
    "a\u202eb",
    "a\u200bb",
    "a\u2028b",
    "a\x00b",
    "a\udcff",
    "x" * (LONGEST + 1),
    "ü" * LONGEST,
)


@pytest.mark.parametrize("student", GOOD)
def test_real_ids_are_ids(student):
    assert is_valid(student)
    assert require_valid(student) == student


@pytest.mark.parametrize("student", BAD)
def test_what_would_be_more_than_a_name_is_none(student):
    assert not is_valid(student)
    with pytest.raises(BadInputError, match="cannot be a student's id"):
        require_valid(student)


AS_FOLDERS = [name for name in BAD if name.strip(".") and not set("/\x00") & set(name)][:24]


@pytest.mark.slow
def test_folders_that_are_no_ids_are_named_and_the_others_graded(course, students):
    blank = students["blank"][0]
    for student in ("ada", *AS_FOLDERS):
        hand_in(course, student, blank)
    run = ("grade", "--executor", "kept", *AS_GRADED, "--submissions", course / "submitted")
    done = in_process(*run, "--json", cwd=course)
    assert done.exit_code == 2
    found = json.loads(done.stdout)
    assert [one["student"] for one in found["submissions"]] == ["ada"]
    assert {one["student"] for one in found["problems"]} == set(AS_FOLDERS)
    assert all("Rename it" in one["what"] for one in found["problems"])
    assert "alert" in in_process("report", cwd=course).stdout, "the report names them too"
    assert [path.name for path in (course / "autograded").iterdir()] == ["ada"]
    assert [row.student for row in gradebook.read(Course.at(course), ASSIGNMENT)] == ["ada"]
    assert 'not graded: q";alert(1);", ch02_qkv: the folder' in in_process(*run, cwd=course).stderr

    for student in AS_FOLDERS:
        shutil.rmtree(course / "submitted" / student)
    hand_in(course, "eve", blank)
    done = in_process(*run, cwd=course)
    assert done.exit_code == 0
    assert "alert" not in in_process("report", cwd=course).stdout  # a renamed folder is no problem any more
    lines = csv.DictReader(io.StringIO(in_process("export", cwd=course).stdout))
    assert [line["student"] for line in lines] == ["ada", "eve"]


def test_collect_takes_no_other_id(course, students, tmp_path):
    data = json.dumps(students["blank"][0])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for student in ("ada", "Siobhán O'Neill", 'q";alert(1);"', "-rf", "a\x1b[2Kb"):
            archive.writestr(f"{student}/{ASSIGNMENT}.ipynb", data)
    args = ("collect", ASSIGNMENT, tmp_path / "all.zip", "--submissions", tmp_path / "submitted")
    done = in_process(*args, cwd=course)
    assert done.exit_code == 2
    assert sorted(path.name for path in (tmp_path / "submitted").iterdir()) == ["Siobhán O'Neill", "ada"]
    for shown in ('q";alert(1);"', "'-rf'", r"a\x1b[2Kb"):
        assert shown in done.stderr
    assert "copy the file by hand" in done.stderr


def test_the_gradebook_takes_no_other_id(few):
    with (
        pytest.raises(BadInputError, match="cannot be a student's id"),
        gradebook.opened(Course.at(few)) as book,
    ):
        book.enter(ASSIGNMENT, 'q";alert(1);"', {}, {}, None)
    assert not [row for row in gradebook.read(Course.at(few), ASSIGNMENT) if "alert" in row.student]


@pytest.mark.parametrize("student", ["+ada", "'+ada", "''=ada", "'ada"])
def test_an_id_in_a_table_is_read_as_it_was_written(course, tmp_path, student):
    """A spreadsheet takes +ada for a formula, so tables have an apostrophe before it."""
    here = Course.at(course)
    with ClassFile.changing(here) as table:
        table.set_groups(student, ("A",))
    assert [*ClassFile.read(here).lines] == [student]
    (written, _) = (course / "class.csv").read_text().splitlines()[1].split(",")
    assert not written.startswith(("+", "="))
    names = tmp_path / "names.csv"
    names.write_text(f"file,student\nx.ipynb,{written}\n")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.ipynb", "{}")
    done = collect(here, ASSIGNMENT, tmp_path / "a.zip", tmp_path / "s", names=names)
    assert done.written == [student]


def test_the_line_that_names_the_separator_stays_in_the_class_file(course):
    """An English Excel opens a file with semicolons as one column without it."""
    file = course / "class.csv"
    file.write_text("sep=;\nstudent;groups\nada;A\n")
    with ClassFile.changing(Course.at(course)) as table:
        table.set_groups("bob", ("B",))
    assert file.read_text() == "sep=;\nstudent;groups\nada;A\nbob;B\n"
