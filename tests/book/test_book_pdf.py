"""The PDF holds every page; a print of some has what they say, right numbers and links that lead within."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import pdf
import pytest
from book_paths import ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader

CONTENTS = pdf.read_contents(ROOT / "book" / "_toc.yml")
PAGES = ["claims", "02_qkv", "03_scaling", "notebook_04_multi_head", "kill_matrix", "bibliography"]


@dataclass
class Print:
    """A PDF, and the words on each of its sheets."""

    reader: PdfReader
    sheets: list[str]

    def starts(self) -> dict[str, int]:
        """The sheet on which each page of the book begins, counted from 0."""
        places = self.reader.named_destinations
        return {page: self.reader.get_destination_page_number(places[f"/{page}"]) or 0 for page in PAGES}


@pytest.fixture(scope="module")
def printed(html: Path, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Print:
    path = tmp_path_factory.mktemp("pdf") / "some.pdf"
    command = [sys.executable, ROOT / "book" / "pdf.py", "--to", path, "--only", *PAGES]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    reader = PdfReader(path)
    return Print(reader, [sheet.extract_text() for sheet in reader.pages])


def test_a_page_that_is_not_in_the_book_is_refused() -> None:
    with pytest.raises(pdf.PdfError, match="no page '11_more'"):
        pdf.select(CONTENTS, ["02_qkv", "11_more"])


def test_every_page_of_the_book_is_in_the_contents() -> None:
    pages = [page for part in CONTENTS for page in part.pages]
    assert pages == [page.stem for page in build.Book(ROOT).pages()]


def test_the_choices_of_a_prediction_are_printed_and_no_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "a.html").write_text(
        '<article><div class="tf-guess"><div class="tf-choices"><label><input type="radio"> <span>soft</span>'
        "</label></div><p>In your own words</p><textarea>Write</textarea></div></article>"
    )
    printed = pdf.article(tmp_path, "a", {"a"})
    assert printed.get_text(strip=True) == "soft"
    assert not printed.select("input, textarea")


def plain(text: str) -> str:
    """The letters and digits alone: print breaks and joins words where it likes."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("ﬁ", "fi").replace("ﬂ", "fl"))


@pytest.mark.slow
@pytest.mark.browser
def test_every_page_begins_on_a_sheet_of_its_own_in_order(printed: Print, html: Path) -> None:
    assert list(printed.starts().values()) == sorted(set(printed.starts().values()))
    for page, sheet in printed.starts().items():
        soup = BeautifulSoup((html / "book" / f"{page}.html").read_text("utf8"), "html.parser")
        title = soup.select_one("h1")
        assert title is not None
        for link in title.select(".headerlink"):
            link.decompose()
        assert plain(title.get_text()) in plain(printed.sheets[sheet]), page


def titles(outline: list[Any]) -> list[str]:
    """The bookmarks in their order."""
    parts = (titles(entry) if isinstance(entry, list) else [entry.title] for entry in outline)
    return [title for part in parts for title in part]


@pytest.mark.slow
@pytest.mark.browser
def test_bookmarks_have_the_words_of_their_headings(printed: Print, html: Path) -> None:
    soup = BeautifulSoup((html / "book" / "02_qkv.html").read_text("utf8"), "html.parser")
    for link in soup.select(".headerlink"):
        link.decompose()
    headings = [" ".join(heading.get_text().split()) for heading in soup.select("article :is(h1, h2, h3)")]
    bookmarks = titles(printed.reader.outline)
    first = bookmarks.index(headings[0])
    assert bookmarks[first : first + len(headings)] == headings


@pytest.mark.slow
@pytest.mark.browser
def test_what_is_only_on_the_screen_leaves_no_heading(printed: Print) -> None:
    starts = printed.starts()
    assert starts["kill_matrix"] + 1 == starts["bibliography"], "headings of tables that are not printed"
    assert starts["notebook_04_multi_head"] + 1 == starts["kill_matrix"]
    assert not {"How to open it", "Chapter 2: query, key, value"} & set(titles(printed.reader.outline))


@pytest.mark.slow
@pytest.mark.browser
def test_the_contents_name_the_sheets(printed: Print) -> None:
    numbers = [int(number) for number in re.findall(r"(\d+)$", printed.sheets[1], re.M)]
    assert {sheet + 1 for sheet in printed.starts().values()} <= set(numbers)


@pytest.mark.slow
@pytest.mark.browser
def test_every_paragraph_is_printed(printed: Print, html: Path) -> None:
    everything = plain("".join(printed.sheets))
    for page in ("03_scaling", "claims"):
        soup = BeautifulSoup((html / "book" / f"{page}.html").read_text("utf8"), "html.parser")
        for paragraph in soup.select("article p:not(.tf-claim-head)"):
            words = plain(paragraph.get_text())[:40]
            if not paragraph.select(".katex, code") and len(paragraph.get_text()) > 80:
                assert words in everything, paragraph.get_text()[:80]


@pytest.mark.slow
@pytest.mark.browser
def test_links_lead_within_or_to_the_web(printed: Print) -> None:
    kinds = {"within": 0, "web": 0}
    for sheet in printed.reader.pages:
        for annotation in sheet.get("/Annots", []):
            action = annotation.get_object().get("/A", {})
            if "/URI" in action:
                assert str(action["/URI"]).startswith(("http", "mailto:")), action["/URI"]
                kinds["web"] += 1
            elif "/Dest" in annotation.get_object() or "/D" in action:
                kinds["within"] += 1
    assert kinds["within"] > 100
    assert kinds["web"] > 50


@pytest.mark.slow
@pytest.mark.browser
def test_hardly_a_sheet_is_empty(printed: Print) -> None:
    empty = [number + 1 for number, words in enumerate(printed.sheets) if len(plain(words)) < 20]
    assert len(empty) <= 2, f"sheets with figures alone, or empty: {empty}"
