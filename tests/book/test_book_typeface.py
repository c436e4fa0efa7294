"""The typeface: there from the first view of a page, without a line that moves, in lines of a good length."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
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


KINDS = [".bd-article h1", ".bd-article section section p", ".bd-article em"]
FAR = 300  # milliseconds; the third font and those of formulas are then too late for the first view


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("latency", [0, 60, FAR])
def test_the_first_view_from_a_server_has_it_and_no_line_moves(
    latency: int, size: str, served: str, browser: Any
) -> None:
    late = {"offline": False, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1}
    seen = set()
    for _ in range(8):  # a browser waits 100 ms for a font, which a busy machine may exceed
        context = browser.new_context(viewport=SIZES[size])
        page = context.new_page()
        page.add_init_script(SHIFTS)
        context.new_cdp_session(page).send("Network.emulateNetworkConditions", late)
        page.goto(f"{served}/book/02_qkv.html")
        page.wait_for_load_state("networkidle")
        seen = shown_faces(page, KINDS[:2] if latency == FAR else KINDS)
        shifted = page.evaluate("shifted")
        context.close()
        if seen == {"Source Serif 4"}:
            break
    assert seen == {"Source Serif 4"}
    assert shifted < (0.005 if latency == FAR else 0.001)


@pytest.mark.browser
def test_a_page_from_disk_has_it(html: Path, browser: Any) -> None:
    page = browser.new_context().new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.evaluate("document.fonts.ready")
    assert shown_faces(page, KINDS) == {"Source Serif 4"}
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
    for name in {*fonts.TEXT, *fonts.MATHEMATICS}:
        assert f'url("{name}")' in css
        assert 0 < (html / "_static" / name).stat().st_size < 16_000, f"{name} is not cut"
    assert all(name in (html / "book" / "02_qkv.html").read_text("utf8") for name in fonts.MATHEMATICS)
    assert fonts.MATHEMATICS[0] not in (html / "search.html").read_text("utf8")
