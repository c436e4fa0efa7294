"""Writes the whole book as one PDF: ``python book/pdf.py``, once the book is built.

1. The articles of all pages go into one page of HTML. Each id gets the name of its page in front, so that a
   link from one chapter to another leads to its place in the PDF.
2. Chromium prints that page. What is folded on the screen is open in print, but for the code of figures.
3. The contents get the page numbers that were found in the first print, and Chromium prints again.
4. Each bookmark gets the text of its heading: Chromium repeats words where a sheet ends, and joins words
   where a line ends.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

import yaml
from bs4 import BeautifulSoup, Tag

from autograder.proof.doctor import find_chromium

if TYPE_CHECKING:
    from pypdf.generic import DictionaryObject

ROOT = Path(__file__).resolve().parent.parent
FILE = "transformers_from_first_principles.pdf"
TITLE = "Transformers from first principles"
ONLY_ON_SCREEN = (
    "script, button, a.headerlink, .tf-actions, .tf-launch, .tf-definitions, .tf-guess > :not(.tf-choices), "
    ".tf-choices input, div.cell_input:has(> details.hide), details.hide.above-input, section#how-to-open-it"
)
STYLE = """
@page { size: A4; margin: 20mm 19mm 22mm; }
html, body { background: #fff; }
h1 { display: block !important; }
article.bd-article { break-before: page; padding: 0 !important; }
.bd-article div.highlight pre { font-size: 7.6pt; orphans: 5; widows: 5; }
.bd-article div.highlight pre.tf-long { break-inside: auto; }
section.tf-cover { height: 230mm; display: flex; flex-direction: column; justify-content: center;
  font-family: var(--tf-serif); }
section.tf-cover h1 { font-size: 34pt; line-height: 1.15; max-width: 13ch; margin: 0 0 1rem; }
section.tf-cover p { font-size: 14pt; max-width: 34ch; }
section.tf-contents { break-before: page; font-family: var(--tf-sans); font-size: 10.5pt; }
section.tf-contents h1 { font-family: var(--tf-serif); }
section.tf-contents h2 { font: 600 12.5pt var(--tf-sans); margin: 1.1rem 0 0.2rem; break-after: avoid; }
section.tf-contents a { display: flex; justify-content: space-between; gap: 1rem; color: inherit;
  text-decoration: none; padding: 0.08rem 0; }
section.tf-contents a span { font-variant-numeric: tabular-nums; }
"""
COVER = f"""<section class="tf-cover"><h1>{TITLE}</h1>
<p>Every measurement in this book was run when it was built.</p></section>"""
LONG = 30  # lines; code of more may continue on the next sheet
LONGEST = 600_000  # milliseconds that a slow machine may take to load the whole book
SHEET_WIDTH = 650  # CSS pixels of an A4 sheet between its margins
TOO_WIDE = """width => [...document.querySelectorAll("article")]
  .filter(article => article.scrollWidth > width).map(article => article.id)"""
FOOTER = (
    '<div style="width: 100%; text-align: center; font: 9px sans-serif; color: #555;">'
    '<span class="pageNumber"></span></div>'
)


class PdfError(Exception):
    """The book cannot be printed; the message says why, and what to do."""


@dataclass(frozen=True)
class Part:
    """A heading of the contents, and the pages below it in their order."""

    title: str
    pages: tuple[str, ...]


def read_contents(toc: Path) -> list[Part]:
    """The parts of the table of contents; the landing page is a part of its own, without a heading."""
    contents = yaml.safe_load(toc.read_text("utf8"))

    def files(entries: list[dict]) -> list[str]:
        return [
            name
            for entry in entries
            for name in [entry["file"].removeprefix("book/"), *files(entry.get("sections", []))]
        ]

    parts = [Part(part["caption"], tuple(files(part["chapters"]))) for part in contents["parts"]]
    return [Part("", (contents["root"].removeprefix("book/"),)), *parts]


def select(parts: list[Part], pages: list[str]) -> list[Part]:
    """The parts with these pages alone.

    Raises:
        PdfError: when one of them is not in the book.
    """
    known = [page for part in parts for page in part.pages]
    if unknown := [page for page in pages if page not in known]:
        raise PdfError(f"no page {unknown[0]!r} in the book; there are {', '.join(known)}")
    chosen = (Part(part.title, tuple(page for page in part.pages if page in pages)) for part in parts)
    return [part for part in chosen if part.pages]


def article(html: Path, page: str, pages: set[str]) -> Tag:
    """What a page says, with ids and links that are right in a document of all pages."""
    found = BeautifulSoup((html / "book" / f"{page}.html").read_text("utf8"), "html.parser").find("article")
    if not isinstance(found, Tag):
        raise PdfError(f"{page}.html has no article. Build the book again: make book")
    for node in found.select(ONLY_ON_SCREEN):
        node.decompose()
    _leave_out_long_tables(found)
    for code in found.select("pre"):
        if code.get_text().count("\n") > LONG:
            code["class"] = "tf-long"
    for node in found.select("[id]"):
        node["id"] = f"{page}--{node['id']}"
    for source in found.select("picture > source"):
        source.decompose()  # a sheet is wide
    for image in found.select("img"):
        image["src"] = (html / "book" / str(image["src"])).resolve().as_uri()
        del image["loading"]
    for link in found.select("a[href]"):
        del link["aria-describedby"]  # a definition of the glossary, which is only on the screen
        target, _, anchor = str(link["href"]).partition("#")
        name = target.removesuffix(".html") or page
        if name in pages:
            link["href"] = f"#{name}--{anchor}" if anchor else f"#{name}"
        elif not target.startswith(("http:", "https:", "mailto:")):
            link.unwrap()  # a download, or another page that is not printed
    found["id"] = page
    return found


def _leave_out_long_tables(found: Tag) -> None:
    """Take away the tables of the exercises and the headings above them; links to these lead to a note."""
    sections = [
        section for section in found.select("section") if section.find(class_="tf-kills", recursive=False)
    ]
    if not sections:
        return
    note = BeautifulSoup("<p><em>The table of each exercise is in the online book.</em></p>", "html.parser")
    sections[0].insert_before(note)
    for section in sections:
        for node in [section, *section.select(":scope > span[id]")]:
            section.insert_before(Tag(name="span", attrs={"id": node["id"]}))
        section.decompose()


def assemble(html: Path, parts: list[Part], numbers: dict[str, int]) -> str:
    """The book as one page of HTML, with the page numbers in its contents as far as they are known."""
    pages = {page for part in parts for page in part.pages}
    soup = BeautifulSoup((html / "book" / "index.html").read_text("utf8"), "html.parser")
    sheets = [
        (html / "book" / str(link["href"]).partition("?")[0]).resolve().as_uri()
        for link in soup.select('link[rel="stylesheet"]')
    ]
    articles, contents = [], []
    for part in parts:
        if part.title:
            contents.append(f"<h2>{part.title}</h2>")
        for page in part.pages:
            text = article(html, page, pages)
            heading = text.find("h1")
            if heading is None:
                raise PdfError(f"{page} has no title, so it cannot be put into the contents")
            title = escape(heading.get_text())
            contents.append(f'<a href="#{page}">{title}<span>{numbers.get(page, "")}</span></a>')
            articles.append(str(text))
    links = "\n".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets)
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"><title>{TITLE}</title>
{links}
<style>{STYLE}</style></head>
<body><main class="bd-main"><div class="bd-content"><div class="bd-article-container">
{COVER}
<section class="tf-contents"><h1>Contents</h1>{"".join(contents)}</section>
{"".join(articles)}
</div></div></main></body></html>
"""


def chromium() -> str:
    """The browser that prints."""
    path = find_chromium()
    if path is None:
        raise PdfError(
            "no Chromium: install Debian's package `chromium-headless-shell`, or set CHROMIUM to its path"
        )
    return path


def print_page(source: Path, target: Path) -> None:
    """Prints a page of HTML as PDF, with headings as bookmarks.

    Raises:
        PdfError: when an article is wider than the sheet.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": SHEET_WIDTH, "height": 900})
        page.set_default_timeout(LONGEST)
        page.emulate_media(media="print")
        page.goto(source.as_uri())
        page.evaluate("document.fonts.ready")
        if wide := page.evaluate(TOO_WIDE, SHEET_WIDTH):
            raise PdfError(
                f"{', '.join(wide)}: something is wider than the sheet, and Chromium would print the book "
                "smaller to make room. Mend the page, or the print rules in book/_static/course.css"
            )
        page.pdf(
            path=target,
            prefer_css_page_size=True,
            print_background=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            outline=True,
            tagged=True,
        )
        browser.close()


def page_numbers(pdf: Path, pages: set[str]) -> dict[str, int]:
    """The number of the sheet on which each page of the book begins."""
    from pypdf import PdfReader

    reader = PdfReader(pdf)
    places = {name.removeprefix("/"): place for name, place in reader.named_destinations.items()}
    sheets = {page: reader.get_destination_page_number(places[page]) for page in pages if page in places}
    found = {page: sheet + 1 for page, sheet in sheets.items() if sheet is not None}
    if missing := sorted(pages - found.keys()):
        raise PdfError(f"Chromium printed no place for {', '.join(missing)}; try a newer Chromium")
    return found


def name_bookmarks(pdf: Path, source: Path) -> None:
    """Give each bookmark of a PDF the text of its heading in the page of HTML that was printed.

    Raises:
        PdfError: when there is not one bookmark for each heading.
    """
    from pypdf import PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    def walk(parent: DictionaryObject) -> Iterator[DictionaryObject]:
        entry = parent.get("/First")
        while entry is not None:
            yield entry.get_object()
            yield from walk(entry.get_object())
            entry = entry.get_object().get("/Next")

    headings = BeautifulSoup(source.read_text("utf8"), "html.parser").select("h1, h2, h3, h4, h5, h6")
    writer = PdfWriter(pdf, incremental=True)
    bookmarks = list(walk(cast("DictionaryObject", writer.root_object["/Outlines"].get_object())))
    if len(bookmarks) != len(headings):
        raise PdfError(
            f"Chromium printed {len(bookmarks)} bookmarks for {len(headings)} headings; try a newer Chromium"
        )
    for bookmark, heading in zip(bookmarks, headings, strict=True):
        bookmark[NameObject("/Title")] = TextStringObject(" ".join(heading.get_text().split()))
    writer.write(pdf)


def write_pdf(root: Path, target: Path, parts: list[Part]) -> None:
    """Prints parts of the built book twice, the second time with page numbers.

    Raises:
        PdfError: when the book is not built or no browser is found.
    """
    html, work = root / "_build" / "html", root / "_build" / "pdf"
    if not (html / "book" / "index.html").exists():
        raise PdfError(f"there is no book in {html}. Build it first: make book")
    work.mkdir(exist_ok=True)
    source, draft = work / "book.html", work / "draft.pdf"
    numbers: dict[str, int] = {}
    for _ in range(2):
        source.write_text(assemble(html, parts, numbers), "utf8")
        print_page(source, draft)
        numbers = page_numbers(draft, {page for part in parts for page in part.pages})
    name_bookmarks(draft, source)
    shutil.move(draft, target)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="print these pages, such as 03_scaling")
    parser.add_argument("--to", type=Path, metavar="FILE", help=f"default: _build/{FILE}")
    options = parser.parse_args()
    root = options.root.resolve()
    path = options.to or root / "_build" / FILE
    try:
        parts = read_contents(root / "book" / "_toc.yml")
        write_pdf(root, path, select(parts, options.only) if options.only else parts)
    except PdfError as error:
        print(f"pdf: {error}", file=sys.stderr)
        return 1
    print(f"pdf: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
