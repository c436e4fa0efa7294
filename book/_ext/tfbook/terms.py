"""Each chapter links the first use of a term to the glossary, and shows its definition beside the text.

The links are made here, so that no chapter is edited for them: in running prose, at the first use that every
reader sees, and in folded text only where the term is nowhere else. ``glossary.yml`` declares other spellings
and words that mean something else. The definitions that a page needs are put at its end, hidden; a link names
its own by ``aria-describedby``, and ``terms.js`` shows it. Without a script the link leads to the glossary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from tfbook.glossary_terms import Finder, Term, TermError, read_terms
from tfbook.page_script import load_script_with
from tfbook.quiz import quiz_question

GLOSSARY = "glossary.md"
DECLARED = "glossary.yml"
SCRIPT = Path(__file__).with_name("terms.js")
LINKED = re.compile(r"\d\d_\w+|after_pretraining|claims")
NOT_PROSE = (nodes.table, nodes.figure, nodes.footnote, quiz_question)
WHERE = re.compile(r"( See( the)?)?\s*$")
RUN_IN_HEADING = re.compile(r"[.?!:]['\"’”]?$")


class glossary_link(nodes.Inline, nodes.TextElement):
    """The first use of a term on a page."""


class glossary_definitions(nodes.General, nodes.Element):
    """The definitions of the terms that a page links."""


class glossary_definition(nodes.General, nodes.TextElement):
    """One definition."""


def links_terms(page: str) -> bool:
    """Return whether a page links its terms.

    >>> [links_terms(page) for page in ("book/02_qkv", "book/claims", "book/glossary")]
    [True, True, False]
    """
    return LINKED.fullmatch(page.rpartition("/")[2]) is not None


def read_glossary(doctree: nodes.document) -> dict[str, tuple[str, nodes.paragraph]]:
    """Return each term's anchor and definition from the page of the glossary."""
    found = {}
    for item in doctree.findall(nodes.definition_list_item):
        term, paragraph = item.next_node(nodes.term), item.next_node(nodes.paragraph)
        found[term.astext()] = (term["ids"][0], paragraph)
    return found


def definition(paragraph: nodes.paragraph) -> list[nodes.Node]:
    """Return the text of a definition, without the link at its end that names the chapter.

    A box that a reader opens by pointing must not hold links: those that are left become plain words.
    """
    children = list(paragraph.children)
    if len(children) > 2 and children[-1].astext() == "." and _is_link(children[-2]):
        children[-3:] = [nodes.Text(WHERE.sub("", children[-3].astext()))]
    return [nodes.Text(child.astext()) if _is_link(child) else child.deepcopy() for child in children]


def _is_link(node: nodes.Node) -> bool:
    return isinstance(node, nodes.reference | pending_xref)


def prose(document: nodes.document) -> Iterator[nodes.paragraph]:
    """Yield the paragraphs of running prose, those that are folded last."""
    paragraphs = [node for node in document.findall(nodes.paragraph) if _is_prose(node)]
    yield from (node for node in paragraphs if not _is_folded(node))
    yield from (node for node in paragraphs if _is_folded(node))


def _ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    while (node := node.parent) is not None:
        yield node


def _is_prose(paragraph: nodes.paragraph) -> bool:
    return not any(
        isinstance(node, NOT_PROSE) or "nb_element" in node or "tf-launch" in node.get("classes", [])
        for node in _ancestors(paragraph)
    )


def _is_folded(paragraph: nodes.paragraph) -> bool:
    return any(node.get("design_component") == "dropdown" for node in _ancestors(paragraph))


def link_terms(element: nodes.Element, finder: Finder) -> None:
    """Put a link around each first use of a term in a paragraph, emphasised words included."""
    children: list[nodes.Node] = []
    for child in _joined(element.children):
        if isinstance(child, nodes.emphasis | nodes.strong) and not RUN_IN_HEADING.search(child.astext()):
            link_terms(child, finder)
        if not isinstance(child, nodes.Text):
            children.append(child)
            continue
        for text, term in finder.split(child.astext()):
            children.append(glossary_link("", text, term=term) if term else nodes.Text(text))
    element[:] = [child for child in children if child.astext() or not isinstance(child, nodes.Text)]


def _joined(children: list[nodes.Node]) -> list[nodes.Node]:
    """Return the children with neighbouring texts as one: a line of the source is a text of its own."""
    joined: list[nodes.Node] = []
    for child in children:
        if isinstance(child, nodes.Text) and joined and isinstance(joined[-1], nodes.Text):
            joined[-1] = nodes.Text(joined[-1].astext() + child.astext())
        else:
            joined.append(child)
    return joined


class LinkTerms(SphinxPostTransform):
    """See the module's docstring."""

    default_priority = 5  # before references are resolved
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        page = self.env.docname
        glossary = f"{page.rpartition('/')[0]}/{Path(GLOSSARY).stem}".lstrip("/")
        if not links_terms(page) or glossary not in self.env.all_docs:
            return
        known = read_glossary(self.env.get_doctree(glossary))
        finder = Finder(_declared(self.env, glossary, list(known)), page.rpartition("/")[2])
        for paragraph in prose(self.document):
            link_terms(paragraph, finder)
        shown = glossary_definitions()
        for link in self.document.findall(glossary_link):
            anchor, paragraph = known[link["term"]]
            link["target"] = f"{self.app.builder.get_relative_uri(page, glossary)}#{anchor}"
            link["definition"] = anchor.replace("term-", "definition-", 1)
            shown += glossary_definition("", "", *definition(paragraph), ids=[link["definition"]])
        self.document += shown


def _declared(env: BuildEnvironment, glossary: str, entries: list[str]) -> list[Term]:
    path = Path(env.doc2path(glossary)).with_name(DECLARED)
    try:
        return read_terms(entries, path.read_text("utf8") if path.exists() else "")
    except TermError as error:
        raise ExtensionError(f"{path.name}: {error}") from error


def note_glossary(app: Sphinx, page: str, source: list[str]) -> None:
    """Make a chapter depend on the glossary, so that a change of the glossary writes the chapter again."""
    if links_terms(page):
        folder = Path(app.env.doc2path(page)).parent
        for name in (GLOSSARY, DECLARED):
            app.env.note_dependency(str(folder / name))


def visit_link(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(
        f'<a class="tf-term" href="{escape(node["target"])}" aria-describedby="{node["definition"]}">'
    )


def depart_link(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append("</a>")


def visit_definitions(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append('<div class="tf-definitions">')


def visit_definition(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(f'<div class="tf-definition" id="{node["ids"][0]}" role="tooltip" popover="manual">')


def depart_block(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append("</div>\n")


def has_a_box(node: nodes.Node) -> bool:
    """Whether the script shows something beside this link: a definition, or the reference of a citation."""
    return isinstance(node, glossary_link) or (
        isinstance(node, nodes.reference) and "reftitle" in node and "bibliography" in node.get("refuri", "")
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(glossary_link, html=(visit_link, depart_link))
    app.add_node(glossary_definitions, html=(visit_definitions, depart_block))
    app.add_node(glossary_definition, html=(visit_definition, depart_block))
    app.add_post_transform(LinkTerms)
    app.connect("source-read", note_glossary)
    load_script_with(app, SCRIPT, has_a_box)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
