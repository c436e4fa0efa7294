"""The reference pages: a list of modules becomes a section for each, from its docstrings by autodoc.

.. code-block:: markdown

    ```{modules}
    tfcore.masks
    tfcore.ring
    ```

A docstring writes mathematics between dollars, as a page does; reStructuredText wants a role.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

LIST = re.compile(r"^```\{modules\}\n((?:[\w.]+\n)+)```$", re.MULTILINE)
SECTION = """## `{0}`

```{{eval-rst}}
.. automodule:: {0}
   :members:
   :no-value:
```
"""
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


def list_modules(app: Sphinx, page: str, source: list[str]) -> None:
    """Writes a section in the place of each name in a list of modules."""
    source[0] = LIST.sub(
        lambda found: "\n".join(SECTION.format(name) for name in found[1].split()), source[0]
    )


def mathematics(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Turns ``$x$`` into the role that says the same, also over the end of a line."""
    text = MATH.sub(lambda found: f":math:`{' '.join(found[1].split())}`", "\n".join(lines))
    lines[:] = text.split("\n")


def find_elsewhere(app: Sphinx, env: BuildEnvironment, node: nodes.Element, shown: nodes.Element) -> Any:
    """Resolve a name given without its module, or with one that imports it, if only one object has it."""
    domain = env.domains["py"]
    parts = str(node.get("reftarget", "")).split(".")
    for start in range(len(parts) if node.get("refdomain") == "py" else 0):
        end = "." + ".".join(parts[start:])
        found = [name for name in domain.objects if name.endswith(end)]
        if len(found) == 1:
            page = str(node["refdoc"])
            return domain.resolve_xref(env, page, app.builder, node["reftype"], found[0], node, shown)
    return None


def skip(app: Sphinx, what: str, name: str, thing: object, skipped: bool, options: object) -> bool | None:
    """Leave out the fields of a named tuple, which "Attributes" explains, and what matplotlib adds."""
    alias = str(getattr(thing, "__doc__", "")).startswith("Alias for field number")
    foreign = str(getattr(thing, "__module__", "")).startswith("matplotlib.")
    return True if alias or foreign else None


def set_options(app: Sphinx, config: object) -> None:
    for name, value in SETTINGS.items():
        setattr(config, name, value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("config-inited", set_options)
    app.connect("source-read", list_modules)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", find_elsewhere)
    app.connect("autodoc-process-docstring", mathematics, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
