"""The figures' style: the same bytes each time, and colours that stand out, in code too, on any page."""

from __future__ import annotations

import io
import re
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from book_paths import ROOT
from bs4 import BeautifulSoup
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from tfcore import viz
from tfcore.viz.arrangement import Panels, two_drawings

WHITE, DARK = "#ffffff", "#12151a"
COURSE_CSS = ROOT / "book" / "_static" / "course.css"


def linear(colour: str) -> np.ndarray:
    """A colour in linear light."""
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two colours."""
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def shown(colour: object, left: float) -> str:
    """A colour as a page shows it: course.css takes figures a little way to white on a dark page."""
    return to_hex(1 - left * (1 - np.array(to_rgb(colour))))


def brightness() -> float:
    """How much of each colour course.css leaves on a dark page."""
    rule = re.search(r"filter: invert\(1\) brightness\(([\d.]+)\) invert\(1\)", COURSE_CSS.read_text("utf8"))
    return float(rule[1])


@pytest.mark.parametrize("colour", [*viz.PALETTE, viz.INK])
@pytest.mark.parametrize("page", ["light", "dark"])
def test_text_in_each_colour_can_be_read(colour: str, page: str) -> None:
    seen, paper = (colour, WHITE) if page == "light" else (shown(colour, brightness()), DARK)
    assert contrast(seen, paper) >= 4.5


@pytest.mark.parametrize("colour", [*viz.PALETTE, viz.INK])
@pytest.mark.parametrize("page", ["light", "dark"])
def test_marks_that_others_are_seen_through_stand_out(colour: str, page: str) -> None:
    left, paper = (1.0, WHITE) if page == "light" else (brightness(), DARK)
    mark = 0.85 * np.array(to_rgb(shown(colour, left))) + 0.15 * np.array(to_rgb(paper))
    assert contrast(to_hex(mark), paper) >= 3


def test_no_mark_lets_more_through() -> None:
    pages = [*(ROOT / "book").glob("[01]*.md"), ROOT / "book" / "after_pretraining.md"]
    marks = [mark for page in pages for mark in re.findall(r"plot\(.*alpha=([\d.]+)", page.read_text("utf8"))]
    assert marks
    assert min(map(float, marks)) >= 0.85


# Machado, Oliveira and Fernandes (2009): what a reader without one kind of cone sees, in linear light.
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


def lab(light: np.ndarray) -> np.ndarray:
    """CIELAB of a colour in linear light."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(light, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("page", ["light", "dark"])
@pytest.mark.parametrize(("kind", "apart"), [("none", 30), ("protanopia", 14), ("deuteranopia", 15)])
def test_the_colours_differ_for_every_reader(kind: str, apart: float, page: str) -> None:
    left = 1 if page == "light" else brightness()
    cones = np.array(BLINDNESS.get(kind, np.eye(3)))
    seen = {colour: lab(cones @ linear(shown(colour, left))) for colour in viz.PALETTE}
    for one, other in combinations(viz.PALETTE, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= apart, (one, other)


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "card"), [("light", "#f7f8fa"), ("dark", "#1b2027")])
def test_code_can_be_read_and_comments_are_not_like_numbers(theme: str, card: str, html: Path) -> None:
    assert f"--tf-card: {card};" in (html / "_static" / "course.css").read_text("utf8")
    css = (html / "_static" / "pygments.css").read_text("utf8")
    rule = rf'html\[data-theme="{theme}"\] \.highlight \.(\w+) \{{ color: (#\w{{6}})'
    colours = dict(re.findall(rule, css))
    assert {"c1", "mi", "mf", "k", "s2", "nb"} <= set(colours)
    for name, colour in colours.items():
        assert contrast(colour, card) >= 4.5, name
    for kind in [np.eye(3), *map(np.array, BLINDNESS.values())]:
        seen = {name: lab(kind @ linear(colours[name])) for name in ("c1", "mi", "mf")}
        assert min(np.linalg.norm(seen["c1"] - seen[number]) for number in ("mi", "mf")) > 15


@pytest.mark.slow
@pytest.mark.parametrize("page", ["light", "dark"])
def test_a_number_in_a_heat_map_can_be_read(page: str) -> None:
    left = 1 if page == "light" else brightness()
    weights = np.linspace(0, 1, 101)[None]
    viz.heatmap(axes := Figure().subplots(), weights, ["row"], [""] * 101)
    (mesh,) = axes.collections
    mesh.update_scalarmappable()
    cells = mesh.get_facecolors()
    assert (cells[:, 3] == 1).all(), "the page shines through"
    assert len(axes.texts) == len(cells)
    for cell, text in zip(cells, axes.texts, strict=True):
        assert contrast(*(shown(colour, left) for colour in (cell, text.get_color()))) >= 4.5, text.get_text()


def svg() -> str:
    buffer = io.BytesIO()
    with viz.style():
        axes = (figure := Figure()).subplots()
        axes.plot([1, 2, 3])
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode()


@pytest.mark.slow
def test_a_figure_is_the_same_each_time() -> None:
    assert svg() == svg()


def test_a_figure_has_no_background() -> None:
    assert "#ffffff" not in svg()


@pytest.mark.slow
def test_a_phone_loads_the_narrow_drawing_and_a_wide_page_the_other(tmp_path: Path) -> None:
    with viz.style():
        (tmp_path / "both.svg").write_text(two_drawings(Panels(count=2)), "utf8")
    (tmp_path / "index.md").write_text("# A page\n\n![two panels](both.svg)\n", "utf8")
    html = tmp_path / "html"
    settings: dict[str, Any] = {"extensions": ["myst_parser", "tfbook.sizes"], "html_theme": "basic"}
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(tmp_path), None, str(html), str(tmp_path / "trees"), "html", settings, status=None
        )  # fmt: skip
        app.build()
    picture = BeautifulSoup((html / "index.html").read_text("utf8"), "html.parser").select_one("picture")
    source, image = picture.select_one("source"), picture.select_one("img")
    assert image["alt"] == "two panels"
    for tag, name in ((source, source["srcset"]), (image, image["src"])):
        drawing = ElementTree.fromstring((html / name).read_text("utf8"))
        points = [float(drawing.get(side, "").removesuffix("pt")) for side in ("width", "height")]
        assert [int(tag[side]) for side in ("width", "height")] == [round(p * 4 / 3) for p in points]
        assert drawing.find(".//*[@id='narrow']") is None
    assert int(source["width"]) < int(source["height"])
    assert int(image["width"]) > int(image["height"])
