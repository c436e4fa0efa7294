"""Search in a book that is opened from disk.

The search page fetches every page that it has found, to show an excerpt. A browser refuses that for a
file and writes an error to its console; from disk, the results come without excerpts.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

NO_EXCERPTS = 'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'


def add_script(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Adds the line to the search page alone."""
    if page == "search":
        app.add_js_file(None, body=NO_EXCERPTS)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
