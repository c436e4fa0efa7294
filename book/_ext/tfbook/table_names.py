"""A long name of code in a table breaks after an underscore, slash or dot, not in the middle of a word."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
NAME = re.compile(r'(?<=<span class="pre">)[^<]+')
JOINT = re.compile(r"(?<=[A-Za-z0-9])([_/.])(?=[A-Za-z])")


def let_names_break(html: str) -> str:
    """The page with a possible break after each joint of the names in its tables.

    >>> let_names_break('<td><span class="pre">top_k</span></td><span class="pre">top_k</span>')
    '<td><span class="pre">top_<wbr>k</span></td><span class="pre">top_k</span>'
    """
    return CELL.sub(lambda cell: NAME.sub(lambda name: JOINT.sub(r"\1<wbr>", name[0]), cell[0]), html)


def mark_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Marks the joints in the tables of a page."""
    if "body" in context:
        context["body"] = let_names_break(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mark_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
