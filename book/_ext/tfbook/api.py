"""The reference pages: docstrings read by autodoc, with their mathematics.

A docstring writes mathematics between dollars, as a page does; reStructuredText wants a role.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

MATH = re.compile(r"(?<![\\$`])\$([^$]+)\$(?!\$)")
SETTINGS = {
    "autodoc_member_order": "bysource",
    "autodoc_typehints": "none",  # shapes stand in words below "Args"; jaxtyping's would fill a screen
    "autodoc_class_signature": "mixed",
    "add_module_names": False,
    "napoleon_numpy_docstring": False,
    "napoleon_use_rtype": False,
    "napoleon_use_ivar": True,
    "napoleon_attr_annotations": False,
    "nitpick_ignore_regex": [("py:.*", ".*")],  # types of Python and torch, whose pages are elsewhere
}


def mathematics(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Turns ``$x$`` into the role that says the same, also over the end of a line."""
    text = MATH.sub(lambda found: f":math:`{' '.join(found[1].split())}`", "\n".join(lines))
    lines[:] = text.split("\n")


def skip(app: Sphinx, what: str, name: str, thing: object, skipped: bool, options: object) -> bool | None:
    """Leaves out the fields of a named tuple, which "Attributes" explains."""
    return True if str(getattr(thing, "__doc__", "")).startswith("Alias for field number") else None


def set_options(app: Sphinx, config: object) -> None:
    for name, value in SETTINGS.items():
        setattr(config, name, value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("config-inited", set_options)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", mathematics, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
