"""The first use of a term in a chapter is a link to the glossary, which shows the definition."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from book_paths import ROOT
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace, patch_docutils
from test_book_pages import COLOURS, PHONE, violations
from tfbook.glossary_terms import Finder, Term, TermError, read_terms
from tfbook.terms import links_terms

BOOK = ROOT / "book"
CHAPTERS = sorted(path for path in BOOK.glob("*.md") if links_terms(path.stem))
DECLARED = yaml.safe_load((BOOK / "glossary.yml").read_text("utf8"))
ONLY_IN_TABLES_OR_GUIDES = {
    "autoregressive", "axial RoPE", "backup head", "broadcasting", "capstone", "context length",
    "coreference", "dequantise", "fine-tuning", "hidden case", "kill matrix", "misconception",
    "online softmax", "output projection", "sampling", "time to first token",
}  # fmt: skip
"""Terms that are in no chapter's running prose, but in its tables, headings or quizzes, or on other pages."""

TERMS = (
    Term("head", phrases=("head start",)),
    Term("multi-head attention"),
    Term("attention"),
    Term("query"),
    Term("REINFORCE"),
    Term("winner’s curse"),
    Term("memory", pages=("06_blocks",)),
    Term("block", other_pages=("04_multi_head",)),
    Term("long short-term memory", other=("LSTM",)),
)


def marked(text: str, page: str = "06_blocks") -> str:
    """Return a text with its first uses in brackets."""
    return "".join(f"[{piece}]" if name else piece for piece, name in Finder(TERMS, page).split(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A head, a head and heads.", "A [head], a head and heads."),
        ("Queries meet a query.", "[Queries] meet a query."),
        ("Multi-head attention is attention.", "[Multi-head attention] is [attention]."),
        ("multi-head\nattention in multi-head attention", "[multi-head\nattention] in multi-head attention"),
        ("self-attention, headlong, a two-head one", "self-attention, headlong, a two-head one"),
        ("It has a head start on a head.", "It has a head start on a [head]."),
        ("To reinforce REINFORCE", "To reinforce [REINFORCE]"),
        ("The winner’s curse", "The [winner’s curse]"),
        ("LSTMs are long short-term memories.", "[LSTMs] are long short-term memories."),
    ],
)
def test_the_first_use_is_found(text: str, wanted: str) -> None:
    assert marked(text) == wanted


def test_a_word_is_a_term_on_its_pages_alone() -> None:
    assert marked("A memory of a block.") == "A [memory] of a [block]."
    assert marked("A memory of a block.", "04_multi_head") == "A memory of a block."


def test_a_declaration_without_a_term_or_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(TermError, match="no term 'tail'"):
        read_terms(["head"], "tail: {also: [end]}")
    with pytest.raises(TermError, match="'head' has the keys"):
        read_terms(["head"], "head: {plural: [heads]}")


GLOSSARY = """# Glossary

:::{glossary}
head
  One attention of width $d_k$. See {doc}`index`.

key
  What a query is *compared* with, as {doc}`this page <index>` says. {doc}`Chapter 1 <01_page>`.

loss
  A number. {doc}`Chapter 1 <01_page>`.

query
  A vector. {doc}`Chapter 1 <01_page>`.
:::
"""
PAGE = """# A head

`head`, [head](glossary.md), $head$ and

| head |
|------|
| head |

```python
head
```

```{quiz}
question: A head?
options:
  - {text: A head, right: true, why: A head.}
  - {text: No head, why: No head.}
```

*A head.* **Two heads.** Here are *heads*, and
heads.

:::{dropdown} A query
A loss and a query.
:::

The loss is last.
"""


def build(folder: Path, fresh: bool = True) -> None:
    settings: dict[str, Any] = {
        "extensions": ["myst_parser", "sphinx_design", "tfbook"],
        "myst_enable_extensions": ["dollarmath", "colon_fence"],
        "html_theme": "basic",
    }
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(folder), None, str(folder / "out" / "html"), str(folder / "out" / "trees"), "html",
            settings, status=None, warning=io.StringIO(), freshenv=fresh, warningiserror=True,
        )  # fmt: skip
        app.build()


@pytest.fixture
def build_pages(tmp_path: Path, packages: None, cut_fonts: Path) -> Callable[[str], BeautifulSoup]:
    """Builds a chapter beside a glossary, warnings as errors, and returns the chapter."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "fonts").symlink_to(cut_fonts)

    def run(declared: str) -> BeautifulSoup:
        (tmp_path / "index.md").write_text("# Index\n\n```{toctree}\nglossary\n01_page\n```\n")
        (tmp_path / "glossary.md").write_text(GLOSSARY)
        (tmp_path / "glossary.yml").write_text(declared)
        (tmp_path / "01_page.md").write_text(PAGE)
        build(tmp_path)
        return BeautifulSoup((tmp_path / "out" / "html" / "01_page.html").read_text("utf8"), "html.parser")

    return run


@pytest.mark.slow
def test_running_prose_alone_is_linked(build_pages: Callable[[str], BeautifulSoup]) -> None:
    page = build_pages("")
    links = page.select("a.tf-term")
    assert [link.get_text() for link in links] == ["heads", "query", "loss"]
    assert links[0].parent is not None
    assert links[0].parent.name == "em"
    assert [link["href"] for link in links[:2]] == ["glossary.html#term-head", "glossary.html#term-query"]
    assert links[1].find_parent("details"), "a term that is in folded text alone is linked there"
    assert not links[2].find_parent("details"), "what every reader sees comes before what is folded"


@pytest.mark.slow
def test_a_page_carries_the_definitions_that_it_needs(build_pages: Callable[[str], BeautifulSoup]) -> None:
    page = build_pages("key: {also: [loss]}\nloss: {only: [02_page]}")
    shown = {box["id"]: box for box in page.select("[role=tooltip][popover=manual]")}
    assert [link["aria-describedby"] for link in page.select("a.tf-term")] == list(shown)
    assert list(shown) == ["definition-head", "definition-query", "definition-key"]
    assert shown["definition-key"].get_text() == "What a query is compared with, as this page says."
    assert shown["definition-head"].select_one("math") is not None
    assert not page.select("[role=tooltip] a"), "a box that pointing opens holds no link"


@pytest.mark.slow
def test_a_wrong_declaration_stops_the_build(build_pages: Callable[[str], BeautifulSoup]) -> None:
    with pytest.raises(ExtensionError, match=r"glossary\.yml: the glossary has no term 'tail'"):
        build_pages("tail: {also: [end]}")


def test_every_declaration_is_about_words_and_pages_that_exist() -> None:
    text = {path.stem: " ".join(path.read_text("utf8").replace("*", "").split()) for path in CHAPTERS}
    for term, options in DECLARED.items():
        pages = [*options.get("only", []), *options.get("except", [])]
        assert set(pages) <= set(text), term
        for words in [*options.get("also", []), *options.get("not", [])]:
            pattern = re.compile(rf"(?<![\w-]){re.escape(words)}", re.I)
            where = options.get("only", text)
            assert any(pattern.search(text[page]) for page in where), f"{term}: no chapter has {words!r}"


def chapter(html: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((html / "book" / f"{name}.html").read_text("utf8"), "html.parser")


@pytest.mark.slow
def test_the_chapters_use_the_terms_of_the_glossary(html: Path) -> None:
    glossary = chapter(html, "glossary")
    anchors = {str(term["id"]): term.find(string=True) for term in glossary.select("dt[id^=term-]")}
    used = set()
    for path in CHAPTERS:
        page = chapter(html, path.stem)
        links = [str(link["href"]).partition("#")[2] for link in page.select("a.tf-term")]
        assert len(links) == len(set(links)), f"{path.stem} links a term twice"
        sentences = sum(len(re.findall(r"[.?!](?=\s|$)", text.get_text())) for text in page.select("p"))
        assert 0 < len(links) < sentences / 2, path.stem
        used |= set(links)
    assert used <= set(anchors)
    assert {str(anchors[anchor]).strip() for anchor in set(anchors) - used} == ONLY_IN_TABLES_OR_GUIDES


@pytest.fixture
def page(html: Path, browser: Any) -> Any:
    """Chapter 2 on a phone, from disk, with a mouse and a keyboard."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.wait_for_load_state()
    yield page
    context.close()


def box_of(page: Any, link: Any) -> Any:
    return page.locator(f"#{link.get_attribute('aria-describedby')}")


BESIDE_ITS_LINK = """(box) => {
  const link = document.querySelector(`[aria-describedby="${box.id}"]`).getBoundingClientRect();
  const { left, right, top, bottom } = box.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  const inside = left >= 0 && right <= width && top >= 0 && bottom <= innerHeight;
  return inside && top <= link.bottom + 1 && bottom >= link.top - 1;
}"""


def wait_until_beside_its_link(page: Any, box: Any) -> None:
    """Wait until a box is inside the window and touches its link."""
    page.wait_for_function(BESIDE_ITS_LINK, arg=box.element_handle(), timeout=5000)


@pytest.mark.browser
def test_pointing_at_a_term_shows_its_definition(page: Any) -> None:
    link = page.locator("a.tf-term").nth(3)
    box = box_of(page, link)
    link.scroll_into_view_if_needed()
    assert not box.is_visible()
    before = page.evaluate("document.documentElement.scrollHeight")
    link.hover()
    box.wait_for(state="visible")
    assert page.evaluate("document.documentElement.scrollHeight") == before, "the text does not move"
    box.hover()
    page.wait_for_timeout(400)
    assert box.is_visible(), "the pointer can rest on the box"
    page.mouse.move(0, 0)
    box.wait_for(state="hidden")
    link.hover()
    box.wait_for(state="visible")
    page.keyboard.press("Escape")
    assert not box.is_visible()


@pytest.mark.browser
def test_the_keyboard_shows_every_definition_within_the_window(page: Any) -> None:
    links = page.locator("a.tf-term")
    page.keyboard.press("Tab")  # from here on the keyboard is in use
    for number in range(links.count()):
        link = links.nth(number)
        folded = link.evaluate("node => Boolean(node.closest('details:not([open])'))")
        if folded:
            continue
        link.focus()
        box = box_of(page, link)
        assert box.is_visible(), link.inner_text()
        assert page.locator(".tf-definition:visible").count() == 1
        wait_until_beside_its_link(page, box)
    page.keyboard.press("Escape")
    assert page.locator(".tf-definition:visible").count() == 0
    links.first.focus()
    page.keyboard.press("Tab")
    assert not box_of(page, links.first).is_visible()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_terms_and_definitions_have_contrast(scheme: str, served: str, browser: Any) -> None:
    context = browser.new_context(color_scheme=scheme, viewport=PHONE)
    page = context.new_page()
    page.goto(f"{served}/book/04_multi_head.html")
    page.wait_for_load_state()
    page.keyboard.press("Tab")
    link = page.locator("a.tf-term").first
    link.focus()
    box = box_of(page, link)
    assert box.is_visible()
    colour = "node => getComputedStyle(node).color"
    assert box.evaluate(colour) == page.locator(".bd-article p").first.evaluate(colour)
    assert violations(page, [*COLOURS, "aria-valid-attr-value", "aria-tooltip-name"]) == []
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["02_qkv", "claims"])
def test_pointing_at_a_citation_shows_its_reference(html: Path, browser: Any, name: str) -> None:
    page = browser.new_context(viewport=PHONE).new_page()
    page.goto((html / "book" / f"{name}.html").as_uri())
    page.wait_for_load_state()
    link = page.locator('.bd-article a[href*="bibliography.html#"]').first
    reference = link.get_attribute("title")
    assert len(reference) > 40
    link.hover()
    box = page.locator(".tf-definition:popover-open")
    box.wait_for(state="visible")
    assert box.text_content() == reference
    wait_until_beside_its_link(page, box)
    assert link.get_attribute("title") is None, "the browser would show it a second time"
    page.keyboard.press("Escape")
    assert not box.is_visible()


@pytest.mark.browser
def test_a_first_tap_shows_the_definition_and_a_second_follows_the_link(html: Path, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    page.wait_for_load_state()
    link = page.locator("a.tf-term").first
    box = box_of(page, link)
    link.tap()
    assert box.is_visible()
    wait_until_beside_its_link(page, box)
    page.locator(".bd-article h1").tap()
    assert not box.is_visible()
    link.tap()
    link.tap()
    page.wait_for_url("**/glossary.html#term-*")
    context.close()


@pytest.mark.browser
def test_without_a_script_a_term_leads_to_the_glossary(html: Path, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto((html / "book" / "02_qkv.html").as_uri())
    assert page.locator(".tf-definition").first.is_hidden()
    page.locator("a.tf-term").first.click()
    page.wait_for_url("**/glossary.html#term-attention")
    context.close()


@pytest.mark.slow
def test_a_build_of_another_page_keeps_the_terms_in_the_search(
    build_pages: Callable[[str], BeautifulSoup], tmp_path: Path
) -> None:
    def terms() -> object:
        index = (tmp_path / "out" / "html" / "searchindex.js").read_text("utf8")
        return json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["indexentries"]

    build_pages("")
    before = terms()
    (tmp_path / "01_page.md").write_text(f"{PAGE}\nOne more sentence.\n")
    build(tmp_path, fresh=False)
    assert before
    assert terms() == before
