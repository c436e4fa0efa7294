"""Every page, from disk and from a server: no other host, no error, nothing too wide, no violation by axe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import build
import pdf
import pytest
from book_paths import ROOT
from settled import settle

PAGES = [str(page.relative_to(ROOT).with_suffix("")) for page in build.Book(ROOT).pages()]
ALIKE = [name for name in PAGES if "/api_" in name or "/notebook_" in name][1:]  # in the dark one is enough
PHONE = {"width": 390, "height": 844}

TOO_WIDE = """() => {
  const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const inScroller = (node) =>
    node && node.matches(".bd-article *") && (scrolls(node) || inScroller(node.parentElement));
  const drawn = (node) => !node.closest("svg") || node.matches("svg");
  const seen = (node) => node.checkVisibility() && !node.closest(".katex-mathml, .visually-hidden");
  return [...document.querySelectorAll(".bd-article *")]
    .filter((node) => drawn(node) && seen(node) && node.getBoundingClientRect().right > innerWidth + 1)
    .filter((node) => !inScroller(node))
    .map((node) => node.outerHTML.slice(0, 120));
}"""


CUT = """(kinds) => {
  document.querySelectorAll("details").forEach((box) => { box.open = true; });
  return [...document.querySelectorAll(kinds)]
    .filter((box) => box.scrollWidth > box.clientWidth + 1 && !box.closest(".tf-kills"))
    .map((box) => box.textContent.trim().slice(0, 300));
}"""
"""What scrolls sideways, closed boxes included. A kill matrix may: it has up to twelve columns of marks."""
CODE, TABLES = ".bd-article pre", ".bd-article .pst-scrollable-table-container"


def open_page(browser: Any, address: str, **settings: Any) -> tuple[Any, list[str], list[str]]:
    """A page read to its end; with the addresses that it asked for, and the errors it met."""
    page = browser.new_context(**settings).new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.goto(address)
    page.wait_for_load_state()
    for root in page.locator(".tf-widget").all():
        root.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelectorAll('.tf-widget:not([data-mounted])').length === 0")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    return page, requests, errors


AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


RUN_AXE = """async () => {
  const what = { resultTypes: ["violations"], preload: false, runOnly: ONLY }; // from a disk nothing loads
  const found = await axe.run({ exclude: [[".katex"]] }, what);
  const formula = (node) => document.querySelector(node.target[0]).querySelector(".katex");
  return found.violations.flatMap(({ id, nodes }) =>
    nodes
      .filter((node) => !(UNREAD.includes(id) && formula(node)))
      .map((node) => `${id}: ${node.html.slice(0, 150)}`));
}"""
UNREAD = ["empty-table-header", "summary-name"]  # axe does not read MathML, and finds a formula alone empty


COLOURS = ["color-contrast", "link-in-text-block"]  # all that the dark changes


PLAIN = """() => {
  const formulas = [...document.querySelectorAll(".katex")];
  const widths = formulas.map((node) => node.getBoundingClientRect().width);
  formulas.forEach((node, i) => {
    node.style.cssText = `display: inline-block; width: ${widths[i]}px`;
    node.replaceChildren();
  });
  const seen = new Set();
  for (const word of document.querySelectorAll(".highlight pre span, .sig span, .sig em")) {
    const around = word.closest(".highlight, .sig").parentElement;
    const kind = [word, word.parentElement, around].map((node) => node.tagName + node.className).join();
    if (seen.has(kind)) word.replaceWith(...word.childNodes);
    seen.add(kind);
  }
  document.body.normalize();
}"""


def violations(page: Any, rules: list[str] | None = None) -> list[str]:
    """What axe objects to. KaTeX's own boxes are left out: a screen reader gets the MathML beside them.

    They are most of a page, and axe reads also what it leaves out: an empty box as wide is put for each. Of
    the words of code that look alike it reads the first.
    """
    page.evaluate(PLAIN)
    page.evaluate(AXE.read_text("utf8"))
    only = json.dumps(rules) if rules else "undefined"
    return list(page.evaluate(RUN_AXE.replace("UNREAD", repr(UNREAD)).replace("ONLY", only)))


def elsewhere(requests: list[str]) -> list[str]:
    """The requests that leave the machine."""
    return [url for url in requests if not re.match(r"file://|data:|blob:|http://127\.0\.0\.1[:/]", url)]


@pytest.mark.browser
@pytest.mark.parametrize("name", [*PAGES, "index", "search"])
def test_from_disk_on_a_phone(name: str, html: Path, browser: Any) -> None:
    page, requests, errors = open_page(browser, (html / f"{name}.html").as_uri(), viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(TOO_WIDE) == []
    assert violations(page) == []
    settle(page)
    assert elsewhere(requests) == []
    assert errors == []
    assert page.evaluate(CUT, TABLES) == []
    page.context.close()


OPEN_ALL = """() => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  document.querySelector(".tf-term").focus({ focusVisible: true });
  return document.querySelectorAll(":popover-open").length;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["book/02_qkv", "book/04_multi_head", "book/11_capstone"])
def test_what_opens_has_no_violation(name: str, html: Path, browser: Any) -> None:
    page, _, errors = open_page(browser, (html / f"{name}.html").as_uri())
    words = page.locator(".tf-predict textarea").first
    words.fill("What I predict")
    assert page.evaluate(OPEN_ALL) == 1
    assert page.locator(".tf-own").first.is_visible()
    assert violations(page) == []
    assert errors == []
    page.context.close()


def wider_than_a_sheet(page: Any) -> list[str]:
    """The article's id if it does not fit on a sheet of the PDF: Chromium would print all pages smaller."""
    screen = page.viewport_size
    page.set_viewport_size({"width": pdf.SHEET_WIDTH, "height": 900})
    page.emulate_media(media="print")
    wide = list(page.evaluate(pdf.TOO_WIDE, pdf.SHEET_WIDTH))
    page.emulate_media(media="screen")
    page.set_viewport_size(screen)
    return wide


@pytest.mark.browser
@pytest.mark.parametrize("name", [*PAGES, "index", "search", "404"])
def test_from_a_server(name: str, served: str, browser: Any) -> None:
    page, requests, errors = open_page(browser, f"{served}/{name}.html", color_scheme="dark")
    assert wider_than_a_sheet(page) == []
    if name not in ALIKE:
        assert violations(page, COLOURS) == []
    settle(page)
    assert elsewhere(requests) == []
    assert errors == []
    assert page.evaluate(CUT, f"{CODE}, {TABLES}") == []
    page.context.close()


@pytest.mark.browser
def test_the_exercises_fit_on_a_phone(html: Path, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto((html / "book" / "notebook_02_qkv.html").as_uri())
    for cell in page.locator("table.tf-exercises th").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["02_qkv", "05_positions", "08_kv_cache", "instructor_guide"])
def test_names_numbers_and_short_brackets_stay_on_one_line(name: str, html: Path, browser: Any) -> None:
    page, _, _ = open_page(browser, (html / "book" / f"{name}.html").as_uri(), viewport=PHONE)
    lines = """(spans) => spans.filter((span) => span.checkVisibility())
        .map((span) => [span.textContent, span.getClientRects().length])"""
    together = page.locator(".tf-together").evaluate_all(lines)
    assert len(together) > 10
    assert [words for words, count in together if count > 1] == []


@pytest.mark.browser
def test_an_open_kill_matrix_fits_on_a_phone(html: Path, browser: Any) -> None:
    page, _, _ = open_page(browser, (html / "book" / "kill_matrix.html").as_uri(), viewport=PHONE)
    tables = page.locator(".tf-kills table")
    assert tables.count() > 0
    assert not tables.first.is_visible()
    page.evaluate("document.querySelectorAll('.tf-kills').forEach((exercise) => { exercise.open = true; })")
    assert tables.first.is_visible()
    assert page.evaluate(TOO_WIDE) == []
    page.context.close()


ENDS_AT = """([selector, words]) => {
  const texts = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.data.indexOf(words);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + words.length);
    return range.getBoundingClientRect().bottom;
  }
}"""


@pytest.mark.browser
def test_the_first_screen_counts_claims_names_a_mistake_and_leads_to_a_model(
    html: Path, browser: Any
) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto((html / "index.html").as_uri())
    for selector, words in (
        (".tf-verdicts", "do not hold"),
        (".tf-verdicts", "are open"),
        (".tf-actions", "Ask a model in your browser"),
        (".tf-report", "Subtract each row's"),
    ):
        bottom = page.evaluate(ENDS_AT, [selector, words])
        assert bottom is not None, words
        assert bottom <= 800, words
    page.context.close()


@pytest.mark.browser
def test_the_first_button_can_be_read_without_a_script(html: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((html / "index.html").as_uri())
    button = page.locator(".tf-actions a").first
    assert button.evaluate("node => getComputedStyle(node).color") == "rgb(255, 255, 255)"
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_has_colours_without_a_script(scheme: str, html: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False, color_scheme=scheme)
    page = context.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    inks = page.locator(".highlight span").evaluate_all(
        "words => [...new Set(words.map(word => getComputedStyle(word).color))]"
    )
    context.close()
    assert len(inks) > 4, inks


@pytest.mark.browser
def test_mathematics_needs_no_script(html: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((html / "book" / "notation.html").as_uri())
    assert page.locator(".katex").count() > 20
    assert page.locator("math").count() > 20, "MathML for screen readers"
    context.close()


@pytest.mark.browser
def test_an_option_of_a_quiz_opens_by_keyboard(html: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    option = page.locator("details.tf-wrong").first
    assert not option.locator(".tf-why").is_visible()
    option.locator("summary").focus()
    page.keyboard.press("Enter")
    assert option.locator(".tf-why").is_visible()
    assert "Not so." in option.inner_text()
    context.close()
