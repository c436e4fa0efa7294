"""Feedback: each student reads the report, and nothing of a student's can run in anybody's browser."""

import json
import re
import shutil
import subprocess
from html import escape

import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_notebook
from scratch import ASSIGNMENT, FEW, FULL, ROOT, SEED, graded, hand_in, in_process, tree

from autograder.checking.report import Report
from autograder.grading.marks import Mark, NotebookMarks
from autograder.grading.written import NOTE
from autograder.reports import safe_html
from autograder.reports.feedback_page import FeedbackExporter, summarise


def page(course, student):
    return course / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"


def told(course, student):
    return BeautifulSoup(page(course, student).read_text(), "html.parser").get_text(" ")


@pytest.fixture(scope="module")
def given(few_template, tmp_path_factory):
    """A graded course with its feedback."""
    course = tmp_path_factory.mktemp("given") / "course"
    shutil.copytree(few_template, course)
    assert in_process("feedback", cwd=course).exit_code == 0
    return course


OVERFLOWS = "exp overflows for large scores, and is 0 for every score of a very negative row."


@pytest.mark.slow
def test_a_page_for_each_student(given):
    assert all(page(given, student).is_file() for student in FEW)


@pytest.mark.slow
def test_the_report_stands_under_each_test(given, students):
    text = told(given, "mistake-01")
    assert f"{OVERFLOWS} Subtract each row's maximum first" in text
    assert "scores as large as 10,000" in text
    score = f"{students['mistake-01'][1]['softmax']:g}"
    assert f"softmax part of the points, {score} / 3" in " ".join(text.split())
    assert "check(softmax)" not in text


def top(course, student):
    """What stands before the notebook: the heading, and each exercise with its line."""
    header = BeautifulSoup(page(course, student).read_text(), "html.parser").header
    lines = {line.a.get_text(): " ".join(line.get_text(" ").split()) for line in header.ol.find_all("li")}
    return header.h1.get_text(), lines


def test_the_top_tells_points_verdicts_and_what_is_wrong(given, students):
    points = students["mistake-01"][1]
    heading, lines = top(given, "mistake-01")
    assert heading == f"{sum(points.values()):g} of {FULL} points so far"
    assert list(lines) == [*points, "explain the picture"]
    assert lines["softmax"] == f"◐ softmax part of the points {OVERFLOWS} {points['softmax']:g} / 3"
    assert lines["project_qkv"] == (
        f"◐ project_qkv part of the points You return the key first. {points['project_qkv']:g} / 2"
    )
    assert top(given, "style-01")[1]["softmax"] == "✓ softmax full marks 3 / 3"
    assert top(given, "blank")[1]["softmax"] == "✗ softmax no points Not written yet. 0 / 3"


def lines_of(**reports):
    """What the top says of reports on these exercises, held by a graded notebook and its gradebook."""
    notes = {name: report.as_dict() for name, report in reports.items()}
    cells = [new_code_cell(metadata={"nbgrader": {"grade_id": name}}) for name in reports]
    marks = tuple(Mark(name, "code", 0.0, 3.0, None, None, False) for name in reports)
    held = NotebookMarks(ASSIGNMENT, "one", 0.0, 3.0, 0.0, marks, {})
    notebook = new_notebook(cells=cells, metadata={NOTE: {"reports": notes}})
    return {name: line.says for name, line in summarise(notebook, held).lines.items()}


def test_a_syntax_error_is_told_on_top_with_its_line():
    error = "A cell failed before that: SyntaxError: expected ':' (line 1: def softmax(x))"
    missing = Report(
        "ch02_qkv/softmax", 3, status="missing", note=f"Nothing to grade: there is none. {error}"
    )
    assert lines_of(softmax=missing)["softmax"].endswith(error)


def test_what_ended_the_process_is_told_once():
    lost = "The process that ran your code was lost before this could be graded: it did not stop."
    one, two, three = (
        Report(f"ch02_qkv/{name}", 3, status=status, note=note)
        for name, status, note in (
            ("one", "stopped", lost),
            ("two", "stopped", lost),
            ("three", "blank", "Not written yet. Replace the line."),
        )
    )
    assert lines_of(one=one, two=two, three=three, four=three) == {
        "one": lost,
        "two": "The same as for `one`.",
        "three": "Not written yet.",
        "four": "Not written yet.",
    }


@pytest.mark.slow
def test_each_line_leads_to_its_place(given):
    for student in FEW:
        soup = BeautifulSoup(page(given, student).read_text(), "html.parser")
        places = {element["id"] for element in soup.main.find_all(id=True)}
        assert {link["href"].removeprefix("#") for link in soup.ol.find_all("a")} <= places


@pytest.mark.slow
def test_a_written_answer_nobody_has_read_is_no_zero(given):
    heading, lines = top(given, "style-01")
    assert heading == f"{FULL} of {FULL} points so far"
    assert "3 more points are possible: your teacher will mark the rest." in told(given, "style-01")
    assert "waits for your teacher This answer has no points until" in lines["explain the picture"]
    heading, lines = top(given, "blank")
    assert heading == "0 of 20 points"
    assert "This answer is empty." in lines["explain the picture"]
    assert "teacher" not in told(given, "blank")


def test_no_secret_and_no_test_source(given):
    for student in FEW:
        html = page(given, student).read_text()
        assert str(SEED) not in html
        for secret in ("Criterion(", "EXERCISE", "misconception(", "rng.normal", "ordinary", "### BEGIN"):
            assert secret not in html
        assert str(given) not in html


@pytest.mark.slow
def test_no_script_and_no_other_host(given):
    for student in FEW:
        soup = BeautifulSoup(page(given, student).read_text(), "html.parser")
        assert not soup.find_all(["script", "iframe", "object", "embed", "link", "form", "base"])
        assert not [e for e in soup.find_all(True) for a in e.attrs if a.lower().startswith("on")]
        assert not [e for e in soup.find_all(src=True) if not e["src"].startswith("data:")]
        assert "script-src" in safe_html.POLICY or "default-src 'none'" in safe_html.POLICY
        policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
        assert policy["content"] == safe_html.POLICY


def test_a_students_script_is_shown_as_text(given):
    assert "document.title = 'owned'" in told(given, "script-in-the-answer")


@pytest.mark.browser
def test_nothing_runs_in_a_browser(given, tmp_path, chromium):
    """The page's own title stays, although the answer holds a script that would change it."""
    html = page(given, "script-in-the-answer").read_text()
    bare = tmp_path / "bare.html"
    without_policy = BeautifulSoup(html, "html.parser")
    without_policy.find("meta", attrs={"http-equiv": "Content-Security-Policy"}).decompose()
    bare.write_text(str(without_policy))  # cleaning alone must do, too
    evil = tmp_path / "evil.html"
    evil.write_text(html.replace("</body>", "<script>document.title = 'owned'</script></body>"))
    open_to_all = tmp_path / "open.html"
    open_to_all.write_text("<title>x</title><script>document.title = 'owned'</script>")
    titles = {}
    for path in (page(given, "script-in-the-answer"), bare, evil, open_to_all):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run(
            [chromium, *flags, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=60
        )
        titles[path.name] = BeautifulSoup(done.stdout, "html.parser").title.get_text()
    assert titles.pop("open.html") == "owned"  # this way of looking does see a script run
    assert set(titles.values()) == {ASSIGNMENT}


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "<a title='>' href='data:text/html,x'>x</a>",
    "<a href='da&#9;ta:text/html,x'>x</a>",
    "<a href='&#1;data:text/html,x'>x</a>",
    "<ul style='list-style: url(http://localhost/x)'><li>x</li></ul>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
    "$\\text{<img src=x onerror=alert(1)>}$",
    "$$\\href{javascript:alert(1)}{x}$$",
    "$<script>alert(1)</script>$",
    "<div style='background:url(javascript:alert(1))'>x</div>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "`</code><script>alert(1)</script>`",
    "<table><td background=x><form action=javascript:alert(1)><button>go</button></form></table>",
    "\ue0000\ue001 <script>alert(1)</script>",
    "<meta http-equiv=refresh content='0;url=http://example.org'>",
    "<base href=http://example.org/>",
    '![a $\\bad{" onerror="alert(1)" x="$ b](data:image/png;base64,AAAA)',
    "![a $\\bad{' onerror='alert(1)$](data:image/png;base64,AAAA)",
    '<b title=\'&#xe000;0&#xe001;\'>b</b> &#xe000;7&#xe001; $\\bad{" onclick="alert(1)" x="$',
    '<b class=\'&#xe000;0&#xe001;\'>b</b> $\\bad{" onclick="alert(1)" x="$',
    "$x$ <a href='da&#xe000;0&#xe001;ta:text/html,x'>x</a>",
    "[x]($javascript:alert(1)$)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_becomes_text(text):
    html = safe_html.markdown2html({"cell": {}}, f"before {text}\n\n{text}\n\nafter")
    soup = BeautifulSoup(html, "html.parser")
    harmless = set(safe_html._TAGS.split())
    for element in soup.find_all(True):
        assert element.name in harmless or element.name == "math" or element.find_parent("math"), html
        assert not [name for name in element.attrs if name.startswith("on")], html
        address = re.sub(r"[\x00-\x20]", "", str(element.get("href", ""))).lower()
        assert not address.startswith(("javascript", "data", "vbscript")), html
        assert "url(" not in element.get("style", ""), html
        if element.find_parent("math"):
            assert element.name.startswith("m"), html
    assert "before" in soup.get_text()
    assert "after" in soup.get_text()


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.slow
def test_a_pasted_picture_is_shown_and_none_costs_the_class_its_feedback(few):
    notebook = json.loads((few / "submitted" / "blank" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text())
    pasted = {"dot.png": {"image/png": DOT}, "odd.png": {"image/svg+xml": "<svg onload=alert(1)>"}, "no": 3}
    source = "![a](attachment:dot.png) ![b](attachment:odd.png) ![c](attachment:lost.png)"
    notebook["cells"].append(
        {"cell_type": "markdown", "metadata": {}, "source": source, "attachments": pasted}
    )
    hand_in(few, "blank", notebook)
    graded(few)
    assert in_process("feedback", cwd=few).exit_code == 0
    html = page(few, "blank").read_text()
    assert f"data:image/png;base64,{DOT}" in html
    assert "onload" not in html


@pytest.mark.slow
def test_code_and_formulas_that_would_take_hours_are_shown_plainly():
    page = {"resources": {}}
    zeros = f"s = '%{9_900 * '0'}'"
    shown = [safe_html.highlight_code(page, zeros) for _ in range(40)]
    assert "<span" in shown[0]
    assert "<span" not in shown[-1]
    assert "<span" not in safe_html.highlight_code({"resources": {}}, zeros * 2)
    assert "&lt;b&gt;" in safe_html.highlight_code(page, "'<b>'")
    picture = f"data:image/png;base64,{1_000_000 * 'A'}"
    assert safe_html.mathml(f"{picture}<b>") == f"<code>{picture}&lt;b&gt;</code>"


MARKS = {
    "an-answer": "x = 1\n### BEGIN HIDDEN TESTS\ny = 1\n### END HIDDEN TESTS",
    "half": "### BEGIN HIDDEN TESTS",
}


@pytest.mark.slow
def test_marks_of_hidden_tests_in_a_students_cell_cost_nobody_the_feedback(few, monkeypatch):
    for name, source in MARKS.items():
        notebook = json.loads((few / "submitted" / "blank" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text())
        code = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        notebook["cells"].append(code)
        hand_in(few, name, notebook)
    graded(few)
    assert in_process("feedback", cwd=few).exit_code == 0
    assert all("BEGIN HIDDEN TESTS" in page(few, name).read_text() for name in MARKS)


@pytest.mark.slow
def test_a_page_that_cannot_be_laid_out_is_told_and_costs_nobody_else_theirs(few, monkeypatch):
    graded(few)
    laid_out = FeedbackExporter.from_filename

    def fails(exporter, filename, **resources):
        if "/blank/" in filename:
            raise RuntimeError("odd")
        return laid_out(exporter, filename, **resources)

    monkeypatch.setattr(FeedbackExporter, "from_filename", fails)
    done = in_process("feedback", "--force", cwd=few)
    assert done.exit_code == 2
    assert "it cannot be laid out: RuntimeError: odd" in " ".join(done.stderr.split())
    assert page(few, "style-01").is_file()


@pytest.mark.parametrize("text", ["\\\\[" * 20_000, "<b>" * 30_000])
def test_markdown_that_would_take_hours_is_shown_as_text(text):
    assert safe_html.markdown2html({"cell": {}}, text) == f"<pre>{escape(text)}</pre>"


def test_markdown_that_cannot_be_laid_out_is_shown_as_text(monkeypatch):
    monkeypatch.setattr(safe_html, "clean", lambda *html: 1 / 0)
    assert safe_html.markdown2html({"cell": {}}, "<b>") == "<pre>&lt;b&gt;</pre>"


@pytest.mark.parametrize(
    ("tex", "shows"),
    [(r"x^2", "<msup>"), (r"\frac{a}{b}", "<mfrac>"), (r"\nonsense{", "<code>"), ("x" * 6000, "<code>")],
)
def test_formulas_become_mathml(tex, shows):
    assert shows in safe_html.mathml(tex)


def test_short_fractions_mean_what_they_say():
    assert safe_html.mathml(r"\tfrac14") == safe_html.mathml(r"\frac{1}{4}")


@pytest.mark.slow
def test_every_formula_of_the_notebooks_becomes_mathml(monkeypatch):
    unread = []
    mathml = safe_html.mathml

    def watched(tex, as_block=False):
        made = mathml(tex, as_block)
        if not made.startswith("<math"):
            unread.append(tex)
        return made

    monkeypatch.setattr(safe_html, "mathml", watched)
    for path in (ROOT / "solutions").rglob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "markdown":
                safe_html.markdown2html({"cell": {}}, "".join(cell["source"]))
    assert not unread


@pytest.mark.slow
def test_only_what_changed_is_made_again(given, students, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(given, course)
    before = tree(course / "feedback")
    again = json.loads(in_process("feedback", "--json", cwd=course).stdout)
    assert again["written"] == []
    assert again["unchanged"] == len(FEW)
    assert tree(course / "feedback") == before
    hand_in(course, "style-01", students["blank"][0])
    assert "1 submission is not graded, or changed since then." in in_process("feedback", cwd=course).stderr
    graded(course)
    done = in_process("feedback", "--json", cwd=course)
    assert "changed since then" not in done.stderr
    again = json.loads(done.stdout)
    assert again["written"] == [f"feedback/style-01/{ASSIGNMENT}/{ASSIGNMENT}.html"]
    (course / "nbgrader_config.json").write_text('{"HTMLExporter": {"sanitize_html": true}}')
    again = json.loads(in_process("feedback", "--json", cwd=course).stdout)
    assert len(again["written"]) == len(FEW)


@pytest.mark.slow
def test_a_hand_given_grade_and_comment_show(given, tmp_path):
    from nbgrader.api import Gradebook

    course = tmp_path / "course"
    shutil.copytree(given, course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        cells = book.find_notebook(ASSIGNMENT, ASSIGNMENT).grade_cells
        name = next(cell.name for cell in cells if cell.cell_type == "markdown")
        grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "style-02")
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.find_comment(name, ASSIGNMENT, ASSIGNMENT, "style-02").manual_comment = "Say why, <b>too</b>."
        book.db.commit()
    again = json.loads(in_process("feedback", "--json", cwd=course).stdout)
    assert len(again["written"]) == 1
    text = told(course, "style-02")
    heading, lines = top(course, "style-02")
    assert heading == "19 of 20 points"
    assert "part of the points Your teacher: Say why, too . 2 / 3" in lines["explain the picture"]
    assert text.count("Say why,") == 2
    assert "has no points until your teacher" not in text
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:  # handed in again, as `grade` leaves it
        book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "style-02").needs_manual_grade = True
        book.db.commit()
    assert in_process("feedback", cwd=course).exit_code == 0
    text = told(course, "style-02")
    assert "Say why," in text
    assert "gave these points for an earlier version" in text


@pytest.mark.slow
def test_points_lost_for_being_late_are_said(given, tmp_path):
    from nbgrader.api import Gradebook

    course = tmp_path / "course"
    shutil.copytree(given, course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        book.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "style-01").late_submission_penalty = 1.5
        book.db.commit()
    assert in_process("feedback", cwd=course).exit_code == 0
    assert top(course, "style-01")[0] == f"{FULL - 1.5} of {FULL} points so far"
    assert "1.5 points are taken off because the notebook was handed in late." in told(course, "style-01")


@pytest.mark.browser
def test_a_page_fits_a_phone_and_loads_nothing(given, tmp_path, chromium, launch):
    """Long lines of code and output, and wide tables and formulas, scroll in themselves."""
    course = tmp_path / "course"
    shutil.copytree(given, course)
    path = course / "autograded" / "style-01" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    wide = "| " + " | ".join(f"column {n}" for n in range(30)) + " |\n" + "|---" * 30 + "|\n"
    sources = [
        (
            "markdown",
            wide
            + "\n"
            + f"$$\n{'x + ' * 40} x\n$$\n\n${'x + ' * 40} x$ and `{'y' * 300}`\n\n- ${'x + ' * 40}$",
        ),
        ("code", f"x = {'1' * 300}"),
    ]
    framed = {"data": {"text/html": "<b>x</b>"}, "metadata": {"text/html": {"isolated": True}}}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "word" * 500},
        {"output_type": "display_data", **framed},
    ]
    for kind, source in sources:
        cell = {"cell_type": kind, "id": kind, "metadata": {}, "source": source}
        notebook["cells"].append(
            cell | ({"outputs": outputs, "execution_count": 1} if kind == "code" else {})
        )
    path.write_text(json.dumps(notebook))
    assert in_process("feedback", cwd=course).exit_code == 0
    assert "<iframe" not in page(course, "style-01").read_text()
    asked = []
    browser = launch(chromium, ["--no-sandbox", "--disable-gpu"])
    for scheme in ("light", "dark"):
        shown = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(page(course, "style-01").as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") == 390
    browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.slow
def test_feedback_is_the_same_each_time(given, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(given, course)
    before = tree(course / "feedback")
    assert in_process("feedback", "--force", cwd=course).exit_code == 0
    assert tree(course / "feedback") == before


@pytest.mark.slow
def test_a_graded_notebook_without_marks_and_marks_without_a_notebook_are_told(given, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(given, course)
    shutil.rmtree(course / "autograded" / "blank")
    for path in course.glob(f"autograded/*/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"):
        shutil.copy(path, path.with_name("second.ipynb"))
    done = in_process("feedback", cwd=course)
    assert done.exit_code == 0
    notes = " ".join(done.stderr.split())
    second = re.findall(rf"([\w-]+)/{ASSIGNMENT}/second.ipynb is not in the gradebook: grade again", notes)
    assert second == sorted(set(FEW) - {"blank"})
    assert f"blank has points for {ASSIGNMENT} but no graded notebook: grade again" in notes
