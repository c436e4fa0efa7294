"""Every figure says its size, so that the text below it does not jump when it arrives.

A figure of `tfcore.viz.panels` is one SVG of its wide arrangement with the narrow one in its metadata. Each
becomes a file of its own, and the page lets the browser load the one that fits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

IMAGE = re.compile(r'<img (?![^>]*\bwidth=)(?=[^>]*src="([^"]*_images/)([^"/]+\.svg)")[^>]*>')
SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"[^>]*?\bheight="([\d.]+)pt"', re.DOTALL)
NARROW = re.compile(r'<metadata id="narrow">(.*)</metadata>(?=</svg>\s*\Z)', re.DOTALL)
PHONE = "screen and (max-width: 600px)"
PIXELS_OF_A_POINT = 4 / 3


def size(svg: str) -> str:
    """The size of a drawing as attributes, or nothing where it does not name one."""
    if (found := SIZE.search(svg[:2000])) is None:
        return ""
    width, height = (round(float(points) * PIXELS_OF_A_POINT) for points in found.groups())
    return f'width="{width}" height="{height}" '


def narrow_name(name: str) -> str:
    """
    >>> narrow_name("a.svg")
    'a-narrow.svg'
    """
    return f"{name.removesuffix('.svg')}-narrow.svg"


def say_sizes(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Gives every SVG of a page the width and height that its file names, and a phone its narrow drawing."""
    files = {name: Path(app.srcdir) / path for path, name in getattr(app.builder, "images", {}).items()}

    def with_size(found: re.Match[str]) -> str:
        tag, (folder, name) = found[0], found.groups()
        if name not in files:
            return tag
        svg = files[name].read_text("utf8")
        image = tag.replace("<img ", f"<img {size(svg)}", 1)
        if (narrow := NARROW.search(svg)) is None:
            return image
        source = f'<source media="{PHONE}" srcset="{folder}{narrow_name(name)}" {size(narrow[1])}/>'
        return f"<picture>{source}{image}</picture>"

    if "body" in context:
        context["body"] = IMAGE.sub(with_size, context["body"])


def part_drawings(app: Sphinx, error: Exception | None) -> None:
    """Writes both drawings of a figure to files of their own."""
    if error or app.builder.format != "html":
        return
    for path in (Path(app.outdir) / "_images").glob("*.svg"):
        svg = path.read_text("utf8")
        if narrow := NARROW.search(svg):
            path.with_name(narrow_name(path.name)).write_text(narrow[1], "utf8")
            path.write_text(NARROW.sub("", svg), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", say_sizes)
    app.connect("build-finished", part_drawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
