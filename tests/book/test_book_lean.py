"""What makes a page light changes nothing that a reader sees or reaches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from settled import settle
from sphinx.errors import ExtensionError
from tfbook import lean, plain_tokens, scrollers

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1440, "height": 900}

# How much of a page has been laid out is chance; here it is all of it.
ALL_OF_IT = ".bd-article section { content-visibility: visible !important; }"

# The style of one element of each kind: its classes and its parent's say which kind it is.
STYLES = """() => {
  const kinds = {};
  const name = (node) => `${node.localName}.${node.getAttribute("class") ?? ""}`;
  for (const node of document.querySelectorAll("*")) {
    if (node.closest("head, math")) continue;
    const kind = `${name(node.parentElement ?? node)} > ${name(node)}`;
    if (kind in kinds) continue;
    const lines = (pseudo) => {
      const style = getComputedStyle(node, pseudo);
      if (pseudo && style.content === "none") return [];
      const keys = [...style].filter((key) => !key.startsWith("--"));
      return keys.map((key) => `${key}: ${style.getPropertyValue(key)}`);
    };
    kinds[kind] = [...lines(), ...lines("::before"), ...lines("::after")];
  }
  return kinds;
}"""


def mount_widgets(page: Any) -> None:
    """Scroll to every widget, and wait until all are there."""
    for widget in page.locator(".tf-widget").all():
        widget.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelectorAll('.tf-widget:not([data-mounted])').length === 0")


@pytest.fixture(scope="module")
def every_rule(html: Path) -> str:
    """The stylesheets of the theme and the extensions as they come."""
    static = html / "_static"
    return lean.joined(static, (static / lean.SOURCES).read_text("utf8").split())


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "scheme", "viewport"),
    [
        *((name, "light", PHONE) for name in ("404", "book/index", "book/03_scaling", "book/api_attention")),
        *((name, "dark", DESKTOP) for name in ("search", "book/index", "book/03_scaling")),
    ],
)
def test_no_rule_is_missed(
    name: str, scheme: str, viewport: Any, every_rule: str, served: str, browser: Any
) -> None:
    def styles(whole: bool) -> dict[str, list[str]]:
        context = browser.new_context(color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
        if whole:
            context.route(
                "**/book.css*", lambda route: route.fulfill(body=every_rule, content_type="text/css")
            )
        context.route("**/*.woff2", lambda route: route.abort())  # whether a font is in time is chance
        page = context.new_page()
        page.goto(f"{served}/{name}.html")
        page.add_style_tag(content=ALL_OF_IT)
        settle(page)
        mount_widgets(page)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_function("!document.body.classList.contains('scrolled')")
        found: dict[str, list[str]] = page.evaluate(STYLES)
        context.close()
        return found

    ours, theirs = styles(whole=False), styles(whole=True)
    both = [kind for kind in ours if kind in theirs]  # where the reader is in the contents may differ
    assert len(both) > 50
    assert len(both) > 0.9 * max(len(ours), len(theirs))
    for kind in both:
        assert ours[kind] == theirs[kind], kind


FOCUS = """() => {
  const node = document.activeElement;
  const { outline, outlineOffset, boxShadow } = getComputedStyle(node);
  return [`${node.localName}.${node.getAttribute("class") ?? ""}`, [outline, outlineOffset, boxShadow]];
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["02_qkv", "11_capstone"])
def test_the_keyboard_sees_the_same_rings(name: str, every_rule: str, served: str, browser: Any) -> None:
    def rings(whole: bool) -> dict[str, list[str]]:
        context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
        if whole:
            context.route(
                "**/book.css*", lambda route: route.fulfill(body=every_rule, content_type="text/css")
            )
        page = context.new_page()
        page.goto(f"{served}/book/{name}.html")
        mount_widgets(page)
        found: dict[str, list[str]] = {}
        for _ in range(600):
            page.keyboard.press("Tab")
            kind, ring = page.evaluate(FOCUS)
            if kind.startswith("body"):
                break
            found[kind] = ring
        context.close()
        return found

    ours = rings(whole=False)
    assert len(ours) > 10
    assert ours == rings(whole=True)
    assert all("none 0px" not in ours[kind][0] for kind in ours if "sidebar-toggle" in kind)


def test_only_tokens_in_the_colour_of_text_lose_their_tags(html: Path) -> None:
    css = (html / "_static" / "pygments.css").read_text("utf8")
    for theme in ("light", "dark"):
        rules = dict(re.findall(rf'html\[data-theme="{theme}"\] \.highlight(| \.\w+) {{ (.*?) }}', css))
        text = rules[""].split("; ")[-1]
        assert text.startswith("color: #")
        assert {name: rules[f" .{name}"] for name in plain_tokens.PLAIN} == dict.fromkeys(
            plain_tokens.PLAIN, text
        )
        assert rules[" .k"] != text


LAST_THAT_FITS = "(blocks) => blocks.findLastIndex((block) => block.scrollWidth <= block.clientWidth)"


@pytest.mark.browser
def test_code_is_measured_for_the_keyboard_when_it_comes_into_sight(html: Path, browser: Any) -> None:
    page = browser.new_context(viewport=PHONE).new_page()
    page.goto((html / "book" / "api_attention.html").as_uri())
    settle(page)
    code = page.locator(".bd-article pre")
    far = code.nth(code.evaluate_all(LAST_THAT_FITS))
    assert far.get_attribute("tabindex") == "0", "what is not rendered counts as scrolling"
    far.scroll_into_view_if_needed()
    page.wait_for_timeout(600)  # the theme waits 300 ms
    assert far.get_attribute("tabindex") == "-1"
    page.context.close()


ARRIVED = """(section) => {
    const top = document.getElementById(section).querySelector("h2").getBoundingClientRect().top;
    const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    return (0 <= top && top < 200) || end;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["03_scaling", "09_cheaper_attention"])
def test_a_link_to_a_section_leads_there_on_a_phone(name: str, html: Path, browser: Any) -> None:
    address = (html / "book" / f"{name}.html").as_uri()
    page = browser.new_context(viewport=PHONE).new_page()
    page.goto(address)
    headings = page.evaluate(
        "[...document.querySelectorAll('.bd-article section section > h2')].map(GET)".replace(
            "GET", "(heading) => heading.parentElement.id"
        )
    )
    assert len(headings) > 5
    for section in headings:
        page.goto("about:blank")
        page.goto(f"{address}#{section}")
        page.wait_for_timeout(200)  # the heading stays in place when the sections above are laid out
        assert page.evaluate(ARRIVED, section), section
    page.context.close()


GROW = '() => document.querySelector(".bd-article").append(document.createElement("hr"))'


@pytest.mark.browser
@pytest.mark.parametrize("how", ["an address", "a link in the page"])
def test_the_page_goes_to_its_section_again_until_the_reader_acts(how: str, html: Path, browser: Any) -> None:
    page = browser.new_context(viewport=PHONE).new_page()
    address = (html / "book" / "09_cheaper_attention.html").as_uri()
    page.goto(address if how != "an address" else f"{address}#measured")
    if how != "an address":
        page.evaluate("() => document.querySelector('nav a[href=\"#measured\"]').click()")
    page.wait_for_timeout(200)
    page.evaluate("() => scrollBy(0, 500)")
    page.evaluate(GROW)
    page.wait_for_timeout(100)
    assert page.evaluate(ARRIVED, "measured")
    page.mouse.wheel(0, 500)
    page.wait_for_timeout(200)
    there = page.evaluate("scrollY")
    page.evaluate(GROW)
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == there
    assert not page.evaluate(ARRIVED, "measured")
    page.context.close()


HEIGHTS_AND_ESTIMATES = """() => [...document.querySelectorAll(".bd-article > section > section")]
  .map((section) => [section, parseFloat(getComputedStyle(section).containIntrinsicHeight.split(" ")[1])])
  .map(([section, estimate]) => {
    section.style.contentVisibility = "visible";
    return [section, estimate];
  })
  .map(([section, estimate]) => [section.id, section.getBoundingClientRect().height, estimate])"""


@pytest.mark.browser
def test_sections_on_a_phone_are_about_as_high_as_estimated(html: Path, browser: Any) -> None:
    page = browser.new_context(viewport={"width": 360, "height": 800}).new_page()
    for path in sorted((html / "book").glob("*.html")):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for widget in page.locator("figure.tf-widget").all():
            widget.scroll_into_view_if_needed()
            page.wait_for_function("(figure) => figure.dataset.mounted", arg=widget.element_handle())
        sections = page.evaluate(HEIGHTS_AND_ESTIMATES)
        far_off = [section for section in sections if not 0.7 * section[1] < section[2] < 1.7 * section[1]]
        assert far_off == [], path.name
        heights, estimates = (sum(section[i] for section in sections) for i in (1, 2))
        assert heights < 4000 or 0.9 * heights < estimates < 1.1 * heights, path.name
    page.context.close()


def test_a_theme_whose_script_is_another_is_refused() -> None:
    with pytest.raises(ExtensionError, match="no longer holds"):
        scrollers.patch("another script")


FIRST_LOOK = """() => ["background-color", "border-top", "color"].map((name) =>
  [".bd-article code", "body"].map((selector) => getComputedStyle(document.querySelector(selector))[name]))"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_its_colours_before_the_script_of_the_theme_is_there(
    scheme: str, html: Path, browser: Any
) -> None:
    looks = []
    for script in ("nothing", "pydata-sphinx-theme.js"):
        page = browser.new_context(viewport=PHONE, color_scheme=scheme).new_page()
        page.route(f"**/{script}", lambda route: route.abort())
        page.goto((html / "book" / "05_positions.html").as_uri())
        looks.append(page.evaluate(FIRST_LOOK))
        page.context.close()
    assert looks[0] == looks[1]
