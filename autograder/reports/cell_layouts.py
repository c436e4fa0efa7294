"""Keep the HTML of cells by their content: cells that are equal on many pages are laid out only once.

Most cells of a page are the released ones, which all students share. The template `feedback/index.html.j2`
asks here for each cell and writes a placeholder; `fill_in` replaces the placeholders of a finished page.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode

from autograder.course.cells import grade_id_of
from autograder.reports.tidy_html import tidy

if TYPE_CHECKING:
    from autograder.reports.feedback_page import Summary

MOST_CHARACTERS = 16_000_000
"""The most characters of HTML that are kept for the pages that follow."""


@dataclass
class CellLayouts:
    """The HTML of cells, of the page that is being made and of the pages before it."""

    _kept: dict[str, str] = field(default_factory=dict)
    _size: int = 0
    _of_page: dict[str, str] = field(default_factory=dict)
    _word: str = field(default_factory=lambda: secrets.token_hex(16))
    """A word in every mark, which no text of a student can contain."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CellLayouts:
        """Return this object itself, since nbconvert copies the resources of each page."""
        return self

    def start_page(self) -> None:
        """Forget the cells that only the last page had."""
        self._of_page = {}

    def key(self, cell: NotebookNode, summary: Summary, widgets: Any) -> str:
        """Return a hash of all that the HTML of a cell is made from, and keep its HTML if it is known.

        Args:
            cell: the cell, with its outputs and attachments.
            summary: the summary of the page, with the points and the comment of the cell.
            widgets: the state of the notebook's widgets; nbconvert shows a widget only with its state.
        """
        name = grade_id_of(cell)
        on_it = summary.lines.get(name), summary.comments.get(name)
        source = json.dumps([cell, repr(on_it), widgets], sort_keys=True)
        key = sha256(source.encode(errors="surrogatepass")).hexdigest()
        if key in self._kept:
            self._of_page[key] = self._kept[key] = self._kept.pop(key)  # the last in the order of use
        return key

    def has(self, key: str) -> bool:
        """Return whether the HTML of a cell is known."""
        return key in self._of_page

    def add(self, key: str, html: str, keep: bool) -> str:
        """Add the HTML of a cell, for this page or also for the pages that follow; return an empty text."""
        self._of_page[key] = html = tidy(html)
        if keep and len(html) <= MOST_CHARACTERS // 100:
            self._kept[key] = html
            self._size += len(html)
            while self._size > MOST_CHARACTERS:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        return ""

    def mark(self, key: str) -> str:
        """Return the text that takes the place of a cell until its page is filled in."""
        return f"{self._word}-{key}"

    def fill_in(self, page: str) -> str:
        """Return the page with the HTML of each cell in place of its placeholder."""
        return re.sub(rf"{self._word}-([0-9a-f]{{64}})", lambda found: self._of_page[found[1]], page)
