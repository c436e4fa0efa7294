"""The built book, and a browser to read it in."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from book_paths import ROOT

OFFLINE = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def packages() -> None:
    """What the extensions use of npm, installed where no book has been built yet."""
    import build

    book = build.Book(ROOT)
    with build.alone(book):
        build.install_packages(book)


@pytest.fixture(scope="session")
def cut_fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of cut fonts that small books share: to cut them takes longer than to build a page."""
    return tmp_path_factory.mktemp("fonts")


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of the built book, brought up to date."""
    run = subprocess.run([sys.executable, ROOT / "book" / "build.py"], capture_output=True, text=True)
    if run.returncode:
        pytest.fail(f"the book does not build\n{run.stdout}\n{run.stderr}", pytrace=False)
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def browser(chromium: str, launch: Callable[[str, list[str]], Any]) -> Iterator[Any]:
    """Chromium without a window."""
    browser = launch(chromium, OFFLINE)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serves folders on this machine until the tests end; takes a folder and returns its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Says nothing."""

    with ExitStack() as servers:

        def start(folder: Path) -> str:
            handler = functools.partial(Quiet, directory=str(folder))
            server = servers.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


@pytest.fixture(scope="session")
def served(html: Path, serve: Callable[[Path], str]) -> str:
    """The address of a server on this machine that serves the built book."""
    return serve(html)
