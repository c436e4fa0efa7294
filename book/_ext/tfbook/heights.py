"""How high each section will be on a phone, for a scroll bar that does not jump.

On a phone a section is laid out when it comes near (``content-visibility`` in ``course.css``); until then the
browser takes the height that is written here. It is estimated from what the section shows: characters, lines
of code, pictures, formulas, widgets. A test compares the estimates with the heights in Chromium. Where a
widget takes the place of a picture, ``arrive.js`` keeps the section that a link has led to in its place.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tfbook.anywidget import anywidget
from tfbook.page_script import load_script_with

ARRIVE = Path(__file__).with_name("arrive.js")
WIDTH = 360  # of a small phone, in pixels, as are all heights
CHARACTER = 0.72  # lines of 38 characters are 27 pixels high
CODE_LINE = 20
PICTURE = 0.85  # of its height, fitted to the width
FORMULA = 86
WIDGET = 260  # the height that a widget adds to its first picture
AROUND = dict.fromkeys(("p", "li", "h2", "h3", "h4", "figure", "dt", "dd", "pre", "table"), 17) | {
    "summary": 50
}

SECTION = re.compile(r"<(/?)section\b")
MATHML = re.compile(r"<math.*?</math>", re.DOTALL)
EMPTY = {"img", "source", "br", "hr", "input", "col", "wbr", "meta", "link"}


class _Sections(HTMLParser):
    """Adds up the heights of the sections below the title's."""

    def __init__(self) -> None:
        super().__init__()
        self.heights: list[float] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self._open.append(tag)
        if tag == "section" and self._open.count("section") == 2:
            self.heights.append(0)
        if self._closed():
            return
        named = dict(attributes)
        self._add(AROUND.get(tag, 0))
        shown = "source" if "picture" in self._open else "img"  # a phone takes the source of a picture
        if tag == shown and named.get("width") and named.get("height"):
            width, height = float(str(named["width"])), float(str(named["height"]))
            self._add(PICTURE * height * min(1, WIDTH / width))
        if named.get("class") == "katex-display":
            self._add(FORMULA)
        if tag == "figure" and "tf-widget" in (named.get("class") or "").split():
            self._add(WIDGET)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass  # a tag that was left open ends here too

    def handle_data(self, data: str) -> None:
        if self._closed():
            return
        if "pre" in self._open:
            self._add(CODE_LINE * data.count("\n"))
        else:
            self._add(CHARACTER * len(data.strip("\n")))

    def _closed(self) -> bool:
        """Whether this is in a closed box, whose summary alone is seen, or in a script."""
        return ("details" in self._open and "summary" not in self._open) or "script" in self._open

    def _add(self, height: float) -> None:
        if self.heights and self._open.count("section") >= 2:
            self.heights[-1] += height


def section_heights(body: str) -> list[int]:
    """Return a height for each section below the title's, in their order.

    >>> section_heights("<section><h1>T</h1><section><p>A line.</p></section></section>")
    [22]
    """
    sections = _Sections()
    sections.feed(MATHML.sub("", body))
    return [round(height) for height in sections.heights]


def with_heights(body: str) -> str:
    """Return a page that says the height of each section below the title's.

    >>> with_heights("<section><section><p>Hi.</p></section></section>")
    '<section><section style="contain-intrinsic-size: auto 19px"><p>Hi.</p></section></section>'
    """
    heights, depth = iter(section_heights(body)), 0

    def say_height(tag: re.Match[str]) -> str:
        nonlocal depth
        depth += -1 if tag[1] else 1
        if tag[1] or depth != 2:
            return tag[0]
        return f'{tag[0]} style="contain-intrinsic-size: auto {next(heights)}px"'

    return SECTION.sub(say_height, body)


def say_heights(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Give every section of a page its height, when its pictures say their sizes."""
    if "body" in context:
        context["body"] = with_heights(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", say_heights, priority=900)
    load_script_with(app, ARRIVE, anywidget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
