"""Numbers in prose as print sets them: a true minus, one line with a percent sign, noun or power of ten."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

AS_TYPED = (nodes.literal, nodes.literal_block, nodes.doctest_block, nodes.math, nodes.math_block, nodes.raw)
COMPUTED = "pasted-text"
"""The class of what ``{glue:text}`` and ``{number}`` put into a page."""
NUMBERED = re.compile(r" (?=%)|(?<=\b[Cc]hapter) (?=\d)|(?<=\b[Nn]otebook) (?=\d)|(?<=\b[Ff]igure) (?=\d)")
"""The space before a percent sign, and between a noun such as chapter and its number."""
PERCENT = re.compile(r"(?<=\d)%$")
HYPHEN = re.compile(r"^-(?=\d)")
POWER = re.compile(r"(\{\})?\\times")
NAME = re.compile(r"\b([A-Z][\w.]*\w-\d\w*)")
"""A name that ends in a number: GPT-2, RWKV-7, SmolLM2-135M."""


class KeepNumber(SphinxPostTransform):
    """Puts a space that does not break between a number in prose and its percent sign or noun."""

    default_priority = 902  # when computed numbers are there

    def run(self, **kwargs: object) -> None:
        for text in list(self.document.findall(nodes.Text)):
            kept = NUMBERED.sub("\N{NO-BREAK SPACE}", text)
            if kept != text and not isinstance(text.parent, AS_TYPED):
                text.parent[text.parent.index(text)] = nodes.Text(kept)


class SetSigns(SphinxPostTransform):
    """Writes the minus of a computed number as a minus, and its percent sign after a space."""

    default_priority = 902

    def run(self, **kwargs: object) -> None:
        for number in list(self.document.findall(_is_computed)):
            signed = HYPHEN.sub("\N{MINUS SIGN}", number.astext())
            number[:] = [nodes.Text(PERCENT.sub("\N{NO-BREAK SPACE}%", signed))]


class KeepPower(SphinxPostTransform):
    """Keeps a computed number and the power of ten that follows it on one line.

    To a browser a formula is a box: it may break the line beside it, even at a space that does not break.
    """

    default_priority = 903

    def run(self, **kwargs: object) -> None:
        for number in list(self.document.findall(_is_computed)):
            row, place = number.parent, number.parent.index(number)
            together = row[place : place + 3]
            if len(together) < 3 or not together[1].astext().isspace():
                continue
            if isinstance(together[2], nodes.math) and POWER.match(together[2].astext()):
                row[place : place + 3] = [nodes.inline("", "", *together, classes=["tf-together"])]


class KeepName(SphinxPostTransform):
    """Keeps a name such as RWKV-7 on one line; its hyphen stays a hyphen for those who search or copy it."""

    default_priority = 904

    def run(self, **kwargs: object) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if NAME.search(text) and not isinstance(text.parent, AS_TYPED):
                place = text.parent.index(text)
                text.parent[place : place + 1] = [
                    nodes.inline("", part, classes=["tf-together"]) if odd % 2 else nodes.Text(part)
                    for odd, part in enumerate(NAME.split(text))
                    if part
                ]


def _is_computed(node: nodes.Node) -> bool:
    return isinstance(node, nodes.inline) and COMPUTED in node["classes"]


def setup(app: Sphinx) -> dict[str, bool]:
    for transform in (KeepNumber, SetSigns, KeepPower, KeepName):
        app.add_post_transform(transform)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
