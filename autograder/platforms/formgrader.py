"""Formgrader shows every name as text: nbgrader fills its pages in as if no name had a quote or a bracket."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

_FORMGRADER = "nbgrader.server_extensions.formgrader"
_IN_SCRIPT = re.compile(r'(var \w+ = )"({{ \w+) }}"')
"""A text in a script of a page, as formgrader's templates have it."""


def escape_names() -> None:
    """Make formgrader escape what it shows, if it runs in this process.

    A gradebook may hold any student's id: one from before this course had a rule for ids, or one that
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
        handler.set_header("Content-Type", "text/plain; charset=UTF-8")  # JSON, which is no page

    base.BaseHandler.render = render
    base.BaseApiHandler.set_default_headers = set_default_headers
