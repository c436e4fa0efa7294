"""A class on a JupyterHub: from the release to the feedback, by the requests that a browser sends."""

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import nbformat
import psutil
import pytest
import requests
import websocket
from bs4 import BeautifulSoup
from scratch import ASSIGNMENT, FEW, ROOT, graded, in_process

import autograder

TEACHER, STUDENTS = "teacher", ("ada", "bob")
UIDS = {name: uid for uid, name in enumerate((TEACHER, *STUDENTS), 60_001)}
COURSE = {"course_id": "transformers_from_first_principles"}
FILES = Path(autograder.__file__).parent / "platforms" / "hub"


class Hub:
    """The hub as teachers get it, with the two paths set, on ports and in a folder of its own."""

    def __init__(self, folder, course, shared):
        self.folder, self.exchange, self.shared = folder, folder / "exchange", shared
        self.homes = {name: folder / "home" / name for name in UIDS}
        for home in self.homes.values():
            (home / ".jupyter").mkdir(parents=True)
            allow = f"c.ServerApp.allow_root = {os.geteuid() == 0}\n"
            (home / ".jupyter" / "jupyter_server_config.py").write_text(allow)
        self.course = Path(shutil.copytree(course, self.homes[TEACHER] / "course"))
        settings = (FILES / "jupyterhub_config.py").read_text()
        for name, path in (("COURSE", self.course), ("EXCHANGE", self.exchange)):
            line = f"{name} = Path({str(path)!r})"
            settings, found = re.subn(rf"^{name} = Path\(.*?\)", line, settings, flags=re.M)
            assert found == 1
        (folder / "jupyterhub_config.py").write_text(settings)
        shutil.copy(FILES / "nbgrader_config.py", folder)

    def start(self):
        view = [] if self.shared else self._view()
        port, inner, proxy = (free_port() for _ in range(3))
        self.address = f"http://127.0.0.1:{port}"
        options = [
            f"--JupyterHub.bind_url={self.address}",
            f"--JupyterHub.hub_port={inner}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy}",
            "--JupyterHub.authenticator_class=dummy",
        ]
        if self.shared:
            home = self.folder / "home" / "{username}"
            options += [
                "--JupyterHub.spawner_class=simple",
                f"--SimpleLocalProcessSpawner.home_dir_template={home}",
            ]
        with (self.folder / "log").open("wb") as log:
            self.process = psutil.Popen(
                [*view, sys.executable, "-m", "jupyterhub", *options],
                cwd=self.folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.until(lambda: requests.get(f"{self.address}/hub/health", timeout=10).ok)

    def _view(self):
        """This machine as it is where the users have accounts and closed homes, and may run this Python."""
        lines = {"passwd": "{0}:x:{1}:{1}::{2}:/bin/bash\n", "group": "{0}:x:{1}:\n"}
        view = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/"]
        for file, line in lines.items():
            people = "".join(line.format(name, uid, self.homes[name]) for name, uid in UIDS.items())
            (self.folder / file).write_text(Path("/etc", file).read_text() + people)
            view += ["--ro-bind", self.folder / file, f"/etc/{file}"]
        for name, home in self.homes.items():
            for path in (home, *home.rglob("*")):
                os.chown(path, UIDS[name], UIDS[name], follow_symlinks=False)
            home.chmod(0o700)
        return view + opened(Path(sys.base_prefix), Path(sys.prefix), ROOT)

    def until(self, ready, seconds=120):
        """Waits for something, as long as the hub runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.told
            try:
                if ready():
                    return
            except requests.ConnectionError:
                pass
            time.sleep(0.3)
        pytest.fail(f"not after {seconds} seconds:\n{self.told}")

    @property
    def told(self):
        return (self.folder / "log").read_text(errors="replace")[-20_000:]

    def stop(self):
        for process in (self.process, *self.process.children(recursive=True)):
            process.kill()
        self.process.wait()


class User:
    """Somebody who logs in by the form; with that the server of this user is started."""

    def __init__(self, hub, name):
        self.hub, self.name, self.browser = hub, name, requests.Session()
        self.base = f"{hub.address}/user/{name}"
        self.browser.get(f"{hub.address}/hub/login", timeout=60).raise_for_status()
        form = {"username": name, "password": "any", "_xsrf": self.browser.cookies["_xsrf"]}
        answer = self.browser.post(f"{hub.address}/hub/login", data=form, timeout=60)
        assert answer.ok, hub.told

    def arrive(self):
        """Waits until the hub no longer shows its own page, but JupyterLab."""
        self.hub.until(lambda: self.browser.get(f"{self.base}/lab", timeout=60).url.startswith(self.base))
        self.cookies = {
            c.name: c.value for c in self.browser.cookies if c.path in ("/", f"/user/{self.name}/")
        }

    def ask(self, method, path, **how):
        headers = {"X-XSRFToken": self.cookies["_xsrf"]}
        return self.browser.request(method, f"{self.base}/{path}", headers=headers, timeout=120, **how)

    def told(self, method, path, **how):
        answer = self.ask(method, path, **how)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}\n{self.hub.told}"
        return answer.json()

    def assignments(self, action=""):
        """The lines of the list of assignments, after a click on `fetch`, `submit` or `fetch_feedback`."""
        if action:
            body = {"assignment_id": ASSIGNMENT, **COURSE}
            told = self.told("POST", f"assignments/{action}", json=body)
        else:
            told = self.told("GET", "assignments", params=COURSE)
        assert told["success"], told["value"]
        return {line["status"]: line for line in told["value"]}

    def formgrader(self, action):
        """What nbgrader says after a click in the list of assignments of formgrader."""
        told = self.told("POST", f"formgrader/api/assignment/{ASSIGNMENT}/{action}")
        assert told["success"], told
        return told["log"]

    def type(self, command):
        """What a terminal of JupyterLab shows when the command has ended, which must be well."""
        name = self.told("POST", "api/terminals")["name"]
        address = f"{self.base.replace('http', 'ws', 1)}/terminals/websocket/{name}"
        cookie = "; ".join(map("=".join, self.cookies.items()))
        terminal = websocket.create_connection(address, cookie=cookie, origin=self.hub.address, timeout=120)
        terminal.send(json.dumps(["stdin", f"{command}; echo ended: $?\r"]))
        shown = ""
        while not (ended := re.search(r"ended: (\d+)", shown)):
            kind, *what = json.loads(terminal.recv())
            shown += what[0] if kind == "stdout" else ""
        terminal.close()
        assert ended[1] == "0", shown
        return shown

    def hand_in(self, notebook):
        model = {"type": "notebook", "format": "json", "content": notebook}
        self.told("PUT", f"api/contents/{ASSIGNMENT}/{ASSIGNMENT}.ipynb", json=model)
        return self.assignments("submit")["submitted"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def opened(*paths):
    """Options of bubblewrap that put open folders with only these in them in place of closed ones above."""
    view = []
    for path in paths:
        above = list(reversed(path.parents))
        closed = [folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH]
        if closed and closed[0] not in view:
            view += ["--tmpfs", closed[0]]
        for folder in above[above.index(closed[0]) + 1 :] if closed else []:
            view += ["--perms", "0755", "--dir", folder]
        view += ["--ro-bind", path, path] if closed else []
    return view


@pytest.fixture(params=["one account", "accounts"])
def hub(request, template, do_without):
    """The hub for users who share the account of this test, and for users with accounts of their own."""
    if not find_spec("jupyterhub") or not (ROOT / "node_modules" / "configurable-http-proxy").exists():
        do_without("hub", "needs JupyterHub and its proxy: make setup, make book")
    shared = request.param == "one account"
    if not shared and (os.geteuid() != 0 or not shutil.which("bwrap")):
        do_without("accounts", "only root can run servers for several accounts, and bubblewrap invents those")
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:  # under pytest's other accounts see nothing
        Path(folder).chmod(0o755)
        hub = Hub(Path(folder), template, shared)
        try:
            hub.start()
            yield hub
        finally:
            hub.stop()


@pytest.mark.slow
def test_from_the_release_to_the_feedback(hub, students):
    teacher, ada, bob = users = [User(hub, name) for name in UIDS]
    for user in users:
        user.arrive()
    assert ada.assignments() == {}
    teacher.type(f"cd course && autograder release {ASSIGNMENT}")
    teacher.formgrader("release")

    works = {ada: students["style-01"], bob: students["mistake-01"]}
    for student, (notebook, _) in works.items():
        assert set(student.assignments()) == {"released"}
        assert set(student.assignments("fetch")) == {"fetched"}
        handed_in = student.hand_in(notebook)
        assert [one["student_id"] for one in handed_in["submissions"]] == [student.name]
    nobody_sees_another(hub, teacher, ada, bob)

    log = teacher.formgrader("collect")
    assert ("cheating attempt" in log) == hub.shared
    collected = hub.course / "submitted" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    sources = [cell["source"] for cell in nbformat.read(collected, 4)["cells"]]
    assert sources == [cell["source"] for cell in works[ada][0]["cells"]]
    teacher.type("cd course && autograder grade --submissions submitted && autograder feedback")
    teacher.formgrader("release_feedback")

    for student, (_, scores) in works.items():
        (line,) = student.assignments("fetch_feedback")["submitted"]["submissions"]
        page = student.ask("GET", f"files/{line['local_feedback_path']}/{ASSIGNMENT}.html")
        text = " ".join(BeautifulSoup(page.content, "html.parser").get_text(" ").split())
        assert f"{student.name} {sum(scores.values()):g} of 17 points so far" in text


def nobody_sees_another(hub, teacher, ada, bob):
    """Bob has no way to what Ada handed in, nor to the course, where he has an account of his own."""
    shown = teacher.ask("GET", "formgrader/")
    assert shown.status_code == 200
    assert shown.headers["Content-Security-Policy"] == "frame-ancestors 'self'", "JupyterLab cannot show it"
    assert bob.ask("GET", "formgrader/").status_code == 404
    assert bob.browser.get(f"{ada.base}/api/contents", timeout=60).status_code == 403
    inbound = hub.exchange / COURSE["course_id"] / "inbound"
    assert stat.S_IMODE(inbound.stat().st_mode) & 0o777 == 0o733
    assert len(list(inbound.glob(f"ada+{ASSIGNMENT}+*"))) == 1
    if not hub.shared:
        for path in (inbound, ada.hub.homes["ada"], hub.course):
            assert "Permission denied" in bob.type(f"! ls {path}")
        assert "not permitted" in bob.type(f"! mv {inbound.parent} {hub.exchange / 'away'}")


@pytest.mark.slow
def test_feedback_keeps_the_secret_of_a_submission(few):
    """nbgrader's `release_feedback` finds by it for whom a page is; work handed in again has another."""
    for secret in ("one" * 40, "two" * 40):
        (few / "submitted" / FEW[0] / ASSIGNMENT / "submission_secret.txt").write_text(secret)
        graded(few)
        assert in_process("feedback", cwd=few).exit_code == 0
        assert (few / "feedback" / FEW[0] / ASSIGNMENT / "submission_secret.txt").read_text() == secret
        assert not (few / "feedback" / FEW[1] / ASSIGNMENT / "submission_secret.txt").exists()
