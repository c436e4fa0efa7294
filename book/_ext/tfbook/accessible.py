"""Names for a screen reader where an extension gives a wrong one."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

MISNAMED = ' aria-label="Toggle hidden content"'
"""On folded code, in place of the words "Show code cell source" that everyone else sees."""


def name_folded_code(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Lets folded code be called what its line says."""
    if "body" in context:
        context["body"] = context["body"].replace(MISNAMED, "")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", name_folded_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
