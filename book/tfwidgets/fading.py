"""Fading: what is left of a push on the state after 1 to 99 steps, in a network of two units.

The random numbers are those of `tfwidgets.draws`, which the widget's JavaScript draws too. `compute` is what
the widget must agree with; `picture` is seen where no JavaScript runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfcore import bottleneck, viz
from tfwidgets.draws import normals

STATE: dict[str, Any] = {"radius": 0.9, "stretch": 1.0, "tokens": 0.4, "bias": 1.0, "seed": 1}
T = 100
ANGLE = 0.7
"""By how much a step turns the state, in radians."""
LOWEST, HIGHEST = -20, 6
"""The powers of ten that the axis shows."""


def weights(radius: float, stretch: float) -> np.ndarray:
    """A turn and a stretch: both eigenvalues have the size `radius`, whatever the stretch."""
    turn, side = math.cos(ANGLE), math.sin(ANGLE)
    return radius * np.array([[turn, stretch * side], [-side / stretch, turn]])


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Decimal logarithms of what is left over each distance, and of the bound, at distance 0 first."""
    source = normals(state["seed"])
    tokens = np.array([next(source) for _ in range(2 * T)]).reshape(1, T, 2)
    W_hh = weights(state["radius"], state["stretch"])
    h = bottleneck.rnn_forward(tokens, np.zeros((1, 2)), state["tokens"] * np.eye(2), W_hh, np.zeros(2))
    norms = bottleneck.gradient_norms(h[0], W_hh)[::-1]
    spectral = float(np.linalg.norm(W_hh, ord=2))
    gate = 1 / (1 + math.exp(-state["bias"]))
    return {
        "log_norms": np.log10(norms).tolist(),
        "spectral_norm": spectral,
        "log_bound": (T - 1) * math.log10(spectral),
        "slope": float((1 - h**2).mean()),
        "gate": gate,
        "log_gate": (T - 1) * math.log10(gate),
    }


def picture(state: dict[str, Any]) -> Figure:
    """What is left against distance, on a logarithmic axis, with the bound, a gate and attention."""
    numbers = compute(state)
    figure = Figure(figsize=(4.4, 3.6))
    axes = figure.subplots()
    ends = np.array([0, T - 1])
    axes.plot(numbers["log_norms"], color=viz.BLUE, label="recurrent network")
    axes.plot(ends, [0, numbers["log_bound"]], ":", color=viz.BLUE, label="its bound")
    axes.plot(ends, [0, numbers["log_gate"]], "--", color=viz.ORANGE, label="open cell, gate $f$")
    axes.plot(ends, [-2, -2], "-.", color=viz.GREEN, label="even attention, 1/100")
    axes.set(xlim=(0, T - 1), ylim=(LOWEST, HIGHEST), xlabel="steps back", ylabel="what is left of a push")
    powers = range(LOWEST, HIGHEST, 5)
    axes.set_yticks(powers, [f"$10^{{{power}}}$" if power else "1" for power in powers])
    axes.legend(loc="lower left")
    return figure
