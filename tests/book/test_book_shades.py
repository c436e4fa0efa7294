"""A box that scrolls sideways has a shade at the edge where there is more, and no box has one elsewhere."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]  # it builds the book

PAGES = ("02_qkv", "03_scaling", "05_positions")
BOXES = "div.math > .katex-display"
PLAIN = ".bd-article section { content-visibility: visible !important; } .katex * { visibility: hidden; }"
SCROLLS = "(box) => box.scrollWidth > box.clientWidth"


def edges(page: Any, box: Any) -> tuple[float, float]:
    """Return how much darker the left and the right edge of a box are than the page, from 0 to 1."""
    box.scroll_into_view_if_needed()
    x, y, width, height = (box.bounding_box()[key] for key in ("x", "y", "width", "height"))
    clip = {"x": int(x) - 3, "y": int(y + height / 2), "width": int(width) + 7, "height": 1}
    row = matplotlib.image.imread(io.BytesIO(page.screenshot(clip=clip)))[0, :, :3].mean(axis=1)
    darker = row[0] - row
    half = len(row) // 2
    return float(np.abs(darker[:half]).max()), float(np.abs(darker[half:]).max())


@pytest.mark.parametrize(("width", "scale"), [(1280, 1), (1280, 1.25), (1366, 1), (390, 3)])
def test_a_formula_that_fits_has_no_rule_beside_it(
    width: int, scale: float, html: Path, browser: Any
) -> None:
    page = browser.new_context(viewport={"width": width, "height": 900}, device_scale_factor=scale).new_page()
    count = 0
    for name in PAGES:
        page.goto((html / "book" / f"{name}.html").as_uri())
        page.add_style_tag(content=PLAIN)
        for box in page.locator(BOXES).all():
            if box.is_visible() and not box.evaluate(SCROLLS):
                assert max(edges(page, box)) < 0.01, name
                count += 1
    assert count > 8
    page.context.close()


def test_a_formula_that_is_too_wide_has_a_shade_on_the_side_where_there_is_more(
    html: Path, browser: Any
) -> None:
    page = browser.new_context(viewport={"width": 320, "height": 800}).new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.add_style_tag(content=f"{PLAIN} {BOXES} > * {{ width: 600px; }}")
    box = page.locator(BOXES).first
    assert box.evaluate(SCROLLS)
    left, right = edges(page, box)
    assert left < 0.01
    assert right > 0.1
    box.evaluate("(box) => box.scrollTo(box.scrollWidth, 0)")
    left, right = edges(page, box)
    assert left > 0.1
    assert right < 0.01
    page.context.close()
