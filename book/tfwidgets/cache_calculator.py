"""Weights and cache in the memory of some H100s, and one decoding step on their roofline.

`compute` is what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfcore import costs, viz

STATE: dict[str, Any] = {
    "model": "Llama 3 8B",
    "context": 2048,
    "batch": 16,
    "weight_bits": 16,
    "cache_bits": 16,
    "devices": 1,
}
MEMORY = 80e9  # bytes of one H100, by its data sheet
DEVICE = "H100 SXM"


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """What a model and its caches weigh, and what one decoding step costs at least."""
    a = costs.MODELS[state["model"]].architecture
    n, batch, devices = state["context"], state["batch"], state["devices"]
    per_weight, per_kept = state["weight_bits"] / 8, state["cache_bits"] / 8
    weights = costs.weight_bytes(a, per_weight)
    text = costs.cache_bytes(a, n, 1, per_kept)
    read = costs.forward_bytes(a, 1, n, batch, per_weight) - costs.cache_bytes(a, n, batch, per_weight)
    moved, flops = read + batch * text, costs.forward_flops(a, 1, n, batch)
    one = costs.CEILINGS[DEVICE]
    together = costs.Ceiling(
        devices * one.flops_per_second, devices * one.bytes_per_second, f"{devices} of them, at best"
    )
    seconds = costs.time_bound(flops, moved, together)
    intensity = costs.arithmetic_intensity(flops, moved)
    return {
        "parameters": costs.model_parameters(a),
        "weights_gb": weights / 1e9,
        "cache_gb": batch * text / 1e9,
        "memory_gb": devices * MEMORY / 1e9,
        "most_texts": int(max(0, (devices * MEMORY - weights) // text)),
        "intensity": intensity,
        "ridge": one.ridge,
        "arithmetic": min(1, intensity / one.ridge),
        "step_ms": 1e3 * seconds,
        "tokens_per_second": batch / seconds,
    }


def picture(state: dict[str, Any]) -> Figure:
    """The memory above, the roofline below."""
    numbers = compute(state)
    figure = Figure(figsize=(4.4, 4.6))
    bar, roof = figure.subplots(2, 1, height_ratios=(1, 2.1))
    left = 0.0
    for name, colour, height in (("weights", viz.BLUE, 1.75), ("cache", viz.ORANGE, 1.1)):
        size = numbers[f"{name}_gb"]
        bar.add_patch(Rectangle((left, 0), size, 1, facecolor=colour, alpha=0.6))
        bar.text(0, height, f"{name} {size:.1f} GB", color=colour, va="bottom")
        left += size
    bar.add_patch(Rectangle((0, 0), numbers["memory_gb"], 1, facecolor="none", edgecolor=viz.INK))
    bar.text(0, -0.15, f"memory {numbers['memory_gb']:.0f} GB", va="top")
    bar.set(xlim=(0, 1.05 * max(left, numbers["memory_gb"])), ylim=(-0.9, 3.3))
    bar.axis("off")
    x = np.logspace(-1, 4, 200)
    roof.plot(x, np.minimum(1, x / numbers["ridge"]), color=viz.INK)
    roof.plot(numbers["intensity"], numbers["arithmetic"], "o", color=viz.PINK, ms=8)
    roof.set(xscale="log", yscale="log", xlabel="operations for each byte", ylim=(2e-4, 2))
    roof.set_ylabel("share of the arithmetic\nthat can be used")
    figure.text(
        0.02,
        0.99,
        f"{state['model']}, {state['batch']} texts of {state['context']:,} tokens",
        va="top",
    )
    return figure
