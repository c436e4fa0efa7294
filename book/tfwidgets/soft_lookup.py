"""The soft lookup: a query among three keys, their weights, and the blend of their values.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcore import ops, viz

STATE: dict[str, Any] = {
    "query": [1.4, 0.6],
    "temperature": 1.0,
    "key": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    "value": [[-1.2, -0.8], [1.2, -0.8], [0.0, 1.3]],
}
COLOURS = (viz.BLUE, viz.ORANGE, viz.GREEN)
REACH = 1.7


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Scores, weights and output of one query, all scores divided by the temperature."""
    query = np.array([state["query"]]) / state["temperature"]
    keys, values = np.array(state["key"]), np.array(state["value"])
    output, weights = ops.scaled_dot_product_attention(query, keys, values)
    return {
        "scores": ops.attention_scores(query, keys)[0].tolist(),
        "weights": weights[0].tolist(),
        "output": output[0].tolist(),
    }


def picture(state: dict[str, Any]) -> Figure:
    """Query and keys beside values and output, with the weights below."""
    numbers = compute(state)
    figure = Figure(figsize=(4.4, 3.7))
    axes = figure.subplot_mosaic([["plane", "blend"], ["bars", "bars"]], height_ratios=(2, 1))
    plane, blend, bars = axes["plane"], axes["blend"], axes["bars"]
    for number, (key, colour) in enumerate(zip(state["key"], COLOURS, strict=True), start=1):
        _arrow(plane, key, colour)
        plane.annotate(f"$k_{number}$", key, (4, 4), textcoords="offset points", color=colour)
    _arrow(plane, state["query"], viz.PINK)
    plane.annotate("$q$", state["query"], (4, -12), textcoords="offset points", color=viz.PINK)
    plane.set_title("query among keys")

    names = [f"$k_{number}$" for number in (1, 2, 3)]
    drawn = bars.barh(names, numbers["weights"], color=COLOURS, height=0.55)
    bars.bar_label(drawn, fmt="%.2f", padding=3, color=viz.INK)
    bars.set(xlim=(0, 1.25), xticks=[], title="weights")
    bars.invert_yaxis()
    bars.spines[["bottom", "left"]].set_visible(False)
    bars.tick_params(length=0)

    values = np.array(state["value"])
    blend.fill(*values.T, facecolor="none", edgecolor=viz.INK, linewidth=0.8, linestyle=":")
    blend.scatter(*values.T, s=400 * np.array(numbers["weights"]) + 20, color=COLOURS, marker="s")
    for number, value in enumerate(values, start=1):
        blend.annotate(f"$v_{number}$", value, (11, 5), textcoords="offset points", color=viz.INK)
    blend.scatter(*numbers["output"], s=70, color=viz.PINK, marker="D", zorder=3)
    blend.annotate("output", numbers["output"], (8, -3), textcoords="offset points", color=viz.PINK)
    blend.set_title("values and output")
    for square in (plane, blend):
        square.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[], yticks=[])
        square.axhline(0, color=viz.INK, linewidth=0.5, alpha=0.5)
        square.axvline(0, color=viz.INK, linewidth=0.5, alpha=0.5)
        square.spines[:].set_visible(False)
    return figure


def _arrow(axes: Axes, tip: list[float], colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.8}
    axes.annotate("", tip, (0, 0), arrowprops=style)
