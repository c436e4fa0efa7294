"""Figures that fit the page they are on: panels in a row on a wide page, below each other on a phone.

A cell draws once. `Panels` then moves what was drawn into either arrangement, each in its own size, so that
letters are as large on a wide page as on a phone. In a notebook the figure is one SVG, the wide arrangement,
with the narrow one in its metadata; the book makes a file of each and lets the browser choose.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.transforms import Bbox

WIDE, NARROW = 6.33, 4.6
"""The widths of the two arrangements in inches: the column of text, and a little more than a phone."""

TALLER = 1.1
"""How much higher a row is on a wide page than on a phone."""

PROLOG = re.compile(r"\A.*?(?=<svg\b)", re.DOTALL)
END = "</svg>"


class Panels(Figure):
    """A figure with two arrangements of its panels; `panels` makes one."""

    def __init__(
        self,
        *args: Any,
        count: int = 1,
        height: float | Sequence[float] = 3.0,
        columns: int = 1,
        wide_columns: int | None = None,
        sharex: bool = False,
        sharey: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.columns = {False: columns, True: wide_columns or count}
        rows = math.ceil(count / columns)
        self.heights = [float(height)] * rows if isinstance(height, (int, float)) else list(height)
        if len(self.heights) != rows:
            raise ValueError(
                f"expected a height for each of {rows} rows, got {len(self.heights)}; give one number or one "
                "for each row"
            )
        self.shared = {"x": sharex, "y": sharey}
        grid = self.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
        self.panels: list[Axes] = list(grid.flat[:count])
        self.arrange(wide=False)

    def arrange(self, wide: bool) -> None:
        """Move the panels to their places, with the labels that they show there."""
        columns, heights = self.columns[wide], self.heights
        if wide:
            rows = math.ceil(len(self.panels) / columns)
            heights = [
                TALLER * height for height in (heights if rows == len(heights) else [max(heights)] * rows)
            ]
        self.set_size_inches(WIDE if wide else NARROW, sum(heights))
        grid = GridSpec(len(heights), columns, self, height_ratios=heights)
        for place, axes in enumerate(self.panels):
            axes.set_subplotspec(grid[place // columns, place % columns])
            self._show_label("x", axes.xaxis, place + columns >= len(self.panels))
            self._show_label("y", axes.yaxis, place % columns == 0)

    def _show_label(self, name: str, axis: Axis, outer: bool) -> None:
        """Show an axis that is shared at the edge of the figure alone."""
        if not self.shared[name]:
            return
        texts = [getattr(axes, f"get_{name}label")() for axes in self.panels]
        axis.set_label_text(next(filter(None, texts), ""))
        axis.label.set_visible(outer)
        axis.get_offset_text().set_visible(outer)
        axis.set_tick_params(which="both", **{"labelbottom" if name == "x" else "labelleft": outer})

    def letter(self) -> None:
        """Name panels that have no title (a), (b), (c), for the caption."""
        if len(self.panels) > 1 and not any(axes.get_title("left") for axes in self.panels):
            for letter, axes in zip("abcdefgh", self.panels, strict=False):
                axes.set_title(f"({letter})", loc="left")


def panels(
    count: int = 1, height: float | Sequence[float] = 3.0, columns: int = 1, **options: Any
) -> tuple[Panels, Any]:
    """Make a figure of panels in a row on a wide page and below each other on a phone.

    Args:
        count: how many panels.
        height: the height of a panel on a phone in inches, or one for each row.
        columns: how many are side by side on a phone.
        options: ``wide_columns``, how many are side by side on a wide page, all when it is left out;
            ``sharex`` and ``sharey``, whether the panels have one axis, whose label any of them may have.

    Returns:
        The figure, and its axes: one when ``count`` is 1, else a list.

    >>> figure, (above, below) = panels(2, sharex=True)
    >>> _ = below.set_xlabel("step")
    >>> figure.arrange(wide=True)
    >>> above.get_xlabel(), above.xaxis.label.get_visible()
    ('step', True)
    >>> from matplotlib import pyplot
    >>> pyplot.close(figure)
    """
    from matplotlib import pyplot

    figure = pyplot.figure(FigureClass=Panels, count=count, height=height, columns=columns, **options)
    assert isinstance(figure, Panels)
    return figure, figure.panels[0] if count == 1 else figure.panels


def two_drawings(figure: Panels) -> str:
    """Write the wide arrangement as SVG, with the narrow one in its metadata.

    >>> from xml.etree import ElementTree
    >>> wide = ElementTree.fromstring(two_drawings(Panels(layout="constrained")))
    >>> narrow = wide.find(".//*[@id='narrow']/*")
    >>> wide.get("width"), narrow.get("width")
    ('455.76pt', '331.2pt')
    """
    figure.letter()
    wide, narrow = (_svg(figure, wide) for wide in (True, False))
    head, _, _ = wide.rpartition(END)
    return f'{head}<metadata id="narrow">{PROLOG.sub("", narrow)}</metadata>{END}\n'


def _svg(figure: Panels, wide: bool) -> str:
    figure.arrange(wide)
    figure.draw_without_rendering()
    whole = Bbox.from_bounds(0, 0, *figure.get_size_inches())
    drawn = figure.get_tightbbox()
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="svg", bbox_inches=Bbox.union([whole, drawn]), pad_inches=0, metadata={"Date": None}
    )
    return buffer.getvalue().decode()
