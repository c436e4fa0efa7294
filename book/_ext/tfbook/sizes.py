"""Every figure says its size, so that the text below it does not jump when it arrives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

IMAGE = re.compile(r'<img (?![^>]*\bwidth=)(?=[^>]*src="[^"]*_images/([^"/]+\.svg)")')
SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"[^>]*?\bheight="([\d.]+)pt"', re.DOTALL)
PIXELS_OF_A_POINT = 4 / 3


def say_sizes(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Gives every SVG of a page the width and height that its file names."""
    files = {name: Path(app.srcdir) / path for path, name in getattr(app.builder, "images", {}).items()}

    def with_size(found: re.Match[str]) -> str:
        drawn = SIZE.search(files[found[1]].read_text("utf8")[:2000]) if found[1] in files else None
        if drawn is None:
            return found[0]
        width, height = (round(float(points) * PIXELS_OF_A_POINT) for points in drawn.groups())
        return f'<img width="{width}" height="{height}" '

    if "body" in context:
        context["body"] = IMAGE.sub(with_size, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", say_sizes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
