"""What is in the built book, and what must not be."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest
from book_paths import ROOT
from bs4 import BeautifulSoup
from matplotlib.image import imread

pytestmark = pytest.mark.slow  # it builds the book

MARKS = (
    "BEGIN SOLUTION",
    "BEGIN HIDDEN TESTS",
    "from autograder.checking.declaration import",
    "@EXERCISE.misconception",
)


def hashes(files: list[Path]) -> set[str]:
    return {sha256(path.read_bytes()).hexdigest() for path in files if path.is_file() and path.stat().st_size}


def test_nothing_of_the_solutions_is_in_the_book(html: Path) -> None:
    built = [path for path in html.rglob("*") if path.is_file()]
    secret = [*(ROOT / "solutions").rglob("*"), *(ROOT / "autograder").rglob("*")]
    assert hashes(secret) & hashes(built) == set()
    for path in built:
        assert not {"solutions", "autograder"} & set(path.relative_to(html).parts), path
        if path.suffix in {".html", ".js", ".ipynb", ".txt", ".md"}:
            text = path.read_text("utf8")
            assert [mark for mark in MARKS if mark in text] == [], path


def test_the_released_notebooks_can_be_downloaded(html: Path) -> None:
    offered = hashes(list((html / "_downloads").rglob("*.ipynb")))
    released = hashes(list((ROOT / "notebooks").glob("*/*.ipynb")))
    assert offered
    assert offered == released


def test_sources_are_not_copied(html: Path) -> None:
    assert not (html / "_sources").exists()


def test_pages_are_light(html: Path) -> None:
    assert not list(html.rglob("fontawesome.js*"))
    icons = html / "_static" / "vendor" / "fontawesome" / "webfonts" / "fa-solid-900.woff2"
    assert icons.stat().st_size < 10_000
    for page in (html / "book").glob("*.html"):
        text = page.read_text("utf8").lower()
        assert "mathjax@" not in text
        assert "thebe" not in text
        assert re.search(r'<meta content="[^"]+" name="description"', text), f"{page.name} has no description"


def published() -> str:
    """The address at which the book is published."""
    owner, name = re.search(
        r"url: https://github.com/([^/]+)/(\S+)", (ROOT / "_config.yml").read_text()
    ).groups()
    return f"https://{owner}.github.io/{name}/"


def test_the_landing_page_is_at_the_address_of_the_book_too(html: Path) -> None:
    """It is the same page, and each of its relative addresses leads to the same file."""
    paths = html / "index.html", html / "book" / "index.html"
    root, page = (BeautifulSoup(path.read_text("utf8"), "html.parser") for path in paths)
    assert root.text == page.text
    assert not root.select("meta[http-equiv=refresh]")
    canonical = {soup.select_one("link[rel=canonical]")["href"] for soup in (root, page)}
    assert canonical == {published()}
    moved = 0
    for ours, theirs in zip(root.find_all(), page.find_all(), strict=True):
        assert ours.attrs.keys() == theirs.attrs.keys()
        for name, value in theirs.attrs.items():
            target = paths[1].parent / re.split("[?#]", str(value))[0]
            if re.split("[?#]", str(value))[0] and target.exists():
                moved += 1
                assert (html / re.split("[?#]", str(ours[name]))[0]).resolve() == target.resolve(), ours
            else:
                assert ours[name] == value
    assert moved > 50


def test_a_shared_link_shows_title_description_and_picture(html: Path) -> None:
    height, width, _ = imread(html / "_static" / "card.png").shape
    for page in sorted((html / "book").glob("*.html")):
        soup = BeautifulSoup(page.read_text("utf8").partition("</head>")[0], "html.parser")
        shown = {tag["property"]: tag["content"] for tag in soup.select("meta[property^=og]")}
        assert shown["og:title"] == soup.select_one("title").text.partition(" — ")[0], page.name
        assert shown["og:description"] == soup.select_one("meta[name=description]")["content"]
        path = "" if page.name == "index.html" else f"book/{page.name}"
        assert shown["og:url"] == published() + path
        assert shown["og:image"] == f"{published()}_static/card.png"
        assert (int(shown["og:image:width"]), int(shown["og:image:height"])) == (width, height)


def test_titles_of_references_are_as_their_authors_write_them(html: Path) -> None:
    text = BeautifulSoup((html / "book" / "bibliography.html").read_text("utf8"), "html.parser").text
    assert "GQA: Training Generalized Multi-Query Transformer Models from" in text


def test_the_landing_page_counts_the_claims(html: Path) -> None:
    claims = (html / "book" / "claims.html").read_text("utf8")
    text = BeautifulSoup((html / "book" / "index.html").read_text("utf8"), "html.parser").text
    for verdict, words in (
        ("tf-holds", "hold"),
        ("tf-does-not-hold", "do not hold"),
        ("tf-open", "are open"),
    ):
        count = len(BeautifulSoup(claims, "html.parser").select(f".tf-claim.{verdict}"))
        assert f"{count} {words}" in text


def test_no_path_of_this_machine_is_in_the_book(html: Path) -> None:
    for page in html.rglob("*.html"):
        assert str(ROOT) not in page.read_text("utf8"), page.name


def test_figures_say_their_size_and_no_page_but_the_search_loads_its_index(html: Path) -> None:
    for page in (html / "book").glob("*.html"):
        text = page.read_text("utf8")
        assert "searchindex.js" not in text, page.name
        for image in re.findall(r"<img [^>]*_images/[^>]*>", text):
            assert re.search(r'width="\d+" height="\d+"', image), f"{page.name}: {image[:90]}"
    assert "searchindex.js" in (html / "search.html").read_text("utf8")
