"""The contents of a page follow its reader.

The theme marks a section only while its heading passes through the upper third of the window: who scrolls far
at once, goes back, or comes by a link to a figure sees the mark of another section. ``follow.js`` marks the
section that is being read.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from tfbook.page_script import load_script_with

SCRIPT = Path(__file__).with_name("follow.js")


def setup(app: Sphinx) -> dict[str, bool]:
    load_script_with(app, SCRIPT, nodes.section)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
