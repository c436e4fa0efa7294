"""Take the README's picture again: ``python book/picture.py``.

A wrong answer to the first exercise of chapter 2 is written into a notebook and checked, as a student would;
JupyterLab shows the notebook, and Chromium takes the picture.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pdf
from nbclient import NotebookClient

from autograder import exercises

PICTURE = Path(__file__).resolve().parents[1] / ".github" / "check.png"
EXERCISE, MISTAKE = "ch02_qkv/softmax", "no_maximum"
WIDTH, HEIGHT = 1060, 720
START_SECONDS = 60


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ch02_qkv.ipynb"
        nbformat.write(checked(), path)
        with jupyterlab(path.parent) as address:
            photograph(f"{address}/doc/tree/{path.name}")


def checked() -> nbformat.NotebookNode:
    """A notebook with the mistake and what `check` says of it."""
    exercise = exercises.find(EXERCISE)
    name = exercise.function_name
    mistake = next(one for one in exercise.misconceptions if one.name == MISTAKE)
    cells = [
        "import numpy as np\nfrom autograder import check",
        mistake.source(name).strip(),
        f"check({name}).score",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, kernel_name="python3").execute()
    return notebook


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab on that folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(folder / ".config"), "HOME": str(folder)}
    subprocess.run(
        [sys.executable, "-m", "jupyter", "trust", *folder.glob("*.ipynb")], env=environment, check=True
    )
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    options = ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None"]
    server = subprocess.Popen([*command, *options], env=environment, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api"):
                break
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def photograph(address: str) -> None:
    """Writes the picture of the notebook at that address."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pdf.chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=2)
        page.goto(address)
        page.wait_for_selector(".jp-OutputArea-output")
        page.keyboard.press("Escape")
        page.add_style_tag(content=".jp-Toolbar, .Toastify, .jp-Notebook-footer { visibility: hidden }")
        page.wait_for_timeout(2000)
        last = page.locator(".jp-OutputArea").last.bounding_box()
        first = page.locator(".jp-Cell").first.bounding_box()
        assert first
        assert last
        height = last["y"] + last["height"] - first["y"]
        clip = {"x": first["x"], "y": first["y"] - 8, "width": first["width"], "height": height + 16}
        page.screenshot(path=PICTURE, clip=clip)
        browser.close()


if __name__ == "__main__":
    main()
