"""The HTML of a cell is written as nbconvert's parser writes it, also where the parser is not asked."""

from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.reports import safe_html, tidy_html

NAMES = ["div", "span", "pre", "p", "b", "img", "br", "script", "P", "x-y"]
ATTRIBUTES = [
    "",
    ' class=" a  b "',
    ' class=""',
    ' id="i"',
    " class='q'",
    ' title="&lt;"',
    ' onclick="x"',
    ' id="1" id="2"',
    ' title="1" id="2" class="3"',
    " x",
]
TEXTS = [
    "x",
    " ",
    "\n\n",
    " \n ",
    "\t",
    "&lt;",
    "&amp;",
    "&quot;",
    "&#39;",
    "&nbsp;",
    "&copy;",
    "&",
    ">",
    "<",
    "é\xa0",
    "\r",
]


def element(inside):
    parts = st.sampled_from(NAMES), st.sampled_from(ATTRIBUTES), st.lists(inside, max_size=3)
    return st.builds(lambda name, more, held: f"<{name}{more}>{''.join(held)}</{name}>", *parts)


ODD = st.sampled_from([*TEXTS, "<br/>", "</p>", "<div>", "<!-- x -->", "<b >", "</b x>"])
FRAGMENTS = st.lists(st.recursive(ODD, element, max_leaves=12), max_size=4).map("".join)


@settings(max_examples=400)
@given(FRAGMENTS)
def test_what_is_written_without_the_parser_is_what_the_parser_writes(html):
    rewritten = tidy_html._rewrite(html)
    assert rewritten in (None, str(BeautifulSoup(html, "html.parser")))


def test_code_with_colours_needs_no_parser(monkeypatch):
    """This is the text of most cells that differ between students."""
    code = safe_html.clean(safe_html.highlight_code({}, "x = 'it' if 1 < 2 else \"is\"  # &\n\n\ny = 1"))
    html = f'<div id="1" class=" cell ">\n\n{code}</div>'
    parsed = str(BeautifulSoup(html, "html.parser"))
    monkeypatch.setattr(tidy_html, "BeautifulSoup", None)
    assert tidy_html.tidy(html) == parsed
