"""Names and roles for a screen reader where an extension gives wrong ones."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

WRONG = {
    # on folded code, in place of the words "Show the training loop" that everyone else sees
    ' aria-label="Toggle hidden content"': "",
    # on an entry of the bibliography, a role that ARIA has given up; the entries stand in a list
    'role="doc-biblioentry"': 'role="listitem"',
}


def mend_names(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Takes the wrong names and roles out of a page."""
    for wrong, right in WRONG.items():
        if "body" in context:
            context["body"] = context["body"].replace(wrong, right)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mend_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
