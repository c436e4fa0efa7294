"""A teacher grades by hand in nbgrader's formgrader, in a real browser: it shows, it counts, and it stays."""

import contextlib
import csv
import io
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from bs4 import BeautifulSoup
from scratch import ASSIGNMENT, graded, hand_in, in_process

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WRITTEN = "explain_the_picture"
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
def page(do_without, request):
    """A page of Chromium that reaches no other machine; it notes whom it asks, and errors of scripts."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium:
        do_without("browser", "no Chromium here")
    browser = request.getfixturevalue("launch")(chromium, ["--no-sandbox", "--disable-gpu", NO_NETWORK])
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
    assert "given by hand for an earlier version" in text


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
