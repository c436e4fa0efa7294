"""Search in a book that is opened from disk: chapters come first, and a word may have a wrong letter.

The search page fetches every page that it has found, to show an excerpt. A browser refuses that for a
file and writes an error to its console; from disk, the results come without excerpts.

The index of Sphinx holds stems, ``attent`` for instance, and the pages that have them, not how often. The
scripts beside this module get the words of the book as they are written, and how much each chapter uses them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

from tfbook.spellings import OneSpelling

NO_EXCERPTS = 'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'
HERE = Path(__file__).parent
SCORER = HERE / "search_scorer.js"
SCRIPTS = (HERE / "search_results.js", HERE / "search_spelling.js")
NAME = "search_book.js"
CHAPTERS = "[0-9][0-9]_*.html"
ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
NOT_TEXT = re.compile(r"<(math|script|style|head)\b.*?</\1>|<[^>]*>", re.DOTALL)
WORD = re.compile(r"\b[a-z]{4,}\b")
NAMED = re.compile(r"\w{2,}")
OFTEN = 2  # a chapter that uses a word less often is not about it


def words_of(pages: Iterable[str]) -> list[str]:
    """Return the words of four letters and more, those that most pages have first.

    >>> words_of(["<p>The soft reader</p>", "<p class='read'>A hard reader</p>"])
    ['reader', 'hard', 'soft']
    """
    count: Counter[str] = Counter()
    for page in pages:
        count.update(set(WORD.findall(text_of(page))))
    return sorted(count, key=lambda word: (-count[word], word))


def text_of(page: str) -> str:
    """Return the text of a page in small letters."""
    return unescape(NOT_TEXT.sub(" ", page)).lower()


def shares(chapters: Iterable[str]) -> dict[str, str]:
    """Return for each stem a digit for each chapter: 9 where it is most frequent, 4 where about half as much.

    >>> shares(["<article>Two heads, a head.</article>", "<article>No head.</article>"])
    {'head': '94'}
    """
    stem = OneSpelling({}).stem
    articles = [ARTICLE.search(page) for page in chapters]
    counts = [Counter(map(stem, NAMED.findall(text_of(found[0] if found else "")))) for found in articles]
    most = {each: max(count[each] for count in counts) for each in set().union(*counts)}
    often = sorted(each for each, times in most.items() if times >= OFTEN)
    return {each: "".join(str(9 * count[each] // most[each]) for count in counts) for each in often}


def set_scorer(app: Sphinx, config: Config) -> None:
    """Let Sphinx order the results by the book's scorer."""
    config.html_search_scorer = str(SCORER)


def write_again_what_has_entries(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages with entries for the index, which Sphinx forgets of a page that it does not write."""
    return [page for page, entries in env.domaindata["index"]["entries"].items() if entries]


def add_scripts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the scripts to the search page alone."""
    if page == "search":
        app.add_js_file(None, body=NO_EXCERPTS)
        app.add_js_file(NAME)


def write_scripts(app: Sphinx, error: Exception | None) -> None:
    """Write the scripts of the search page as one, with the words of the built pages."""
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir) / "book"
        words = words_of(page.read_text("utf8") for page in folder.glob("*.html"))
        chapters = {f"book/{page.stem}": page.read_text("utf8") for page in sorted(folder.glob(CHAPTERS))}
        data = f'const BOOK_WORDS = {json.dumps(" ".join(words))}.split(" ");\n'
        data += f"const BOOK_CHAPTERS = {json.dumps(list(chapters))};\n"
        data += f"const BOOK_SHARES = {json.dumps(shares(chapters.values()))};\n"
        text = data + "\n".join(script.read_text("utf8") for script in SCRIPTS)
        (Path(app.outdir) / "_static" / NAME).write_text(text, "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", set_scorer)
    app.connect("env-updated", write_again_what_has_entries)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
