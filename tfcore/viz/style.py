"""One style for all figures: readable on paper, on a white page and on a dark one.

A figure has a transparent background and ink of a middle grey. Colour-blind readers can distinguish the
line colours. Each of them may colour text: its contrast is at least 4.5 to 1 on a white page, and on the dark
page, where the book brightens figures a little. A phone shows about 3.8 inches: at the default width of 4.6 a
figure shrinks by a sixth there and stays legible.
Every page begins with `use_style`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.rcsetup import cycler

from tfcore.viz.arrangement import Panels, two_drawings

INK = "#6b7280"
"""Text, axes and ticks."""

BLUE, ORANGE, GREEN, PINK, OLIVE = "#3b77c3", "#b75e0e", "#118667", "#ba4e96", "#787840"
PALETTE = (BLUE, ORANGE, GREEN, PINK, OLIVE)
"""The line colours, in the order in which they are used."""

WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#dbe6f6", "#4483d4"])
"""From pale to blue, for weights between 0 and 1: opaque, so that a number reads the same on any page.

Its blue is lighter than `BLUE`, since black numbers are drawn on it.
"""

SIGNED = LinearSegmentedColormap.from_list("signed", [ORANGE, "#eef0f3", BLUE])
"""From orange over pale to blue, for numbers below and above 0."""

ON_WEIGHTS = "black"
"""The numbers on `WEIGHTS`: at least 4.5 to 1 on each of its colours, and on each a little brightened."""

STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "figure.figsize": (4.6, 3.0),
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "grid.color": INK,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "image.cmap": "cividis",
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "patch.linewidth": 0.8,
    "path.simplify_threshold": 0.5,
    "savefig.facecolor": "none",
    "savefig.transparent": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "transformers from first principles",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 10.5,
    "ytick.color": INK,
    "ytick.labelsize": 10.5,
}


@contextmanager
def style() -> Iterator[None]:
    """Use the course's style for the figures drawn inside ``with style():``.

    >>> import matplotlib
    >>> with style():
    ...     matplotlib.rcParams["savefig.transparent"]
    True
    """
    with mpl.rc_context(STYLE):
        yield


def use_style() -> None:
    """Use the course's style from here on; in a notebook, figures become SVG, the same on every run.

    >>> with mpl.rc_context():
    ...     use_style()
    ...     mpl.rcParams["axes.facecolor"]
    'none'
    """
    mpl.rcParams.update(STYLE)
    try:
        shell = get_ipython()  # type: ignore[name-defined]
    except NameError:
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    if shell is not None and "IPKernelApp" in shell.config:
        set_matplotlib_formats("svg", metadata={"Date": None})
        shell.display_formatter.formatters["image/svg+xml"].for_type(Panels, two_drawings)
