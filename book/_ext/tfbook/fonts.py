"""The fonts of a page: light, and there when its text is first shown.

Each font is cut down to the characters that the pages use. ``layout.html`` asks for those of the first view
before the stylesheet is there; a browser then waits a moment for them, and no line moves when they arrive.
"""

from __future__ import annotations

import hashlib
import string
from html import unescape
from pathlib import Path
from typing import Any

from fontTools import subset
from sphinx.application import Sphinx

from tfbook.typeface import FACES

FOLDERS = ("fonts", "katex/fonts")
TEXT = tuple(f"fonts/{face}" for face in FACES)
MATHEMATICS = ("katex/fonts/KaTeX_Main-Regular.woff2", "katex/fonts/KaTeX_Math-Italic.woff2")
ICONS = ("vendor/fontawesome/webfonts/fa-solid-900.woff2",)


def first_view(body: str) -> tuple[str, ...]:
    """Return the fonts that the first view of a page may need, in the order in which it asks for them.

    >>> first_view("<p>No formula.</p>") == TEXT + ICONS
    True
    """
    return TEXT + (MATHEMATICS if 'class="katex"' in body else ()) + ICONS


def used_characters(pages: list[Path]) -> set[int]:
    """Return the code points in pages, and ASCII, which scripts may write."""
    used = set(string.printable)
    for page in pages:
        used |= set(unescape(page.read_text("utf8")))
    return {ord(character) for character in used}


def cut(font: Path, characters: set[int], folder: Path) -> bytes:
    """Return the font with these characters alone, as woff2. The folder keeps it for the next build."""
    content = font.read_bytes() + repr(sorted(characters)).encode()
    kept = folder / f"{font.stem}-{hashlib.sha256(content).hexdigest()[:16]}.woff2"
    if not kept.exists():
        options = subset.Options(flavor="woff2")
        loaded = subset.load_font(str(font), options)
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=characters)
        cutter.subset(loaded)
        loaded.flavor = "woff2"
        folder.mkdir(parents=True, exist_ok=True)
        subset.save_font(loaded, str(kept), options)
    return kept.read_bytes()


def name_fonts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Give ``layout.html`` the fonts to ask for."""
    context["first_view"] = first_view(context.get("body", ""))


def cut_fonts(app: Sphinx, error: Exception | None) -> None:
    """Cut the fonts of the text and of formulas in the built book."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    characters = used_characters(sorted(out.rglob("*.html")))
    for folder in FOLDERS:
        for font in (out / "_static" / folder).glob("*.woff2"):
            font.write_bytes(cut(font, characters, kept_in(app)))


def kept_in(app: Sphinx) -> Path:
    """Return the folder that keeps cut fonts between builds."""
    return Path(app.doctreedir).parent / "fonts"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", name_fonts)
    app.connect("build-finished", cut_fonts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
