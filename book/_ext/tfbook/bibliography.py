"""A style for the bibliography that prints titles as they are written.

The usual styles turn all but the first letter into small ones, names after a colon too.
"""

from __future__ import annotations

from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.template import field, sentence
from sphinx.application import Sphinx


class TitlesAsWritten(Style):
    def format_title(self, e: Any, which_field: str, as_sentence: bool = True) -> Any:
        title = field(which_field)
        return sentence[title] if as_sentence else title


def setup(app: Sphinx) -> dict[str, bool]:
    register_plugin("pybtex.style.formatting", "titles_as_written", TitlesAsWritten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
