"""Heads and groups: how d_model is cut, which key head a query head reads, and what that costs.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfcore import costs, viz
from tfcore.layers.heads import repeat_kv

STATE: dict[str, Any] = {"heads": 12, "kv_heads": 4, "tokens": 1024, "tiled": False}
D_MODEL = 768


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """What one attention layer of width 768 without biases has, multiplies and keeps."""
    h, h_kv, tokens = state["heads"], state["kv_heads"], state["tokens"]
    layer = costs.Architecture(1, D_MODEL, h, 1, 1, 1, h_kv, bias=False, head="none")
    parts = costs.flops_by_part(layer, tokens)
    if state["tiled"]:
        reads = np.tile(np.arange(h_kv), h // h_kv)
    else:
        reads = repeat_kv(torch.arange(h_kv)[None, :, None, None], h // h_kv).flatten().numpy()
    return {
        "width": layer.head_width,
        "reads": reads.tolist(),
        "parameters": costs.parameter_count(D_MODEL, h, h_kv, bias=False),
        "multiplications": (parts["projections"] + parts["scores"]) // 2,
        "scores": h * costs.attended_pairs(tokens, tokens),
        "kept": costs.kv_cache_bytes(1, h_kv, layer.head_width, 1, bytes_per_element=1),
    }


def picture(state: dict[str, Any]) -> Figure:
    """The query heads above the key heads that they read, with the costs below."""
    numbers = compute(state)
    h, width = state["heads"], numbers["width"]
    figure = Figure(figsize=(4.4, 3.4))
    axes = figure.subplots()
    label = {"ha": "center", "va": "center", "fontsize": 9}
    for head, key in enumerate(numbers["reads"]):
        colour = viz.PALETTE[key % len(viz.PALETTE)]
        axes.add_patch(_box(head * width, 2, width, colour))
        axes.text((head + 0.5) * width, 2.3, str(head + 1), color="black", **label)
        axes.plot([(head + 0.5) * width, (key + 0.5) * width], [2, 0.6], color=colour, linewidth=1.2)
    for key in range(state["kv_heads"]):
        axes.add_patch(_box(key * width, 0, width, viz.PALETTE[key % len(viz.PALETTE)]))
        axes.text((key + 0.5) * width, 0.3, str(key + 1), color="black", **label)
    axes.text(0, 2.75, f"{h} query heads, {width} channels each", va="bottom")
    axes.text(0, -0.15, f"{state['kv_heads']} heads of keys and values", va="top")
    words = (
        f"{numbers['parameters']:,} parameters",
        f"{numbers['scores']:,} scores for {state['tokens']:,} tokens",
        f"{numbers['kept']:,} numbers kept for each token",
    )
    axes.text(0, -0.85, "\n".join(words), va="top", linespacing=1.5)
    axes.set(xlim=(-8, D_MODEL + 8), ylim=(-2.35, 3.2))
    axes.axis("off")
    return figure


def _box(left: float, bottom: float, width: float, colour: str) -> Rectangle:
    return Rectangle((left + 2, bottom), width - 4, 0.6, facecolor=colour, edgecolor="none")
