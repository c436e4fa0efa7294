"""RoPE as turning arrows: a query and a key, three pairs of channels, and the score that their angle makes.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcore import viz
from tfcore.positions import apply_rope, inverse_frequencies

STATE: dict[str, Any] = {
    "m": 6,
    "n": 2,
    "both": 0,
    "query": [1.2, 1.1, 1.1, 0.3, -0.4, 0.2],
    "key": [0.8, 1.2, 1.0, -0.5, 0.3, 0.5],
    "base": 100,
}
FURTHEST = 30
"""The largest difference of places that the curve shows, both ways."""


def turned(vector: list[float], places: Any, base: float) -> np.ndarray:
    """The vector, turned as RoPE turns it at each place, (places, 6); channel i is paired with i + 3."""
    x = torch.tensor(vector, dtype=torch.float64).expand(len(places), -1)
    return apply_rope(x, torch.as_tensor(places), base=base).numpy()


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Both vectors turned to their places, what each pair of channels adds to the score, and the score."""
    base, d_k = state["base"], len(state["query"])
    places = state["m"] + state["both"], state["n"] + state["both"]
    query = turned(state["query"], [places[0]], base)[0]
    key = turned(state["key"], [places[1]], base)[0]
    parts = (query * key).reshape(2, -1).sum(axis=0) / math.sqrt(d_k)
    offsets = np.arange(-FURTHEST, FURTHEST + 1)
    keys = turned(state["key"], offsets, base)
    return {
        "places": list(places),
        "frequencies": inverse_frequencies(d_k, base).tolist(),
        "query": query.tolist(),
        "key": key.tolist(),
        "parts": parts.tolist(),
        "score": float(parts.sum()),
        "curve": (keys @ np.array(state["query"]) / math.sqrt(d_k)).tolist(),
    }


def picture(state: dict[str, Any]) -> Figure:
    """The three dials, and below them the score for every distance."""
    numbers = compute(state)
    pairs = len(numbers["frequencies"])
    figure = Figure(figsize=(4.6, 3.7))
    axes = figure.subplot_mosaic([["dial 0", "dial 1", "dial 2"], ["curve"] * pairs], height_ratios=(1, 1.15))
    for pair, omega in enumerate(numbers["frequencies"]):
        dial = axes[f"dial {pair}"]
        for name, colour in (("key", viz.BLUE), ("query", viz.PINK)):
            _arrow(dial, [numbers[name][pair], numbers[name][pair + pairs]], colour)
        circle = np.linspace(0, 2 * math.pi, 90)
        dial.plot(1.3 * np.cos(circle), 1.3 * np.sin(circle), color=viz.INK, linewidth=0.6, alpha=0.6)
        dial.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal", xticks=[], yticks=[])
        dial.spines[:].set_visible(False)
        dial.set_title(f"{omega:.2g} rad\na place", loc="center")
        dial.set_xlabel(f"adds {numbers['parts'][pair]:.2f}")
    curve, here = axes["curve"], numbers["places"][1] - numbers["places"][0]
    curve.plot(np.arange(-FURTHEST, FURTHEST + 1), numbers["curve"], color=viz.INK)
    curve.plot(here, numbers["score"], "o", color=viz.ORANGE, markersize=7)
    curve.set(xlabel="place of the key minus place of the query", ylabel="score")
    return figure


def _arrow(axes: Axes, tip: list[float], colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.8}
    axes.annotate("", tip, (0, 0), arrowprops=style)
