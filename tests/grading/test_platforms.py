"""From an archive of each platform everybody is taken, or named with the reason."""

import json
import re
import shutil
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import platform_archives as made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from platform_archives import KEEPS_ATTEMPTS, MAKERS, MINUTE, STATES_TIMES, Person, Upload
from scratch import ASSIGNMENT, in_process
from test_collect import collected, laid_out

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.platforms.collect import collect
from autograder.platforms.formats import FORMATS
from autograder.release.publish import notebooks
from autograder.roster import move

NAME = f"{ASSIGNMENT}.ipynb"
DUE = datetime(2026, 3, 8, 23, 59, tzinfo=UTC)
ADA = Person("Ada", "Lovelace", "ada.l", 101)
CLASS = (
    ADA,
    Person("Jürgen", "Müßig", "jmuessig", 102),
    Person("Siobhán", "O'Neill", "sio_neill", 103),
    Person("Wei-Ling", "van der Berg", "s1234567", 104),
    Person("王", "小明", "wang", 105),
    Person("Anna", "Schmidt", "aschmidt", 106),
    Person("Anna", "Schmidt", "aschmidt2", 107),
)
ONE_OF_A_NAME = {"teams", "google"}
"""Platforms whose archives know a person by the name alone."""


@dataclass(repr=False)
class Shelf:
    """A course, and the release of the assignment."""

    course: Course
    release: dict


@pytest.fixture(scope="module")
def shelf(template, tmp_path_factory):
    """A course that holds nothing, and its released notebook."""
    course = shutil.copytree(template, tmp_path_factory.mktemp("platforms") / "course")
    (release,) = notebooks(Course.at(course), ASSIGNMENT).values()
    return Shelf(Course.at(course), json.loads(release))


def worked(release, text):
    """The released notebook with work in its first answer."""
    cells = [dict(cell) for cell in release["cells"]]
    answer = next(cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("solution"))
    answer["source"] += f"\n    return {text!r}"
    return json.dumps({**release, "cells": cells})


def run_again(release):
    """The released notebook as an editor saves it: other outputs, an empty cell, no metadata."""
    cells = [{**cell, "metadata": {}, "outputs": [], "execution_count": 7} for cell in release["cells"]]
    return json.dumps({"cells": [*cells, {"cell_type": "code", "source": [], "metadata": {}}]}, indent=3)


def class_of(platform):
    """People, of whom two share a name where the platform can tell them apart."""
    return CLASS[:-1] if platform in ONE_OF_A_NAME else CLASS


def gather(course, archive, tmp_path, **options):
    done = collect(
        course, ASSIGNMENT, archive, tmp_path / "submitted", **{"timezone": "Europe/Berlin", **options}
    )
    return done, collected(tmp_path / "submitted")


def test_every_format_has_its_archive():
    assert set(MAKERS) == set(FORMATS)
    told = in_process("collect", "--help").stdout
    assert all(name in told for name in FORMATS)


@pytest.mark.parametrize("platform", MAKERS)
def test_each_platform_is_recognised_and_everybody_taken_with_the_time(course, tmp_path, platform):
    uploads = [Upload(who, NAME, f"of {who}", DUE + n * MINUTE) for n, who in enumerate(class_of(platform))]
    uploads = [replace(upload, time=upload.time - timedelta(days=n)) for n, upload in enumerate(uploads)]
    archive = MAKERS[platform](uploads)
    done, found = gather(Course.at(course), archive.write(tmp_path / "a.zip"), tmp_path)
    assert (done.platform, done.problems) == (platform, [])
    assert found == {archive.whose[upload.person]: upload.data for upload in uploads}
    for upload in uploads:
        stamp = tmp_path / "submitted" / archive.whose[upload.person] / ASSIGNMENT / "timestamp.txt"
        assert stamp.is_file() == (platform in STATES_TIMES)
        if stamp.is_file():  # to the minute, as Brightspace writes it
            assert stamp.read_text().startswith(f"{upload.time:%Y-%m-%d %H:%M}")
    assert done.entries.keys() == archive.files.keys()


VARIANTS = {
    "canvas, anonymous": lambda uploads: made.canvas(uploads, anonymous=True),
    "moodle, without folders": lambda uploads: made.moodle(uploads, as_folders=False),
    "blackboard, without receipts": lambda uploads: made.blackboard(uploads, receipts=False),
    "blackboard, plain title": lambda uploads: made.blackboard(uploads, title="QKV"),
    "brightspace, flat": lambda uploads: made.brightspace(uploads, as_folders=False),
    "ilias, teams": lambda uploads: made.ilias(uploads, teams=True),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("count", [1, 7])
def test_other_settings_of_a_platform(course, tmp_path, variant, count):
    uploads = [Upload(who, NAME, f"of {who}", DUE, late=n == 1) for n, who in enumerate(CLASS[:count])]
    archive = VARIANTS[variant](uploads)
    done, found = gather(Course.at(course), archive.write(tmp_path / "a.zip"), tmp_path)
    assert done.platform == variant.split(",")[0]
    assert done.problems == []
    assert found == {archive.whose[upload.person]: upload.data for upload in uploads}
    assert sum("late" in remark for remark in done.remarks) == (
        count > 1 and done.platform in ("canvas", "ilias")
    )


@pytest.mark.slow
@pytest.mark.parametrize("platform", MAKERS)
def test_an_unpacked_archive_is_as_good(course, tmp_path, platform):
    uploads = [Upload(who, NAME, f"of {who}", DUE) for who in class_of(platform)]
    archive = MAKERS[platform](uploads)
    done, found = gather(Course.at(course), archive.unpack(tmp_path / "unpacked"), tmp_path)
    assert (done.platform, done.problems) == (platform, [])
    assert found == {archive.whose[upload.person]: upload.data for upload in uploads}


names = st.sampled_from(["Ada", "Jürgen", "Siobhán", "Wei-Ling", "D'Arcy", "Élise", "Łukasz", "Ann Marie"])
letters = st.text("abcdexyz", min_size=3, max_size=8)
files = st.sampled_from([f"{ASSIGNMENT}{end}.ipynb" for end in ("", " (1)", "-Copy1", "_final")])
contents = st.one_of(st.just("blank"), st.just("saved"), st.sampled_from("xyz"), st.just("broken"))
attempts = st.lists(st.dictionaries(files, contents, min_size=1, max_size=2), min_size=1, max_size=2)
handed_in = st.one_of(attempts, attempts, st.sampled_from(["nothing", "text", "link"]))


@st.composite
def classes(draw):
    """A platform and a class: each person with the attempts or with what was handed in instead."""
    platform = draw(st.sampled_from(sorted(MAKERS)))
    logins = draw(st.lists(letters, min_size=2, max_size=6, unique=True))
    people = [Person(draw(names), draw(names), login, 100 + n) for n, login in enumerate(logins)]
    if platform in ONE_OF_A_NAME:
        people = list({person.name: person for person in people}.values())
    return platform, {person: draw(handed_in) for person in people}


def uploads_of(platform, person, handed, data):
    """What of a person's attempts is in an archive of the platform."""
    if isinstance(handed, str):
        instead = handed if handed != "nothing" and platform in ("canvas", "moodle", "blackboard") else ""
        instead = "text" if instead and platform != "canvas" else instead
        title = f"{ASSIGNMENT}.docx" if platform == "google" else "work.docx"
        yield 0, Upload(person, title, "words", DUE, instead=instead)
        return
    for number, attempt in enumerate(handed):
        if number == len(handed) - 1 or platform in KEEPS_ATTEMPTS:
            for name, content in attempt.items():
                time = DUE + timedelta(hours=2 * number + person.number % 3)
                yield number, Upload(person, name, data[content], time)


def what_counts(platform, uploads, data):
    """The contents that may count; none if only a person can decide."""
    notebooks = [(number, upload) for number, upload in uploads if upload.name.endswith(".ipynb")]
    work = [(n, upload) for n, upload in notebooks if upload.data not in (data["blank"], data["saved"])]
    finalists = work or notebooks
    if not finalists:
        return set()
    last = max(number for number, _ in finalists)
    latest = [upload.data for number, upload in finalists if number == last]
    if work and platform == "canvas":
        return {latest[-1]}
    sound = {each for each in latest if each != data["broken"]} or set(latest)
    return sound if not work or len(sound) == 1 else set()


@pytest.mark.slow
@settings(max_examples=60)
@given(drawn=classes())
def test_everybody_of_any_class_is_taken_or_named(shelf, tmp_path_factory, drawn):
    platform, people = drawn
    course, release = shelf.course, shelf.release
    data = {text: worked(release, text) for text in "xyz"}
    data |= {"blank": json.dumps(release), "saved": run_again(release), "broken": data["x"][:5000]}
    shutil.rmtree(course.state / "collected", ignore_errors=True)
    folder = tmp_path_factory.mktemp("class")
    uploads = {who: list(uploads_of(platform, who, handed, data)) for who, handed in people.items()}
    archive = MAKERS[platform]([upload for mine in uploads.values() for _, upload in mine])
    if not any(".ipynb" in name and "Feedback" not in name for name in archive.files):
        return
    done, found = gather(course, archive.write(folder / "a.zip"), folder, platform=platform)
    assert done.entries.keys() == archive.files.keys()
    named = 0
    for who, mine in uploads.items():
        student = archive.whose[who]
        if allowed := what_counts(platform, mine, data):
            assert found[student] in allowed
        else:
            assert student not in found
            assert any(problem.startswith(f"{student}: ") for problem in done.problems)
            named += 1
    assert named == len(done.problems)
    assert set(done.written) == set(found)


@pytest.mark.parametrize("logins", [("s_ada", "s_bob"), ("s_ada",), ("x", "x_1")])
def test_a_receipt_of_blackboard_settles_where_the_login_begins(course, tmp_path, logins):
    """Both the assignment and the login may have underscores, and logins a beginning that all share."""
    people = [replace(ADA, login=login) for login in logins]
    archive = made.blackboard([Upload(who, NAME, who.login, DUE) for who in people])
    done, found = gather(Course.at(course), archive.write(tmp_path / "a.zip"), tmp_path)
    assert (done.platform, done.problems) == ("blackboard", [])
    assert found == {login: login for login in logins}


def test_the_later_of_two_uploads_of_one_name_counts_in_ilias(course, tmp_path):
    """Which numbers them in the order of the uploads; an unpacked archive has no times."""
    uploads = [Upload(ADA, NAME, text, DUE) for text in ("first", "second", "third")]
    uploads.append(Upload(CLASS[1], NAME, "b", DUE))
    done, found = gather(Course.at(course), made.ilias(uploads).unpack(tmp_path / "unpacked"), tmp_path)
    assert (done.problems, found) == ([], {"ada.l": "third", "jmuessig": "b"})


def test_a_file_of_classroom_names_its_student_before_or_after_the_title(course, tmp_path):
    """A copy that Windows made names nobody, and stays with the folder that it is in."""
    members = {f"C/Ada Löwe - {NAME}": "a", f"C/{ASSIGNMENT} - Bob O'Neill.ipynb": "b", "C/notes.txt": ""}
    archive = made.Made(members).write(tmp_path / "a.zip")
    done, found = gather(Course.at(course), archive, tmp_path)
    assert (done.platform, found) == ("google", {"Ada Löwe": "a", "Bob O'Neill": "b"})
    assert all("cannot be graded" in remark for remark in done.remarks)  # a letter is no notebook
    assert [problem.split(":")[0] for problem in done.problems] == ["C/notes.txt"]
    copies = made.Made({f"ada/{ASSIGNMENT} - Copy.ipynb": "a", f"bob/{ASSIGNMENT} - Kopie (2).ipynb": "b"})
    done, found = gather(Course.at(course), copies.write(tmp_path / "b.zip"), tmp_path)
    assert (done.platform, found["ada"], found["bob"]) == ("folder", "a", "b")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_one_name_however_its_letters_are_composed(course, tmp_path, form):
    """macOS writes ü as u with two dots, and zips without the mark of UTF-8."""
    path = tmp_path / "a.zip"
    archive = made.canvas([Upload(CLASS[1], NAME, form, DUE), Upload(ADA, NAME, "a", DUE)])
    archive.files = {unicodedata.normalize(form, name): text for name, text in archive.files.items()}
    archive.write(path)
    data = path.read_bytes()
    flags = re.compile(rb"((?:PK\x01\x02..|PK\x03\x04)..)\x00\x08", re.DOTALL)
    path.write_bytes(flags.sub(lambda match: match[1] + b"\0\0", data))
    done, found = gather(Course.at(course), path, tmp_path)
    assert (done.platform, found) == ("canvas", {"müßigjürgen_102": form, "lovelaceada_101": "a"})


def clones(tmp_path, *folders):
    return laid_out(tmp_path / "-".join(folders), {f"{folder}/{NAME}": folder for folder in folders})


def enter(course, *students):
    with gradebook.opened(Course.at(course)) as writer:
        for student in students:
            writer.book.update_or_create_student(student)


def test_a_clone_of_github_that_is_collected_alone_keeps_its_login(course, tmp_path):
    here, into = Course.at(course), tmp_path / "s"
    alone = clones(tmp_path, "attention-ada-lovelace")
    with pytest.raises(BadInputError, match="attention-ada-lovelace does not show where the login begins"):
        collect(here, ASSIGNMENT, alone, into, "github")
    enter(course, "ada-lovelace")
    assert collect(here, ASSIGNMENT, alone, into, "github").written == ["ada-lovelace"]
    enter(course, "lovelace")
    with pytest.raises(BadInputError, match="--names"):
        collect(here, ASSIGNMENT, clones(tmp_path, "chapter-ada-lovelace"), tmp_path / "t", "github")


@pytest.mark.parametrize("beginning", ["ch02_qkv", "ch02-qkv", "Ch02-QKV"])
def test_a_clone_that_begins_with_the_name_of_the_assignment_shows_the_login(course, tmp_path, beginning):
    enter(course, "lovelace")
    for number, students in enumerate((["ada-lovelace"], ["tum-ada", "tum-alan"])):
        folders = clones(tmp_path, *(f"{beginning}-{student}" for student in students))
        done = collect(Course.at(course), ASSIGNMENT, folders, tmp_path / str(number), "github")
        assert done.written == students
        assert all("is read as the login" not in remark for remark in done.remarks)


def test_the_clones_that_were_collected_before_show_where_the_login_begins(course, tmp_path):
    here, into = Course.at(course), tmp_path / "s"
    collect(here, ASSIGNMENT, clones(tmp_path, "attention-bob", "attention-alan-t"), into)
    enter(course, "lovelace")
    done = collect(here, ASSIGNMENT, clones(tmp_path, "attention-ada-lovelace"), into, "github")
    assert done.written == ["ada-lovelace"]


@pytest.mark.parametrize("platform", [None, "github"])
def test_logins_with_a_common_beginning_are_whole_if_the_class_list_has_them(course, tmp_path, platform):
    two = clones(tmp_path, "attention-tum-ada", "attention-tum-alan")
    done = collect(Course.at(course), ASSIGNMENT, two, tmp_path / "s", platform)
    assert done.written == ["ada", "alan"]
    assert any("the text after attention-tum- in" in remark for remark in done.remarks)
    enter(course, "tum-ada")
    shutil.rmtree(course / ".autograder" / "collected")
    done = collect(Course.at(course), ASSIGNMENT, two, tmp_path / "t", platform)
    assert done.written == ["tum-ada", "tum-alan"]
    folders = clones(tmp_path, "tum-ada", "tum-alan")
    done = collect(Course.at(course), ASSIGNMENT, folders, tmp_path / "u")
    assert (done.platform, done.written) == ("folder", ["tum-ada", "tum-alan"])


def test_the_name_of_a_renamed_student_counts_before_grading_and_on_numbered_platforms_alone(
    course, tmp_path
):
    here, into = Course.at(course), course / "submitted"
    archive = made.ilias([Upload(ADA, NAME, "a", DUE), Upload(CLASS[1], NAME, "j", DUE)])
    collect(here, ASSIGNMENT, archive.write(tmp_path / "a.zip"), into)
    move.rename(here, "ada.l", "ada")
    assert collect(here, ASSIGNMENT, tmp_path / "a.zip", into).unchanged == ["ada", "jmuessig"]
    folder = laid_out(tmp_path / "class", {f"{who}/{NAME}": f"of {who}" for who in ("ada.l", "bob")})
    assert collect(here, ASSIGNMENT, folder, into).written == ["ada.l", "bob"]
    assert collected(into)["ada"] == "a"


def test_a_name_in_an_archive_belongs_to_the_id_that_has_it_last(course, tmp_path):
    """A teacher takes back a wrong merge by hand."""
    here, into = Course.at(course), course / "submitted"
    name = "Eva Schmidt_203"
    eva = Person("Eva", "Schmidt", "es", 203)
    archive = made.moodle([Upload(eva, NAME, "eva's", DUE)]).write(tmp_path / "a.zip")
    laid_out(into, {"es2/ch03_scaling/ch03_scaling.ipynb": "{}"})
    collect(here, ASSIGNMENT, archive, into)
    move.merge(here, name, "es2")
    (into / name).mkdir()
    (into / "es2" / ASSIGNMENT).rename(into / name / ASSIGNMENT)
    collect(here, ASSIGNMENT, archive, into)
    move.rename(here, name, "es1")
    assert collect(here, ASSIGNMENT, archive, into).unchanged == ["es1"]
    assert not (into / "es2" / ASSIGNMENT).exists()
