"""The class at a glance, and grades for a spreadsheet."""

import csv
import io
import json
from dataclasses import replace
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from classroom import new_class, opened
from scratch import ASSIGNMENT, FEW, graded, hand_in, in_process

from autograder.course.layout import Course
from autograder.grading.rows import Row
from autograder.platforms.export import as_csv, harmless


@pytest.mark.slow
def test_report_page_stands_alone(few, students):
    hand_in(few, "second", students["mistake-01"][0])
    graded(few)
    done = in_process("report", ASSIGNMENT, cwd=few)
    assert done.exit_code == 0
    html = (few / "reports" / f"{ASSIGNMENT}.html").read_text().replace("<wbr>", "")
    soup = BeautifulSoup(html, "html.parser")
    assert not soup.find_all(["script", "link", "iframe", "img"])
    assert not soup.find_all(src=True)
    assert "http://" not in html.replace("http://www.w3.org/", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert soup.find(role="img")["aria-label"].startswith("Distribution of points: median")
    assert "prefers-color-scheme: dark" in html
    text = " ".join(soup.get_text(" ").split())
    assert f"{len(FEW) + 1} students" in text
    assert "no_maximum" in text
    assert "exp overflows for large scores" in text
    assert "chapter 2, The mathematics" in text
    assert not soup.find_all("a")
    assert "scaled_dot_product_attention: 100%" in text
    assert "A hint, never a verdict" in text


@pytest.mark.slow
def test_report_as_json(few, students):
    hand_in(few, "second", students["mistake-01"][0])
    graded(few)
    (one,) = json.loads(in_process("report", ASSIGNMENT, "--json", cwd=few).stdout)
    assert one["students"] == len(FEW) + 1
    assert one["misconceptions"][0]["count"] == 2
    assert one["misconceptions"][0]["hint"]
    assert one["misconceptions"][0]["section"] == 'chapter 2, "The mathematics"'
    assert one["misconceptions"][0]["section_url"] is None
    written = one["exercises"][-1]
    assert (written["waiting"], written["mean"], one["waiting"]) == (5, None, {written["exercise"]: 5})
    assert one["exercises"][0]["discrimination"] is None
    assert one["exercises"][0]["unknown"] == "fewer than 10 students"
    assert one["unrecognised_mistakes"] == {}
    shares = [e["mean"] / e["max_score"] for e in one["exercises"] if not e["waiting"]]
    assert shares == sorted(shares)
    totals = {s["student"]: s["total"] for s in one["scores"]}
    assert totals["style-01"] == 17
    assert totals["blank"] == 0
    assert one["median_share"] == pytest.approx((1 + totals["mistake-01"] / 17) / 2, abs=1e-4)
    (pair,) = (one for one in one["near_identical"] if "style-01" in one["students"])
    assert pair["students"] == ["script-in-the-answer", "style-01"]
    assert {shared["share"] for shared in pair["exercises"]} == {1.0}


def test_code_in_a_hint_is_code_in_the_page(few):
    from autograder.reports import class_page, class_report

    made = class_report.make_report(Course.at(few), ASSIGNMENT)
    told = class_report.Misconception(
        "softmax", "no_maximum", 2, "Use `x.max()` < 1, <b>not</b> `np.max(x)`."
    )
    page = class_page.as_html(replace(made, misconceptions=(told,)))
    assert "Use <code>x.max()</code> &lt; 1, &lt;b&gt;not&lt;/b&gt; <code>np.max(x)</code>." in page


@pytest.mark.slow
def test_sections_are_links_where_the_book_is_published(few):
    config = few / "nbgrader_config.py"
    config.write_text(f'{config.read_text()}\nc.Course.book_url = "https://example.org/tf/"\n')
    in_process("report", ASSIGNMENT, cwd=few)
    soup = BeautifulSoup((few / "reports" / f"{ASSIGNMENT}.html").read_text(), "html.parser")
    links = {link["href"]: " ".join(link.get_text().split()) for link in soup.find_all("a")}
    assert links["https://example.org/tf/book/02_qkv.html#the-mathematics"] == "chapter 2, The mathematics"


@pytest.mark.parametrize("width", [72, 80])
def test_no_word_is_cut_on_a_narrow_terminal(few, width):
    from rich.console import Console

    from autograder.commands import tables
    from autograder.reports import class_report

    out = io.StringIO()
    made = class_report.make_report(Course.at(few), ASSIGNMENT)
    tables.overview(made, Console(file=out, width=width, force_terminal=True, color_system=None))
    words, lines = out.getvalue().split(), out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert all(any(line.startswith(f"{item.exercise}  ") for line in lines) for item in made.items)
    told = [word for one in made.misconceptions for word in one.hint.split()]
    assert told
    assert {*told} <= {*words}


@pytest.mark.slow
def test_report_is_the_same_each_time(few):
    in_process("report", ASSIGNMENT, cwd=few)
    path = few / "reports" / f"{ASSIGNMENT}.html"
    first = path.read_bytes()
    path.unlink()
    in_process("report", ASSIGNMENT, cwd=few)
    assert path.read_bytes() == first


@pytest.mark.slow
def test_export_has_a_line_for_each_student(few, students):
    done = in_process("export", "--format", "csv", cwd=few)
    assert done.exit_code == 0
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [line["student"] for line in lines] == sorted(FEW)
    by_student = {line["student"]: line for line in lines}
    right = by_student["style-01"]
    assert (right["assignment"], right["total"], right["max"]) == (ASSIGNMENT, "17", "20")
    assert (right["needs manual grade"], by_student["blank"]["needs manual grade"]) == ("yes", "no")
    assert float(by_student["mistake-01"][f"{ASSIGNMENT}/softmax"]) == students["mistake-01"][1]["softmax"]
    assert list(right)[2:7] == [f"{ASSIGNMENT}/{name}" for name in students["style-01"][1]]


@pytest.mark.slow
def test_export_to_a_file(few):
    shown = in_process("export", cwd=few).stdout
    done = in_process("export", "--output", few / "grades.csv", cwd=few)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert (few / "grades.csv").read_bytes().decode() == shown


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("x")', '=a,"b'])
def test_no_cell_is_a_formula(name):
    rows = list(csv.reader(io.StringIO(as_csv([Row(name, ASSIGNMENT, {"softmax": 1.0}, {"softmax": 3.0})]))))
    assert rows[1][0] == f"'{name}"
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("penalty", [0.6, 0.1 + 0.2 + 0.3])
def test_a_penalty_of_all_points_leaves_zero(penalty):
    """A database may add the points in another order, and so differ in the last digit."""
    row = Row("ada", "a", dict(zip("abc", (0.1, 0.2, 0.3), strict=True)), late_penalty=penalty)
    assert as_csv([row]).splitlines()[1].split(",")[5] == "0"


def test_plain_names_stay():
    assert harmless("ada-lovelace") == "ada-lovelace"


@pytest.mark.parametrize("name", ["\r=1", "\n=1", "a\n=1", "a\r\n=1"])
def test_no_name_makes_a_line_of_its_own(name):
    text = as_csv([Row(name, ASSIGNMENT, {"softmax": 1.0}, {"softmax": 3.0})])
    assert len(text.splitlines()) == 2
    assert not text.splitlines()[1].startswith("=")


def test_work_that_nbgrader_entered_and_did_not_grade_has_no_points(tmp_path):
    """nbgrader enters a submission before it runs the notebook, also if it cannot read the notebook then."""
    folder = new_class(tmp_path / "course", {("ada", ASSIGNMENT): 0, ("eva", ASSIGNMENT): 0})
    with opened(folder) as book:
        for name in ("softmax", "explain"):
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "eva")
            grade.auto_score, grade.needs_manual_grade = None, True
        book.db.commit()
    ada, eva = in_process("export", ASSIGNMENT, cwd=folder).stdout.splitlines()[1:]
    assert ada == f"ada,{ASSIGNMENT},0,0,0,10,no,0,0,"
    assert eva == f'eva,{ASSIGNMENT},,,,,,,,"handed in, but not graded yet: run autograder grade"'
    (status,) = json.loads(in_process("status", ASSIGNMENT, "--json", cwd=folder).stdout)
    assert (status["graded"], status["to_grade"]) == (1, 1)


def test_work_whose_only_graded_code_waits_for_a_person_has_a_row(tmp_path):
    folder = new_class(tmp_path / "course", {("ada", ASSIGNMENT): 0})
    with opened(folder) as book:
        book.add_solution_cell("softmax", ASSIGNMENT, ASSIGNMENT)
        for name in ("softmax", "explain"):
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "ada")
            grade.auto_score, grade.needs_manual_grade = None, True
        book.db.commit()
    (ada,) = in_process("export", ASSIGNMENT, cwd=folder).stdout.splitlines()[1:]
    assert ada == f"ada,{ASSIGNMENT},0,0,0,10,yes,0,0,"


@pytest.mark.slow
def test_a_formula_for_a_name_through_the_command_line(few, students):
    hand_in(few, "=cmd()", students["blank"][0])
    graded(few)
    assert "\n'=cmd()," in in_process("export", cwd=few).stdout


def test_two_assignments_in_one_table():
    rows = [
        Row("ada", "ch02_qkv", {"softmax": 1.0}, {"softmax": 3.0}),
        Row("ada", "ch03_scaling", {"x": 2}, {"x": 2}),
    ]
    lines = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [line["total"] for line in lines] == ["1", "2"]
    assert lines[0]["ch03_scaling/x"] == ""
    assert lines[1]["ch03_scaling/x"] == "2"


def reaching(notebook):
    """A notebook whose softmax, alone, reaches code that touches the grader's machinery."""
    notebook = json.loads(json.dumps(notebook))
    (answer,) = [c for c in notebook["cells"] if "def softmax(" in c["source"]]
    head, body = answer["source"].split(":\n", 1)
    answer["source"] = f"{head}:\n    quiet()\n{body}"
    helper = "import threading\n\ndef quiet():\n    threading.setprofile(None)  # <script>1</script>"
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(2, code | {"source": helper})
    return notebook


@pytest.mark.slow
def test_a_remark_says_whose_code_it_is_about_in_which_exercise_and_where(few, students):
    said = {
        "kind": "machinery",
        "exercise": "softmax",
        "place": "Cell 3, outside the answers, line 4",
        "line": "threading.setprofile(None)  # <script>1</script>",
    }
    hand_in(few, "eve", reaching(students["style-01"][0]))
    options = ("grade", "--submissions", few / "submitted")
    by_machine = json.loads(in_process(*options, "--json", cwd=few).stdout)
    (own,) = [one for one in by_machine["submissions"] if one["student"] == "eve"]
    assert own["score"] == 17
    (remark,) = own["remarks"]
    assert {key: remark[key] for key in said} == said
    (report,) = json.loads(in_process("report", ASSIGNMENT, "--json", cwd=few).stdout)
    (look,) = [one for one in report["needs_a_look"] if one["kind"] == "machinery"]
    assert {key: look[key] for key in said} == said
    assert look["student"] == "eve"
    assert {s["student"]: s["total"] for s in report["scores"]}["eve"] == 17
    printed = [in_process(*options, cwd=few).stderr, in_process("report", ASSIGNMENT, cwd=few).stdout]
    soup = BeautifulSoup((few / "reports" / f"{ASSIGNMENT}.html").read_text(), "html.parser")
    (row,) = [one for one in soup.find_all("tr") if "setprofile" in one.get_text()]
    for text in (*printed, row.get_text(" ")):
        text = " ".join(text.split())
        assert all(part in text for part in ("eve", "softmax: ", said["place"], "# <script>1</script>")), text
    assert not soup.find("script")
    link = row.find("a")
    assert link.get_text() == said["place"]
    assert (few / "reports" / link["href"]).is_file()
    (few / "autograded").rename(few / "by machine")
    with (few / "nbgrader_config.py").open("a") as config:
        config.write("c.CourseDirectory.autograded_directory = 'by machine'\n")
    in_process("report", ASSIGNMENT, cwd=few)
    soup = BeautifulSoup((few / "reports" / f"{ASSIGNMENT}.html").read_text(), "html.parser")
    (href,) = {link["href"] for link in soup.find_all("a") if link.get_text() == said["place"]}
    assert (few / "reports" / unquote(href)).is_file()


def test_what_an_older_grader_remarked_is_still_shown(few):
    path = few / "autograded" / "style-01" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    notebook["metadata"]["autograder"]["remarks"] = ["2 cells are called 'softmax'"]
    path.write_text(json.dumps(notebook))
    (report,) = json.loads(in_process("report", ASSIGNMENT, "--json", cwd=few).stdout)
    (look,) = [one for one in report["needs_a_look"] if one["kind"] == "remark"]
    assert (look["student"], look["why"]) == ("style-01", "2 cells are called 'softmax'")
