"""The icon font, cut down to the icons that the built pages use: 3 kB for 156 kB on every first visit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

from tfbook.fonts import cut, kept_in

FOLDER = Path("_static") / "vendor" / "fontawesome" / "webfonts"
FONT = "fa-solid-900"
ICON_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:{1,2}before,?)+)\{content:"\\([0-9a-f]+)"\}')
ESCAPED = re.compile(r'"\\([ef][0-9a-f]{3})"')
LITERAL = re.compile("[\ue000-\uf8ff]")


def used_glyphs(pages: str, css: str) -> set[int]:
    r"""The code points of the icons that pages and scripts name, and of those that the stylesheets show.

    >>> css = '.fa-sun:before{content:"\\f185"}.fa-moon:before{content:"\\f186"}.tip:after{content:"\\f0eb"}'
    >>> sorted(hex(glyph) for glyph in used_glyphs('<i class="fa-solid fa-sun">', css))
    ['0xf0eb', '0xf185']
    """
    wanted = set(re.findall(r"\bfa-[a-z0-9-]+", pages))
    rules = [(set(re.findall(r"fa-[a-z0-9-]+", names)), code) for names, code in ICON_RULE.findall(css)]
    rest = ICON_RULE.sub("", css)
    codes = [code for names, code in rules if names & wanted] + ESCAPED.findall(rest)
    return {int(code, 16) for code in codes} | {ord(icon) for icon in LITERAL.findall(rest)}


def cut_icons(app: Sphinx, error: Exception | None) -> None:
    """Replaces the theme's icon font in the built book."""
    folder = Path(app.outdir) / FOLDER
    full = folder / f"{FONT}.ttf"
    if error or app.builder.format != "html" or not full.exists():
        return
    static = Path(app.outdir) / "_static"
    for unused in (static / "scripts").glob("fontawesome.js*"):
        unused.unlink()
    glyphs = used_glyphs(
        _read(Path(app.outdir).rglob("*.html")) + _read((static / "scripts").glob("*.js")),
        _read(static.rglob("*.css")),
    )
    (folder / f"{FONT}.woff2").write_bytes(cut(full, glyphs, kept_in(app)))
    for face in folder.glob("*.ttf"):
        face.unlink()


def _read(files: Iterable[Path]) -> str:
    return "\n".join(path.read_text("utf8") for path in files)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", cut_icons, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
