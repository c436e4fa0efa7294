"""A style for the bibliography that prints titles as they are written.

The usual styles turn all but the first letter into small ones, names after a colon too. They put
organisations after Z, since their names begin with a brace in the source, and print the address
of a preprint twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pybtex import plugin
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.sorting.author_year_title import SortingStyle
from pybtex.style.template import field, sentence
from sphinx.application import Sphinx


class NamesAsPrinted(SortingStyle):
    def person_key(self, person: Any) -> str:
        return str(super().person_key(person)).translate({ord("{"): None, ord("}"): None})


class TitlesAsWritten(Style):
    default_sorting_style = "names_as_printed"

    def format_title(self, e: Any, which_field: str, as_sentence: bool = True) -> Any:
        title = field(which_field)
        return sentence[title] if as_sentence else title

    def format_url(self, e: Any) -> Any:
        return field("nothing") if "eprint" in e.fields else super().format_url(e)  # the first is left out


def setup(app: Sphinx) -> dict[str, bool]:
    # pybtex searches all installed packages for the same plugin at every citation: a tenth of a build.
    if not hasattr(plugin._load_entry_point, "cache_info"):
        plugin._load_entry_point = cache(plugin._load_entry_point)
    register_plugin("pybtex.style.sorting", "names_as_printed", NamesAsPrinted)
    register_plugin("pybtex.style.formatting", "titles_as_written", TitlesAsWritten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
