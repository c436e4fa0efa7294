"""The typeface: there from the first view of a page, without a line that moves, in lines of a good length."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from settled import settle
from tfbook import fonts

pytestmark = pytest.mark.slow  # it builds the book

SIZES = {"phone": {"width": 390, "height": 844}, "desktop": {"width": 1280, "height": 900}}

SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""

LINES = """() => {
  const lengths = [];
  const range = document.createRange();
  for (const paragraph of document.querySelectorAll(".bd-article section > p:not(:has(.katex))")) {
    const texts = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT);
    const lines = new Map();
    while (texts.nextNode()) {
      for (let i = 0; i < texts.currentNode.length; i++) {
        range.setStart(texts.currentNode, i);
        range.setEnd(texts.currentNode, i + 1);
        const box = range.getBoundingClientRect();
        const line = Math.round(box.bottom / 10);
        if (box.width) lines.set(line, (lines.get(line) ?? 0) + 1);
      }
    }
    lengths.push(...[...lines.values()].slice(0, -1));
  }
  return lengths;
}"""


def shown_faces(page: Any, selectors: list[str]) -> set[str]:
    """The fonts in which Chromium shows the first element of each kind."""
    tools = page.context.new_cdp_session(page)
    for domain in ("DOM", "CSS"):
        tools.send(f"{domain}.enable")
    root = tools.send("DOM.getDocument")["root"]["nodeId"]
    found = set()
    for selector in selectors:
        node = tools.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
        shown = tools.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        found |= {re.sub(" SemiBold$", "", font["familyName"]) for font in shown}
    return found


KINDS = [
    ".bd-article h1",
    ".bd-article section section p",
    ".bd-article em",
    ".bd-article .katex .mathnormal",
]
OURS = {"Source Serif 4", "KaTeX_Math"}
STYLESHEET = "**/_static/book.css*"


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_the_first_view_has_it_and_no_line_moves_when_the_fonts_are_there_with_the_stylesheet(
    size: str, served: str, browser: Any
) -> None:
    context = browser.new_context(viewport=SIZES[size])
    page = context.new_page()
    page.add_init_script(SHIFTS)
    stylesheet: list[Any] = []
    arrived: set[str] = set()
    page.route(STYLESHEET, lambda route: stylesheet.append(route))  # held back until the fonts have arrived
    page.on("requestfinished", lambda request: arrived.add(request.url))
    page.goto(f"{served}/book/02_qkv.html", wait_until="commit")
    wanted = {f"{served}/_static/{font}" for font in (*fonts.TEXT, *fonts.MATHEMATICS, *fonts.ICONS)}
    for _ in range(1000):
        if stylesheet and wanted <= arrived:
            break
        page.wait_for_timeout(20)
    assert wanted <= arrived, "a font is not asked for before the stylesheet is there"
    stylesheet[0].continue_()
    settle(page)
    assert shown_faces(page, KINDS) == OURS
    assert page.evaluate("shifted") < 0.001
    context.close()


CONNECTIONS = 6  # that a browser opens to one host


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_the_faces_are_on_their_way_with_the_stylesheet_before_scripts_and_pictures(
    size: str, served: str, browser: Any
) -> None:
    context = browser.new_context(viewport=SIZES[size])
    page = context.new_page()
    far = {"offline": False, "latency": 1000, "downloadThroughput": -1, "uploadThroughput": -1}
    context.new_cdp_session(page).send("Network.emulateNetworkConditions", far)
    page.goto(f"{served}/book/02_qkv.html")
    asked = page.evaluate("""performance.getEntriesByType("resource")
      .map(({ name, requestStart }) => [requestStart, new URL(name).pathname.replace("/_static/", "")])
      .sort(([one], [other]) => one - other).map(([, path]) => path)""")
    first = set(asked[:CONNECTIONS])
    assert {"book.css", *fonts.TEXT} <= first, asked
    context.close()


@pytest.mark.browser
def test_a_page_from_disk_has_it(html: Path, browser: Any) -> None:
    page = browser.new_context().new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.evaluate("document.fonts.ready")
    assert shown_faces(page, KINDS) == OURS
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["02_qkv", "05_positions", "08_kv_cache"])
def test_lines_of_text_have_65_to_75_characters(name: str, html: Path, browser: Any) -> None:
    page = browser.new_context(viewport=SIZES["desktop"]).new_page()
    page.goto((html / "book" / f"{name}.html").as_uri())
    page.add_style_tag(content=".bd-article section { content-visibility: visible !important; }")
    page.evaluate("document.fonts.ready")
    lengths = page.evaluate(LINES)
    assert len(lengths) > 80
    assert 65 <= sum(lengths) / len(lengths) <= 75
    page.context.close()


def test_fonts_hold_the_characters_in_use_and_pages_ask_for_what_is_there(html: Path) -> None:
    css = (html / "_static" / "book.css").read_text("utf8")
    for name in {*fonts.TEXT, *fonts.MATHEMATICS, *fonts.ICONS}:
        assert f'url("{name}")' in css
        assert 0 < (html / "_static" / name).stat().st_size < 16_000, f"{name} is not cut"
    assert all(name in (html / "book" / "02_qkv.html").read_text("utf8") for name in fonts.MATHEMATICS)
    assert fonts.MATHEMATICS[0] not in (html / "search.html").read_text("utf8")
