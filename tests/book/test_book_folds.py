"""A fold of code has a name, which stays in its place while the code is open; the box of commands closes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # it builds the book

PROMPT = r'<p class="{} admonition-title">(.*?)</p>'
SEEN = ":scope > p:visible"


def test_every_fold_has_the_same_name_closed_and_open(html: Path) -> None:
    count = 0
    for page in (html / "book").glob("*.html"):
        text = page.read_text("utf8")
        closed, opened = (re.findall(PROMPT.format(state), text) for state in ("collapsed", "expanded"))
        assert [name for name in closed if "code cell" in name] == [], "give the cell a code_prompt_show"
        assert [name.removeprefix("Show ") for name in closed] == [
            name.removeprefix("Hide ") for name in opened
        ]
        assert all(name.startswith("Show ") for name in closed)
        assert all(name.startswith("Hide ") for name in opened)
        count += len(closed)
    assert count > 100


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_name_does_not_move_when_the_fold_opens(width: int, html: Path, browser: Any) -> None:
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    summary = page.locator("details.hide > summary").first
    summary.scroll_into_view_if_needed()
    name = summary.locator(SEEN)
    assert name.inner_text() == "Show the training loop"
    closed = name.bounding_box()
    summary.focus()
    page.keyboard.press("Enter")
    assert name.inner_text() == "Hide the training loop"
    opened = name.bounding_box()
    assert [opened[side] for side in ("x", "y", "height")] == [closed[side] for side in ("x", "y", "height")]
    page.context.close()


@pytest.mark.browser
def test_the_box_of_commands_closes_by_a_click_elsewhere_and_by_escape(html: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.wait_for_load_state()
    box = page.locator(".tf-launch details")
    name, commands, title = box.locator("summary"), box.locator("pre"), page.locator(".bd-article h1")
    for leave in (title.click, lambda: page.keyboard.press("Escape"), name.click):
        name.click()
        commands.click()  # to select them leaves the box open
        assert commands.is_visible()
        leave()
        assert not commands.is_visible()
    page.close()
