"""The widgets of the book, in a notebook: ``from tfwidgets import show``, then ``show("rope_arrows")``.

Each is ``NAME.js``, an ES module in anywidget's form, and ``NAME.py``: the state it starts in, the numbers
that it must show, and its picture. The pages of the book load the same files (see `tfbook.widgets`).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
WIDTH = "46rem"  # as wide as in the book


def in_a_notebook() -> bool:
    """Whether a kernel runs this, with somebody to look at what it shows."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def show(name: str, **changes: Any) -> Any:
    """A widget of the book, live in JupyterLab, Visual Studio Code or Colab.

    Args:
        name: such as "rope_arrows".
        changes: entries of its start state that shall be others.

    Returns:
        The widget, which a notebook displays; None where no notebook runs.

    Raises:
        ValueError: no widget has that name, or its state no such entry.
    """
    names = sorted(path.stem for path in FOLDER.glob("*.js"))
    if name not in names:
        raise ValueError(f"no widget {name!r}; there are {', '.join(names)}")
    if not in_a_notebook():
        return None
    import anywidget
    import traitlets

    start = importlib.import_module(f"tfwidgets.{name}").STATE
    if unknown := sorted(set(changes) - set(start)):
        raise ValueError(f"{name} has no state {', '.join(unknown)}; it has {', '.join(start)}")
    traits = {key: traitlets.Any(value).tag(sync=True) for key, value in {**start, **changes}.items()}
    widget = type(name, (anywidget.AnyWidget,), {"_esm": FOLDER / f"{name}.js", **traits})
    return widget(layout={"max_width": WIDTH})
