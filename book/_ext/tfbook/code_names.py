"""A name of code breaks after an underscore, slash or dot, not in a word. A short one stays whole.

In a table short names break as well, so that its columns fit a phone.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from sphinx.application import Sphinx

CELL = re.compile(r"(<td\b.*?</td>)", re.DOTALL)
NAME = re.compile(r'<span class="pre">([^<]+)</span>')
JOINT = re.compile(r"(?<=[A-Za-z0-9])([_/.])(?=[A-Za-z])")
SHORT = 16


def let_names_break(html: str) -> str:
    """The page with each name of code kept whole, or with a possible break after each of its joints.

    >>> let_names_break('<span class="pre">top_k</span>')
    '<span class="pre tf-together">top_k</span>'
    >>> let_names_break('<span class="pre">scaled_dot_product</span>')
    '<span class="pre">scaled_<wbr>dot_<wbr>product</span>'
    >>> let_names_break('<td><span class="pre">top_k</span></td>')
    '<td><span class="pre">top_<wbr>k</span></td>'
    """
    parts = CELL.split(html)
    parts[::2] = [NAME.sub(_whole_or_marked, part) for part in parts[::2]]
    parts[1::2] = [NAME.sub(_marked, part) for part in parts[1::2]]
    return "".join(parts)


def _whole_or_marked(name: re.Match[str]) -> str:
    is_short = len(unescape(name[1])) <= SHORT
    return f'<span class="pre tf-together">{name[1]}</span>' if is_short else _marked(name)


def _marked(name: re.Match[str]) -> str:
    return '<span class="pre">' + JOINT.sub(r"\1<wbr>", name[1]) + "</span>"


def mark_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Marks the names of code on a page and in its list of contents."""
    for part in ("body", "toc"):
        if part in context:
            context[part] = let_names_break(context[part])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mark_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
