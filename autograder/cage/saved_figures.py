"""Leave a figure undrawn if the submitted notebook already has its picture."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure


@contextlib.contextmanager
def undrawn(shell: Any, saved: Sequence[str]) -> Iterator[None]:
    """Show the figures in the block by their text alone, as long as the next saved picture has this text.

    A figure that a cell saves to a file or reads is drawn as ever, and so is a figure that has changed.

    Args:
        shell: the shell that shows the figures.
        saved: the texts of the saved pictures, in order.
    """
    formatter = shell.display_formatter.formatters["image/png"]
    draw = formatter.type_printers.get(Figure)
    waiting = list(saved)

    def draw_unless_saved(figure: Figure) -> Any:
        if waiting and repr(figure) == waiting[0]:
            del waiting[0]
            return None
        return draw(figure)

    if not waiting or draw is None:
        yield
        return
    formatter.for_type(Figure, draw_unless_saved)
    try:
        yield
    finally:
        if formatter.type_printers.get(Figure) is draw_unless_saved:  # a cell may configure its own
            formatter.for_type(Figure, draw)
