"""Search in a book that is opened from disk, and for a word with a wrong letter.

The search page fetches every page that it has found, to show an excerpt. A browser refuses that for a
file and writes an error to its console; from disk, the results come without excerpts.

The index of Sphinx holds stems, ``attent`` for instance. `search_spelling.js` gets
the words of the book as they are written.
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

NO_EXCERPTS = 'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'
SPELLING = Path(__file__).with_name("search_spelling.js")
NOT_TEXT = re.compile(r"<(math|script|style|head)\b.*?</\1>|<[^>]*>", re.DOTALL)
WORD = re.compile(r"\b[a-z]{4,}\b")


def words_of(pages: Iterable[str]) -> list[str]:
    """Return the words of four letters and more, those that most pages have first.

    >>> words_of(["<p>The soft reader</p>", "<p class='read'>A hard reader</p>"])
    ['reader', 'hard', 'soft']
    """
    count: Counter[str] = Counter()
    for page in pages:
        count.update(set(WORD.findall(unescape(NOT_TEXT.sub(" ", page)).lower())))
    return sorted(count, key=lambda word: (-count[word], word))


def add_scripts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the scripts to the search page alone."""
    if page == "search":
        app.add_js_file(None, body=NO_EXCERPTS)
        app.add_js_file(SPELLING.name)


def write_spelling(app: Sphinx, error: Exception | None) -> None:
    """Write the script that corrects words, with the words of the built pages."""
    if error is None and app.builder.format == "html":
        out = Path(app.outdir)
        words = words_of(page.read_text("utf8") for page in (out / "book").glob("*.html"))
        script = f'const BOOK_WORDS = {json.dumps(" ".join(words))}.split(" ");\n{SPELLING.read_text("utf8")}'
        (out / "_static" / SPELLING.name).write_text(script, "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_spelling)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
