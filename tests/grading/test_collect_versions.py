"""Which of several files is a student's work, who is who in one folder, and what an older archive may do."""

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import platform_archives as made
import pytest
from platform_archives import Person, Upload
from scratch import ASSIGNMENT, in_process
from test_collect import NAME, collected, laid_out, zipped

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.times import read_time
from autograder.platforms import collect as collecting
from autograder.platforms.collect import collect
from autograder.release.publish import notebooks

DUE = datetime(2026, 3, 8, 23, 59, tzinfo=UTC)
ADA, BOB = Person("Ada", "Lovelace", "ada", 101), Person("Bob", "Müller", "bob", 102)


@pytest.fixture
def released(course):
    """The released notebook as text."""
    (data,) = notebooks(Course.at(course), ASSIGNMENT).values()
    return data.decode()


def worked(released, text="x"):
    """The released notebook with work in its first answer."""
    notebook = json.loads(released)
    marks = [(cell, cell["metadata"].get("nbgrader", {})) for cell in notebook["cells"]]
    next(cell for cell, mark in marks if mark.get("solution"))["source"] += f"\n    return {text!r}"
    return json.dumps(notebook)


def saved_elsewhere(released):
    """The released notebook as an editor without nbgrader saves it: the same sources."""
    cells = [{**cell, "metadata": {}, "execution_count": 3} for cell in json.loads(released)["cells"]]
    return json.dumps({"cells": cells, "nbformat": 4})


NAMES = [
    f"{ASSIGNMENT}{end}.ipynb" for end in (" (1)", "(2)", "-Copy1", "_final", "-2", " - Kopie", "-1-final")
]
NAMES += [f"Copy of {NAME}", f"ada_{NAME}", "meine Lösung.ipynb"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("save", [str, pytest.param(saved_elsewhere, marks=pytest.mark.slow)])
def test_the_released_notebook_never_wins_over_work(course, tmp_path, released, name, save):
    work = worked(released)
    members = {f"ada/{NAME}": save(released), f"ada/{name}": work, f"bob/{name}": released}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert done.problems == []
    assert collected(tmp_path / "s") == {"ada": work, "bob": released}
    assert {path: entry.outcome for path, entry in done.entries.items()} == {
        f"ada/{NAME}": "older",
        f"ada/{name}": "taken",
        f"bob/{name}": "taken",
    }
    assert done.remarks[-1] == "students who handed in the released notebook without any work: bob"


def test_a_blank_notebook_that_is_handed_in_later_does_not_replace_work(course, tmp_path, released):
    here, work = Course.at(course), worked(released)
    uploads = [Upload(ADA, NAME, work, DUE), Upload(ADA, NAME, released, DUE + timedelta(days=1))]
    archive = made.brightspace(uploads).write(tmp_path / "both.zip")
    collect(here, ASSIGNMENT, archive, tmp_path / "s")
    assert collected(tmp_path / "s") == {"Ada Lovelace_101": work}
    later = made.brightspace(uploads[1:]).write(tmp_path / "later.zip")
    done = collect(here, ASSIGNMENT, later, tmp_path / "s")
    assert collected(tmp_path / "s") == {"Ada Lovelace_101": work}
    assert "without any work" in " ".join(done.remarks)


def test_two_notebooks_with_different_work_are_named(course, tmp_path, released):
    members = {
        f"ada/{NAME}": worked(released, "1"),
        f"ada/{ASSIGNMENT}-Copy1.ipynb": worked(released, "2"),
        f"bob/{NAME}": worked(released, "3"),
        f"bob/{ASSIGNMENT}-Copy1.ipynb": saved_elsewhere(worked(released, "3")),
    }
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert collected(tmp_path / "s") == {"bob": worked(released, "3")}
    assert done.problems == [
        f"ada: several notebooks for {NAME}, and the archive does not show which is the latest: "
        f"ada/{ASSIGNMENT}-Copy1.ipynb, ada/{NAME}; name the right one, and its student, with --names"
    ]
    table = tmp_path / "names.csv"
    table.write_text(f"file,student\nada/{NAME},ada\n")
    done = collect(Course.at(course), ASSIGNMENT, tmp_path / "a.zip", tmp_path / "s", names=table)
    assert (done.problems, done.unchanged) == ([], ["bob"])
    assert collected(tmp_path / "s")["ada"] == worked(released, "1")


def test_another_notebook_beside_the_work_is_not_taken(course, tmp_path, released):
    members = {
        f"ada/{NAME}": worked(released),
        "ada/scratch.ipynb": json.dumps(
            {"cells": [{"cell_type": "code", "source": "1 + 1", "metadata": {}}]}
        ),
        f"bob/{NAME}": released,
        "bob/ch03_scaling.ipynb": worked(released),
    }
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.problems, collected(tmp_path / "s")) == ([], {"ada": worked(released), "bob": released})
    assert done.counts == {"taken": 2, "older": 2}


@pytest.mark.parametrize("folder", ["", "Chapter 2/", "Drive/Chapter 2/"])
@pytest.mark.parametrize("pack", [zipped, laid_out])
def test_one_folder_of_several_people_is_not_one_student(course, tmp_path, released, folder, pack):
    members = {f"{folder}{ASSIGNMENT}{end}.ipynb": worked(released, end) for end in ("", " (1)", " (2)")}
    archive = pack(tmp_path / "drive", members)
    with pytest.raises(BadInputError, match="--names FILE, a CSV table with the columns file and student"):
        collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s")
    assert not (tmp_path / "s").exists()
    table = tmp_path / "names.csv"
    table.write_text(f"\ufeffStudent;File\njürgen;{NAME}\nada;{ASSIGNMENT} (1).ipynb\n", "utf8")
    done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s", names=table)
    assert collected(tmp_path / "s") == {"jürgen": worked(released, ""), "ada": worked(released, " (1)")}
    (problem,) = done.problems
    assert problem.startswith(f"{folder}{ASSIGNMENT} (2).ipynb: the name does not identify a student")
    assert done.counts == {"taken": 2, "undecided": 1}


def test_a_folder_with_one_students_versions_is_taken(course, tmp_path, released):
    members = {f"ada/{NAME}": released, f"ada/{ASSIGNMENT} (1).ipynb": worked(released)}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.problems, collected(tmp_path / "s")) == ([], {"ada": worked(released)})


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("name,path\nada,x.ipynb\n", "has no column 'file'; it has name, path. Expected a table with"),
        ("file,student\nz.ipynb,ada\n", "names.csv: 'z.ipynb' is not in the archive"),
        ("file,student\nx.ipynb,ada\n", "names.csv: 'x.ipynb' could be 1/x.ipynb or 2/x.ipynb"),
        ("file,student\n1/x.ipynb,../ada\n", "names.csv: '../ada' cannot be a student's id"),
        ("", "has no line of headings. Expected a table with the columns file and student"),
        (None, "cannot be read"),
    ],
)
def test_a_table_of_names_that_cannot_be_used_is_refused(course, tmp_path, table, told):
    archive = zipped(tmp_path / "a.zip", {"1/x.ipynb": "1", "2/x.ipynb": "2"})
    names = tmp_path / "names.csv"
    if table is not None:
        names.write_text(table)
    done = in_process("collect", ASSIGNMENT, archive, "-s", tmp_path / "s", "--names", names, cwd=course)
    assert done.exit_code == 2
    assert told in done.stderr.replace("\n", " ")
    assert not (tmp_path / "s").exists()


def test_a_group_in_the_table_gets_the_file_each(course, tmp_path):
    archive = zipped(tmp_path / "a.zip", {"x.ipynb": "1", "y.ipynb": "2"})
    (tmp_path / "n.csv").write_text("file\tstudent\nx.ipynb\tada\nx.ipynb\tbob\ny.ipynb\tcid\n")
    done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s", names=tmp_path / "n.csv")
    assert (done.problems, collected(tmp_path / "s")) == ([], {"ada": "1", "bob": "1", "cid": "2"})


def test_links_and_pasted_texts_are_named_as_such(course, tmp_path):
    uploads = [
        Upload(ADA, "", "", DUE, instead="link"),
        Upload(BOB, "", "<p>see mail</p>", DUE, instead="text"),
    ]
    uploads += [Upload(replace(ADA, number=103), NAME, "c", DUE)]
    archive = made.canvas(uploads).write(tmp_path / "a.zip")
    done = in_process("collect", ASSIGNMENT, archive, "-s", tmp_path / "s", "--json", cwd=course)
    assert done.exit_code == 2
    told = json.loads(done.stdout)
    assert told["problems"] == [
        "lovelaceada_101: handed in no usable notebook, but a link to https://example.org/mine "
        "(lovelaceada_101_link.html)",
        "müllerbob_102: handed in no usable notebook, but a pasted text (müllerbob_102_text.html)",
    ]
    assert told["counts"] == {"taken": 1, "no_notebook": 2}
    assert {entry["outcome"] for entry in told["entries"]} == {"taken", "no_notebook"}


def test_a_class_that_handed_in_no_notebook_at_all_is_named(course, tmp_path):
    archive = made.moodle([Upload(ADA, "a.docx", "", DUE), Upload(BOB, "b.pdf", "", DUE)])
    done = collect(Course.at(course), ASSIGNMENT, archive.write(tmp_path / "a.zip"), tmp_path / "s")
    assert [problem.split(":")[0] for problem in done.problems] == ["Ada Lovelace_101", "Bob Müller_102"]


def test_an_attempt_without_any_file_is_named(course, tmp_path):
    """Blackboard then writes the receipt alone."""
    archive = made.blackboard([Upload(ADA, NAME, "a", DUE), Upload(BOB, NAME, "b", DUE)])
    (file,) = [name for name in archive.files if "bob" in name and name.endswith(".ipynb")]
    del archive.files[file]
    done = collect(Course.at(course), ASSIGNMENT, archive.write(tmp_path / "a.zip"), tmp_path / "s")
    assert done.problems == ["bob: handed in no usable notebook, but no file"]


def test_a_draft_is_not_taken_for_work(course, tmp_path):
    archive = made.teams([Upload(ADA, NAME, "a", DUE), Upload(BOB, NAME, "b", DUE)])
    archive.files = {name: text for name, text in archive.files.items() if "Submitted files/Bob" not in name}
    done = collect(Course.at(course), ASSIGNMENT, archive.write(tmp_path / "a.zip"), tmp_path / "s")
    assert collected(tmp_path / "s") == {"Ada Lovelace": "a"}
    assert done.problems == [
        f"Bob Müller: handed in no usable notebook, but a draft that was not handed in ({NAME})"
    ]


@pytest.mark.parametrize("platform", ["canvas", "moodle"])
def test_an_older_download_replaces_nothing_where_no_time_is_stated(course, tmp_path, platform):
    """Canvas numbers the uploads; Moodle's entries have the time of the download."""
    here = Course.at(course)
    first = made.MAKERS[platform]([Upload(ADA, NAME, "first", DUE)])
    both = made.MAKERS[platform]([Upload(BOB, NAME, "b", DUE), Upload(ADA, NAME, "second", DUE)])
    old, new = first.write(tmp_path / "old.zip", day=9), both.write(tmp_path / "new.zip", day=10)
    (student,) = first.whose.values()
    collect(here, ASSIGNMENT, new, tmp_path / "s")
    done = collect(here, ASSIGNMENT, old, tmp_path / "s")
    assert collected(tmp_path / "s")[student] == "second"
    assert (done.replaced, done.counts) == ([], {"older": 1})
    assert "kept the present notebook" in done.remarks[-1]
    newest = made.MAKERS[platform]([Upload(BOB, "x.ipynb", "", DUE)] * 5 + [Upload(ADA, NAME, "third", DUE)])
    collect(here, ASSIGNMENT, newest.write(tmp_path / "newest.zip", day=11), tmp_path / "s")
    assert collected(tmp_path / "s")[student] == "third"


def test_an_older_download_of_equal_work_does_not_let_another_replace_it(course, tmp_path):
    """A student hands in the first version again after the second one."""
    here = Course.at(course)
    for day, text in ((12, "first"), (10, "first"), (11, "second")):
        archive = made.moodle([Upload(ADA, NAME, text, DUE)]).write(tmp_path / "a.zip", day=day)
        done = collect(here, ASSIGNMENT, archive, tmp_path / "s")
    assert (list(collected(tmp_path / "s").values()), done.counts) == (["first"], {"older": 1})


def test_an_older_download_replaces_nothing_after_a_run_that_was_stopped(course, tmp_path, monkeypatch):
    here, write = Course.at(course), collecting._write_notebook
    first = made.canvas([Upload(ADA, NAME, "first", DUE)]).write(tmp_path / "old.zip", day=9)
    both = made.canvas([Upload(BOB, NAME, "b", DUE), Upload(ADA, NAME, "second", DUE)])

    def stop_at_bob(done, history, folder, *rest):
        if "ada" not in folder.parent.name:
            raise KeyboardInterrupt
        write(done, history, folder, *rest)

    new = both.write(tmp_path / "new.zip", day=10)
    with monkeypatch.context() as patched:
        patched.setattr(collecting, "_write_notebook", stop_at_bob)
        with pytest.raises(KeyboardInterrupt):
            collect(here, ASSIGNMENT, new, tmp_path / "s")
    collect(here, ASSIGNMENT, first, tmp_path / "s")
    assert list(collected(tmp_path / "s").values()) == ["second"]


def test_a_version_that_was_replaced_does_not_come_back_from_a_folder(course, tmp_path):
    here = Course.at(course)
    folders = [laid_out(tmp_path / n, {f"ada/{NAME}": n, f"bob/{NAME}": "b"}) for n in ("1", "2")]
    for folder in (*folders, folders[0]):
        done = collect(here, ASSIGNMENT, folder, tmp_path / "s")
    assert collected(tmp_path / "s")["ada"] == "2"
    assert "has replaced this version before" in "\n".join(done.remarks)


def test_the_zone_of_times_without_one_can_be_named(course, tmp_path):
    archive = made.brightspace([Upload(ADA, NAME, "a", DUE), Upload(BOB, NAME, "b", DUE)])
    archive.write(tmp_path / "a.zip")
    for zone, expected in (("Europe/Berlin", "2026-03-08 23:59"), ("America/New_York", "2026-03-09 04:59")):
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        collect(Course.at(course), ASSIGNMENT, tmp_path / "a.zip", tmp_path / "s", timezone=zone)
        stamp = tmp_path / "s" / "Ada Lovelace_101" / ASSIGNMENT / "timestamp.txt"
        assert stamp.read_text().startswith(expected)
    with pytest.raises(BadInputError, match="no time zone is called 'Berlin'"):
        collect(Course.at(course), ASSIGNMENT, tmp_path / "a.zip", tmp_path / "s", timezone="Berlin")


def test_times_of_the_download_are_not_those_of_the_submissions(course, tmp_path):
    """Where ILIAS writes all entries at once, their times say nothing."""
    uploads = [Upload(person, NAME, person.login, DUE) for person in (ADA, BOB)]
    collect(Course.at(course), ASSIGNMENT, made.ilias(uploads).write(tmp_path / "a.zip"), tmp_path / "s")
    assert not list((tmp_path / "s").rglob("timestamp.txt"))


@pytest.mark.parametrize("platform", ["moodle", "brightspace"])
def test_the_same_archive_leaves_a_repaired_notebook_and_its_time(course, tmp_path, released, platform):
    here, into = Course.at(course), tmp_path / "s"

    def archive(*data):
        uploads = [Upload(ADA, NAME, text, DUE + n * timedelta(days=1)) for n, text in enumerate(data)][-1:]
        return made.MAKERS[platform](uploads).write(tmp_path / f"{len(data)}.zip", day=10 + len(data))

    collect(here, ASSIGNMENT, archive("broken"), into)
    (path,) = into.glob(f"*/{ASSIGNMENT}/{NAME}")
    stamp, student = path.with_name("timestamp.txt"), path.parent.parent.name
    path.write_text(worked(released, "repaired"))
    stamp.write_text("2026-03-10 12:00:00 UTC\n")
    done = collect(here, ASSIGNMENT, archive("broken"), into)
    assert (done.unchanged, done.replaced, done.problems) == ([student], [], [])
    assert path.read_text() == worked(released, "repaired")
    assert stamp.read_text() == "2026-03-10 12:00:00 UTC\n"
    assert any("kept the present notebook, which was changed" in remark for remark in done.remarks)
    elsewhere = collect(here, ASSIGNMENT, archive("broken"), tmp_path / "t")
    assert elsewhere.written == [student]
    stamp.unlink()
    assert collect(here, ASSIGNMENT, archive("broken", "newer"), into).replaced == [student]
    assert path.read_text() == "newer"
    path.unlink()
    assert collect(here, ASSIGNMENT, archive("broken", "newer"), into).written == [student]


def test_a_record_without_digests_leaves_a_repaired_notebook(course, tmp_path, released):
    """Earlier versions of the course wrote such records."""
    here, into = Course.at(course), tmp_path / "s"
    archive = made.moodle([Upload(ADA, NAME, "broken", DUE)]).write(tmp_path / "a.zip", day=10)
    collect(here, ASSIGNMENT, archive, into)
    (path,) = into.glob(f"*/{ASSIGNMENT}/{NAME}")
    record = here.state / "collected" / f"{ASSIGNMENT}.json"
    known = json.loads(record.read_text())
    for about in known.values():
        del about["digests"]
    record.write_text(json.dumps(known))
    path.write_text(worked(released))
    done = collect(here, ASSIGNMENT, archive, into)
    assert (done.replaced, path.read_text()) == ([], worked(released))
    newer = made.moodle([Upload(ADA, NAME, "newer", DUE)]).write(tmp_path / "b.zip", day=11)
    assert len(collect(here, ASSIGNMENT, newer, into).replaced) == 1


def test_a_time_zone_that_is_named_later_keeps_the_times_and_says_so(course, tmp_path, released):
    here, into = Course.at(course), tmp_path / "s"
    uploads = [Upload(person, NAME, worked(released, person.login), DUE) for person in (ADA, BOB)]
    archive = made.brightspace(uploads).write(tmp_path / "a.zip")
    collect(here, ASSIGNMENT, archive, into, timezone="UTC")
    ada, bob = sorted(into.rglob("timestamp.txt"))
    before = ada.read_text()
    bob.write_text("2026-03-01 12:00:00 UTC\n")
    kept = (
        "kept the times of Ada Lovelace_101, Bob Müller_102; to read them again from the archive, delete "
        "their timestamp.txt and collect again"
    )
    for zone in ("Europe/Berlin", None, "Europe/Berlin"):
        done = collect(here, ASSIGNMENT, archive, into, timezone=zone)
        assert len(done.unchanged) == 2
        assert (ada.read_text(), bob.read_text()) == (before, "2026-03-01 12:00:00 UTC\n")
        assert (kept in done.remarks) == (zone is not None)
    ada.unlink()
    collect(here, ASSIGNMENT, archive, into, timezone="Europe/Berlin")
    assert ada.read_text() == "2026-03-08 23:59:00.000000 UTC\n"


def test_a_later_upload_of_equal_work_keeps_the_first_time(course, tmp_path, released):
    """The times of this format have a zone, so --timezone says nothing about them."""
    for hour in ("20:00", "23:30"):
        members = {f"{who}/{NAME}": worked(released, who) for who in ("ada", "bob")}
        members["ada/timestamp.txt"] = f"2026-03-08 {hour}:00 UTC"
        archive = zipped(tmp_path / f"{hour[:2]}.zip", members)
        done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s", timezone="Europe/Berlin")
        assert done.remarks == []
        stamp = tmp_path / "s" / "ada" / ASSIGNMENT / "timestamp.txt"
        assert stamp.read_text() == "2026-03-08 20:00:00.000000 UTC\n"


def exchange_folder(student, time):
    return f"{student}+{ASSIGNMENT}+{time}+x1/{NAME}"


def test_summer_time_has_another_abbreviation_and_the_later_time_counts(course, tmp_path, released):
    members = {
        exchange_folder("ada", "2026-03-28 20:00 CET"): worked(released, "old"),
        exchange_folder("ada", "2026-03-29 20:00 CEST"): worked(released, "new"),
    }
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.problems, collected(tmp_path / "s")) == ([], {"ada": worked(released, "new")})
    stamp = tmp_path / "s" / "ada" / ASSIGNMENT / "timestamp.txt"
    assert stamp.read_text() == "2026-03-29 18:00:00.000000 UTC\n"


def test_a_time_that_cannot_be_read_is_reported_and_never_counts_as_the_oldest(course, tmp_path, released):
    members = {
        exchange_folder("ada", "2026-03-28 20:00 UTC"): worked(released, "one"),
        exchange_folder("ada", "2026-03-29 20:00 XYZT"): worked(released, "two"),
        exchange_folder("bob", "2026-03-29 20:00 XYZT"): worked(released, "b"),
        exchange_folder("cid", "2026-03-30 20:00 XYZT"): worked(released, "c"),
    }
    archive = zipped(tmp_path / "a.zip", members)
    done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s")
    assert "ada: several notebooks" in done.problems[0]
    assert "does not show which is the latest" in done.problems[0]
    assert collected(tmp_path / "s") == {"bob": worked(released, "b"), "cid": worked(released, "c")}
    told = (
        "submissions that do not count as late, since their time cannot be read: bob "
        "('2026-03-29 20:00 XYZT'), cid ('2026-03-30 20:00 XYZT'); write each time into the student's "
        "timestamp.txt, such as 2026-03-07 18:00:00 UTC"
    )
    assert done.remarks == [told]
    assert told in collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s").remarks
    for student in ("bob", "cid"):
        (tmp_path / "s" / student / ASSIGNMENT / "timestamp.txt").write_text("2026-03-29 18:00:00 UTC\n")
    assert collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s").remarks == []


def test_of_the_same_work_the_file_with_a_known_time_counts(course, tmp_path, released):
    times = ("2026-03-27 20:00 XYZT", "2026-03-28 20:00 UTC")
    members = {exchange_folder("ada", time): worked(released) for time in times}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.problems, done.remarks) == ([], [])
    stamp = tmp_path / "s" / "ada" / ASSIGNMENT / "timestamp.txt"
    assert stamp.read_text() == "2026-03-28 20:00:00.000000 UTC\n"


@pytest.mark.parametrize("text", ["2026-07-08 23:59:59 XYZT", "08.07.2026, 18 Uhr", ""])
def test_a_time_beside_a_notebook_that_cannot_be_read_is_reported(course, tmp_path, released, text):
    members = {f"ada/{NAME}": worked(released), "ada/timestamp.txt": text, f"bob/{NAME}": worked(released)}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    (told,) = done.remarks
    assert f"their time cannot be read: ada ({text!r}); write" in told


@pytest.mark.parametrize("time", ["2026-03-08 20:00:00.000000 UTC", "2026-03-08 20:00", "08.03.26 20:00 CET"])
@pytest.mark.parametrize("student", ["ada+hub@uni.de", "ada+1+2"])
def test_a_plus_in_an_id_of_the_exchange_belongs_to_the_id(course, tmp_path, released, student, time):
    members = {exchange_folder(who, time): worked(released, who) for who in ("ada", student)}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.platform, done.problems) == ("exchange", [])
    assert collected(tmp_path / "s") == {who: worked(released, who) for who in ("ada", student)}
    assert all("cannot be read" not in remark for remark in done.remarks)


@pytest.mark.parametrize("end", ["", "+x1"])
def test_the_offset_in_a_folder_of_the_exchange_belongs_to_the_time(course, tmp_path, released, end):
    folder = f"ada+hub+{ASSIGNMENT}+2026-03-08 23:59:59 +0200{end}"
    archive = zipped(tmp_path / "a.zip", {f"{folder}/{NAME}": worked(released)})
    done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s", "exchange")
    assert done.remarks == []
    stamp = tmp_path / "s" / "ada+hub" / ASSIGNMENT / "timestamp.txt"
    assert stamp.read_text() == "2026-03-08 21:59:59.000000 UTC\n"


@pytest.mark.parametrize("end", ["2026-03-08 20:00:00.000000 +03+x1", "2026-03-08 20:00 UTC+x1 (1)"])
def test_a_short_offset_or_a_suffix_does_not_change_the_id_in_the_exchange(course, tmp_path, released, end):
    """nbgrader writes the zone of Singapore as +08; a browser or a person may add a suffix."""
    archive = zipped(tmp_path / "a.zip", {f"ada+{ASSIGNMENT}+{end}/{NAME}": worked(released)})
    done = collect(Course.at(course), ASSIGNMENT, archive, tmp_path / "s")
    assert (done.platform, done.remarks) == ("exchange", [])
    stamp = tmp_path / "s" / "ada" / ASSIGNMENT / "timestamp.txt"
    assert stamp.read_text() == f"2026-03-08 {'17' if '+03' in end else '20'}:00:00.000000 UTC\n"


def test_an_abbreviation_means_the_computers_own_zone_first(monkeypatch):
    """In Manila, PST is the Philippine Standard Time."""
    pacific = read_time("2026-03-08 20:00 PST")
    monkeypatch.setenv("TZ", "Asia/Manila")
    time.tzset()
    try:
        assert pacific - read_time("2026-03-08 20:00 PST") == timedelta(hours=16)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("member", "student"),
    [
        (f"Team Ä_7_assignsubmission_file/{NAME}", "Team Ä_7"),
        (f"Default group_assignsubmission_file/{NAME}", "Default group"),
        (f"grouplions_101_7001_{NAME}", "grouplions_101"),
        (f"12-34 - Group 3 - Mar 8, 2026 1159 PM/{NAME}", "Group 3_12"),
        (f"QKV_Group 3_attempt_2026-03-08-23-59-00_{NAME}", "Group 3"),
        (f"Abgaben/Team 5/Lovelace_Ada_ada_101/{NAME}", "ada"),
    ],
)
def test_a_groups_file_is_collected_under_the_name_that_the_archive_gives(course, tmp_path, member, student):
    source = zipped(tmp_path / "a.zip", {member: "work"})
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s", timezone="UTC")
    assert (done.problems, collected(tmp_path / "s")) == ([], {student: "work"})


def test_a_single_students_folders_are_not_students(course, tmp_path, released):
    members = {f"ada/{ASSIGNMENT}/{n}/{NAME}": text for n, text in (("1", released), ("2", worked(released)))}
    source = zipped(tmp_path / "a.zip", members)
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s", "folder")
    assert (done.problems, collected(tmp_path / "s")) == ([], {"ada": worked(released)})


@pytest.mark.parametrize("platform", [None, "canvas", "folder"])
def test_an_empty_archive_is_no_fault_of_the_program(course, tmp_path, platform):
    source = zipped(tmp_path / "a.zip", {})
    done = in_process(
        "collect",
        ASSIGNMENT,
        source,
        *(["--from", platform] if platform else []),
        "-s",
        tmp_path / "s",
        cwd=course,
    )
    assert done.exit_code == 2
    assert "holds no notebook" in done.stderr
    assert not (tmp_path / "s").exists()
