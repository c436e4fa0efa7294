"""The search finds what a reader means, chapters first, and a page marks only what was searched for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from book_paths import ROOT
from tfbook.spellings import british

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SHELVES = {
    "chapter": r"book/(\d\d_|after_pretraining)",
    "explanation": r"book/(claims|glossary|how_to_use|index|notation|numpy_and_pytorch|preface|\w+_guide)\b",
    "notebook": r"book/notebook_",
    "reference": r"book/(api|bibliography|changelog|kill_matrix|mutants)",
}
FIRST = {
    "softmax": "03_scaling",
    "cache": "08_kv_cache",
    "kv cache": "08_kv_cache",
    "rotary": "05_positions",
    "rope": "05_positions",
    "quantization": "08_kv_cache",
    "temperature": "07_causal_masking",
    "heads": "04_multi_head",
    "mamba": "10_beyond_attention",
    "gradient": "01_rnn_bottleneck",
    "speculative decoding": "08_kv_cache",
    "perplexity": "04_multi_head",
}
PAIRS = [
    ("quantization", "quantisation"),
    ("normalization", "normalisation"),
    ("tokenizer", "tokeniser"),
    ("color", "colour"),
    ("optimization", "optimisation"),
    ("initialization", "initialisation"),
    ("generalize", "generalise"),
    ("neighbors", "neighbours"),
    ("labeled", "labelled"),
    ("gray", "grey"),
]


class Search:
    """The search page, opened with a query."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address

    def ask(self, query: str) -> Search:
        """Open the page of a query, and wait until its results are there."""
        self.page.goto(f"{self.address}/search.html?{urlencode({'q': query})}")
        self.page.wait_for_function("document.querySelector('.search-summary')?.textContent")
        self.places = self.page.locator("#search-results li a").evaluate_all(
            "(links) => links.map((link) => link.getAttribute('href'))"
        )
        self.sentence = self.page.locator(".search-summary").inner_text()
        return self

    @property
    def shelves(self) -> list[str]:
        """Return the shelf of each result, in their order."""
        return [
            next(name for name, pages in SHELVES.items() if re.match(pages, place)) for place in self.places
        ]


@pytest.fixture
def search(html: Path, browser: Any) -> Iterator[Search]:
    """The search page from disk; an error in its console fails the test."""
    page = browser.new_context().new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    yield Search(page, html.as_uri())
    page.context.close()
    assert errors == []


@pytest.mark.parametrize("query", FIRST)
def test_the_chapter_comes_first_and_the_reference_last(query: str, search: Search) -> None:
    search.ask(query)
    assert search.places[0].split("#")[0] == f"book/{FIRST[query]}.html"
    shelves = search.shelves
    assert set(shelves) >= {"chapter", "explanation", "reference"}
    assert shelves.index("explanation") < shelves.index("reference")
    assert "chapter" not in shelves[shelves.index("reference") :]


def test_a_page_is_on_the_shelf_of_its_part_of_the_contents(search: Search) -> None:
    search.ask("zzqqxzzq")  # a word that no chapter has
    contents = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf8"))
    parts = {part["caption"]: [entry["file"] for entry in part["chapters"]] for part in contents["parts"]}
    parts["Guides"] += ["book/glossary", "book/index"]
    parts["Reference"].remove("book/glossary")
    score = "(pages) => pages.map((page) => Scorer.score([page, '', '', null, 5]))"
    scores = {caption: set(search.page.evaluate(score, pages)) for caption, pages in parts.items()}
    assert {caption: len(found) for caption, found in scores.items()} == dict.fromkeys(parts, 1)
    assert scores["Guides"] == scores["Before you start"]
    order = [scores[caption].pop() for caption in ("Chapters", "Guides", "Notebooks", "Reference")]
    assert order == sorted(set(order), reverse=True)


@pytest.mark.parametrize(("american", "english"), PAIRS)
def test_both_spellings_find_the_same_chapters_and_terms(american: str, english: str, search: Search) -> None:
    def found(query: str) -> list[str]:
        search.ask(query)
        assert search.page.locator(".tf-spelling").count() == 0
        return [place for place in search.places if "book/api_" not in place]  # its names have one spelling

    places = found(american)
    assert re.match(SHELVES["chapter"], places[0])
    assert found(english) == places


def test_the_browser_spells_as_the_index_does(search: Search) -> None:
    search.ask("softmax")
    words = [*search.page.evaluate("BOOK_WORDS"), *(american for american, _ in PAIRS)]
    assert len(words) > 5000
    assert search.page.evaluate("(words) => words.map(british)", words) == [british(word) for word in words]
    assert [british(american) for american, _ in PAIRS] == [english for _, english in PAIRS]


@pytest.mark.parametrize("query", ["softmax", "speculative", "cache"])
def test_results_are_counted_and_none_is_listed_twice(query: str, search: Search) -> None:
    places = search.ask(query).places
    assert len(set(places)) == len(places)
    pages = len({place.split("#")[0] for place in places})
    assert search.sentence == f"{len(places)} results on {pages} pages."


def test_a_term_of_the_glossary_is_named(search: Search) -> None:
    search.ask("softmax")
    names = search.page.locator("#search-results a[href*=glossary]").all_inner_texts()
    assert {"Glossary: softmax", "Glossary: online softmax"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("atention", "No page has “atention”; results for “attention”:"),
        ("softamx gradeint", "No page has “softamx” or “gradeint”; results for “softmax gradient”:"),
        ("the Transformre", "No page has “transformre”; results for “the transformer”:"),
        ("attention softmax", None),
        ("zzqqxzzq", None),
    ],
)
def test_search_forgives_a_wrong_letter(query: str, said: str | None, search: Search) -> None:
    search.ask(query)
    told = search.page.locator(".tf-spelling")
    assert told.count() == (said is not None)
    if said:
        assert told.inner_text().startswith(said)
    assert bool(search.places) == ("zz" not in query)
    assert search.sentence.startswith("No page of the book") == ("zz" in query)


def marks(page: Any) -> set[str]:
    """Return what a page marks, once it had the time to."""
    page.wait_for_timeout(100)  # the page marks after 10 ms
    return {text.lower() for text in page.locator("span.highlighted").all_inner_texts()}


HIDE = "Hide Search Matches"


@pytest.mark.parametrize("where", ["disk", "server"])
def test_only_the_page_of_a_result_marks_the_words(where: str, html: Path, served: str, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    search = Search(page, html.as_uri() if where == "disk" else served)
    search.ask("normalizing")
    page.locator(f"#search-results a[href='{search.places[0]}']").click()
    page.wait_for_load_state()
    assert "normaliser" in marks(page)
    assert page.get_by_text(HIDE).is_visible()
    page.goto(f"{search.address}/book/07_causal_masking.html")
    assert marks(page) == set()
    assert page.get_by_text(HIDE).count() == 0

    search.ask("softmax")
    page.goto(f"{search.address}/book/03_scaling.html")  # not by a result
    assert marks(page) == set()
    context.close()


def test_where_nothing_is_marked_nothing_can_be_hidden(html: Path, browser: Any) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{(html / 'book' / 'changelog.html').as_uri()}?highlight=zzqqxzzq")
    assert marks(page) == set()
    assert not page.get_by_text(HIDE).is_visible()
    page.context.close()


def test_from_a_server_a_result_shows_the_words_that_were_searched_for(served: str, browser: Any) -> None:
    page = browser.new_context().new_page()
    Search(page, served).ask("tokeniser")
    first = page.locator("#search-results li").first
    first.locator("p.context").wait_for()
    assert re.search("tokenizer", first.locator("p.context").inner_text(), re.IGNORECASE)
    term = page.locator("#search-results li").filter(has_text="Glossary: tokenizer")
    assert len(term.locator("p.context").inner_text()) > 40, "its definition"
    page.context.close()
