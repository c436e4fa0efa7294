"""What a new teacher met in a first term: times by hand, a table of names, new ids, marks after a penalty."""

import shutil

import pytest
from classroom import FIRST, SECOND, add_work, new_class, opened, rows
from scratch import in_process
from test_collect import zipped

from autograder.course.layout import Course
from autograder.course.times import read_time
from autograder.platforms.collect import collect
from autograder.platforms.metadata import written_time

NAME = f"{FIRST}.ipynb"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return new_class(tmp_path_factory.mktemp("term") / "course", {("bob", SECOND): 8})


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "course")


def test_the_day_is_first_between_dots_and_never_guessed_between_slashes():
    assert read_time("03.12.2026 18:00").isoformat() == "2026-12-03T18:00:00"
    assert read_time("30.11.2026 18:00").isoformat() == "2026-11-30T18:00:00"
    assert read_time("2026-12-03 18:00").isoformat() == "2026-12-03T18:00:00"
    assert read_time("25/12/2026 18:00").isoformat() == "2026-12-25T18:00:00"
    with pytest.raises(ValueError, match="does not say which number is the day"):
        read_time("03/12/2026 18:00")


@pytest.mark.parametrize("zone", ["UTC+2", "UTC +2", "GMT+2", "UTC+02:00", "UTC+0200", "GMT +02:00"])
def test_an_offset_from_utc_has_the_sign_that_people_give_it(zone):
    assert read_time(f"2026-07-08 10:00 {zone}").isoformat() == "2026-07-08T08:00:00+00:00"
    west = zone.replace("+", "-")
    assert read_time(f"2026-07-08 10:00 {west}").isoformat() == "2026-07-08T12:00:00+00:00"


@pytest.mark.parametrize("text", ["18:00", "8 March 18:00", "Monday 18:00", "March 2026 18:00"])
def test_a_date_is_not_completed_with_today(text):
    with pytest.raises(ValueError, match="does not name the day, the month and the year"):
        read_time(text)


@pytest.mark.parametrize("text", ["Mar 8, 2025", "8 March 2026", "8.3.2026", "2026-03-08", "18:00"])
def test_a_year_is_not_read_as_a_clock(text):
    assert written_time(text) is None


def test_a_clock_without_a_colon_is_read_behind_the_year():
    assert written_time("Mar 8, 2026 1159 PM").isoformat() == "2026-03-08T23:59:00"
    assert written_time("2026-03-08 1159 PM").isoformat() == "2026-03-08T23:59:00"
    assert written_time("8 Mar 2026 926").isoformat() == "2026-03-08T09:26:00"


def test_a_time_from_windows_may_begin_with_a_mark(folder):
    add_work(folder, "new", FIRST, 0)
    with opened(folder) as book:
        book.remove_submission(FIRST, "new")
    stamp = folder / "submitted" / "new" / FIRST / "timestamp.txt"
    stamp.write_bytes("2026-12-03 12:00:00 UTC\n".encode("utf-8-sig"))
    assert "(1 late)" in in_process("status", FIRST, cwd=folder).stdout


MOODLE = "Nobody Here_210_assignsubmission_file"


def test_a_table_of_names_chooses_between_the_files_of_a_student_of_the_class_list(folder, tmp_path):
    (folder / "list.csv").write_text("id,name,lms_user_id\nnh10,Nobody Here,210\n")
    in_process("roster", "import", folder / "list.csv", cwd=folder)
    archive = zipped(
        tmp_path / "a.zip",
        {
            f"{MOODLE}/Kopie.ipynb": "one",
            f"{MOODLE}/other.ipynb": "two",
            f"Bob B_211_assignsubmission_file/{NAME}": "b",
        },
    )
    table = tmp_path / "who.csv"
    table.write_text(f"file,student\n{MOODLE}/Kopie.ipynb,nh10\n")
    collect(Course.at(folder), FIRST, archive, tmp_path / "s", names=table)
    assert {path.parts[-3] for path in (tmp_path / "s").rglob("*.ipynb")} == {"nh10", "Bob B_211"}
    assert (tmp_path / "s" / "nh10" / FIRST / NAME).read_text() == "one"


def test_a_table_of_names_keeps_the_time_of_the_submission(folder, tmp_path):
    late = f"ada+{FIRST}+2026-03-10 19:19:31 UTC"
    archive = zipped(
        tmp_path / "a.zip", {f"{late}/Kopie.ipynb": "a", f"bob+{FIRST}+2026-03-01 10:00:00 UTC/{NAME}": "b"}
    )
    table = tmp_path / "who.csv"
    table.write_text(f"file,student\n{late}/Kopie.ipynb,ada\n")
    collect(Course.at(folder), FIRST, archive, tmp_path / "s", names=table)
    stamp = tmp_path / "s" / "ada" / FIRST / "timestamp.txt"
    assert stamp.read_text().startswith("2026-03-10 19:19:31")


def test_an_id_that_is_changed_before_the_first_grading_is_known_to_the_next_archive(folder, tmp_path):
    archive = zipped(
        tmp_path / "a.zip",
        {
            f"Ada Lovelace_201_assignsubmission_file/{NAME}": "a",
            f"Bob B_202_assignsubmission_file/{NAME}": "b",
        },
    )
    into = folder / "submitted"
    collect(Course.at(folder), FIRST, archive, into)
    assert in_process("rename", "Ada Lovelace_201", "ada", cwd=folder).exit_code == 0
    done = collect(Course.at(folder), FIRST, archive, into)
    assert (done.written, sorted(done.unchanged)) == ([], ["Bob B_202", "ada"])


@pytest.mark.slow
def test_a_penalty_that_is_older_than_the_marks_is_told_and_graded_first(folder):
    add_work(folder, "ada", FIRST, 4, timestamp="2026-03-09 12:00:00 UTC")
    in_process("late", "--percent", 10, cwd=folder)
    assert rows(folder)["ada"].late_penalty == pytest.approx(0.4)
    assert "late penalty" not in in_process("status", FIRST, cwd=folder).stdout
    with opened(folder) as book:
        book.find_grade("explain", FIRST, FIRST, "ada").manual_score = 5
        book.db.commit()
    told = in_process("status", FIRST, cwd=folder).stdout
    assert "1 with a late penalty older than the marks" in told
    assert f"next: autograder grade {FIRST}" in told
    exported = in_process("export", FIRST, cwd=folder)
    assert "1 late penalty is older than the marks" in exported.stderr
    in_process("late", "--percent", 10, cwd=folder)  # computes it again, as grade does
    assert "late penalty" not in in_process("status", FIRST, cwd=folder).stdout
    assert rows(folder)["ada"].late_penalty == pytest.approx(0.7)
