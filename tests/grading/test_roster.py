"""The class list: every platform's table is read, everybody in it is entered or named."""

import csv
import io
import json
import re
import unicodedata
import zipfile

import pytest
from classroom import DUE, FIRST, SECOND, add_work, new_class, opened, rows
from scratch import in_process

from autograder.course.class_file import ClassFile
from autograder.course.class_list import Person, Roster
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.platforms.collect import collect
from autograder.roster import forget, move, people
from autograder.roster.absent import find_absent
from autograder.roster.lists import read_list

ADA = ("ada01", "Ada", "Lovelace", "ada@uni.de")
ZOE = ("zoe02", "Zoë", "O'Neill", "zoe@uni.de")

LISTS = {
    "nbgrader": ("id,first_name,last_name,email", "{id},{first},{last},{email}"),
    "Canvas": (
        "Student,ID,SIS User ID,SIS Login ID,Section,ch02_qkv (99)",
        '"{last}, {first}",4{number},S-{id},{id},Monday,',
    ),
    "Moodle, participants": ('First name,Last name,"Email address",Groups', "{first},{last},{email},Monday"),
    "Moodle, worksheet": (
        "Identifier,Full name,ID number,Email address,Status,Grade",
        "Participant 4{number},{first} {last},{id},{email},,",
    ),
    "Moodle in German": (
        '"Vorname";"Nachname";"ID-Nummer";"E-Mail-Adresse";"Gruppen"',
        '"{first}";"{last}";"{id}";"{email}";"Monday"',
    ),
    "Gradescope": (
        "First Name,Last Name,SID,Email,Role,Sections",
        "{first},{last},{id},{email},Student,Monday",
    ),
    "Brightspace": (
        "OrgDefinedId,Username,Last Name,First Name,Email,End-of-Line Indicator",
        "#9{number},#{id},{last},{first},{email},#",
    ),
    "Blackboard": (
        '"Last Name"\t"First Name"\t"Username"\t"Student ID"',
        '"{last}"\t"{first}"\t"{id}"\t"9{number}"',
    ),
    "GitHub": (
        "identifier,github_username,github_id,name",
        '"{last}, {first} (i02)",{id},10{number},{first} {last}',
    ),
}


def lines_of(platform):
    heading, line = LISTS[platform]
    fields = ("id", "first", "last", "email")
    lines = [
        line.format(number=n, **dict(zip(fields, person, strict=True))) for n, person in enumerate((ADA, ZOE))
    ]
    return "\n".join([heading, *lines]) + "\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("platform", LISTS)
def test_each_platforms_list_is_read(tmp_path, platform, encoding):
    file = tmp_path / "list.csv"
    file.write_bytes(lines_of(platform).replace("\n", "\r\n").encode(encoding))
    ada, zoe = read_list(file, Roster(())).students
    named = "ada" if platform == "Moodle, participants" else "ada01"  # it has no id: the address up to the @
    assert (ada.student, ada.first_name, ada.last_name) == (named, "Ada", "Lovelace")
    assert (zoe.first_name, zoe.last_name) == ("Zoë", "O'Neill")
    assert {ada.email, zoe.email} in ({"ada@uni.de", "zoe@uni.de"}, {""})
    assert ada.groups == (("Monday",) if "Monday" in lines_of(platform) else ())
    assert bool(ada.number) == (platform in ("Canvas", "Moodle, worksheet", "GitHub"))


@pytest.mark.parametrize("columns", ["id=Kürzel,last=2,first=3", "id=1,last=Wer,first=3"])
def test_other_headings_are_named(tmp_path, columns):
    file = tmp_path / "list.csv"
    file.write_text("sep=;\nKürzel;Wer;Wie noch\nada01;Lovelace;Ada\n", "utf-8")
    with pytest.raises(BadInputError, match="no known column of ids"):
        read_list(file, Roster(()))
    assert read_list(file, Roster(()), columns).students == [Person("ada01", "Ada", "Lovelace")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no line of headings"),
        ("id,id\nada,1\n", "column 'id' twice"),
        ("id,name\n", "names no student"),
        ("id,first name\nada,Ada\nada,Bob\n", "to a different person"),
        ("PK\3\4", "or save it as CSV"),
    ],
)
def test_what_is_no_list_is_refused(tmp_path, text, expected):
    file = tmp_path / "list.csv"
    file.write_text(text)
    with pytest.raises(BadInputError, match=expected):
        read_list(file, Roster(()))


@pytest.mark.parametrize("columns", ["id", "id=", "name=1, id"])
def test_a_column_without_a_name_is_refused(tmp_path, columns):
    file = tmp_path / "list.csv"
    file.write_text("Login,\nada01,\n")  # spreadsheets save an empty last heading
    with pytest.raises(BadInputError, match="Expected FIELD=HEADING or FIELD=NUMBER"):
        read_list(file, Roster(()), columns)


def test_nobody_is_left_out_without_a_word(tmp_path):
    file = tmp_path / "list.csv"
    file.write_text(
        "SID,Name,Role,Sections\nada,Ada L,Student,A\n,Bob B,Student,A\nprof,Eve E,Instructor,\n"
        '../x,Mal X,Student,\nada,Ada L,Student,B\nfff4,"Student, Test",Student,A\n'
    )
    done = read_list(file, Roster(()))
    assert done.students == [Person("ada", "Ada", "L", groups=("A", "B"))]
    assert [line.split(":")[0] for line in done.left_out] == ["line 3", "line 4", "line 5", "line 7"]


@pytest.mark.parametrize(
    ("folder", "person"),
    [
        ("lovelaceada_4711", "ada01"),  # Canvas and Moodle add their number
        ("anonymous_4711", "ada01"),
        ("oneillzoe", "zoe02"),
        ("Zoë O'Neill_99", "zoe02"),
        ("ADA@uni.de", "ada01"),
        ("ada", "ada01"),
        ("Kim Lee_1", None),  # two people of that name
        ("Zoë O'Neill_4711", None),  # the number of one, the name of another
        ("kim1", "kim1"),
        ("grace", None),
    ],
)
def test_a_platforms_name_finds_its_person(folder, person):
    ada = Person(*ADA, number="4711")
    kims = [Person(name, "Kim", "Lee") for name in ("kim1", "kim2")]
    found = Roster((ada, Person(*ZOE), *kims)).find(folder)
    assert (found.student if found else None) == person


@pytest.mark.parametrize(
    ("folder", "person"),
    [
        ("Übung 1-Ada Lovelace_99", "ada01"),
        ("Übung-1-Anna-Lena Noether_99", "anna"),  # the group has a hyphen too
        ("Anna-Lena Noether_99", "anna"),
        ("Gruppe 7-Ada Lovelace_99", None),  # a group that the class does not have
        ("Übung 1-Lena Noether_99", "lena"),
    ],
)
def test_moodle_writes_the_group_before_the_name(folder, person):
    ada = Person(*ADA, groups=("Übung 1",))
    anna = Person("anna", "Anna-Lena", "Noether", groups=("Übung-1",))
    found = Roster((ada, anna, Person("lena", "Lena", "Noether"))).find(folder)
    assert (found.student if found else None) == person


def test_an_id_is_one_id_however_its_letters_are_composed():
    """macOS unpacks a folder with ë as e and two dots, which a teacher types as one letter."""
    typed, unpacked = (unicodedata.normalize(form, "zoë") for form in ("NFC", "NFD"))
    zoe = Person(typed, "Zoë", "O'Neill")
    assert Roster((zoe,)).find(unpacked) == zoe
    assert Roster((Person(unpacked),)).find(typed) == Person(unpacked)
    both = Roster((zoe, Person(unpacked)))
    assert (both.find(typed), both.other_ids, both.people) == (zoe, {unpacked: typed}, (zoe,))


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """A class of four. Two have handed in, one of them under Canvas's name."""
    folder = tmp_path_factory.mktemp("class") / "course"
    new_class(folder, {("lovelaceada_4711", FIRST): 7, ("bob", FIRST): 4})
    file = folder / "list.csv"
    file.write_text(
        "Student,ID,SIS Login ID,Section\n    Points Possible,,,\n"
        '"Lovelace, Ada",4711,ada01,Monday\n"B, Bob",12,bob,Monday\n"O\'Neill, Zoë",13,zoe02,Tuesday\n'
    )
    done = in_process("roster", "import", file, cwd=folder)
    assert done.exit_code == 0
    assert done.stdout == "2 new, 1 known, in the gradebook\n"
    assert "line 2: '    Points Possible'".replace("    ", "") in done.stderr
    assert "lovelaceada_4711 in the gradebook is ada01" in done.stderr
    (folder / "submitted" / "carl" / FIRST).mkdir(parents=True)
    (folder / "submitted" / "carl" / FIRST / "x.ipynb").write_text("{}")
    return folder


def test_the_list_is_in_nbgraders_table(listed):
    with opened(listed) as book:
        zoe = book.find_student("zoe02")
        assert (zoe.first_name, zoe.last_name, zoe.lms_user_id) == ("Zoë", "O'Neill", "13")
        assert {student.id for student in book.students} == {"lovelaceada_4711", "ada01", "bob", "zoe02"}
    shown = json.loads(in_process("roster", "list", "--json", cwd=listed).stdout)
    assert {person["student"]: person["groups"] for person in shown} == {
        "bob": ["Monday"],
        "ada01": ["Monday"],
        "zoe02": ["Tuesday"],
    }


def test_a_second_import_changes_nothing(listed):
    before = people.read(Course.at(listed))
    done = in_process("roster", "import", listed / "list.csv", cwd=listed)
    assert done.stdout == "0 new, 3 known, in the gradebook\n"
    assert people.read(Course.at(listed)) == before


@pytest.mark.slow
def test_who_has_not_handed_in_is_in_the_table_without_points(listed):
    done = in_process("export", FIRST, cwd=listed)
    lines = {line["student"]: line for line in csv.DictReader(io.StringIO(done.stdout))}
    assert set(lines) == {"lovelaceada_4711", "bob", "zoe02"}
    assert lines["zoe02"]["total"] == lines["zoe02"][f"{FIRST}/softmax"] == ""
    assert lines["zoe02"]["remark"] == "not handed in; due 2026-03-08 23:59 UTC"
    assert lines["bob"]["total"] == "4"
    assert f"1 student has not handed in {FIRST} and got no points: zoe02" in done.stderr
    data = {line["student"]: line for line in json.loads(in_process("export", "--json", cwd=listed).stdout)}
    assert data["zoe02"]["total"] is None
    assert data["bob"]["total"] == 4
    assert in_process("export", "--json", "--output", "grades.json", cwd=listed).stdout == ""
    assert {line["student"]: line for line in json.loads((listed / "grades.json").read_text())} == data
    assert in_process("export", "--json", "--format", "moodle", cwd=listed).exit_code == 2


@pytest.mark.slow
def test_who_has_not_handed_in_is_in_the_report(listed):
    done = in_process("report", FIRST, cwd=listed)
    assert "not handed in; due 2026-03-08 23:59 UTC: 1: zoe02 (Zoë O'Neill)" in done.stdout
    page = (listed / "reports" / f"{FIRST}.html").read_text()
    assert "Without points" in page
    (report,) = json.loads(in_process("report", FIRST, "--json", cwd=listed).stdout)
    assert [person["student"] for person in report["without_points"]] == ["zoe02"]
    assert report["students"] == 2  # an absence changes no mean


def test_nobody_is_absent_where_nobody_has_handed_in(listed):
    done = in_process("export", "--json", cwd=listed)
    assert {line["assignment"] for line in json.loads(done.stdout)} == {FIRST}


@pytest.mark.slow
def test_work_that_waits_is_not_called_missing(tmp_path):
    folder = new_class(tmp_path / "course", {("bob", FIRST): 4, ("eve", SECOND): 1})
    home = folder / "submitted" / "eve" / FIRST
    home.mkdir(parents=True)
    (home / "timestamp.txt").write_text(DUE)
    (report,) = json.loads(in_process("report", FIRST, "--json", cwd=folder).stdout)
    assert [person["why"].split(":")[0] for person in report["without_points"]] == [
        "handed in, but not graded yet"
    ]


@pytest.mark.slow
def test_two_ids_of_one_person_are_told(tmp_path):
    folder = new_class(tmp_path / "course", {("ada01", FIRST): 4})
    people.write(Course.at(folder), [Person(*ADA, number="4711")])
    add_work(folder, "lovelaceada_4711", SECOND, 2)
    done = in_process("roster", "list", cwd=folder)
    assert "lovelaceada_4711 is ada01" in done.stderr
    data = json.loads(in_process("export", "--json", cwd=folder).stdout)
    assert not [line for line in data if line["total"] is None]
    add_work(folder, "ada", FIRST, 3)
    done = in_process("roster", "unite", "--json", cwd=folder)
    assert done.exit_code == 2
    assert json.loads(done.stdout)["united"] == {"lovelaceada_4711": "ada01"}
    assert "ada and ada01 both have work" in done.stderr
    points = {
        (row.student, row.assignment, row.total) for a in (FIRST, SECOND) for row in rows(folder, a).values()
    }
    assert points == {("ada01", FIRST, 4), ("ada01", SECOND, 2), ("ada", FIRST, 3)}


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_late_penalties_that_change_with_the_id_are_reported(tmp_path, form):
    folder = new_class(tmp_path / "course", {})
    course = Course.at(folder)
    people.write(course, [Person(*ADA, number="4711")])
    in_process("late", "--percent", "10", cwd=folder)
    add_work(folder, "lovelaceada_4711", SECOND, 6, "2026-03-10 18:00:00 UTC")
    with gradebook.opened(Course.at(folder)) as writer:
        writer.penalise(SECOND, "lovelaceada_4711")
    here = ClassFile.read(course)
    here.set_extension("ada01", SECOND, 3)
    here.write()
    done = in_process("roster", "unite", *form, cwd=folder)
    if form:
        (change,) = json.loads(done.stdout)["penalties"]
        assert change == {
            "student": "ada01",
            "assignment": SECOND,
            "before": pytest.approx(1.2),
            "after": 0,
        }
    else:
        assert f"ada01: the late penalty of {SECOND} was 1.2 and is now 0" in done.stderr
    assert rows(folder, SECOND)["ada01"].total == 6


def test_the_class_file_may_be_edited(tmp_path):
    folder = new_class(tmp_path / "course", {})
    file = folder / "class.csv"
    file.write_text(f"student;notes;groups;extension {FIRST}\nzoe;moved; A, B;1,5\n", "cp1252")
    here = ClassFile.read(Course.at(folder))
    assert here.groups("zoe") == ("A", "B")
    assert here.extensions("zoe") == {FIRST: 1.5}
    here.set_groups("ada", ("C",))
    here.write()
    assert file.read_text() == f"student;groups;notes;extension {FIRST}\nada;C;;\nzoe;A, B;moved;1,5\n"
    for bad, message in (
        ("zoe,x\n", "number of days"),
        ("zoe,1\nzoe,2\n", "second time"),
        (",1\n", "no student"),
    ):
        file.write_text(f"student,extension {FIRST}\n{bad}")
        with pytest.raises(BadInputError, match=message):
            ClassFile.read(Course.at(folder))


def test_a_group_that_a_student_named_is_no_formula(tmp_path):
    folder = new_class(tmp_path / "course", {})
    course, group = Course.at(folder), "@SUM(A1)"
    people.write(course, [Person("ada01", "Ada", "Lovelace", groups=(group,))])
    assert in_process("group", FIRST, group, cwd=folder).exit_code == 0
    for name in ("class.csv", "groups.csv"):
        assert not re.search(r"(^|[,;])@", (folder / name).read_text(), re.MULTILINE)
    assert people.read(course).people[0].groups == (group,)
    assert json.loads(in_process("group", FIRST, "--json", cwd=folder).stdout)["students"] == {
        group: ["ada01"]
    }


@pytest.mark.parametrize(("student", "encoding"), [("ada01", "cp1252"), ("адаλ", "utf-8-sig")])
def test_the_class_file_is_written_as_the_spreadsheet_has_saved_it(tmp_path, student, encoding):
    """German Excel writes semicolons and Windows-1252, and reads other files badly."""
    folder = new_class(tmp_path / "course", {(student, FIRST): 8})
    (folder / "class.csv").write_bytes("student;groups\r\nzoë;Übung 1\r\n".encode("cp1252"))
    assert in_process("extension", student, FIRST, 2, cwd=folder).exit_code == 0
    lines = (folder / "class.csv").read_bytes().decode(encoding).splitlines()
    assert lines == [f"student;groups;extension {FIRST}", *sorted([f"{student};;2", "zoë;Übung 1;"])]
    assert in_process("extension", student, FIRST, 3, cwd=folder).exit_code == 0


def test_a_person_with_a_name_keeps_the_id(tmp_path):
    """Another column of ids in the second list makes nobody a second person."""
    file = tmp_path / "list.csv"
    file.write_text("id,email\n4711,ada@uni.de\nada,bob@uni.de\n")
    known = Roster((Person(*ADA), Person("bob", "Bob", "B", "bob@uni.de")))
    done = read_list(file, known)
    assert [person.student for person in done.students] == ["ada01", "bob"]
    assert done.new == []


def test_all_who_are_not_in_the_list_have_one_note(tmp_path):
    file = tmp_path / "list.csv"
    file.write_text("id,first name,last name\nzoe02,Zoë,O'Neill\n")
    known = [Person(f"s{n}", "Kim", f"Lee{n}") for n in range(30)]
    (note,) = read_list(file, Roster((*known, Person(*ZOE)))).notes
    assert all(person.student in note.replace(",", "").replace(".", " ").split() for person in known)
    assert "zoe02" not in note


def test_collect_uses_the_ids_of_the_class_list(tmp_path):
    """Unless two names may be one person's, or the platform's name has work already."""
    folder = new_class(tmp_path / "course", {})
    known = [Person(student, first, last, email) for student, first, last, email in (ADA, ZOE)]
    people.write(Course.at(folder), [*known, Person("bo03", "Bo", "Öz")])
    (folder / "submitted" / "özbo_4713" / SECOND).mkdir(parents=True)
    archive = tmp_path / "canvas.zip"
    with zipfile.ZipFile(archive, "w") as opened_archive:
        for name in ("lovelaceada_4711", "oneillzoe_4712", "zoeoneill_4719", "özbo_4713", "unknown_4714"):
            opened_archive.writestr(f"{name}_70{name[-2:]}_{SECOND}.ipynb", "{}")
    collect(Course.at(folder), SECOND, archive, folder / "submitted", "canvas")
    collected = {path.parent.parent.name for path in folder.glob(f"submitted/*/{SECOND}/*.ipynb")}
    assert collected == {"ada01", "oneillzoe_4712", "zoeoneill_4719", "özbo_4713", "unknown_4714"}


@pytest.mark.parametrize(
    "member",
    [
        f"QKV_Group 3_attempt_2026-03-08-23-59-00_{SECOND}.ipynb",
        f"mueller_3/{SECOND}.ipynb",
        f"Group 3/{SECOND}.ipynb",
    ],
)
def test_a_number_counts_only_where_the_platform_writes_the_number_of_a_person(tmp_path, member):
    folder = new_class(tmp_path / "course", {})
    people.write(Course.at(folder), [Person("grace", "Grace", "Hopper", number="3")])
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened_archive:
        opened_archive.writestr(member, "{}")
        opened_archive.writestr(member.replace("3", "4", 1), "{}")
    done = collect(Course.at(folder), SECOND, archive, folder / "submitted", timezone="UTC")
    assert len(done.written) == 2
    assert "grace" not in done.written
    assert any("names that fit no student" in remark for remark in done.remarks)


@pytest.mark.parametrize(("number", "student"), [("3", "mueller_3"), ("4711", "mueller_4711")])
def test_a_short_number_alone_makes_nobody_another_id_of_a_student(tmp_path, number, student):
    """It may be the number of a line or a group; only `collect` knows the platform that wrote it."""
    folder = new_class(tmp_path / "course", {(student, FIRST): 4})
    course, grace = Course.at(folder), Person("grace", "Grace", "Hopper", number=number)
    people.write(course, [grace])
    here = ClassFile.read(course)
    here.set_extension("grace", FIRST, 3)
    here.write()
    with gradebook.opened(course) as writer:
        writer.extend(FIRST, student)
    shares = number == "4711"
    assert people.read(course).other_ids == ({student: "grace"} if shares else {})
    absent = find_absent(course, FIRST, gradebook.read(course, FIRST))
    assert [person.student for person in absent] == ([] if shares else ["grace"])
    with opened(folder) as book:
        assert bool(book.find_submission(FIRST, student).extension) == shares


def test_a_short_number_of_somebody_else_still_makes_a_name_unclear():
    roster = Roster((Person(*ADA, number="3"), Person(*ZOE)))
    assert roster.find("Zoë O'Neill_3") is None
    assert roster.find("Zoë O'Neill_4") == Person(*ZOE)


def test_a_list_may_have_the_apostrophes_of_class_csv(tmp_path):
    """The grader writes one before a sign that a spreadsheet would take for a formula."""
    file = tmp_path / "list.csv"
    file.write_text("student,first name,last name,groups\n'+ada,Ada,Lovelace,'=A\n")
    assert read_list(file, Roster(())).students == [Person("+ada", "Ada", "Lovelace", groups=("=A",))]


@pytest.mark.parametrize("columns", ["number=ID", "number =ID", " number = ID"])
def test_a_short_number_is_kept_where_the_teacher_names_its_column(tmp_path, columns):
    file = tmp_path / "list.csv"
    file.write_text("ID,First name,Last name,Username\n3,Grace,Hopper,grace\n")
    assert read_list(file, Roster(()), columns).students == [Person("grace", "Grace", "Hopper", number="3")]


@pytest.mark.parametrize(("number", "kept"), [("3", ""), ("4711", "4711")])
def test_running_numbers_of_a_list_are_no_numbers_of_a_platform(tmp_path, number, kept):
    file = tmp_path / "list.csv"
    file.write_text(f"ID,First name,Last name,Username\n{number},Grace,Hopper,grace\n")
    assert read_list(file, Roster(())).students == [Person("grace", "Grace", "Hopper", number=kept)]


@pytest.mark.parametrize("number", ["", "203"])
def test_work_under_a_name_of_two_people_is_named_and_stays_with_the_id_it_is_given(tmp_path, number):
    """The next archive brings the name again, perhaps with a number that differs from an earlier one."""
    folder = new_class(tmp_path / "course", {})
    course = Course.at(folder)
    people.write(
        course,
        [
            Person("eva1", "Eva", "Lang", "eva1@uni.de", number),
            Person("eva2", "Eva", "Lang", "eva2@uni.de"),
        ],
    )
    archive = tmp_path / "moodle.zip"
    with zipfile.ZipFile(archive, "w") as opened_archive:
        for number in (7, 8):
            opened_archive.writestr(
                f"Eva Lang_{number}_assignsubmission_file/{SECOND}.ipynb", f'{{"a": {number}}}'
            )
    (remark,) = [
        r for r in collect(course, SECOND, archive, folder / "submitted").remarks if "class list" in r
    ]
    assert "Eva Lang_7, Eva Lang_8" in remark
    move.merge(course, "Eva Lang_8", "eva1")
    again = collect(course, SECOND, archive, folder / "submitted")
    assert {path.name for path in folder.glob("submitted/*")} == {"Eva Lang_7", "eva1"}
    assert again.unchanged == ["Eva Lang_7", "eva1"]
    assert [remark for remark in again.remarks if "Eva Lang_8" in remark] == []
    forget.forget(course, forget.require_trace(course, "eva1"))
    assert "Eva Lang_8" not in "".join(path.read_text() for path in folder.glob(".autograder/*/*.json"))
