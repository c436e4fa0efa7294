"""Saturation: what happens to the softmax of q . k over eight keys as the vectors get longer.

The random numbers are those of `tfwidgets.draws`, which the widget's JavaScript draws too. `compute` is what
the widget must agree with; `picture` is seen where no JavaScript runs.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfcore import ops, scaling, viz
from tfwidgets.draws import normals

STATE: dict[str, Any] = {"d_k": 64, "scaled": False, "seed": 1}
KEYS = 8
WIDTHS = sorted({round(2 ** (step / 4)) for step in range(41)})
"""The d_k of the curves, from 1 to 1,024."""
DRAWS = range(1, 33)
"""The seeds that the curves are means over."""


@cache
def dot_products(seed: int) -> np.ndarray:
    """Row d - 1 holds q . k for the first d components and each key, (1024, 8).

    Component by component the query's number is drawn, then each key's: longer vectors begin with the
    shorter ones.
    """
    source = normals(seed)
    numbers = np.array([next(source) for _ in range(WIDTHS[-1] * (1 + KEYS))]).reshape(-1, 1 + KEYS)
    return np.cumsum(numbers[:, :1] * numbers[:, 1:], axis=0)


def jacobian_norm(scores: np.ndarray) -> float:
    """The Frobenius norm of the softmax's Jacobian: how far the weights answer to the scores."""
    return float(np.linalg.norm(scaling.softmax_jacobian(ops.softmax(scores))))


@cache
def curve(scaled: bool) -> list[float]:
    """The mean norm of the Jacobian at each width, over the draws."""
    widths = np.array(WIDTHS)
    scales = np.sqrt(widths) if scaled else np.ones(len(widths))
    scores = np.array([dot_products(seed)[widths - 1] / scales[:, None] for seed in DRAWS])
    jacobians = scaling.softmax_jacobian(ops.softmax(scores))
    means: list[float] = np.linalg.norm(jacobians, axis=(-2, -1)).mean(axis=0).tolist()
    return means


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Scores and weights at d_k, what they say, and the Jacobian's mean norm at every width."""
    products = dot_products(state["seed"])
    scores = products[state["d_k"] - 1]
    if state["scaled"]:
        scores = scores / math.sqrt(state["d_k"])
    weights = ops.softmax(scores)
    return {
        "scores": scores.tolist(),
        "spread": float(scores.std()),
        "weights": weights.tolist(),
        "largest": float(weights.max()),
        "entropy": float(scaling.attention_entropy(weights)),
        "jacobian_norm": jacobian_norm(scores),
        "plain_curve": curve(False),
        "scaled_curve": curve(True),
    }


def picture(state: dict[str, Any]) -> Figure:
    """The weights at d_k, and the norm of the Jacobian against d_k, with and without the division."""
    numbers = compute(state)
    colour = viz.BLUE if state["scaled"] else viz.ORANGE
    figure = Figure(figsize=(4.4, 5.0))
    bars, curves = figure.subplots(2, 1, height_ratios=(1, 1.25))
    names = [str(key) for key in range(1, KEYS + 1)]
    bars.bar(names, numbers["weights"], color=colour, width=0.7)
    how = "divided by $\\sqrt{d_k}$" if state["scaled"] else "not divided"
    bars.set(ylim=(0, 1.02), xlabel="key", ylabel="weight", title=f"weights, $d_k = {state['d_k']}$, {how}")
    curves.plot(WIDTHS, numbers["scaled_curve"], color=viz.BLUE, label="divided")
    curves.plot(WIDTHS, numbers["plain_curve"], color=viz.ORANGE, linestyle="--", label="not divided")
    curves.plot(state["d_k"], numbers["jacobian_norm"], "o", color=colour, markersize=8)
    curves.legend(loc="lower left")
    curves.set_xscale("log", base=2)
    curves.set(ylim=(0, 0.52), xlabel="number of components $d_k$", ylabel="norm of the Jacobian")
    curves.set_title("dot: this draw; lines: mean of 32")
    curves.set_xticks([1, 4, 16, 64, 256, 1024], ["1", "4", "16", "64", "256", "1024"])
    return figure
