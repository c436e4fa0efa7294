"""``{number}`` brings a number that another page has computed: ``{number}`03_scaling.median_64:.2f` ``.

Before the pages are written, ``book/build.py`` puts what all executed pages keep with ``glue`` into
``_build/numbers.json``. A page that names a number which is no longer there does not build.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

FILE = "_build/numbers.json"
NAME = re.compile(r"(\w+)\.(\w+):([^`]+)")


class NumberRole(SphinxRole):
    """See the module's docstring."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        found = NAME.fullmatch(self.text)
        if found is None:
            return self._error(f"{self.text!r} is not PAGE.NAME:FORMAT, such as 03_scaling.median_64:.2f")
        path = Path(self.env.srcdir) / FILE
        self.env.note_dependency(str(path))
        numbers = json.loads(path.read_text("utf8")) if path.exists() else {}
        page, name, form = found.groups()
        if page not in numbers:
            return self._error(f"no page {page!r} has numbers; there are {sorted(numbers)}")
        if name not in numbers[page]:
            return self._error(f"{page} keeps no number {name!r}; it keeps {sorted(numbers[page])}")
        return [nodes.inline(text=format(numbers[page][name], form), classes=["pasted-text"])], []

    def _error(self, message: str) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        error = self.inliner.reporter.error(f"number: {message}", line=self.lineno)
        return [], [error]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("number", NumberRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
