"""What platforms hand out comes into submitted/, and nothing in an archive leads anywhere else."""

import io
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest
from scratch import ASSIGNMENT, in_process

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading.matching import MAX_BYTES
from autograder.platforms.collect import collect

NAME = f"{ASSIGNMENT}.ipynb"


def remarks(done):
    """The remarks but for that on each file of these tests, which hold a word in place of a notebook."""
    return [remark for remark in done.remarks if "cannot be graded" not in remark]


GRADESCOPE = """submission_11:
  :submitters:
  - :name: Ada L
    :sid: s1
    :email: ada@x.org
  :created_at: 2026-11-01 10:00:00.000000000 Z
submission_12:
  :submitters:
  - :name: Bob B
    :sid: ''
    :email: bob@x.org
  - :name: Cid C
    :sid: s3
    :email: cid@x.org
  :created_at: 2026-11-02 10:00:00.000000000 Z
"""

HANDED_OUT = {  # platform: the files of its archive, and whose each is
    "canvas": (
        {
            f"lovelaceada_101_7001_{NAME}": "lovelaceada_101",
            f"bob_LATE_102_7002_{ASSIGNMENT}-1.ipynb": "bob_102",
        },
        {},
    ),
    "moodle": (
        {
            f"Ada Lovelace_101_assignsubmission_file_/{NAME}": "Ada Lovelace_101",
            f"Bob_102_assignsubmission_file_{NAME}": "Bob_102",
        },
        {},
    ),
    "gradescope": (
        {f"export/submission_11/{NAME}": "s1", f"export/submission_12/answers/{NAME}": ("bob", "s3")},
        {"export/submission_metadata.yml": GRADESCOPE},
    ),
    "exchange": (
        {
            f"ada+{ASSIGNMENT}+2026-11-01 10:00:00.000000 UTC+x1/{NAME}": "ada",
            f"bob+{ASSIGNMENT}+2026-11-02 10:00:00 UTC/{NAME}": "bob",
        },
        {},
    ),
    "github": (
        {f"class/attention-ada/{NAME}": "ada", f"class/attention-bob-b/notebooks/{NAME}": "bob-b"},
        {"class/attention-ada/README.md": "x", f"class/attention-ada/.git/{NAME}": "x"},
    ),
    "folder": (
        {f"ada/{ASSIGNMENT}/{NAME}": "ada", f"bob/{NAME}": "bob"},
        {f"ada/.ipynb_checkpoints/{NAME}": "x"},
    ),
}


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def laid_out(folder, members):
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(data)
    return folder


def collected(into):
    return {path.parent.parent.name: path.read_text() for path in into.glob(f"*/{ASSIGNMENT}/{NAME}")}


@pytest.mark.parametrize("packed", [zipped, pytest.param(laid_out, marks=pytest.mark.slow)])
@pytest.mark.parametrize("platform", HANDED_OUT)
def test_each_platform_is_recognised_and_its_students_found(course, tmp_path, platform, packed):
    names, others = HANDED_OUT[platform]
    source = packed(tmp_path / "handed_out", {name: f"of {whose}" for name, whose in names.items()} | others)
    into = tmp_path / "submitted"
    done = collect(Course.at(course), ASSIGNMENT, source, into)
    assert (done.platform, done.problems) == (platform, [])
    expected = {}
    for whose in names.values():
        for student in whose if isinstance(whose, tuple) else (whose,):
            expected[student] = f"of {whose}"
    assert collected(into) == expected


def test_who_is_who_is_not_what_a_student_says(course, tmp_path):
    """Their file lies before the platform's own in an archive that is in alphabetical order."""
    names, others = HANDED_OUT["gradescope"]
    own = {
        "export/submission_11/submission_metadata.yml": GRADESCOPE.replace("s1", "s3").replace("bob", "eve")
    }
    source = zipped(tmp_path / "a.zip", own | dict.fromkeys(names, "x") | others)
    collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    assert set(collected(tmp_path / "s")) == {"s1", "bob", "s3"}


def test_a_name_that_no_folder_can_have_is_told_and_the_others_are_taken(course, tmp_path):
    members = {f"{name}_{n}_{n}_{NAME}": "{}" for n, name in enumerate(["ada", 100 * "文", "bob"], 101)}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert set(collected(tmp_path / "s")) == {"ada_101", "bob_103"}
    assert "cannot be a student's id" in done.problems[0]


def test_no_name_writes_to_the_terminal(course, tmp_path):
    (tmp_path / "a" / "eve").mkdir(parents=True)
    (tmp_path / "a" / "ada").mkdir()
    (tmp_path / "a" / "ada" / NAME).write_text("{}")
    (tmp_path / "a" / "eve" / "\x1b]0;x\x07.txt").write_text("")
    done = collect(Course.at(course), ASSIGNMENT, tmp_path / "a", tmp_path / "s")
    assert "\x1b" not in done.problems[0]
    assert "no usable notebook" in done.problems[0]


def test_times_are_kept_where_they_are_told(course, tmp_path):
    names, others = HANDED_OUT["gradescope"]
    source = zipped(tmp_path / "a.zip", dict.fromkeys(names, "x") | others)
    collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    stamp = (tmp_path / "s" / "s1" / ASSIGNMENT / "timestamp.txt").read_text()
    assert stamp == "2026-11-01 10:00:00.000000 UTC\n"


def test_the_latest_of_several_counts_and_the_one_before_is_kept(course, tmp_path):
    here, into = Course.at(course), tmp_path / "s"
    first = f"ada+{ASSIGNMENT}+2026-11-01 10:00:00 UTC/{NAME}"
    last = f"ada+{ASSIGNMENT}+2026-11-03 10:00:00 UTC/{NAME}"
    other = f"bob+{ASSIGNMENT}+2026-11-02 10:00:00 UTC/{NAME}"
    collect(here, ASSIGNMENT, zipped(tmp_path / "1.zip", {first: "first", other: "b"}), into)
    done = collect(
        here, ASSIGNMENT, zipped(tmp_path / "2.zip", {first: "first", last: "last", other: "b"}), into
    )
    assert (done.replaced, done.unchanged) == (["ada"], ["bob"])
    assert collected(into)["ada"] == "last"
    (kept,) = (here.state / "replaced" / ASSIGNMENT / "ada").iterdir()
    assert kept.read_text() == "first"
    done = collect(here, ASSIGNMENT, zipped(tmp_path / "1.zip", {first: "first", other: "b"}), into)
    assert "handed in later" in remarks(done)[0]
    assert collected(into)["ada"] == "last"


def test_two_students_with_one_id_are_told_and_neither_is_taken(course, tmp_path):
    source = zipped(tmp_path / "a.zip", {f"ada/one/{NAME}": "1", f"ada/two/{NAME}": "2", f"bob/{NAME}": "b"})
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    assert "several notebooks" in done.problems[0]
    assert collected(tmp_path / "s") == {"bob": "b"}


def test_another_name_is_taken_if_there_is_no_choice(course, tmp_path):
    members = {
        f"ada/{ASSIGNMENT} (2).ipynb": "a",
        "bob/my work.ipynb": "b",
        "cid/a.ipynb": "1",
        "cid/b.ipynb": "2",
    }
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert collected(tmp_path / "s") == {"ada": "a", "bob": "b"}
    assert "bob: my work.ipynb is collected as" in remarks(done)[0]
    assert done.problems == [f"cid: {NAME} is missing; handed in: a.ipynb, b.ipynb"]


def test_the_notebook_of_another_assignment_is_not_taken(course, tmp_path):
    members = {"ada/ch03_scaling.ipynb": "a", "bob/ch03_scaling (1).ipynb": "b", f"cid/{NAME}": "c"}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert collected(tmp_path / "s") == {"cid": "c"}
    assert done.problems[0] == f"ada: {NAME} is missing; handed in: ch03_scaling.ipynb"
    assert done.problems[1].startswith(f"bob: {NAME} is missing")


@pytest.mark.parametrize("data", ["", "[]", "{", "not JSON"])
def test_a_notebook_that_cannot_be_graded_is_taken_and_told(course, tmp_path, data):
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", {f"ada/{NAME}": data}), tmp_path)
    assert collected(tmp_path)["ada"] == data
    assert done.remarks[0].startswith(f"ada: {NAME} cannot be graded: ")


def test_who_handed_in_something_else_is_told(course, tmp_path):
    members = {
        f"Ada_1_assignsubmission_file_/{NAME}": "a",
        "Ada_1_assignsubmission_onlinetext_/onlinetext.html": "see the notebook",
        f"Bob_2_assignsubmission_file_/{ASSIGNMENT}.IPYNB": "b",
        "Cid_3_assignsubmission_file_/work.zip": "c",
        "Dot_4_assignsubmission_onlinetext_/onlinetext.html": "d",
    }
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert collected(tmp_path / "s") == {"Ada_1": "a", "Bob_2": "b"}
    assert done.problems == [
        "Cid_3: handed in no usable notebook, but work.zip",
        "Dot_4: handed in no usable notebook, but a pasted text (onlinetext.html)",
    ]


def test_what_canvas_writes_before_a_name_is_not_told(course, tmp_path):
    members = {f"ada_1_7001_{NAME}": "a", "bob_2_7002_work.docx": "b"}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert done.problems == ["bob_2: handed in no usable notebook, but work.docx"]


def test_the_test_student_of_canvas_is_left_out_and_named(course, tmp_path):
    members = {f"ada_1_7001_{NAME}": "a", f"studenttest_2_7002_{NAME}": "b"}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert collected(tmp_path / "s") == {"ada_1": "a"}
    assert (done.problems, done.counts) == ([], {"taken": 1, "own": 1})
    assert remarks(done) == ["studenttest_2: left out, since it is Canvas's test student"]


def test_a_time_that_a_new_version_drops_is_told(course, tmp_path):
    here, into = Course.at(course), tmp_path / "s"
    collect(here, ASSIGNMENT, zipped(tmp_path / "1.zip", {f"ada/{NAME}": "1", f"bob/{NAME}": "b"}), into)
    stamp = into / "ada" / ASSIGNMENT / "timestamp.txt"
    stamp.write_text("2026-11-09 10:00:00 UTC\n")
    second = zipped(tmp_path / "2.zip", {f"ada/{NAME}": "2", f"bob/{NAME}": "b"})
    done = collect(here, ASSIGNMENT, second, into)
    assert not stamp.exists()
    (told,) = remarks(done)
    assert told.startswith("ada: the new version has no time")
    assert "2026-11-09 10:00:00 UTC" in told


HOSTILE = ["/etc/cron.d/x.ipynb", "../../x.ipynb", f"ada/../../../{NAME}", "C:/x.ipynb", f"..\\..\\{NAME}"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_out_of_the_archive_is_left_out(course, tmp_path, name):
    source = tmp_path / "a.zip"
    zipped(source, {name: "hostile", f"ada/{NAME}": "a", f"bob/{NAME}": "b"})
    before = set(tmp_path.rglob("*"))
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    assert "leads out of the archive" in done.problems[0]
    assert collected(tmp_path / "s") == {"ada": "a", "bob": "b"}
    new = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} - {
        p.relative_to(tmp_path) for p in before
    }
    assert {path.parts[0] for path in new} <= {"s", "course"}


def test_links_are_not_followed(course, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    link = zipfile.ZipInfo(f"eve/{NAME}")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, str(secret))
        archive.writestr(f"ada/{NAME}", "a")
    folder = laid_out(tmp_path / "folder", {f"ada/{NAME}": "a"})
    (folder / "eve").mkdir()
    (folder / "eve" / NAME).symlink_to(secret)
    (folder / "mal").symlink_to(tmp_path)
    for source in (tmp_path / "a.zip", folder):
        done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
        assert any("link" in problem for problem in done.problems)
        assert collected(tmp_path / "s") == {"ada": "a"}


def test_a_folder_that_cannot_be_opened_is_named(course, tmp_path, monkeypatch):
    source = laid_out(tmp_path / "folder", {f"{name}/{NAME}": name for name in ("ada", "bob", "cid")})
    listed = os.scandir

    def scandir(path):
        if Path(path).name == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    closed = "bob"
    monkeypatch.setattr("os.scandir", scandir)
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    assert done.problems == ["left out 'bob': it cannot be opened (Permission denied)"]
    assert done.counts == {"taken": 2, "undecided": 1}
    closed = "folder"
    with pytest.raises(BadInputError, match="folder cannot be opened"):
        collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")


def test_a_folder_that_can_be_listed_but_not_entered_is_named(course, tmp_path, monkeypatch):
    source = laid_out(tmp_path / "folder", {f"ada/{NAME}": "a", f"bob/sub/{NAME}": "b"})
    listed, asked = os.scandir, os.stat

    def refuse(function, path, *args, **how):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return function(path, *args, **how)

    monkeypatch.setattr("os.scandir", lambda path: refuse(listed, path))
    monkeypatch.setattr("os.stat", lambda path, **how: refuse(asked, path, **how))
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s", "folder")
    assert done.problems == ["left out 'bob/sub': it cannot be opened (Permission denied)"]
    assert collected(tmp_path / "s") == {"ada": "a"}


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(course, tmp_path):
    """A member that says that it is small, and unpacks to more than a notebook may have."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"eve/{NAME}", bytes(MAX_BYTES + 1000))
        archive.writestr(f"ada/{NAME}", "a")
    told, small = (MAX_BYTES + 1000).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    (tmp_path / "honest.zip").write_bytes(data.getvalue())
    (tmp_path / "lying.zip").write_bytes(data.getvalue().replace(told, small))
    for name in ("honest.zip", "lying.zip"):
        done = collect(Course.at(course), ASSIGNMENT, tmp_path / name, tmp_path / "s")
        assert any(problem.startswith("eve") for problem in done.problems), name
        assert collected(tmp_path / "s") == {"ada": "a"}


@pytest.mark.parametrize("student", ["..", ".hidden", "a" * 200, " ada", "a:b"])
def test_a_student_who_cannot_be_a_folder_is_told(course, tmp_path, student):
    folder = f"{student}+{ASSIGNMENT}+2026-11-01 10:00:00 UTC"
    source = zipped(tmp_path / "a.zip", {f"{folder}/{NAME}": "x", f"ada+{ASSIGNMENT}+2026-11-01/{NAME}": "a"})
    done = collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s", "exchange")
    assert collected(tmp_path / "s") == {"ada": "a"}
    assert done.problems or done.remarks


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("nothing", "does not exist"),
        ("text", "not a zip archive"),
        ("empty", "holds no notebook"),
        ("flat", "--from"),
    ],
)
def test_bad_input_changes_nothing(course, tmp_path, what, told):
    source = tmp_path / "source.zip"
    if what == "text":
        source.write_text("hello")
    elif what == "empty":
        zipped(source, {"ada/readme.txt": "x"})
    elif what == "flat":
        zipped(source, {"a.ipynb": "x", "b.ipynb": "y"})
    with pytest.raises(BadInputError, match=told):
        collect(Course.at(course), ASSIGNMENT, source, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_the_command_says_what_it_did(course, tmp_path):
    source = zipped(
        course / "a.zip", {f"ada/{NAME}": "a", f"bob/{NAME}": "b", "cid/x.ipynb": "", "cid/y.ipynb": ""}
    )
    where = (ASSIGNMENT, source, "--submissions", course / "submitted")
    done = in_process("collect", *where, cwd=course)
    assert done.exit_code == 2
    assert "2 new, 0 replaced, 0 unchanged, from folder" in done.stdout
    assert "not taken: cid" in done.stderr
    told = json.loads(in_process("collect", *where, "--json", cwd=course).stdout)
    assert told["unchanged"] == ["ada", "bob"]
    assert len(told["problems"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "submission_99:\n  :submitters:\n  - :sid: s9\n",
        "submission_11:\n  :submitters: []\nsubmission_99: {}\n",
    ],
)
def test_what_gradescope_does_not_tell_the_owner_of_is_told(course, tmp_path, text):
    members = {f"e/submission_11/{NAME}": "{}", "e/submission_metadata.yml": text}
    done = collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s")
    assert (done.platform, collected(tmp_path / "s")) == ("gradescope", {})
    (told,) = done.problems
    assert told.endswith(
        f"{NAME}: gradescope's own list does not identify a student; "
        "copy the file by hand, or say whose it is with --names"
    )


@pytest.mark.parametrize("folder", [".", "..", "solutions", "notebooks"])
def test_the_course_itself_is_not_collected(course, tmp_path, folder):
    with pytest.raises(BadInputError, match="is the course itself"):
        collect(Course.at(course), ASSIGNMENT, course / folder, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_an_encrypted_notebook_is_told_and_the_others_are_taken(course, tmp_path):
    path = zipped(tmp_path / "class.zip", {f"ada/{NAME}": "{}", f"bob/{NAME}": "{}"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the first entry of the directory says that it is encrypted
    path.write_bytes(data)
    done = collect(Course.at(course), ASSIGNMENT, path, tmp_path / "s")
    assert done.problems == [f"left out 'ada/{NAME}': it is encrypted"]
    assert collected(tmp_path / "s") == {"bob": "{}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("members", "platform", "told"),
    [
        ({f"ada/{NAME}": "{}"}, "blackbird", "no platform is called 'blackbird'"),
        ({f"{n}.txt": "" for n in range(4)}, None, "holds more than 3 files"),
        (
            {f"e/submission_1/{NAME}": "{}", "e/submission_metadata.yml": "a: [1"},
            "gradescope",
            "submission_metadata.yml cannot be read",
        ),
        (
            {f"e/submission_1/{NAME}": "{}", "e/submission_metadata.yml": "submission_1: ada"},
            "gradescope",
            "submission_metadata.yml is not laid out as Gradescope lays it out",
        ),
        *(
            (
                {f"e/submission_1/{NAME}": "{}", "e/submission_metadata.yml": text},
                "gradescope",
                "submission_metadata.yml (cannot be read|is not laid out)",
            )
            for text in ("a: 2024-99-99", 20_000 * "[", f"a: {{':created_at': {5_000 * '9'}}}")
        ),
    ],
)
def test_an_archive_that_cannot_be_used_is_refused_whole(
    course, tmp_path, monkeypatch, members, platform, told
):
    monkeypatch.setattr("autograder.platforms.archives.MOST_FILES", 3)
    with pytest.raises(BadInputError, match=told):
        collect(Course.at(course), ASSIGNMENT, zipped(tmp_path / "a.zip", members), tmp_path / "s", platform)
    assert not (tmp_path / "s").exists()
