"""A teacher grades by hand in nbgrader's formgrader, in a real browser: it shows, it counts, and it stays."""

import contextlib
import copy
import csv
import io
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import pytest
from bs4 import BeautifulSoup
from scratch import ASSIGNMENT, graded, hand_in, in_process

from autograder.proof.samples.notebooks import written_cells

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WRITTEN = "explain_the_picture"
COURSE_ID = "transformers_from_first_principles"
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@contextmanager
def formgrader(course, home):
    """The address of a formgrader that runs in the course, and the token that opens it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    folders = {name: str(home / name) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "HOME")}
    options = [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
    ]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options],
            cwd=course,
            env={**os.environ, **folders, "JUPYTER_TOKEN": token},
            stdout=log,
            stderr=log,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            assert server.poll() is None, (home / "log").read_text()
            try:
                urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address, token
    finally:
        server.terminate()
        server.wait(timeout=20)


@pytest.fixture
def page(chromium, launch):
    """A page of Chromium that reaches no other machine; it notes whom it asks, and errors of scripts."""
    browser = launch(chromium, ["--no-sandbox", "--disable-gpu", NO_NETWORK])
    page = browser.new_page()
    page.hosts, page.errors = set(), []
    page.on("request", lambda request: page.hosts.add(urlsplit(request.url).hostname))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    browser.close()


@contextlib.contextmanager
def saving(page, what):
    """Waits until formgrader has stored a grade or a comment and shows it: what is typed before is lost."""
    with page.expect_response(
        lambda answer: f"/api/{what}/" in answer.url and answer.request.method == "PUT" and answer.ok
    ):
        yield
    page.wait_for_function("!document.querySelector('.glyphicon-refresh')")


def grade_by_hand(page, address, token):
    """What a teacher does: finds the submission, types points, extra credit and a comment, and goes on."""
    page.goto(f"{address}/formgrader/?token={token}")
    page.get_by_role("link", name="Manual Grading").click()
    page.get_by_role("link", name=ASSIGNMENT).first.click()
    page.wait_for_url(f"**/gradebook/{ASSIGNMENT}")
    page.locator("tbody").get_by_role("link", name=ASSIGNMENT).click()
    page.get_by_role("link", name="Submission #1").click()
    page.wait_for_function(
        "globalThis.formgrader?.loaded && formgrader.grades?.loaded && formgrader.comments?.loaded"
    )
    page.locator(f"#{WRITTEN}").fill("2")
    with saving(page, "grade"):
        page.keyboard.press("Tab")
    page.keyboard.type("0.5")
    with saving(page, "grade"):
        page.keyboard.press("Tab")
    page.keyboard.type("Say **why**, <script>document.title = 'owned'</script> too.")
    with saving(page, "comment"):
        page.keyboard.press("Tab")
    page.locator("#softmax").fill("3")
    with saving(page, "grade"):
        page.keyboard.press("Tab")


def told(course):
    """The page of feedback, in words, and the line of the table of grades."""
    assert in_process("feedback", cwd=course).exit_code == 0
    html = (course / "feedback" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
    (line,) = csv.DictReader(io.StringIO(in_process("export", "--format", "csv", cwd=course).stdout))
    return " ".join(BeautifulSoup(html, "html.parser").get_text(" ").split()), line


def test_points_comment_and_extra_credit_given_in_the_browser(course, students, page, tmp_path):
    notebook, points = students["mistake-01"]
    hand_in(course, "ada", notebook)
    graded(course)
    home = tmp_path / "home"
    home.mkdir()
    with formgrader(course, home) as (address, token):
        grade_by_hand(page, address, token)
    assert page.hosts == {"127.0.0.1"}
    assert page.errors == []
    shows(course, points, to_be_read="no")

    graded(course, force=True)  # the same work, graded again
    shows(course, points, to_be_read="no")

    notebook, points = students[
        "style-02"
    ]  # other work: what was given by hand stays, and is looked at again
    hand_in(course, "ada", notebook)
    graded(course)
    text = shows(course, points, to_be_read="yes")
    assert "gave these points for an earlier version" in text


def test_a_written_answer_in_a_code_cell_is_read_and_marked(course, students, page, tmp_path):
    notebook = copy.deepcopy(students["style-01"][0])
    for cell in written_cells(notebook):
        cell |= {"cell_type": "code", "source": "# The rows sum to one,\n# <b>the columns</b> do not."}
    hand_in(course, "ada", notebook)
    graded(course)
    home = tmp_path / "home"
    home.mkdir()
    with formgrader(course, home) as (address, token):
        page.goto(f"{address}/formgrader/?token={token}")
        page.goto(f"{address}/formgrader/gradebook/{ASSIGNMENT}/{ASSIGNMENT}")
        page.get_by_role("link", name="Submission #1").click()
        page.wait_for_function("globalThis.formgrader?.loaded && formgrader.grades?.loaded")
        answer = page.locator(".nbgrader_cell", has=page.locator(f"#{WRITTEN}"))
        assert "# The rows sum to one,\n# <b>the columns</b> do not." in answer.inner_text()
        page.locator(f"#{WRITTEN}").fill("2")
        with saving(page, "grade"):
            page.keyboard.press("Tab")
    _, line = told(course)
    assert (line[f"{ASSIGNMENT}/{WRITTEN}"], line["needs manual grade"]) == ("2", "no")


NAMES = (
    'q";owned=1;"',
    "<img src=x onerror=owned=1>",
    "';owned=1;'",
    "&quot;;owned=1;&quot;",
    "{{ owned }}",
    'tail\\";owned=1;',
)
"""What an older gradebook may hold as a student's id, a first name or an assignment."""


@pytest.fixture
def older(course, students):
    """A course graded before there was a rule for names."""
    path = hand_in(course, "ada", students["style-01"][0])
    for number in range(1, len(NAMES)):
        hand_in(course, f"ada{number}", path.read_bytes())
    graded(course)
    with contextlib.closing(sqlite3.connect(course / "gradebook.db")) as db, db:
        for number, name in enumerate(NAMES):
            before = f"ada{number or ''}"
            db.execute("UPDATE student SET id = ?, first_name = ? WHERE id = ?", (name, name, before))
            db.execute("UPDATE submitted_assignment SET student_id = ? WHERE student_id = ?", (name, before))
            db.execute(
                "INSERT INTO assignment (id, name, course_id) VALUES (?, ?, ?)", (name, name, COURSE_ID)
            )
            for folder in ("submitted", "autograded"):
                (course / folder / before).rename(course / folder / name)
        submissions = [row[0] for row in db.execute("SELECT id FROM submitted_notebook")]
    return course, submissions


def test_no_name_of_an_older_gradebook_runs_as_a_script(older, page, tmp_path):
    course, submissions = older
    home = tmp_path / "home"
    home.mkdir()
    names = [quote(name, safe="") for name in NAMES]
    pages = [
        "manage_assignments",
        "manage_students",
        "gradebook",
        f"gradebook/{ASSIGNMENT}/{ASSIGNMENT}",
        f"manage_submissions/{ASSIGNMENT}",
        *(f"gradebook/{name}" for name in names),
        *(f"gradebook/{name}/{name}" for name in names),
        *(f"manage_submissions/{name}" for name in names),
        *(f"manage_students/{name}" for name in names),
        *(f"manage_students/{name}/{ASSIGNMENT}" for name in names),
        *(f"submissions/{submission}/" for submission in submissions),
        "api/students",
        f"api/submissions/{ASSIGNMENT}",
    ]
    shown = {}
    with formgrader(course, home) as (address, token):
        page.goto(f"{address}/formgrader/?token={token}")
        for where in pages:
            page.goto(f"{address}/formgrader/{where}", wait_until="networkidle")
            assert page.evaluate("typeof owned") == "undefined", where
            shown[where] = page.locator("body").text_content()
    assert page.errors == []
    for name, quoted in zip(NAMES, names, strict=True):
        assert name in shown["manage_students"]
        assert name in shown[f"manage_students/{quoted}"]
        if "\\" not in name:  # which browsers take for a slash: that page's script finds no such student
            assert ASSIGNMENT in shown[f"manage_students/{quoted}"].split(name)[-1]
        assert name in shown[f"manage_students/{quoted}/{ASSIGNMENT}"]
        assert name in shown[f"gradebook/{quoted}"]
    for submission in submissions:
        assert any(name in shown[f"submissions/{submission}/"] for name in NAMES)


def shows(course, points, to_be_read):
    """Feedback and export have what was given by hand, and the grader's points beside it."""
    text, line = told(course)
    total = f"{sum(points.values()) - points['softmax'] + 3 + 2.5:g}"
    assert f"{total} of 20 points" in text
    assert "explain the picture part of the points" in text
    assert "2.5 / 3 0.5 of it extra" in text
    assert "Your teacher: Say why , <script>document.title = 'owned'</script> too." in text
    assert "softmax full marks" in text
    assert (line["total"], line["max"]) == (total, "20")
    assert (line[f"{ASSIGNMENT}/{WRITTEN}"], line[f"{ASSIGNMENT}/softmax"]) == ("2.5", "3")
    assert line["needs manual grade"] == to_be_read
    return text
