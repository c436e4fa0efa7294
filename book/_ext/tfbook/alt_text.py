"""Every picture says in words what is seen: one without alternative text is a warning."""

from __future__ import annotations

from pathlib import PurePosixPath

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def says_nothing(image: nodes.image) -> bool:
    """Whether the alternative text is missing, or is the file's name."""
    alt = str(image.get("alt", "")).strip()
    return not alt or alt == PurePosixPath(image["uri"]).name


def check(app: Sphinx, doctree: nodes.document) -> None:
    for image in doctree.findall(nodes.image):
        if says_nothing(image):
            logger.warning("a picture has no alternative text: %s", image["uri"], location=image, type="alt")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
