"""Sampling: what temperature, top-k and top-p leave of a distribution over twelve words, and a few draws.

The random numbers are those of `tfwidgets.draws`, which the JavaScript draws too. `compute` is what the
widget must agree with; `picture` is seen where no JavaScript runs.
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from tfcore import viz
from tfcore.generate import filter_logits, token_probabilities
from tfwidgets.draws import uniforms

STATE: dict[str, Any] = {"temperature": 1.0, "top_k": 8, "top_p": 0.8, "sure": False, "seed": 1}
OPEN = ("She opened the door and saw a", 3.1, 2.95, 2.6, 2.4, 2.31, 2.1, 1.9, 1.5, 1.2, 0.1, -1.0, -1.4)
SURE = ("The opposite of hot is", 6.5, 3.2, 2.4, 2.1, 1.8, 1.1, 0.9, 0.6, -0.2, -0.9, -1.5, -2.0)
OPEN_WORDS = [
    "man",
    "woman",
    "dog",
    "light",
    "letter",
    "cat",
    "ghost",
    "child",
    "mirror",
    "whale",
    "seven",
    "of",
]
SURE_WORDS = [
    "cold",
    "cool",
    "warm",
    "freezing",
    "icy",
    "chilly",
    "not",
    "tepid",
    "mild",
    "a",
    "blue",
    "seven",
]
DRAWS = 8


def logits_of(state: dict[str, Any]) -> torch.Tensor:
    """The model's logits for the beginning that was chosen, likeliest first."""
    return torch.tensor((SURE if state["sure"] else OPEN)[1:], dtype=torch.float64)


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Probabilities before and after, how many words each step leaves, and the words that are drawn."""
    z, tau, top_k = logits_of(state), state["temperature"], state["top_k"]
    p = token_probabilities(z, tau, top_k, state["top_p"])
    warm = token_probabilities(z, tau)
    left = (p > 0).sum()
    kept = filter_logits(z, top_k=top_k)
    uniform = uniforms(state["seed"])
    sums = p.cumsum(0)
    draws = [min(int((sums <= next(uniform)).sum()), int(left) - 1) for _ in range(DRAWS)]
    return {
        "model": z.softmax(0).tolist(),
        "probabilities": p.tolist(),
        "after_top_k": 1 if tau == 0 else int(kept.isfinite().sum()),
        "left": int(left),
        "share": float(warm[p > 0].sum()),
        "entropy": float(torch.special.entr(p).sum()),
        "draws": draws,
    }


def picture(state: dict[str, Any]) -> Figure:
    """The model's distribution in outline, and what is drawn from as bars."""
    numbers = compute(state)
    words = SURE_WORDS if state["sure"] else OPEN_WORDS
    beginning = (SURE if state["sure"] else OPEN)[0]
    figure = Figure(figsize=(4.4, 4.4))
    axes = figure.subplots()
    axes.barh(words, numbers["probabilities"], color=viz.BLUE, height=0.7, label="drawn from")
    axes.barh(
        words, numbers["model"], height=0.7, facecolor="none", edgecolor=viz.ORANGE, lw=1.3, label="the model"
    )
    axes.invert_yaxis()
    how = f"temperature {state['temperature']:g}, top-k {state['top_k']}, top-p {state['top_p']:g}"
    axes.set(xlabel="probability", title=f"{beginning} ...\n{how}")
    axes.legend(loc="lower right")
    return figure
