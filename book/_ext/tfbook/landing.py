"""The landing page at the address of the book itself, beside the other pages in ``book/``.

The page is written once more, one folder up, with its relative addresses from there. Both copies name the
address of the book as the canonical one, so that a search engine lists the page once.
"""

from __future__ import annotations

import posixpath
import re
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tfbook.open_graph import published_at

ADDRESS = re.compile(
    r'(?<=\s)((?:href|src|action|data-(?:content_root|script|data|file))=")(?![a-z]+:|[#/"])([^"#?]*)'
)


def one_folder_up(html: str, folder: str) -> str:
    """Return a page of a folder as it must be beside the folder.

    >>> one_folder_up('<a href="x.html#y"> <img src="../z.svg"> <a href="#here">', "book")
    '<a href="book/x.html#y"> <img src="z.svg"> <a href="#here">'
    >>> one_folder_up('<html data-content_root="../">', "book")
    '<html data-content_root="./">'
    """

    def from_there(found: re.Match[str]) -> str:
        slash = "/" if found[2].endswith("/") else ""
        return f"{found[1]}{posixpath.normpath(posixpath.join(folder, found[2]))}{slash}"

    return ADDRESS.sub(from_there, html)


def add_canonical(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Name the address of the book as that of the landing page."""
    address = published_at(Path(app.srcdir) / "_config.yml")
    if page == app.config.root_doc and address:
        link = f'<link rel="canonical" href="{escape(address)}">'
        context["metatags"] = f"{context.get('metatags', '')}\n{link}"


def write_landing_page(app: Sphinx, error: Exception | None) -> None:
    """Write the copy, once the page itself is finished."""
    folder, _, name = app.config.root_doc.rpartition("/")
    if error is None and app.builder.name == "html" and folder:
        html = (Path(app.outdir) / folder / f"{name}.html").read_text("utf8")
        (Path(app.outdir) / f"{name}.html").write_text(one_folder_up(html, folder), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_canonical)
    app.connect("build-finished", write_landing_page, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
