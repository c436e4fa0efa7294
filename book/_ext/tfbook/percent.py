"""A number and its percent sign on one line."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

AS_TYPED = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


class KeepPercent(SphinxPostTransform):
    """Puts a space that does not break in front of each percent sign in prose."""

    default_priority = 902  # when computed numbers are there

    def run(self, **kwargs: object) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if " %" in text and not isinstance(text.parent, AS_TYPED):
                text.parent[text.parent.index(text)] = nodes.Text(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(KeepPercent)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
