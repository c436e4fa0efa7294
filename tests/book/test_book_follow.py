"""The contents of a page mark the section that is being read, however the reader has come to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MARKED = """() => [...document.querySelectorAll("#pst-page-toc-nav a.active[aria-current]")]
  .map((link) => decodeURIComponent(link.hash.slice(1)))"""

# The section of what is at a third of the height of the window; in a gap between sections, of what is above.
READ = """() => {
  const links = [...document.querySelectorAll("#pst-page-toc-nav a")].map((link) => link.hash);
  const middle = document.querySelector(".bd-article").getBoundingClientRect();
  const linked = (section) => links.includes(`#${CSS.escape(section.id)}`);
  const endsAbove = (y) => (part) => linked(part) && part.getBoundingClientRect().bottom < y;
  for (let y = innerHeight / 3 - 1; y > 0; y -= 8) {
    for (const node of document.elementsFromPoint(middle.left + 20, y)) {
      const section = node.closest("section[id]");
      if (!section || !linked(section)) continue;
      if ([...section.querySelectorAll("section[id]")].some(endsAbove(y))) break; // a gap between its parts
      return section.id;
    }
  }
}"""


@pytest.fixture
def page(html: Path, browser: Any) -> Any:
    context = browser.new_context(viewport={"width": 1400, "height": 800})
    yield context.new_page()
    context.close()


@pytest.mark.browser
def test_the_mark_follows_who_scrolls_far_at_once_and_back(page: Any, html: Path) -> None:
    page.goto((html / "book" / "02_qkv.html").as_uri())
    seen = []
    for step in [900] * 12 + [-700] * 8:
        page.evaluate("(step) => scrollBy(0, step)", step)
        page.wait_for_function(f"() => ({MARKED})().join() === ({READ})()", timeout=5000)
        seen += page.evaluate(MARKED)
    assert len(set(seen)) > 4


@pytest.mark.browser
@pytest.mark.parametrize("figure", ["fig-readers", "fig-cuts"])
def test_a_link_to_a_figure_marks_its_section(figure: str, page: Any, html: Path) -> None:
    page.goto((html / "book" / "02_qkv.html").as_uri() + f"#{figure}")
    its_section = f"document.getElementById('{figure}').closest('section').id"
    page.wait_for_function(f"() => ({MARKED})().join() === {its_section}", timeout=5000)
