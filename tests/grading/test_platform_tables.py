"""Each platform's table goes back as it came, but for the grades: same encoding, separator, quotes, lines."""

import csv
import io
import unicodedata

import pytest
from scratch import in_process

from autograder.course import delimited
from autograder.course.errors import BadInputError
from autograder.grading.rows import Row
from autograder.platforms import moodle_headings
from autograder.platforms.fill_gradebook import fill
from autograder.platforms.gradebook_formats import PLATFORMS

TABLES = {  # platform: its table with § for Ada's grade, and what Ada's folder may be called
    "moodle": (
        "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Bewertung kann geändert werden\n"
        'Teilnehmer/in101,Ada Löwe,ada@x.org,"Zur Bewertung, abgegeben",§,"20,00",Ja\n'
        'Teilnehmer/in102,Bo Öz,bo@x.org,-,,"20,00",Nein\n',
        ("Ada Löwe_101", "ada", "ada@x.org", "Ada Löwe", "101"),
    ),
    "blackboard": (
        '"Last Name","First Name","Username","Student ID","ch02_qkv [Total Pts: 20 Score] |664617"\n'
        '"Löwe","Ada","al101","4711","§"\n"Öz","Bo","bo102","4712",""\n',
        ("al101", "4711", "Ada Löwe", "Löwe, Ada"),
    ),
    "brightspace": (
        "OrgDefinedId,Username,ch02_qkv Points Grade <Numeric MaxPoints:20 Weight:10>,End-of-Line Indicator\n"
        "#4711,#ada.löwe,§,#\n#4712,#bo,3,#\n",
        ("4711", "ada.löwe"),
    ),
    "ilias": (
        "update,usr_id,login,lastname,firstname,status,mark,notice,comment,plagiarism,plag_comment\n"
        '1,301,alöwe,Löwe,Ada,notgraded,§,"ein ""Wort""",,,\n0,302,boez,Öz,Bo,notgraded,,,,,\n',
        ("301", "alöwe", "Löwe_Ada_alöwe_301", "Ada Löwe"),
    ),
    "canvas": (
        "Student,ID,SIS Login ID,Section,ch02_qkv (4711)\n    Points Possible,,,,20\n"
        '"Löwe, Ada",101,alöwe,A,§\n"Öz, Bo",102,bo,A,\n',
        ("löweada_101", "alöwe", "Löwe, Ada"),
    ),
    "table": (
        '"Nr.";"Matrikel";"Punkte (Blatt 2)"\n"1";"4711";"§"\n"2";"4712";"-"\n',
        ("4711",),
    ),
}
NAMED = {"table": {"columns": "student=matrikel", "assignment_column": "3"}}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")


def graded(student, total=17.5):
    return Row(student, "ch02_qkv", {"softmax": total}, {"softmax": 20.0})


def filled(tmp_path, platform, data, rows, **options):
    template = tmp_path / "theirs.csv"
    template.write_bytes(data)
    done = fill(platform, template, "ch02_qkv", rows, **NAMED.get(platform, {}) | options)
    assert template.read_bytes() == data
    return done


def test_every_platform_is_tested():
    assert set(TABLES) == set(PLATFORMS)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("platform", TABLES)
def test_nothing_but_the_grade_changes(tmp_path, platform, encoding, separator, end):
    text, (student, *_) = TABLES[platform]
    apart = ";" if platform == "table" else ","
    text = text.replace(", ", "\0").replace("20,00", "20.00").replace(apart, separator)
    text = text.replace("\0", ", ").replace("\n", end)
    done = filled(tmp_path, platform, text.replace("§", "").encode(encoding), [graded(student)])
    assert done.data == text.replace("§", "17.5").encode(encoding)
    assert (done.given, done.notes) == ([student], [])


@pytest.mark.parametrize(
    ("platform", "called"), [(platform, name) for platform, (_, names) in TABLES.items() for name in names]
)
def test_a_student_is_known_by_each_name_also_decomposed(tmp_path, platform, called):
    text = TABLES[platform][0]
    done = filled(
        tmp_path, platform, text.replace("§", "").encode(), [graded(unicodedata.normalize("NFD", called), 9)]
    )
    assert done.data.decode() == text.replace("§", "9")


def test_a_grade_has_a_comma_where_the_numbers_of_the_table_have_one(tmp_path):
    text = TABLES["moodle"][0]
    done = filled(tmp_path, "moodle", text.replace("§", "").encode(), [graded("ada")])
    assert done.data.decode() == text.replace("§", '"17,5"')
    assert not done.notes


@pytest.mark.parametrize("line", moodle_headings._BY_LANGUAGE.strip().splitlines(), ids=lambda line: line[:2])
def test_moodle_in_each_language(tmp_path, line):
    words = dict(zip(moodle_headings.ROLES, line.split("|")[1:], strict=True))
    grade = words["grade"].split("/")[0]
    text = (
        f"{words['identifier']};{words['full name']};{words['username']};"
        f"{grade};{words['most']};{words['open']}\nx101;Ada;ada;§;20.00;?\nx102;Bo;bo;;20.00;{words['no']}\n"
    )
    done = filled(tmp_path, "moodle", text.replace("§", "").encode(), [graded("ada"), graded("Bo_102")])
    assert done.data.decode() == text.replace("§", "17.5")
    assert done.notes == ["Bo_102: theirs.csv does not allow changes to this grade; 17.5 was not entered"]


@pytest.mark.parametrize(
    ("platform", "text", "columns"),
    [
        ("moodle", "Identyfikator,Full name,Grade\nUczestnik 4711,Ada,§\n", "student=Identyfikator"),
        ("table", "Wer;Punkte\nTeilnehmer 4711;§\n", "student=Wer"),
    ],
)
def test_a_number_at_the_end_of_a_named_column_is_the_students(tmp_path, platform, text, columns):
    options = {"columns": columns, "assignment_column": "Punkte" if platform == "table" else ""}
    done = filled(tmp_path, platform, text.replace("§", "").encode(), [graded("Ada L_4711")], **options)
    assert done.data.decode() == text.replace("§", "17.5")


def test_headings_in_another_language_leave_the_places(tmp_path):
    text = (
        '"Nachname"\t"Vorname"\t"Benutzername"\t"Studenten-ID"\t"ch02_qkv [Gesamtpunkte: 10 Punktzahl] |7"\n'
        '"Löwe"\t"Ada"\t"al101"\t"4711"\t""\n'
    )
    done = filled(tmp_path, "blackboard", text.encode("utf-16"), [graded("AL101")])
    lines = list(csv.reader(io.StringIO(done.data.decode("utf-16")), delimiter="\t"))
    assert lines[1] == ["al101", "4711", "17.5"]
    places, out_of = done.notes
    assert "looked up in column 3 ('Benutzername') and 4 ('Studenten-ID')" in places
    assert "is out of 10 points" in out_of


@pytest.mark.parametrize("named", ["student=Benutzername", "student=Benutzername,student=4"])
def test_columns_that_the_teacher_names_go_back(tmp_path, named):
    text = 'Nachname,Vorname,Benutzername,Studenten-ID,"ch02_qkv |7"\nLöwe,Ada,al101,4711,\n'
    done = filled(tmp_path, "blackboard", text.encode(), [graded("al101")], columns=named)
    ids = ["al101", "4711"][: named.count("student")]
    assert done.data.decode().splitlines()[1] == ",".join([*ids, "17.5"])


@pytest.mark.parametrize(
    ("platform", "text"),
    [
        ("canvas", "Student,ID,Matrikel,ch02_qkv (1)\nA,101,4711,§\n"),
        ("blackboard", "Last Name,Username,Matrikel,ch02_qkv |1\nA,ada,4711,§\n"),
    ],
)
def test_a_named_column_does_not_go_back_beside_the_platforms_own_ids(tmp_path, platform, text):
    """Canvas would make an assignment of it."""
    done = filled(
        tmp_path, platform, text.replace("§", "").encode(), [graded("4711")], columns="student=Matrikel"
    )
    assert done.data.decode() == text.replace(",Matrikel", "").replace(",4711", "").replace("§", "17.5")


def test_other_columns_do_not_go_back_to_blackboard_and_brightspace(tmp_path):
    blackboard = (
        '"Last Name","First Name","Username","Student ID","Last Access","Quiz [Total Pts: 4 Score] |1",'
        '"ch02_qkv [up to 20 Points] |2"\n"L","A","ada","1","x","4",""\n'
    )
    done = filled(tmp_path, "blackboard", blackboard.encode(), [graded("ada")])
    assert done.data.decode().splitlines()[1] == '"L","A","ada","1","17.5"'
    brightspace = (
        "Username,Last Name,Email,Quiz Points Grade,ch02_qkv Points Grade,Zeilenende\n#ada,L,a@x.org,4,,#\n"
    )
    done = filled(tmp_path, "brightspace", brightspace.encode(), [graded("a")])
    assert done.data.decode() == "Username,ch02_qkv Points Grade,Zeilenende\n#ada,17.5,#\n"


@pytest.mark.parametrize("chosen", ["Übung 2", "Übung 2 (77)", "6", "übung 2"])
def test_a_column_is_chosen_by_title_heading_or_number(tmp_path, chosen):
    text = "Student,ID,SIS Login ID,Section,ch02_qkv (1),Übung 2 (77)\n,,,,,\nA,1,ada,s,2,\n"
    done = filled(tmp_path, "canvas", text.encode(), [graded("ada")], assignment_column=chosen)
    assert done.data.decode().splitlines()[2] == "A,1,ada,s,17.5"


def test_ilias_is_told_which_lines_are_new(tmp_path):
    text = TABLES["ilias"][0].replace("§", "").replace("\n1,301", "\n0,301")
    done = filled(tmp_path, "ilias", text.encode(), [graded("301")])
    assert done.data.decode() == TABLES["ilias"][0].replace("§", "17.5")


def test_the_maximum_and_the_lock_are_found_by_columns(tmp_path):
    text = "Wer;Was;Von;Offen\nada;;10;ja\nbo;;10;no\n"
    options = {"columns": "student=1,max=von, open = Offen", "assignment_column": "was"}
    done = filled(tmp_path, "table", text.encode(), [graded("ada"), graded("bo")], **options)
    assert done.data.decode() == text.replace("ada;;", "ada;17.5;")
    assert "out of 10 points" in done.notes[1]


def test_a_name_that_the_gradebook_has_leads_to_the_line(tmp_path):
    text, _ = TABLES["moodle"]
    rows = [graded("s-1", 9), graded("s-2", 8)]
    known = {"s-1": ("ada@x.org",), "s-2": ("nobody@x.org",)}
    done = filled(tmp_path, "moodle", text.replace("§", "").encode(), rows, known_as=known)
    assert (done.given, done.notes) == (["s-1"], ["s-2: no line in theirs.csv; enter 8 by hand"])


@pytest.mark.parametrize(
    ("platform", "data", "options", "told"),
    [
        ("canvas", b"PK\x03\x04rest", {}, "workbook of a spreadsheet program"),
        ("canvas", b"Student,ID\n\x81\xff,1\n", {}, "not text in UTF-8, UTF-16 or Windows-1252"),
        ("canvas", b"", {}, "none of the columns"),
        ("table", b"a,b\n1,2\n", {"columns": ""}, "Name it with --columns student=HEADING"),
        ("table", b"a,b\n1,2\n", {"columns": "who=a"}, "Expected ROLE=HEADING"),
        (
            "table",
            b"a,b\n1,2\n",
            {"columns": "student=7"},
            r"no column called '7'.* from 1 to 2.*1 'a', 2 'b'",
        ),
        (
            "table",
            b"a,b,b\n1,2,3\n",
            {"columns": "student=a", "assignment_column": "b"},
            "2 columns called 'b'",
        ),
        (
            "table",
            b"a,b\n1,2\n",
            {"columns": "student=a", "assignment_column": "a"},
            "identifies the students",
        ),
    ],
)
def test_a_table_that_cannot_be_filled_is_told(tmp_path, platform, data, options, told):
    with pytest.raises(BadInputError, match=told):
        filled(tmp_path, platform, data, [graded("ada")], **options)


def test_short_and_empty_lines_stay(tmp_path):
    text = "Wer,Punkte\n\nada\nbo,\n\n"
    options = {"columns": "student=Wer", "assignment_column": "Punkte"}
    done = filled(tmp_path, "table", text.encode(), [graded("ada"), graded("bo")], **options)
    assert done.data.decode() == "Wer,Punkte\n\nada,17.5\nbo,17.5\n\n"
    text = "Student,ID,Section,ch02_qkv,Final\n\nA,7,s,,1\n"
    done = filled(tmp_path, "canvas", text.encode(), [graded("7")])
    assert done.data.decode() == "Student,ID,Section,ch02_qkv\n\nA,7,s,17.5\n"


@pytest.mark.parametrize("text", ['a,"b""c"\r\n"d,e" f,"g\nh"', "a;b\n", '"x"y,"",\n\n', "ä\tö\r\rü"])
def test_cells_are_read_as_the_csv_module_reads_them(tmp_path, text):
    (tmp_path / "t").write_bytes(text.encode("utf-16"))
    table = delimited.read(tmp_path / "t")
    expected = csv.reader(io.StringIO(text, newline=""), delimiter=table.separator)
    assert [table.values(n) for n in range(len(table.lines))] == [line or [""] for line in expected]
    assert table.as_bytes() == text.encode("utf-16")


@pytest.mark.slow
def test_the_command_keeps_the_bytes_on_stdout_and_in_a_file(few, tmp_path):
    template, output = tmp_path / "theirs.csv", tmp_path / "upload.csv"
    template.write_bytes('Wer;Punkte\r\nstyle-01;\r\nJörg;"§"\r\n'.encode("cp1252"))
    arguments = ("export", "ch02_qkv", "--format", "table", "--into", template, "--columns", "student=Wer")
    done = in_process(*arguments, "--assignment-column", "Punkte", "--output", output, cwd=few)
    assert done.exit_code == 0
    assert "1 grade in" in done.stderr
    assert output.read_bytes() == 'Wer;Punkte\r\nstyle-01;17\r\nJörg;"§"\r\n'.encode("cp1252")
    assert in_process(*arguments, "--assignment-column", "2", cwd=few).stdout_bytes == output.read_bytes()
    refused = in_process(*arguments, "--assignment-column", "2", "--output", template, cwd=few)
    assert (refused.exit_code, "is not changed" in refused.stderr) == (2, True)
    refused = in_process("export", "--into", template, cwd=few)
    assert (refused.exit_code, "fills in no file" in refused.stderr) == (2, True)
