"""The online softmax: eight keys in blocks, with a running maximum, a running sum and a running output.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from matplotlib.figure import Figure

from tfcore import viz
from tfcore.attention import attention

STATE: dict[str, Any] = {"read": 3, "block": 1, "lift": 4.0, "rescale": True}
SCORES = (0.4, 1.6, 1.0, 2.4, 0.6, 1.4, 2.8, 1.8)
VALUES = (4.0, 8.0, 2.0, 16.0, 6.0, 12.0, 10.0, 1.0)


def lifted(lift: float) -> list[float]:
    """The scores, the later half of them raised."""
    return [score + lift * (number >= 4) for number, score in enumerate(SCORES)]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Maximum, sum and output after the keys read, the last factor, and the softmax over the same keys."""
    read, scores = state["read"], lifted(state["lift"])
    exact, lse = attend(scores[:read], VALUES[:read])
    peak, total, out, factor = -math.inf, 0.0, 0.0, 0.0
    for start in range(0, read, state["block"]):
        block = slice(start, start + state["block"])
        part, part_lse = attend(scores[block], VALUES[block])
        before, peak = peak, max(peak, *scores[block])
        factor = math.exp(before - peak) if state["rescale"] or not start else 1.0
        share = math.exp(part_lse - peak)
        total, out = factor * total + share, factor * out + share * part
    if state["rescale"]:
        assert math.isclose(peak + math.log(total), lse)
    return {
        "scores": scores,
        "maximum": peak,
        "sum": total,
        "output": out,
        "answer": out / total,
        "factor": factor,
        "exact": exact,
    }


def attend(scores: list[float] | tuple[float, ...], values: tuple[float, ...]) -> tuple[float, float]:
    """The softmax mean of the values, and the log-sum-exp of the scores."""
    nothing = torch.zeros(1, 1, len(values), 1, dtype=torch.float64)
    value = torch.tensor(values, dtype=torch.float64).view(1, 1, -1, 1)
    bias = torch.tensor(scores, dtype=torch.float64).view(1, 1, 1, -1)
    output, lse = attention(nothing[:, :, :1], nothing, value, bias=bias, return_lse=True)
    return output.item(), lse.item()


def picture(state: dict[str, Any]) -> Figure:
    """The scores as bars, those read in full colour, with the running numbers below."""
    numbers = compute(state)
    figure = Figure(figsize=(4.4, 3.5))
    axes = figure.subplots()
    for number, score in enumerate(numbers["scores"]):
        read = number < state["read"]
        axes.bar(number + 1, score, color=viz.BLUE, width=0.7, alpha=1 if read else 0.3)
    axes.axhline(numbers["maximum"], color=viz.ORANGE, linestyle="--", linewidth=1.2)
    axes.text(8.6, numbers["maximum"] + 0.15, "maximum so far", color=viz.ORANGE, ha="right")
    axes.set(xlabel="key", ylabel="score", xticks=range(1, 9), xlim=(0.4, 8.6))
    words = (
        f"{state['read']} of 8 keys read: maximum {numbers['maximum']:.2f}, sum {numbers['sum']:.3f},\n"
        f"output {numbers['output']:.3f}; output / sum = {numbers['answer']:.3f}\n"
        f"softmax over the same keys: {numbers['exact']:.3f}"
    )
    figure.text(0.02, -0.02, words, va="top", linespacing=1.5)
    return figure
