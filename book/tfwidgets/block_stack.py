"""A stack of random blocks: the size of the residual stream, and of its gradient, after each block.

The random numbers are those of `tfwidgets.draws`, which the widget's JavaScript draws too. `compute` is what
the widget must agree with; `picture` is seen where no JavaScript runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from tfcore import viz
from tfcore.config import AttentionConfig, BlockConfig, NormPlace
from tfcore.layers import FeedForward, TransformerBlock
from tfwidgets.draws import normals

STATE: dict[str, Any] = {"depth": 12, "norm": "pre", "gain": 1.0, "seed": 1}
NORMS = ("pre", "post", "no sum")
D_MODEL, D_FF, HEADS, TOKENS = 16, 32, 2, 6
DEEPEST = 32
COLOURS = {"pre": viz.BLUE, "post": viz.ORANGE, "no sum": viz.GREEN}
LABELS = {"pre": "pre-norm", "post": "post-norm", "no sum": "no sum"}


@cache
def draw(seed: int, rows: int, columns: int) -> torch.Tensor:
    """A matrix of standard normal numbers, row by row."""
    source = normals(seed)
    return torch.tensor([[next(source) for _ in range(columns)] for _ in range(rows)], dtype=torch.float64)


def make_block(seed: int, number: int, norm: str, gain: float) -> TransformerBlock:
    """Block `number` of the stack, counted from 1.

    Matrices have variance 1 / inputs. Those that write to the stream are multiplied by the gain, and the
    second of the feed-forward network by the root of 2, since ReLU lets half of the squares through.
    """
    place: NormPlace = "post" if norm == "post" else "pre"
    config = BlockConfig(
        AttentionConfig(D_MODEL, HEADS, bias=False),
        d_ff=D_FF,
        activation="relu",
        ffn_bias=False,
        norm_place=place,
    )
    block = TransformerBlock(config).double()
    root = 1000 * seed + 10 * number
    inner, writes = D_MODEL**-0.5, gain * D_MODEL**-0.5
    block.attention.W_qkv.weight.data = inner * draw(root, 3 * D_MODEL, D_MODEL)
    block.attention.W_o.weight.data = writes * draw(root + 1, D_MODEL, D_MODEL)
    ffn = cast(FeedForward, block.ffn)
    ffn.W_up.weight.data = inner * draw(root + 2, D_FF, D_MODEL)
    ffn.W_down.weight.data = gain * (2 / D_FF) ** 0.5 * draw(root + 3, D_MODEL, D_FF)
    return block


def run(block: TransformerBlock, x: torch.Tensor, norm: str) -> torch.Tensor:
    """What the block makes of the stream; without a sum each sublayer's output takes the stream's place."""
    if norm != "no sum":
        out: torch.Tensor = block(x)
        return out
    x = block.attention(block.norm_attention(x))
    out = block.ffn(block.norm_ffn(x))
    return out


def sizes(state: dict[str, Any], norm: str) -> tuple[list[float], list[float]]:
    """Root mean square of the stream, and of its gradient, before the first block and after each.

    The gradient is that of a random linear function of the last stream, which is read through one more norm.
    """
    stream = [draw(1000 * state["seed"], TOKENS, D_MODEL)[None].clone().requires_grad_()]
    for number in range(1, state["depth"] + 1):
        stream.append(run(make_block(state["seed"], number, norm, state["gain"]), stream[-1], norm))
    read = nn.functional.layer_norm(stream[-1], (D_MODEL,))
    loss = (read * draw(1000 * state["seed"] + 1, TOKENS, D_MODEL)).sum()
    gradients = torch.autograd.grad(loss, stream)
    size, gradient = ([x.detach().square().mean().sqrt().item() for x in row] for row in (stream, gradients))
    return size, gradient


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """The sizes of all three stacks, one row each, and what the chosen one says."""
    found = [sizes(state, norm) for norm in NORMS]
    stream, gradient = found[NORMS.index(state["norm"])]
    return {
        "streams": [row for row, _ in found],
        "gradients": [row for _, row in found],
        "growth": stream[-1] / stream[0],
        "bottom_to_top": gradient[0] / gradient[-1],
    }


def picture(state: dict[str, Any]) -> Figure:
    """The size of the stream above, that of its gradient below, the chosen stack drawn thick."""
    numbers = compute(state)
    figure = Figure(figsize=(4.4, 5.2))
    above, below = figure.subplots(2, 1, sharex=True)
    places = np.arange(state["depth"] + 1)
    for axes, rows in ((above, numbers["streams"]), (below, numbers["gradients"])):
        for norm, row in zip(NORMS, rows, strict=True):
            chosen = norm == state["norm"]
            axes.plot(
                places,
                row,
                color=COLOURS[norm],
                linewidth=2.6 if chosen else 1.2,
                linestyle="-" if chosen else "--",
                label=LABELS[norm],
            )
        axes.set_yscale("log")
    above.set(ylim=(0.3, 300), title=f"size of the stream, {state['depth']} blocks")
    below.set(ylim=(0.003, 3), title="size of its gradient", xlabel="after block")
    above.legend(loc="upper left")
    return figure
