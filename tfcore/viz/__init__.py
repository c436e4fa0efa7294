"""The figures of the course, in one style, each with a sentence for readers who do not see it.

Every function draws its arguments on axes (or a figure) of the caller's and returns them. It leaves no
trace in pyplot; `panels` alone makes a figure of pyplot's. ``alt_text`` says in words what was drawn, with
numbers computed from the data. Arrays may be numpy arrays, lists or torch tensors, on any device and with
gradients.
"""

from tfcore.viz.arrangement import Panels, panels
from tfcore.viz.curves import loss_curves, spectra
from tfcore.viz.positions import bias_map, bucket_steps, position_map, rotary_map, slope_points
from tfcore.viz.style import (
    BLUE,
    GREEN,
    INK,
    OLIVE,
    ON_WEIGHTS,
    ORANGE,
    PALETTE,
    PINK,
    SIGNED,
    STYLE,
    WEIGHTS,
    style,
    use_style,
)
from tfcore.viz.weights import attention_map, head_grid, heatmap
from tfcore.viz.words import alt_text

__all__ = [
    "BLUE",
    "GREEN",
    "INK",
    "OLIVE",
    "ON_WEIGHTS",
    "ORANGE",
    "PALETTE",
    "PINK",
    "SIGNED",
    "STYLE",
    "WEIGHTS",
    "Panels",
    "alt_text",
    "attention_map",
    "bias_map",
    "bucket_steps",
    "head_grid",
    "heatmap",
    "loss_curves",
    "panels",
    "position_map",
    "rotary_map",
    "slope_points",
    "spectra",
    "style",
    "use_style",
]
