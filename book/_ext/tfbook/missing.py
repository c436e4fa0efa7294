"""Where the page for wrong addresses looks for the book: at its host's root, or where PAGES_PATH says."""

from __future__ import annotations

import os

from sphinx.application import Sphinx
from sphinx.config import Config


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", _prefix, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _prefix(app: Sphinx, config: Config) -> None:
    config.notfound_urls_prefix = os.environ.get("PAGES_PATH", "/")
