"""``{citation}``: the entry of BibTeX for this course, made from ``CITATION.cff``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FILE = "CITATION.cff"


def bibtex(citation: dict[str, Any]) -> str:
    """Return the BibTeX entry of a citation file.

    >>> print(bibtex({"title": "A course", "authors": [{"name": "The authors"}], "version": "1.0"}))
    @software{a_course,
      title = {A course},
      author = {{The authors}},
      version = {1.0},
    }
    """
    authors = [
        f"{{{author['name']}}}" if "name" in author else f"{author['family-names']}, {author['given-names']}"
        for author in citation["authors"]
    ]
    fields = {
        "title": citation["title"],
        "author": " and ".join(authors),
        "version": citation["version"],
        "date": citation.get("date-released"),
        "url": citation.get("repository-code"),
    }
    key = re.sub(r"\W+", "_", citation["title"].lower())
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@software{{{key},", *lines, "}"])


class CitationDirective(SphinxDirective):
    """See the module's docstring."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / FILE
        self.env.note_dependency(str(path))
        entry = bibtex(yaml.safe_load(path.read_text("utf8")))
        return [nodes.literal_block(entry, entry, language="bibtex")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("citation", CitationDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
