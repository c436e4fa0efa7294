"""Four weights, raised to a power that the reader chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfcore import viz
from tfcore.sharpening import sharpen

STATE: dict[str, Any] = {"weights": [0.4, 0.3, 0.2, 0.1], "power": 2}


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """The weights after the power."""
    return {"sharpened": sharpen(np.array(state["weights"]), state["power"]).tolist()}


def picture(state: dict[str, Any]) -> Figure:
    """The weights as bars."""
    figure = Figure(figsize=(4, 2.5))
    ax = figure.subplots()
    ax.bar(range(len(state["weights"])), compute(state)["sharpened"], color=viz.ORANGE)
    ax.set(xlabel="key", ylabel="weight")
    return figure
