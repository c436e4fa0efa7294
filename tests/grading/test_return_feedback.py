"""Feedback goes back in the archive that a platform takes, to the student whose work it is or to nobody."""

import json
import mailbox
import shutil
import zipfile
from datetime import UTC, datetime
from email import policy
from email.parser import BytesParser
from functools import partial

import pytest
from nbgrader.api import Gradebook
from platform_archives import Person, Upload, canvas, moodle
from scratch import ASSIGNMENT, FEW, in_process

from autograder.course import class_list
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.platforms.collect import collect
from autograder.platforms.feedback_mail import Mail, find_addresses, write_mailbox
from autograder.platforms.history import History, Version
from autograder.platforms.return_feedback import pack

NAME = f"{ASSIGNMENT}.ipynb"
PAGE = f"{ASSIGNMENT}.html"


def taken_by_moodle(member):
    """Whose feedback Moodle takes a file for, and under which name.

    The rule of Moodle's importziplib.php: the outermost part of the path with three underscores whose second
    piece is a number names the student; what follows the fourth underscore, and the path below, is the file.
    """
    parts = member.split("/")
    for depth, part in enumerate(parts):
        pieces = part.split("_", 4)
        if len(pieces) >= 4 and pieces[1].isdigit():
            assert pieces[2:4] == ["assignsubmission", "file"]
            return pieces[1], "/".join([*pieces[4:], *parts[depth + 1 :]])
    return None


def taken_by_canvas(member):
    """Whose comment Canvas makes of a file, and on which attachment, by Canvas's abstract_assignment.rb."""
    pieces = [piece for piece in member.split("/")[-1].split("_") if piece != "LATE"]
    if pieces[-1].startswith("link"):
        return None
    numbers = pieces[1:3] if pieces[0] == "anon" else [piece for piece in pieces if piece.isdigit()][:2]
    return tuple(numbers)


MOODLE = {  # a path in Moodle's archive, and the number of the student who gets the page
    f"Ada Löwe_101_assignsubmission_file/{NAME}": "101",
    f"Group 1-Bo_102_assignsubmission_file_/{NAME}": "102",
    f"Cy_103_assignsubmission_file_{NAME}": "103",
    f"Eve_104_assignsubmission_file_/Ada Löwe_101_assignsubmission_file_{NAME}": "104",
    "Mal_105_assignsubmission_file_Ada_101_assignsubmission_file_x.ipynb": "105",
    f"Participant_106_assignsubmission_file/work/{NAME}": "106",
}
CANVAS = {
    f"löweada_101_7001_{NAME}": ("101", "7001"),
    f"bo_LATE_102_7002_{NAME}": ("102", "7002"),
    "evil_103_7003_löweada_101_7001_x.ipynb": ("103", "7003"),
    f"cy_104_7004_{ASSIGNMENT}-2.ipynb": ("104", "7004"),
    f"anon_Ab3dE_7005_{NAME}": ("Ab3dE", "7005"),
    f"LATE_anon_Xy9Zz_7006_{NAME}": ("Xy9Zz", "7006"),
}


def remember(course, platform, paths, assignment=ASSIGNMENT):
    """Remember a path in a platform's archive for each student, as collecting does."""
    history = History(course, assignment)
    for student, path in paths.items():
        history.remember(student, Version(platform, path=path))
    history.save()


def written(course, students, assignment=ASSIGNMENT):
    """A page for each student."""
    pages = [course.feedback / student / assignment / PAGE for student in students]
    for page in pages:
        page.parent.mkdir(parents=True)
        page.write_text(f"of {page.parent.parent.name}")
    return pages


def unpacked(archive):
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def packed(course, platform, paths, tmp_path):
    """What the archive has of pages of students with these paths in their platform's archive."""
    here = Course.at(course)
    students = {f"student {number}": path for number, path in enumerate(paths)}
    remember(here, platform, students)
    done = pack(here, platform, written(here, students), tmp_path / "out")
    assert (done.left_out, list(done.archives.values())) == ([], [len(paths)])
    (archive,) = done.archives
    return students, unpacked(archive)


def test_moodle_gives_each_page_to_the_student_whose_work_it_is(course, tmp_path):
    students, members = packed(course, "moodle", MOODLE, tmp_path)
    whose = {taken_by_moodle(name): text for name, text in members.items()}
    assert whose == {(MOODLE[path], PAGE): f"of {student}" for student, path in students.items()}


def test_canvas_gives_each_page_to_the_student_whose_work_it_is(course, tmp_path):
    students, members = packed(course, "canvas", CANVAS, tmp_path)
    whose = {taken_by_canvas(name): text for name, text in members.items()}
    assert whose == {CANVAS[path]: f"of {student}" for student, path in students.items()}
    assert all(name.endswith(f"_{PAGE}") for name in members)


ADA, BO = Person("Ada", "Löwe", "ada.l", 101), Person("Bo", "O'Öz", "boez", 102)
BACK = {  # the archive, the rule of its platform, and what the platform calls a person
    "canvas": (canvas, taken_by_canvas, lambda who: str(who.number)),
    "canvas, anonymous": (
        partial(canvas, anonymous=True),
        taken_by_canvas,
        lambda who: f"{who.login[:3]}x{who.number}",
    ),
    "moodle": (moodle, taken_by_moodle, lambda who: str(who.number)),
    "moodle, flat": (partial(moodle, as_folders=False), taken_by_moodle, lambda who: str(who.number)),
}


@pytest.mark.parametrize("kind", BACK)
def test_what_was_collected_finds_its_way_back(course, tmp_path, kind):
    make, rule, number = BACK[kind]
    here, time = Course.at(course), datetime(2026, 3, 8, tzinfo=UTC)
    uploads = [Upload(who, NAME, f'{{"of": "{who.login}"}}', time, late=who is BO) for who in (ADA, BO)]
    archive = make(uploads).write(tmp_path / "theirs.zip")
    collect(here, ASSIGNMENT, archive, tmp_path / "submitted")
    shutil.rmtree(here.state / "collected")  # as if an older version of `collect` had been here
    assert len(collect(here, ASSIGNMENT, archive, tmp_path / "submitted").unchanged) == 2
    whose = {
        path.parent.parent.name: json.loads(path.read_text())["of"]
        for path in tmp_path.glob(f"submitted/*/{ASSIGNMENT}/{NAME}")
    }
    done = pack(here, kind.split(",")[0], written(here, whose), tmp_path)
    (target,) = done.archives
    found = {rule(name)[0]: whose[text.removeprefix("of ")] for name, text in unpacked(target).items()}
    assert found == {number(who): who.login for who in (ADA, BO)}


def test_an_older_archive_leaves_the_way_of_the_newer_one(course, tmp_path):
    here = Course.at(course)
    for day in (2, 1):
        with zipfile.ZipFile(tmp_path / f"{day}.zip", "w") as opened:
            opened.writestr(f"ada+{ASSIGNMENT}+2026-11-0{day} 10:00:00 UTC/{NAME}", f"{day}")
            opened.writestr(f"bo+{ASSIGNMENT}+2026-11-01 10:00:00 UTC/{NAME}", "b")
        collect(here, ASSIGNMENT, tmp_path / f"{day}.zip", tmp_path / "s")
    assert "2026-11-02" in History(here, ASSIGNMENT).version("ada", None).path


def test_who_has_no_place_in_the_archive_is_named_and_the_others_are_packed(course, tmp_path):
    here = Course.at(course)
    remember(here, "moodle", {"ada": next(iter(MOODLE)), "eve": next(iter(MOODLE))})
    remember(here, "canvas", {"bo": next(iter(CANVAS))})
    done = pack(here, "moodle", written(here, ["ada", "bo", "cy", "eve"]), tmp_path)
    cy, eve = done.left_out
    assert done.elsewhere == {"canvas": 1}
    assert cy.startswith(f"cy, {ASSIGNMENT}: the notebook was not collected from an archive")
    assert eve.startswith(f"eve, {ASSIGNMENT}: another student's page has the same name")
    ((archive, count),) = done.archives.items()
    assert (count, list(unpacked(archive).values())) == (1, ["of ada"])


def test_a_student_of_two_assignments_is_counted_once(course, tmp_path):
    here, pages = Course.at(course), []
    for assignment in (ASSIGNMENT, "ch03_encoder"):
        remember(here, "moodle", {"ada": next(iter(MOODLE))}, assignment)
        pages += written(here, ["ada"], assignment)
    assert pack(here, "canvas", pages, tmp_path).elsewhere == {"moodle": 1}


def test_the_same_pages_give_the_same_archive_and_an_error_leaves_the_old_one(course, tmp_path):
    here = Course.at(course)
    pages = written(here, ["ada", "bo"])
    (archive,) = pack(here, "gradescope", pages, tmp_path / "out").archives
    assert unpacked(archive) == {f"ada/{PAGE}": "of ada", f"bo/{PAGE}": "of bo"}
    first = archive.read_bytes()
    pack(here, "gradescope", reversed(pages), tmp_path / "out")
    assert archive.read_bytes() == first
    pages[1].unlink()
    with pytest.raises(FileNotFoundError):
        pack(here, "gradescope", pages, tmp_path / "out")
    assert archive.read_bytes() == first
    assert list(archive.parent.iterdir()) == [archive]


PEOPLE = {
    "ada": class_list.Person("ada", "Ada", "Löwe", "ada@x.org"),
    "bo": class_list.Person("bo", email="Bo@x.org"),
    "bob": class_list.Person("bob", email="bo@X.org"),
    "cy": class_list.Person("cy", "Cy\nBcc: eve@x.org", "", "cy@x.org"),
    "mal": class_list.Person("mal", email="cy@x.org, eve@x.org"),
    "nul": class_list.Person("nul"),
}


def test_everybody_gets_a_mail_of_their_own_or_is_named(tmp_path):
    addresses, missing = find_addresses([*PEOPLE, "zoë", "zed@x.org"], PEOPLE)
    assert {student: to.addr_spec for student, to in addresses.items()} == {
        "ada": "ada@x.org",
        "cy": "cy@x.org",
        "zed@x.org": "zed@x.org",
    }
    assert set(missing) == {"bo", "bob", "mal", "nul", "zoë"}
    assert "same e-mail address" in missing["bo"]
    assert "not an e-mail address" in missing["mal"]
    assert missing["nul"] == missing["zoë"] == "no e-mail address in the gradebook"


def test_the_mails_are_read_back_with_their_pages(tmp_path):
    pages = tuple(tmp_path / name for name in ("a.html", "b.html"))
    for page in pages:
        page.write_bytes(f"<p>{page.name}</p>\nFrom here\nöä{'x' * 2000}".encode())
    addresses, _ = find_addresses(["ada", "cy"], PEOPLE)
    mails = [Mail(addresses["ada"], "ch02_qkv", pages), Mail(addresses["cy"], "ch02_qkv", pages[:1])]
    write_mailbox(tmp_path / "box", mails, sender="teacher@x.org")
    box = mailbox.mbox(tmp_path / "box")
    ada, cy = (BytesParser(policy=policy.default).parsebytes(box.get_bytes(key)) for key in box.iterkeys())
    assert (ada["To"], ada["From"]) == ("Ada Löwe <ada@x.org>", "teacher@x.org")
    assert ada["Subject"] == "Feedback on ch02_qkv"
    assert [part.get_filename() for part in ada.iter_attachments()] == ["a.html", "b.html"]
    contents = [part.get_payload(decode=True) for part in ada.iter_attachments()]
    assert contents == [page.read_bytes() for page in pages]
    assert {part.get_content_type() for part in ada.iter_attachments()} == {"text/html"}
    assert ada.get_body().get_content().startswith("Hello Ada Löwe,\n")
    assert [str(address) for address in cy["To"].addresses] == ['"Cy Bcc: eve@x.org" <cy@x.org>']
    assert cy["Bcc"] is cy["Cc"] is None
    write_mailbox(tmp_path / "box", mails)
    assert [mail["From"] for mail in mailbox.mbox(tmp_path / "box")] == [None, None]


@pytest.mark.parametrize(
    ("platform", "sender", "told"),
    [
        ("teams", "", "The platforms are: moodle, canvas, gradescope, mail"),
        ("mail", "teacher", "must be an e-mail address"),
        ("moodle", "teacher@x.org", "needs --for mail"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_written(course, tmp_path, platform, sender, told):
    with pytest.raises(BadInputError, match=told):
        pack(Course.at(course), platform, [], tmp_path / "out", sender)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_command_writes_pages_and_packs_them(few, tmp_path):
    with Gradebook(f"sqlite:///{few}/gradebook.db") as book:
        book.update_or_create_student("style-01", email="one@x.org", first_name="Sty")
    done = in_process("feedback", "--for", "mail", cwd=few)
    assert done.exit_code == 2
    assert "1 student in" in done.stdout
    assert len(mailbox.mbox(few / "reports" / f"feedback-{ASSIGNMENT}.mbox")) == 1
    for student in set(FEW) - {"style-01"}:
        assert f"left out: {student}, {ASSIGNMENT}: no e-mail address" in done.stderr
    done = in_process("feedback", "--for", "gradescope", "--output", tmp_path, "--json", cwd=few)
    told = json.loads(done.stdout)
    archive = tmp_path / f"feedback-gradescope-{ASSIGNMENT}.zip"
    assert (done.exit_code, told["archives"], told["left_out"]) == (0, {str(archive): len(FEW)}, [])
    for name, text in unpacked(archive).items():
        assert (few / "feedback" / name.split("/")[0] / ASSIGNMENT / PAGE).read_text() == text
    done = in_process("feedback", "--for", "canvas", "--output", tmp_path, cwd=few)
    assert (done.exit_code, done.stderr.count("left out:")) == (2, len(FEW))
    assert list(tmp_path.glob("*canvas*")) == []
    assert in_process("feedback", "--for", "teams", cwd=few).exit_code == 2


@pytest.mark.slow
def test_a_page_that_is_not_up_to_date_is_left_out_and_named(few, tmp_path):
    assert in_process("feedback", cwd=few).exit_code == 0
    (few / "autograded" / "blank" / ASSIGNMENT / NAME).write_text("{")
    (few / "autograded" / "style-02" / ASSIGNMENT / NAME).unlink()
    done = in_process("feedback", "--for", "gradescope", "--output", tmp_path / "out", cwd=few)
    assert done.exit_code == 2
    assert "blank" in done.stderr.split("not written:")[1]
    assert "style-02 has points" in " ".join(done.stderr.split())
    (archive,) = (tmp_path / "out").iterdir()
    assert {name.split("/")[0] for name in unpacked(archive)} == set(FEW) - {"blank", "style-02"}
