"""The PDF holds the whole book: every page, every figure, links that lead within."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import build
import pytest
from book_paths import ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PAGES = [page.stem for page in build.Book(ROOT).pages()]


@pytest.fixture(scope="module")
def pdf(html: Path, browser: Any) -> PdfReader:
    run = subprocess.run([sys.executable, ROOT / "book" / "pdf.py"], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return PdfReader(ROOT / run.stdout.removeprefix("pdf: ").strip())


def plain(text: str) -> str:
    """The letters and digits alone: print breaks and joins words where it likes."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("ﬁ", "fi").replace("ﬂ", "fl"))


def starts(pdf: PdfReader) -> dict[str, int]:
    places = {name.removeprefix("/"): place for name, place in pdf.named_destinations.items()}
    return {page: pdf.get_destination_page_number(places[page]) or 0 for page in PAGES}


def test_every_page_begins_on_a_sheet_of_its_own_in_order(pdf: PdfReader, html: Path) -> None:
    sheets = list(starts(pdf).values())
    assert sheets == sorted(set(sheets))
    for page, sheet in starts(pdf).items():
        title = BeautifulSoup((html / "book" / f"{page}.html").read_text("utf8"), "html.parser").select_one(
            "h1"
        )
        assert title is not None
        for link in title.select(".headerlink"):
            link.decompose()
        assert plain(title.get_text()) in plain(pdf.pages[sheet].extract_text()), page


def test_the_contents_name_the_sheets(pdf: PdfReader) -> None:
    contents = "\n".join(sheet.extract_text() for sheet in pdf.pages[1 : min(starts(pdf).values())])
    numbers = [int(number) for number in re.findall(r"(\d+)$", contents, re.M)]
    assert {sheet + 1 for sheet in starts(pdf).values()} <= set(numbers)


def test_every_paragraph_of_a_chapter_is_printed(pdf: PdfReader, html: Path) -> None:
    sheets = starts(pdf)
    order = [*sheets.values(), len(pdf.pages)]
    for page in ("03_scaling", "claims"):
        begin = sheets[page]
        end = order[order.index(begin) + 1]
        printed = plain("".join(sheet.extract_text() for sheet in pdf.pages[begin:end]))
        soup = BeautifulSoup((html / "book" / f"{page}.html").read_text("utf8"), "html.parser")
        for paragraph in soup.select("article p"):
            if not paragraph.select(".katex, code") and len(paragraph.get_text()) > 80:
                assert plain(paragraph.get_text())[:60] in printed, paragraph.get_text()[:80]


def test_links_lead_within_or_to_the_web(pdf: PdfReader) -> None:
    kinds = {"within": 0, "web": 0}
    for sheet in pdf.pages:
        for annotation in sheet.get("/Annots", []):
            action = annotation.get_object().get("/A", {})
            if "/URI" in action:
                assert str(action["/URI"]).startswith(("http", "mailto:")), action["/URI"]
                kinds["web"] += 1
            elif "/Dest" in annotation.get_object() or "/D" in action:
                kinds["within"] += 1
    assert kinds["within"] > 500
    assert kinds["web"] > 50


def test_no_sheet_is_empty(pdf: PdfReader) -> None:
    empty = [
        number + 1
        for number, sheet in enumerate(pdf.pages)
        if len(plain(sheet.extract_text())) < 20 and not sheet.images and number > 0
    ]
    assert len(empty) <= len(pdf.pages) // 100, f"empty sheets: {empty}"
