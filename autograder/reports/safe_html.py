"""Clean the HTML of students' texts: it can run no script, and it loads nothing from other hosts.

nbgrader shows students' Markdown and outputs as HTML; `nbgrader_config.py` adds these filters for feedback
and for formgrader. Mathematics becomes MathML, which browsers show without a script.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache, lru_cache
from html import escape, unescape
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from autograder.course.visible import visible
from autograder.grading.matching import count_without_pictures

_TAGS = """
    a abbr b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre q s
    small span strong sub summary sup table tbody td tfoot th thead tr u ul
"""


_OTHER_TAG = re.compile(rf"<(?![!?]|/?(?:{'|'.join(_TAGS.split())})[\s/>])", re.IGNORECASE)
"""A `<` that begins neither a permitted tag nor a comment."""
_COMMON = {"class", "id", "style", "title"}
_ATTRIBUTES = dict.fromkeys(_TAGS.split(), _COMMON) | {
    "*": set(),
    "a": {"href", "name"},
    "img": {"alt", "height", "src", "width"},
    "td": {*_COMMON, "colspan", "rowspan"},
    "th": {*_COMMON, "colspan", "rowspan"},
}
_STYLES = """
    border-left padding-left margin margin-left font-family white-space list-style-type text-align
"""
MOST_TEX = 5_000
MOST_CODE, MOST_SECONDS = 10_000, 2
"""The most characters of a cell that is shown in colours, and the most seconds for the colours of a page."""
LONGEST = 20_000
"""The most characters of Markdown that are converted: for some texts the time is quadratic in the length."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def clean(html: object, formulas: list[str] | None = None) -> str:
    """Return the HTML without scripts; tags that are not permitted are shown as text.

    Args:
        html: the HTML that a student wrote, or that was made from a student's text.
        formulas: the TeX of each formula for which the HTML has a mark; in an attribute it replaces the mark.
    """
    text = html.decode() if isinstance(html, bytes) else str(html)
    return nh3.clean(
        _OTHER_TAG.sub("&lt;", text).encode(errors="replace").decode(),  # half a pair of surrogates: "?"
        tags=set(_TAGS.split()),
        attributes=_ATTRIBUTES,
        attribute_filter=_attribute_filter(formulas or []),
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=set(_STYLES.split()),
        link_rel=None,
    )


def _attribute_filter(formulas: list[str]) -> Callable[[str, str, str], str | None]:
    """Return a filter that drops unsafe addresses and replaces the mark of a formula by its TeX.

    MathML in an attribute would end the attribute, and a mark may hide ``javascript:``, so no attribute keeps
    a mark.
    """

    def permitted(tag: str, name: str, value: str) -> str | None:
        if name in ("alt", "title"):
            return _MARKS.sub("", _fill_in_formulas(value, formulas))
        if name == "src" and not value.startswith("data:image/"):
            return None  # an image on another host would show that host who reads the page
        if name == "href" and _BLANKS.sub("", value).lower().startswith("data:"):
            return None  # browsers ignore blanks in such an address
        return None if _MARKS.search(value) else value

    return permitted


_BLANKS = re.compile(r"[\x00-\x20\x7f-\xa0]")
_MARKS = re.compile("[\ue000\ue001]")
_MARK = re.compile("\ue000(\\d+)\ue001")


def _fill_in_formulas(text: str, formulas: list[str]) -> str:
    """Return a text with each mark replaced by its formula; a mark that a student made up is removed."""
    return _MARK.sub(lambda found: "".join(formulas[int(found[1]) :][:1]), text)


class EscapeNames(Preprocessor):
    """A preprocessor that escapes the names that formgrader shows around a submission."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        if "submission_id" in resources:
            resources |= {name: escape(v) for name, v in resources.items() if isinstance(v, str)}
        return nb, resources


@pass_context
def markdown2html(context: Any, source: str) -> str:
    """Return Markdown as clean HTML with MathML; a text that is too long or too odd stays plain."""
    cell = context.get("cell", {})
    renderer = _Renderer(attachments=cell.get("attachments", {}))
    if count_without_pictures(source) > LONGEST:
        return f"<pre>{escape(source)}</pre>"
    try:
        rendered = MarkdownWithMath(renderer=renderer).render(_MARKS.sub("", source))
        cleaned = clean(rendered, renderer.tex)
    except Exception:  # such as text nested too deeply; no text may stop the feedback of a class
        return f"<pre>{escape(source)}</pre>"
    return _fill_in_formulas(cleaned, renderer.formulas)


class _Renderer(IPythonRenderer):
    """A renderer that writes a mark for each formula, because the cleaner would remove MathML."""

    def __init__(self, attachments: dict[str, dict[str, str]]) -> None:
        super().__init__(escape=False, attachments=attachments, exclude_anchor_links=True)
        self.formulas: list[str] = []
        self.tex: list[str] = []

    def _embed_image_or_attachment(self, src: str) -> str:
        """Return a picture as data, or its name if the picture is missing."""
        try:
            return str(super()._embed_image_or_attachment(src))
        except InvalidNotebook:
            return src

    def block_math(self, body: str) -> str:
        return self._mark(body, True)

    def multiline_math(self, text: str) -> str:
        return self._mark(text, True)

    def latex_environment(self, name: str, body: str) -> str:
        return self._mark(rf"\begin{{{name}}}{body}\end{{{name}}}", True)

    def inline_math(self, body: str) -> str:
        return self._mark(body, False)

    def _mark(self, tex: str, as_block: bool) -> str:
        formula = mathml(tex, as_block)
        self.tex.append(tex)
        self.formulas.append(f'<span class="formula">{formula}</span>' if as_block else formula)
        return f"\ue000{len(self.formulas) - 1}\ue001"


def _without_colours(source: str) -> str:
    return f'<div class="highlight"><pre>{escape(source)}</pre></div>'


@pass_context
def highlight_code(context: Any, source: str, language: str | None = None, metadata: Any = None) -> str:
    """Return code with colours, or without them if that would take long: some texts need quadratic time.

    Characters that hide text or change its direction are made visible, so that code reads as it runs.
    """
    source = visible(source.replace("\r\n", "\n"))
    resources = context.get("resources", {})
    if len(source) > MOST_CODE or is_out_of_time(resources):
        return _without_colours(source)
    html, seconds = _coloured(source, language)
    resources["spent"] = resources.get("spent", 0.0) + seconds
    return html


def is_out_of_time(resources: dict[str, Any]) -> bool:
    """Return whether the colours of a page have taken so long that its other cells are shown without."""
    return bool(resources.get("spent", 0.0) > MOST_SECONDS)


@lru_cache(maxsize=128)
def _coloured(source: str, language: str | None) -> tuple[str, float]:
    """Return code with colours, and the seconds that this took, which count for every page with the code."""
    start = time.thread_time()
    try:
        html = str(_colours()(source, language))
    except Exception:  # such as a missing lexer
        html = _without_colours(source)
    return html, time.thread_time() - start


@cache
def _colours() -> Highlight2HTML:
    return Highlight2HTML(pygments_lexer="python")


def mathml(tex: str, as_block: bool = False) -> str:
    """Return the MathML of a formula, or its TeX if it cannot be read or docutils is not installed."""
    if len(tex) > MOST_TEX:
        return f"<code>{escape(tex)}</code>"
    plain = escape(unescape(tex), quote=False)
    try:
        from docutils.utils.math.latex2mathml import tex2mathml

        converted = str(tex2mathml(_simplify_tex(tex.strip()), as_block=as_block))
    except Exception:  # docutils raises many kinds of errors; no formula may stop a student's feedback
        return f"<code>{plain}</code>"
    return converted if _only_mathml(converted) else f"<code>{plain}</code>"


def _simplify_tex(tex: str) -> str:
    r"""Return a formula in the TeX that docutils reads: ``\frac{1}{8}`` for ``\tfrac18``, no fine spacing."""
    tex = re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", tex).replace(r"\!", "").replace(r"\dots", r"\ldots")
    return re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", tex)


def _only_mathml(text: str) -> bool:
    return all(name.startswith("m") for name in re.findall(r"</?\s*([^\s>/]+)", text)) and "href" not in text
