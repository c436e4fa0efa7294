"""A script that is loaded only by the pages that need it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def load_script_with(
    app: Sphinx, script: Path, kind: type[nodes.Element] | Callable[[nodes.Node], bool]
) -> None:
    """Write a script into the built book, and load it on the pages that have a node of this kind."""

    def write(app: Sphinx) -> None:
        if app.builder.format == "html":
            target = Path(app.outdir) / "_static" / script.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(script.read_text("utf8"), "utf8")

    def add(
        app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
    ) -> None:
        if doctree and next(doctree.findall(kind), None) is not None:
            app.add_js_file(script.name, loading_method="defer")

    app.connect("builder-inited", write)
    app.connect("html-page-context", add)
