"""A fold of code keeps its name: when it opens, "Show the training loop" becomes "Hide the training loop"."""

from __future__ import annotations

from typing import Any

from myst_nb.sphinx_ import HideCodeCellNode, HideInputCells
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class NameOpenFolds(SphinxPostTransform):
    """Give each fold the words that are seen while it is open."""

    default_priority = HideInputCells.default_priority + 1
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Write the words into the folds that the transform before this one has made."""
        for fold in self.document.findall(HideCodeCellNode):
            fold["prompt_hide"] = fold["prompt_show"].replace("Show", "Hide", 1)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(NameOpenFolds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
