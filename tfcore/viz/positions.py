"""Positions made visible: encodings, rotations, biases and buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfcore.viz.style import BLUE, SIGNED
from tfcore.viz.words import counted, describe, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def position_map(axes: Axes, encoding: Any) -> Axes:
    """Draw a table of position vectors: a row for each position, a column for each channel.

    Args:
        axes: where to draw; a scale of colors is drawn beside it.
        encoding: the vectors, (T, d), sinusoidal or learned.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.5.

    >>> from matplotlib.figure import Figure
    >>> axes = position_map(Figure().subplots(), [[0.0, 1.0], [0.8, 0.5]])
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('channel', 'position')
    """
    values = numbers(encoding, "an encoding", "T d")
    largest = np.abs(values).max() or 1.0
    _map(axes, values, "channel", "position", "value", cmap=SIGNED, vmin=-largest, vmax=largest)
    changes = (values[1:] * values[:-1] < 0).sum(axis=0)
    describe(
        axes,
        f"Heat map of {counted(len(values), 'position')} by {counted(values.shape[1], 'channel')}, values "
        f"from {values.min():.2f} to {values.max():.2f}. The first channel changes sign "
        f"{counted(changes[0], 'time')}, the last {counted(changes[-1], 'time')}.",
    )
    return axes


def rotary_map(axes: Axes, angles: Any) -> Axes:
    r"""Draw the angles of rotary positions, modulo a full turn, in colors that go round as they do.

    Args:
        axes: where to draw; a scale of colors is drawn beside it.
        angles: $p \, \omega_i$ in radians, (T, pairs): a row for each position, a column for each pair of
            channels.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix.

    From: Su et al. (2021), *RoFormer: Enhanced Transformer with Rotary Position Embedding*.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> axes = rotary_map(Figure().subplots(), np.outer(np.arange(9), [np.pi / 2, np.pi / 8]))
    >>> alt_text(axes)
    'Heat map of the angles of 2 pairs at 9 positions. The first pair turns 2.00 times, ...'
    """
    values = numbers(angles, "angles", "T pairs")
    turn = 2 * np.pi
    _map(
        axes,
        values % turn,
        "pair of channels",
        "position",
        "angle (radians)",
        cmap="twilight",
        vmin=0,
        vmax=turn,
    )
    turns = np.abs(values[-1] - values[0]) / turn
    describe(
        axes,
        f"Heat map of the angles of {counted(values.shape[1], 'pair')} at "
        f"{counted(len(values), 'position')}. The first pair turns {turns[0]:.2f} times, "
        f"the last {turns[-1]:.2f} times.",
    )
    return axes


def bias_map(axes: Axes, bias: Any) -> Axes:
    """Draw the bias that is added to the scores of one head; entries of -inf stay empty.

    Args:
        axes: where to draw; a scale of colors is drawn beside it.
        bias: (T_q, T_k), such as one head of ALiBi's or of T5's.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix, no finite number in it, or other than numbers and -inf.

    From: Press, Smith and Lewis (2022), *Train Short, Test Long*; Raffel et al. (2020), *T5*.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> alt_text(bias_map(Figure().subplots(), [[0.0, -np.inf], [-0.5, 0.0]]))
    'Heat map of the bias of 2 queries and 2 keys, from -0.50 to 0.00; 1 pair is forbidden.'
    """
    values = numbers(bias, "a bias", "T_q T_k")
    values = values + 0.0  # 0 times a slope of ALiBi is -0
    finite = np.isfinite(values)
    if not finite.any():
        raise ValueError(f"expected a bias with finite numbers, got none in {values.shape}; pass one head's")
    strange = values[~finite & ~np.isneginf(values)]
    if strange.size:
        raise ValueError(
            f"expected a bias of finite numbers, and -inf for forbidden pairs, got {strange[0]}; look for "
            "where it comes from"
        )
    shown = np.ma.masked_array(values, ~finite)
    _map(axes, shown, "key", "query", "bias", cmap="cividis", vmin=shown.min(), vmax=shown.max())
    forbidden = int((~finite).sum())
    also = (
        f"; {counted(forbidden, 'pair')} {'is' if forbidden == 1 else 'are'} forbidden" if forbidden else ""
    )
    sizes = f"{counted(len(values), 'query')} and {counted(values.shape[1], 'key')}"
    describe(axes, f"Heat map of the bias of {sizes}, from {shown.min():.2f} to {shown.max():.2f}{also}.")
    return axes


def slope_points(axes: Axes, slopes: Any) -> Axes:
    """Draw the slopes of ALiBi, a point for each head, on a scale of powers of two.

    Args:
        axes: where to draw.
        slopes: (H,), above 0.

    Returns:
        The axes.

    Raises:
        ValueError: no vector, or slopes that are not above 0.

    From: Press, Smith and Lewis (2022), *Train Short, Test Long*.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> alt_text(slope_points(Figure().subplots(), [0.5, 0.25, 0.125]))
    'Chart of the slopes of 3 heads, from 0.5 in head 0 to 0.125 in head 2.'
    """
    values = numbers(slopes, "slopes", "H")
    if not (values > 0).all():
        raise ValueError(f"expected slopes above 0, got {values.min():.3g}; the bias has their negative")
    axes.plot(np.arange(len(values)), values, "o", color=BLUE)
    axes.set_yscale("log", base=2)
    axes.set_xticks(np.arange(len(values)))
    axes.set_xlabel("head")
    axes.set_ylabel("slope")
    high, low = int(values.argmax()), int(values.argmin())
    describe(
        axes,
        f"Chart of the slopes of {counted(len(values), 'head')}, from {values[high]:.3g} in head {high} "
        f"to {values[low]:.3g} in head {low}.",
    )
    return axes


def bucket_steps(axes: Axes, relative_positions: Any, buckets: Any) -> Axes:
    """Draw which bucket each distance falls into: steps that grow wider with the distance.

    Args:
        axes: where to draw.
        relative_positions: key position minus query position, (n,), ascending.
        buckets: the bucket of each, (n,).

    Returns:
        The axes.

    Raises:
        ValueError: no vectors, vectors of two lengths, or positions that do not ascend.

    From: Raffel et al. (2020), *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer*, section 2.1.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> alt_text(bucket_steps(Figure().subplots(), [-3, -2, -1, 0], [2, 2, 1, 0]))
    'Steps of 3 buckets over distances from -3 to 0. The widest, bucket 2, holds 2 distances.'
    """
    where, which = numbers(relative_positions, "positions", "n"), numbers(buckets, "buckets", "n")
    if where.shape != which.shape or not (np.diff(where) > 0).all():
        raise ValueError(
            f"expected ascending positions and as many buckets, got {len(where)} and {len(which)}; "
            "sort the positions and give each its bucket"
        )
    axes.step(where, which, where="mid", color=BLUE)
    axes.set_xlabel("key position minus query position")
    axes.set_ylabel("bucket")
    names, sizes = np.unique(which, return_counts=True)
    widest = int(sizes.argmax())
    describe(
        axes,
        f"Steps of {counted(len(names), 'bucket')} over distances from {where[0]:.0f} to {where[-1]:.0f}. "
        f"The widest, bucket {names[widest]:.0f}, holds {counted(int(sizes[widest]), 'distance')}.",
    )
    return axes


def _map(axes: Axes, values: np.ndarray, columns: str, rows: str, scale: str, **colors: Any) -> None:
    """Draw a matrix, its cells centered on whole numbers, the first row on top."""
    height, width = values.shape
    edges = np.arange(width + 1) - 0.5, np.arange(height + 1) - 0.5
    mesh = axes.pcolormesh(*edges, values, edgecolors="none", rasterized=values.size > 10_000, **colors)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_xlabel(columns)
    axes.set_ylabel(rows)
    axes.locator_params(integer=True)  # no channel 2.5
    axes.spines[:].set_visible(False)
    figure = axes.get_figure()
    if figure is not None:
        figure.colorbar(mesh, ax=axes, label=scale)
