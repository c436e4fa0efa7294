"""A prediction is written, kept in the browser alone and shown beside the answer, which always opens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from book_paths import ROOT
from settled import settle
from tfbook import predict

CHAPTERS = sorted((ROOT / "book").glob("[0-9][0-9]_*.md"))
PAGE = "02_qkv"
WORDS = "It moves,\nbecause <b>softmax</b> has a slope."
NO_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("not here", "SecurityError"); },
});"""


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_asks_for_two_predictions_or_more(chapter: Path) -> None:
    text = chapter.read_text("utf8")
    assert len(re.findall(r"^:::\{predict\} [A-Z0-9].*\?", text, re.M)) >= 2
    assert "{dropdown} Predict" not in text


@pytest.mark.parametrize(
    ("choices", "message"),
    [("it grows", "two choices or more"), ("a |  | b", "is empty"), ("a | b | a", "'a' is given twice")],
)
def test_choices_that_are_none_are_refused(choices: str, message: str) -> None:
    with pytest.raises(predict.PredictError, match=message):
        predict.read_choices(choices)


class Box:
    """The first question of a chapter that has choices."""

    def __init__(self, page: Any, address: str) -> None:
        page.goto(address)
        self.box = page.locator(".tf-predict:has(input)").first
        self.words = self.box.get_by_label("In your own words")
        self.choice = self.box.get_by_label("soft", exact=True)
        self.summary = self.box.locator("summary")
        self.own = self.box.locator(".tf-own")
        self.answer = self.box.locator(".tf-answer")
        self.clear = self.box.get_by_role("button", name="Clear")
        self.box.scroll_into_view_if_needed()

    def height(self) -> float:
        return float(self.box.bounding_box()["height"])


@pytest.mark.browser
@pytest.mark.parametrize("where", ["disk", "server"])
def test_a_prediction_is_kept_and_shown_beside_the_answer(
    where: str, html: Path, served: str, browser: Any
) -> None:
    address = f"{served if where == 'server' else html.as_uri()}/book/{PAGE}.html"
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    box = Box(page, address)
    settle(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    empty = box.height()
    assert not box.clear.is_visible()
    box.choice.check()
    box.words.fill(WORDS)
    assert box.summary.inner_text() == "Compare"
    assert box.height() == empty, "what is below moves while the reader writes"
    box.summary.click()
    assert box.own.inner_text().split("\n\n") == ["You predicted", "soft", WORDS]
    assert not box.words.is_visible()
    ours, theirs = box.own.bounding_box(), box.answer.bounding_box()
    assert ours["x"] + ours["width"] < theirs["x"]
    assert ours["y"] == theirs["y"]
    assert [url for url in sent if PAGE in url] == []

    box = Box(page, address)
    assert box.choice.is_checked()
    assert box.words.input_value() == WORDS
    assert box.summary.inner_text() == "Compare"
    assert box.height() == empty
    assert not box.answer.is_visible()
    box.clear.click()
    assert box.summary.inner_text() == "Show the answer"
    assert box.words.evaluate("node => node === document.activeElement")
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('tfbook/'))") == []

    box = Box(page, address)
    assert not box.choice.is_checked()
    assert box.words.input_value() == ""
    context.close()


@pytest.mark.browser
def test_the_answer_opens_unwritten_and_by_keyboard(html: Path, browser: Any) -> None:
    page = browser.new_page()
    box = Box(page, (html / "book" / f"{PAGE}.html").as_uri())
    box.words.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert box.answer.is_visible()
    assert not box.own.is_visible()
    page.keyboard.press("Enter")
    box.box.locator("input").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")  # Clear, which is there now
    page.keyboard.press("Tab")
    page.keyboard.type("Both")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert box.own.is_visible()
    assert "hard" in box.own.inner_text()
    assert "Both" in box.own.inner_text()
    page.close()


@pytest.mark.browser
def test_a_browser_that_keeps_nothing_shows_the_words_all_the_same(html: Path, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.add_init_script(NO_STORAGE)
    page = context.new_page()
    box = Box(page, (html / "book" / f"{PAGE}.html").as_uri())
    box.words.fill(WORDS)
    assert box.words.get_attribute("placeholder") == "It is gone when you leave the page"
    box.summary.click()
    assert WORDS in box.own.inner_text()
    ours, theirs = box.own.bounding_box(), box.answer.bounding_box()
    assert ours["y"] + ours["height"] <= theirs["y"]
    context.close()


@pytest.mark.browser
def test_without_a_script_there_is_an_answer_and_no_place_to_write(html: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    box = Box(context.new_page(), (html / "book" / f"{PAGE}.html").as_uri())
    assert not box.words.is_visible()
    assert not box.answer.is_visible()
    box.summary.click()
    assert box.answer.is_visible()
    context.close()


@pytest.mark.browser
def test_in_print_the_answer_is_open_and_nothing_can_be_written(html: Path, browser: Any) -> None:
    page = browser.new_page()
    box = Box(page, (html / "book" / f"{PAGE}.html").as_uri())
    page.emulate_media(media="print")
    assert box.answer.is_visible()
    for gone in (box.words, box.choice, box.summary, box.own):
        assert not gone.is_visible()
    for is_open in ("false", "true"):
        box.box.locator("details").evaluate(f"details => {{ details.open = {is_open} }}")
        assert box.box.locator(".tf-choices span").last.is_visible()
    page.close()
