"""The figures' style: the same bytes each time, and colours that stand out, in code too, on any page."""

from __future__ import annotations

import io
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from tfcore import viz

WHITE, DARK = "#ffffff", "#12151a"


def linear(colour: str) -> np.ndarray:
    """A colour in linear light."""
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two colours."""
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*viz.PALETTE, viz.INK])
@pytest.mark.parametrize("page", [WHITE, DARK])
def test_a_colour_stands_out_from_the_page(colour: str, page: str) -> None:
    assert contrast(colour, page) >= 3


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


@pytest.mark.parametrize("kind", BLINDNESS)
def test_the_colours_differ_for_colour_blind_readers(kind: str) -> None:
    seen = {colour: lab(np.array(BLINDNESS[kind]) @ linear(colour)) for colour in viz.PALETTE}
    for one, other in combinations(viz.PALETTE, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)


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
@pytest.mark.parametrize("left", [1, 0.85], ids=["light page", "dark page, as course.css brightens it"])
def test_a_number_in_a_heat_map_can_be_read(left: float) -> None:
    weights = np.linspace(0, 1, 101)[None]
    viz.heatmap(axes := Figure().subplots(), weights, ["row"], [""] * 101)
    (mesh,) = axes.collections
    mesh.update_scalarmappable()
    cells = mesh.get_facecolors()
    assert (cells[:, 3] == 1).all(), "the page shines through"
    assert len(axes.texts) == len(cells)
    for cell, text in zip(cells, axes.texts, strict=True):
        seen = [1 - left * (1 - np.array(to_rgb(colour))) for colour in (cell, text.get_color())]
        assert contrast(*map(to_hex, seen)) >= 4.5, text.get_text()


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
