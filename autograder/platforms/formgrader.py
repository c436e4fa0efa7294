"""Make formgrader show every name as text: nbgrader does not escape quotes and brackets in names."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

_FORMGRADER = "nbgrader.server_extensions.formgrader"
_IN_SCRIPT = re.compile(r'(var \w+ = )"({{ \w+) }}"')
"""Matches a string in a script of formgrader's templates."""


def escape_names() -> None:
    """Make formgrader escape all values in its pages, if it runs in this process.

    A gradebook may hold ids that break this course's rule for ids: ids that are older than the rule, or that
    another program entered.
    """
    if _FORMGRADER not in sys.modules:
        return
    from jinja2 import DictLoader, Environment
    from nbgrader.server_extensions.formgrader import base, handlers

    templates = {
        path.name: _IN_SCRIPT.sub(r"\1\2 | tojson }}", path.read_text())
        for path in Path(handlers.template_path).glob("*.tpl")
    }
    pages = Environment(loader=DictLoader(templates), autoescape=True)

    def render(handler: Any, name: str, **values: Any) -> str:
        return pages.get_template(name).render(**values)

    def set_default_headers(handler: Any) -> None:
        super(base.BaseApiHandler, handler).set_default_headers()
        handler.set_header("Content-Type", "text/plain; charset=UTF-8")  # JSON, not an HTML page

    base.BaseHandler.render = render
    base.BaseApiHandler.set_default_headers = set_default_headers
