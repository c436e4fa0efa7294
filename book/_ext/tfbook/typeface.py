"""The book's typeface, Source Serif 4, shipped with the pages (SIL Open Font License)."""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PACKAGE = Path(__file__).parents[3] / "node_modules" / "@fontsource" / "source-serif-4"
# In the order in which pages ask for them.
FACES = tuple(f"source-serif-4-latin-{face}.woff2" for face in ("400-normal", "600-normal", "400-italic"))


def ship_fonts(app: Sphinx) -> None:
    """Copies the faces that ``course.css`` names, and their licence."""
    if app.builder.format != "html":
        return
    if not PACKAGE.exists():
        raise ExtensionError("node_modules/@fontsource is missing: book/build.py installs it")
    target = Path(app.outdir) / "_static" / "fonts"
    target.mkdir(parents=True, exist_ok=True)
    for face in FACES:
        shutil.copy2(PACKAGE / "files" / face, target)
    shutil.copy2(PACKAGE / "LICENSE", target / "source-serif-4-LICENSE.txt")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", ship_fonts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
