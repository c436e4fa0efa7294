"""Fast weights: five cards (key, value) are written into a state of two numbers, by one of four rules.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from tfcore import viz
from tfcore.delta_rule import gated_delta_rule_step
from tfcore.state_space_duality import ssd_step

STATE: dict[str, Any] = {"written": 3, "rule": "add", "alpha": 0.8, "beta": 0.8, "angle": 90}
CARDS = (("x", 3), ("y", 5), ("x", 7), ("z", 2), ("y", 4))
RULES = ("add", "fade", "replace", "fade and replace")
COLOURS = {"x": viz.BLUE, "y": viz.ORANGE, "z": viz.GREEN}
RIM = 8
"""The length at which a key, whose length is 1, is drawn. The state is drawn at its own length."""


def make_keys(angle: float) -> dict[str, Tensor]:
    """Return three keys of length 1: x, y at an angle to it in degrees, and z halfway between."""
    turns = {"x": 0.0, "y": math.radians(angle), "z": math.radians(angle / 2)}
    return {
        name: torch.tensor([math.cos(turn), math.sin(turn)], dtype=torch.float64)
        for name, turn in turns.items()
    }


def write(state: dict[str, Any], rule: str) -> list[Tensor]:
    """Return the state before the first card and after each card that is written, each (d_k,)."""
    keys = make_keys(state["angle"])
    log_decay = torch.tensor([[state["alpha"] if "fade" in rule else 1.0]], dtype=torch.float64).log()
    beta = torch.tensor([[state["beta"]]], dtype=torch.float64)
    states = [torch.zeros(1, 1, 1, 2, dtype=torch.float64)]
    for name, number in CARDS[: state["written"]]:
        key, value = keys[name].view(1, 1, 2), torch.tensor([[[float(number)]]], dtype=torch.float64)
        if "replace" in rule:
            _, after = gated_delta_rule_step(key, key, value, beta, log_decay, states[-1])
        else:  # linear attention without the denominator: a state space whose step size is 1
            _, after = ssd_step(value, torch.ones_like(beta), log_decay[0], key[0], key[0], states[-1])
        states.append(after)
    return [after.flatten() for after in states]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Compute keys, states, and the answer for each key that was written, beside the value written last."""
    keys = make_keys(state["angle"])
    last = dict(CARDS[: state["written"]])
    seen = [name for name in keys if name in last]

    def answers(rule: str) -> list[float]:
        memory = write(state, rule)[-1]
        return [float(memory @ keys[name]) for name in seen]

    return {
        "keys": [key.tolist() for key in keys.values()],
        "states": [memory.tolist() for memory in write(state, state["rule"])],
        "wanted": [last[name] for name in seen],
        "answers": answers(state["rule"]),
        "errors": [
            sum((answer - last[name]) ** 2 for name, answer in zip(seen, answers(rule), strict=True))
            for rule in RULES
        ],
    }


def picture(state: dict[str, Any]) -> Figure:
    """Draw keys and state as arrows, and below them answers and wanted values as bars."""
    numbers = compute(state)
    keys = dict(zip("xyz", numbers["keys"], strict=True))
    last = dict(CARDS[: state["written"]])
    answers = dict(zip([name for name in keys if name in last], numbers["answers"], strict=True))
    figure = Figure(figsize=(4.4, 4.4))
    plane, bars = figure.subplots(2, 1, height_ratios=(1.5, 1))

    arc = np.linspace(0, math.pi, 90)
    plane.plot(RIM * np.cos(arc), RIM * np.sin(arc), color=viz.INK, linewidth=0.6, alpha=0.6)
    memory = np.array(numbers["states"][-1])
    for name, key in keys.items():
        _arrow(plane, RIM * np.array(key), COLOURS[name], 1.2)
        plane.annotate(
            f"${name}$", RIM * np.array(key), (5, 3), textcoords="offset points", color=COLOURS[name]
        )
        if name in last:
            foot = answers[name] * np.array(key)
            plane.plot(*zip(memory, foot, strict=True), ":", color=COLOURS[name], linewidth=1)
            plane.plot(*foot, "o", color=COLOURS[name], markersize=6)
            plane.plot(
                *last[name] * np.array(key),
                "s",
                markerfacecolor="none",
                markeredgecolor=COLOURS[name],
                markersize=8,
            )
    _arrow(plane, memory, viz.PINK, 2.2)
    plane.annotate("$S$", memory, (6, 0), textcoords="offset points", color=viz.PINK)
    right = max(RIM + 2, float(memory[0]) + 2)
    plane.set(aspect="equal", xticks=[], yticks=[], xlim=(-RIM - 1, right), ylim=(-1, 11))
    written = f"{state['written']} of {len(CARDS)} cards, rule: {state['rule']}"
    plane.set_title(f"{written}\ndots: answers, squares: values wanted")
    plane.spines[:].set_visible(False)

    drawn = bars.barh(
        list(answers), list(answers.values()), color=[COLOURS[name] for name in answers], height=0.5
    )
    bars.barh(list(answers), numbers["wanted"], facecolor="none", edgecolor=viz.INK, height=0.7)
    words = [f"{answers[name]:.2f}, wanted {last[name]}" for name in answers]
    bars.bar_label(drawn, words, padding=3, color=viz.INK)
    bars.invert_yaxis()
    bars.margins(x=0.3)
    error = numbers["errors"][RULES.index(state["rule"])]
    bars.set(title="answers, and as outlines the values wanted", xticks=[])
    bars.set_xlabel(f"sum of squared errors: {error:.2f}", loc="left")
    bars.spines[["bottom", "left"]].set_visible(False)
    bars.tick_params(length=0)
    return figure


def _arrow(axes: Axes, tip: np.ndarray, colour: str, width: float) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": width}
    axes.annotate("", tip, (0, 0), arrowprops=style)
