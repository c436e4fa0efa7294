"""Code without tags around what has the colour of plain text, names and brackets: two of three tags."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

# Classes of Pygments that both of the theme's styles give the colour of `.highlight` itself.
PLAIN = ("n", "nn", "nx", "p", "pm", "w")
TAGGED = re.compile(rf'<span class="(?:{"|".join(PLAIN)})">([^<]*)</span>')


def untag(html: str) -> str:
    """The page with these tokens as bare text.

    >>> untag('<span class="k">if</span><span class="w"> </span><span class="n">a</span>')
    '<span class="k">if</span> a'
    """
    return TAGGED.sub(r"\1", html)


def untag_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Untags the code of a page."""
    if "body" in context:
        context["body"] = untag(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", untag_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
