"""The book's own Sphinx extensions, one idea a module."""

from __future__ import annotations

from sphinx.application import Sphinx

MODULES = (
    "katex",
    "anywidget",
    "quiz",
    "predict",
    "terms",
    "numbers",
    "number_signs",
    "claims",
    "citation",
    "bibliography",
    "exercises",
    "chapters",
    "launch",
    "alt_text",
    "accessible",
    "open_graph",
    "landing",
    "sizes",
    "heights",
    "spellings",
    "folds",
    "search",
    "typeface",
    "fonts",
    "api",
    "plain_tokens",
    "code_names",
    "scrollers",
    "follow",
    "lean",
    "icons",
    "missing",
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Loads every module of the package as an extension."""
    for module in MODULES:
        app.setup_extension(f"tfbook.{module}")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
