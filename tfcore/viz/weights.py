"""Attention weights as heat maps: a matrix with numbers, one head over its tokens, all heads of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcore.viz.style import ON_WEIGHTS, WEIGHTS
from tfcore.viz.words import counted, describe, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SMALLEST = 7.0
"""The size of the smallest letters, in points."""


def heatmap(
    axes: Axes, weights: Any, rows: Sequence[object], columns: Sequence[object], digits: int = 2
) -> Axes:
    """Draw a matrix of weights between 0 and 1, each cell with its number.

    On axes too small for them, names are turned, made smaller, and left out but for every second or third;
    numbers are made smaller, and hidden where they could not be read. Choose the size of the figure first.

    Args:
        axes: where to draw.
        weights: the matrix, one row a query and one column a key.
        rows: names of the rows.
        columns: names of the columns.
        digits: decimals of the numbers in the cells; 0 leaves the numbers out.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix, names that are too few or too many, or digits that are not a whole number of 0
            or more.

    >>> from matplotlib.figure import Figure
    >>> axes = heatmap(Figure().subplots(), [[0.25, 0.75]], ["it"], ["street", "animal"])
    >>> [text.get_text() for text in axes.texts]
    ['0.25', '0.75']
    """
    values = numbers(weights, "weights", "rows columns")
    if not isinstance(digits, Integral) or digits < 0:
        raise ValueError(
            f"expected digits as a whole number of 0 or more, got {digits!r}; 0 draws no numbers"
        )
    _draw(axes, values, rows, columns)
    _fit_names(axes, axes.xaxis, columns)
    _fit_names(axes, axes.yaxis, rows)
    if digits:
        _write_numbers(axes, values, digits)
    lines = (
        f"{name}: {', '.join(f'{value:.{digits or 2}f}' for value in row)}"
        for name, row in zip(rows, values, strict=True)
    )
    describe(axes, f"Heat map with columns {', '.join(map(str, columns))}. {'; '.join(lines)}.")
    return axes


def attention_map(
    axes: Axes,
    weights: Any,
    query_tokens: Sequence[object],
    key_tokens: Sequence[object] | None = None,
    *,
    name: str = "attention",
) -> Axes:
    """Draw how one head attends: a row for each query, a column for each key, the darker the more.

    Names that do not fit are made smaller, and left out but for every second or third.

    Args:
        axes: where to draw.
        weights: attention weights, (T_q, T_k).
        query_tokens: T_q names of the rows.
        key_tokens: T_k names of the columns; the same as the rows when None.
        name: the name of the numbers, for the description in words.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix, names that are too few or too many, or numbers that are not weights.

    >>> from matplotlib.figure import Figure
    >>> axes = attention_map(Figure().subplots(), [[1.0, 0.0], [0.3, 0.7]], ["the", "dog"])
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('key', 'query')
    """
    values = numbers(weights, "weights", "T_q T_k")
    key_tokens = query_tokens if key_tokens is None else key_tokens
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    _draw_head(axes, values, query_tokens, key_tokens, name)
    _fit_names(axes, axes.xaxis, key_tokens)
    _fit_names(axes, axes.yaxis, query_tokens)
    return axes


def _draw_head(
    axes: Axes, values: np.ndarray, query_tokens: Sequence[object], key_tokens: Sequence[object], name: str
) -> None:
    axes.tick_params(axis="x", labelrotation=90)
    _draw(axes, values, query_tokens, key_tokens)
    sizes = f"{counted(len(values), 'query')} by {counted(values.shape[1], 'key')}"
    strongest = sorted(range(len(values)), key=lambda i: -values[i].max())[:5]
    pairs = (
        f"{query_tokens[i]} to {key_tokens[values[i].argmax()]} {values[i].max():.2f}" for i in strongest
    )
    describe(axes, f"Heat map of {name}, {sizes}. Largest weights: {', '.join(pairs)}.")


def head_grid(
    figure: Figure,
    weights: Any,
    query_tokens: Sequence[object],
    key_tokens: Sequence[object] | None = None,
) -> Figure:
    """Draw how every head of a model attends: a row of maps for each layer, a column for each head.

    If labels overlap, enlarge the figure: a map needs about an inch, and a line for each token.

    Args:
        figure: an empty figure.
        weights: attention weights of one sequence, (L, H, T_q, T_k).
        query_tokens: T_q names, written beside the maps on the left.
        key_tokens: T_k names, written above the maps on top; the same when None.

    Returns:
        The figure.

    Raises:
        ValueError: wrong shapes, names that are too few or too many, numbers that are not weights, or a
            figure that is not empty.

    >>> from matplotlib.figure import Figure
    >>> figure = head_grid(Figure(), np.full((2, 3, 4, 4), 0.25), list("abcd"))
    >>> len(figure.axes)
    6
    """
    values = numbers(weights, "weights", "L H T_q T_k")
    if figure.axes:
        raise ValueError(
            f"expected an empty figure, got one with {counted(len(figure.axes), 'plot')}; make a new one"
        )
    key_tokens = query_tokens if key_tokens is None else key_tokens
    num_layers, num_heads = values.shape[:2]
    grid = figure.subplots(num_layers, num_heads, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        name = f"layer {layer}, head {head}"
        try:
            _draw_head(axes, values[layer, head], query_tokens, key_tokens, name)
        except ValueError:
            figure.clear()
            raise
        axes.set(xlabel=f"head {head}", ylabel=f"layer {layer}")
        axes.label_outer(remove_inner_ticks=True)
    for axes in grid[0]:
        _fit_names(axes, axes.xaxis, key_tokens)
    for axes in grid[:, 0]:
        _fit_names(axes, axes.yaxis, query_tokens)
    figure.supxlabel("key")
    figure.supylabel("query")
    peaks = values.max(axis=-1).mean(axis=-1)
    most, least = (np.unravel_index(i, peaks.shape) for i in (peaks.argmax(), peaks.argmin()))
    describe(
        figure,
        f"Grid of attention maps, {counted(num_layers, 'layer')} of {counted(num_heads, 'head')}. The "
        f"largest weight of a query is on average {peaks[most]:.2f} in layer {most[0]}, head {most[1]}, the "
        f"most peaked, and {peaks[least]:.2f} in layer {least[0]}, head {least[1]}, the least.",
    )
    return figure


def _draw(axes: Axes, values: np.ndarray, rows: Sequence[object], columns: Sequence[object]) -> None:
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"expected a name for each of {values.shape[0]} rows and {values.shape[1]} columns, got "
            f"{len(rows)} and {len(columns)}; rows are queries and columns are keys"
        )
    if not ((values >= -1e-6) & (values <= 1 + 1e-6)).all():
        raise ValueError(
            f"expected weights between 0 and 1, got {values.min():.3g} to {values.max():.3g}; "
            "apply softmax to scores first, and look for NaN"
        )
    axes.pcolormesh(values, cmap=WEIGHTS, vmin=0, vmax=1, edgecolors="none")
    axes.set_ylim(len(rows), 0)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for axis, names in ((axes.xaxis, columns), (axes.yaxis, rows)):
        axis.set_ticks(np.arange(len(names)) + 0.5, [str(name) for name in names])


def _fit_names(axes: Axes, axis: Axis, names: Sequence[object]) -> None:
    """Turn names that run into each other, make them smaller, and at last leave out some."""
    side = 0 if axis is axes.xaxis else 1
    cell = _room(axes)[side] / len(names)

    def crowding() -> float:
        """Give the share of the way from one name to the next that the two fill, where they fill most."""
        halves = [label.get_window_extent().size[side] / 2 for label in axis.get_ticklabels()]
        return max(map(sum, pairwise(halves)), default=0.0) / cell

    slack = 1.0 if axes.figure.get_layout_engine() is None else 1.05  # an engine often finds more room
    if side == 0 and crowding() > slack:
        axis.set_tick_params(labelrotation=90)
    size = max((float(label.get_fontsize()) for label in axis.get_ticklabels()), default=0.0)
    while (crowded := crowding()) > 1 and size > SMALLEST:
        size = max(0.98 * size / crowded, SMALLEST)  # letters do not shrink quite evenly
        axis.set_tick_params(labelsize=size)
    if crowded > 1:
        every = math.ceil(crowded)
        axis.set_ticks(axis.get_ticklocs()[::every], [str(name) for name in names[::every]])


def _room(axes: Axes) -> np.ndarray:
    """Estimate the width and height of a map in pixels: of its axes, or of the room that its names leave."""
    beside = [
        max((name.get_window_extent().size[side] for name in axis.get_ticklabels()), default=0.0)
        + axis.label.get_window_extent().size[side]
        for side, axis in enumerate((axes.yaxis, axes.xaxis))
    ]
    now = np.array(axes.get_window_extent().size)
    left = axes.figure.bbox.size - np.array(beside) - 0.2 * axes.figure.dpi
    return np.clip(left, now / 5, now)


def _write_numbers(axes: Axes, values: np.ndarray, digits: int) -> None:
    """Write each number into its cell: smaller if it does not fit, and hidden if it could not be read."""
    texts = [
        axes.text(column + 0.5, row + 0.5, f"{value:.{digits}f}", ha="center", va="center", color=ON_WEIGHTS)
        for (row, column), value in np.ndenumerate(values)
    ]
    longest = max(texts, key=lambda text: len(text.get_text()))
    fit = (0.9 * _room(axes) / values.shape[::-1] / longest.get_window_extent().size).min()
    if fit < 1:
        size = float(longest.get_fontsize()) * fit
        for text in texts:
            text.set(fontsize=size, visible=size >= SMALLEST)
