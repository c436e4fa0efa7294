"""The book's widgets in a notebook: a kernel shows them, and each chapter's notebooks have its own."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import nbclient
import nbformat
import pytest
from book_paths import ROOT
from tfbook import widgets

import tfwidgets
from tfcore import viz

NAMES = tfwidgets.names()
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*/*.ipynb"))
FROM_THE_PAGE = {"live_model", "real_heads"}  # their weights are those that the page trains or brings


@pytest.mark.slow
def test_a_kernel_shows_every_widget_with_its_state() -> None:
    shown = [name for name in NAMES if name not in FROM_THE_PAGE]
    cells = [nbformat.v4.new_code_cell(f"from tfwidgets import show\nshow({name!r})") for name in shown]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", store_widget_state=True).execute()
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    for name, cell in zip(shown, notebook.cells, strict=True):
        view = cell.outputs[0]["data"]["application/vnd.jupyter.widget-view+json"]
        state = states[view["model_id"]]["state"]
        assert state["_esm"] == tfwidgets.module(tfwidgets.FOLDER / f"{name}.js")
        start = widgets.load(name, tfwidgets.FOLDER).module.STATE
        assert {key: state[key] for key in start} == start


def test_common_js_replaces_the_line_that_imports_from_it(tmp_path: Path) -> None:
    (tmp_path / "common.js").write_text(
        "// Both.\nconst X = 1;\nexport function x() {}\nexport function* y() {}\n"
    )
    script = tmp_path / "w.js"
    script.write_text('// W.\n\nimport { x, y } from "./common.js";\n\nexport default { x, y };\n')
    whole = (
        "// W.\n\n// Both.\nconst X = 1;\nfunction x() {}\nfunction* y() {}\n\n\nexport default { x, y };\n"
    )
    assert tfwidgets.module(script) == whole
    script.write_text('import { x } from "./other.js";\n')
    assert tfwidgets.module(script) == script.read_text()
    assert tfwidgets.names(tmp_path) == ["w"]


def test_the_colours_of_widgets_are_those_of_figures() -> None:
    common = (tfwidgets.FOLDER / "common.js").read_text("utf8")
    assert tuple(re.findall(r'[A-Z]+: "(#[0-9a-f]{6})"', common)) == viz.PALETTE
    for name in tfwidgets.names():
        script = (tfwidgets.FOLDER / f"{name}.js").read_text("utf8")
        assert {*re.findall(r"#[0-9a-f]{6}\b", script)} <= {viz.INK}, name


def test_outside_of_a_notebook_there_is_nothing_to_show() -> None:
    assert tfwidgets.show("rope_arrows") is None


def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match=r"no widget 'rope'; there are .*rope_arrows"):
        tfwidgets.show("rope")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_the_widget_of_its_chapter(path: Path) -> None:
    number = re.match(r"ch(\d\d)", path.stem)
    assert number is not None
    (chapter,) = (ROOT / "book").glob(f"{number[1]}_*.md")
    in_the_book = set(re.findall(r"^```\{anywidget\} (\w+)", chapter.read_text("utf8"), re.M)) - FROM_THE_PAGE
    of_the_chapter = [other for other in NOTEBOOKS if other.stem.startswith(number[0])]
    in_the_notebooks = [re.findall(r'show\(\\"(\w+)\\"\)', p.read_text("utf8")) for p in of_the_chapter]
    assert sorted(chain.from_iterable(in_the_notebooks)) == sorted(in_the_book)
