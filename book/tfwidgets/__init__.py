"""The widgets of the book, in a notebook: ``from tfwidgets import show``, then ``show("rope_arrows")``.

Each is ``NAME.js``, an ES module in anywidget's form, and ``NAME.py``: the state it starts in, the numbers
that it must show, and its picture. What several scripts need is in ``common.js``, a model that runs in a
browser in ``encoder.js``. The pages of the book show the same files (see `tfbook.widgets`).
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
WIDTH = "46rem"  # as wide as in the book
SHARED = ("common.js", "encoder.js")
"""The scripts that are no widgets: a widget may import from them, and from no other file."""
IMPORT = re.compile(rf'^import {{[^}}]*}} from "\./({"|".join(map(re.escape, SHARED))})";$', re.MULTILINE)


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of the widgets in a folder, in the order of the alphabet."""
    return sorted(path.stem for path in folder.glob("*.js") if path.name not in SHARED)


def module(script: Path) -> str:
    """Return the module of a widget as one text: shared scripts replace the lines that import from them.

    A notebook and a page opened from disk cannot load a second file.

    Args:
        script: the widget's ``NAME.js``, with the scripts of ``SHARED`` that it imports from beside it.
    """

    def shared(found: re.Match[str]) -> str:
        return re.sub(
            r"^export (?=(async )?function|const)",
            "",
            script.with_name(found[1]).read_text("utf8"),
            flags=re.M,
        )

    return IMPORT.sub(shared, script.read_text("utf8"))


def in_a_notebook() -> bool:
    """Return whether a kernel runs this code, so that a reader sees what it shows."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def show(name: str, **changes: Any) -> Any:
    """Show a widget of the book, live in JupyterLab, Visual Studio Code or Colab.

    Args:
        name: such as "rope_arrows".
        changes: new values for entries of its start state.

    Returns:
        The widget, which a notebook displays; None where no notebook runs.

    Raises:
        ValueError: no widget has that name, or its state has no such entry.
    """
    if name not in names():
        raise ValueError(f"no widget {name!r}; there are {', '.join(names())}")
    if not in_a_notebook():
        return None
    import anywidget
    import traitlets

    start = importlib.import_module(f"tfwidgets.{name}").STATE
    if unknown := sorted(set(changes) - set(start)):
        raise ValueError(f"{name} has no state {', '.join(unknown)}; it has {', '.join(start)}")
    traits = {key: traitlets.Any(value).tag(sync=True) for key, value in {**start, **changes}.items()}
    widget = type(name, (anywidget.AnyWidget,), {"_esm": module(FOLDER / f"{name}.js"), **traits})
    return widget(layout={"max_width": WIDTH})
