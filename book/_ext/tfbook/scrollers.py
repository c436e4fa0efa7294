"""The theme's measuring of what scrolls sideways, kept to what is on the screen.

When a page is there, the theme measures every block of code and every table, to let the keyboard reach those
that scroll. That lays out the whole page at once, closed boxes included, and undoes the stylesheet's
``content-visibility``. Here the same function takes what is not rendered for something that scrolls, without
measuring, and runs again when something is rendered.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from tfbook.lean import THEME

SCRIPT = Path("_static") / "scripts" / "pydata-sphinx-theme.js"
MEASURE = "e.tabIndex=e.scrollWidth>e.clientWidth"
AGAIN = 'window.addEventListener("resize",t)'
EVENTS = '["toggle","contentvisibilityautostatechange"]'
PATCHES = {
    MEASURE: MEASURE.replace("=", "=!1===e.checkVisibility?.({contentVisibilityAuto:!0})||", 1),
    AGAIN: f"{EVENTS}.forEach(e=>document.addEventListener(e,t,!0)),{AGAIN}",
}


def patch(script: str) -> str:
    """The theme's script with both changes.

    Raises:
        ExtensionError: when the script is not the one that this was written for.
    """
    for old, new in PATCHES.items():
        if new in script:
            continue
        if script.count(old) != 1:
            raise ExtensionError(f"pydata-sphinx-theme.js no longer holds {old!r}: see tfbook/scrollers.py")
        script = script.replace(old, new)
    return script


def patch_script(app: Sphinx, error: Exception | None) -> None:
    """Changes the script of the built book."""
    if error or app.builder.name != "html" or app.config.html_theme != THEME:
        return
    path = Path(app.outdir) / SCRIPT
    path.write_text(patch(path.read_text("utf8")), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", patch_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
