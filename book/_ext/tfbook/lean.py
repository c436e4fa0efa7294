"""What a page loads before it shows its text: one stylesheet, of the rules in use, and next to no script.

The theme and the extensions bring a dozen stylesheets of 600 kB. They are joined in their order, PurgeCSS
takes out what no page and no script can match, and every page links the one that is left. Scripts are
deferred, so they run in the same order once the page is there. Pictures wait for the fonts: a browser has few
connections to one host.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from tfbook.katex import ROOT, node_binary

PACKAGE = ROOT / "node_modules" / "purgecss"
PURGE = Path(__file__).with_name("purge.cjs")
NAME = "book.css"
SOURCES = "book.css.txt"  # the files it was made of
LINK = re.compile(r'\s*<link\b[^>]*\brel="stylesheet"[^>]*>')
LINK_TO_ALL = re.compile(rf"_static/{re.escape(NAME)}(\?v=\w+)?(?=\")")
WITHOUT_SCRIPT = 'data-theme="auto"', 'data-theme="light"'  # for "auto" code has no colours
SCRIPT = re.compile(r"<script(?=[^>]* src=)(?![^>]* defer)")
SETTING = re.compile(r"<script>(?=DOCUMENTATION_OPTIONS\.)")
IMPORT = re.compile(r'@import\s+(?:url\()?"([^":]+)"\)?;')
URL = re.compile(r"""url\((["']?)(?!["']?(?:data:|https?:|#|/))([^)"']+)\1\)""")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
THEME = "sphinx_book_theme"
ITS_OWN = ("styles/theme.css", "styles/pydata-sphinx-theme.css")


def one_stylesheet(head: str, address: str) -> str:
    """The head of a page with one link to a stylesheet in place of those it has.

    >>> one_stylesheet('<title>A</title><link rel="stylesheet" href="a.css" />', "_static/book.css")
    '<title>A</title>\\n<link rel="stylesheet" href="_static/book.css" />'
    """
    return f'{LINK.sub("", head)}\n<link rel="stylesheet" href="{address}" />'


def defer_scripts(head: str) -> str:
    """The head of a page with its scripts deferred, and in their places the lines that change their settings.

    >>> defer_scripts('<script src="a.js"></script><script>b()</script>')
    '<script defer src="a.js"></script><script>b()</script>'
    >>> defer_scripts("<script>DOCUMENTATION_OPTIONS.searches = true;</script>")
    '<script type="module">DOCUMENTATION_OPTIONS.searches = true;</script>'
    """
    return SETTING.sub('<script type="module">', SCRIPT.sub("<script defer", head))


def joined(static: Path, names: list[str]) -> str:
    """Stylesheets as one that lies in `static`: imports in their places, addresses from there."""
    return "\n".join(_with_imports(static, name) for name in names)


def _with_imports(static: Path, name: str) -> str:
    folder = posixpath.dirname(name)

    def from_static(found: re.Match[str]) -> str:
        return f'url("{posixpath.normpath(posixpath.join(folder, found[2]))}")'

    def imported(found: re.Match[str]) -> str:
        return _with_imports(static, posixpath.normpath(posixpath.join(folder, found[1])))

    text = COMMENT.sub("", (static / name).read_text("utf8"))
    return IMPORT.sub(imported, URL.sub(from_static, text))


def purge(css: str, pages: list[Path]) -> str:
    """The rules of a stylesheet that the pages or scripts can use."""
    if not PACKAGE.exists():
        raise ExtensionError("node_modules/purgecss is missing: book/build.py installs it")
    run = subprocess.run(
        [node_binary(), str(PURGE), str(PACKAGE)],
        input=json.dumps({"css": css, "content": [str(page) for page in pages]}),
        capture_output=True,
        text=True,
        encoding="utf8",
    )
    if run.returncode:
        raise ExtensionError(f"PurgeCSS failed: {run.stderr.strip()}")
    return run.stdout


def offer(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Gives ``layout.html`` its functions and pictures a low priority. The search page defers no script."""
    context["one_stylesheet"] = one_stylesheet
    context["defer_scripts"] = str if page == "search" else defer_scripts
    if "body" in context:
        context["body"] = context["body"].replace("<img ", '<img fetchpriority="low" ')


def write_stylesheet(app: Sphinx, error: Exception | None) -> None:
    """Writes the stylesheet, and its version into the links of all pages; without a script they are light."""
    if error or app.builder.name != "html" or app.config.html_theme != THEME:
        return
    out = Path(app.outdir)
    static = out / "_static"
    pages = sorted(out.rglob("*.html"))
    names = [*ITS_OWN, *(sheet.filename.split("/", 1)[1] for sheet in _registered(app))]
    css = purge(joined(static, names), [*pages, *sorted(static.rglob("*.js"))])
    (static / NAME).write_text(css, "utf8")
    (static / SOURCES).write_text("\n".join(names), "utf8")
    versioned = f"_static/{NAME}?v={hashlib.sha256(css.encode()).hexdigest()[:8]}"
    for page in pages:
        text = page.read_text("utf8")
        linked = LINK_TO_ALL.sub(versioned, text).replace(*WITHOUT_SCRIPT, 1)
        if linked != text:
            page.write_text(linked, "utf8")


def _registered(app: Sphinx) -> list[Any]:
    """What extensions and the configuration have added, in the order in which a page would link them."""
    return sorted(app.builder._css_files, key=lambda sheet: sheet.priority)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", offer, priority=900)
    app.connect("build-finished", write_stylesheet, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
