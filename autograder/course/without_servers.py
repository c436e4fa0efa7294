"""Import nbgrader without its extensions of Jupyter's server, which no command needs.

nbgrader's ``__init__`` imports them for Jupyter, and they take half of the time of a short command. After
this module is imported, a program that asks for an extension by its full name still gets the real one.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType

EXTENSIONS = tuple(
    f"nbgrader.server_extensions.{name}"
    for name in ("assignment_list", "course_list", "validate_assignment", "formgrader")
)


def _import_nbgrader() -> None:
    """Import nbgrader while empty modules take the place of its extensions."""
    for name in EXTENSIONS:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name])["load_jupyter_server_extension"] = None
    try:
        with contextlib.suppress(ImportError):  # the command that needs nbgrader reports that it is missing
            import nbgrader  # noqa: F401
    finally:
        for name in EXTENSIONS:
            del sys.modules[name]


if "nbgrader" not in sys.modules:
    _import_nbgrader()
