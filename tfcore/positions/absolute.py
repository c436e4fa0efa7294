"""Absolute positions: a vector for each place, added to the embedding of the token at that place."""

from __future__ import annotations

from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcore.config import Layout
from tfcore.inspection import can_look
from tfcore.positions.rotary import inverse_frequencies


def sinusoids(
    positions: Int[Tensor, "*batch T"], d_model: int, base: float = 10_000.0, layout: Layout = "interleaved"
) -> Float[Tensor, "*batch T d_model"]:
    r"""Work out the sinusoidal encoding of any positions.

    $PE_{m,2i} = \sin(m \, \omega_i), \; PE_{m,2i+1} = \cos(m \, \omega_i)$ with
    $\omega_i = \text{base}^{-2i/d}$.

    Args:
        positions: position of each token, (..., T).
        d_model: number of channels, even.
        base: of the frequencies.
        layout: "interleaved" alternates sines and cosines, as the paper; "half" has all sines first (Marian).

    Returns:
        The encodings, (..., T, d_model), float32.

    Raises:
        ValueError: a number of channels that is odd or below 2, or an unknown layout.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.5.

    >>> print(sinusoids(torch.tensor([1]), 2))
    tensor([[0.8415, 0.5403]])
    """
    if layout not in get_args(Layout):
        raise ValueError(f"expected a layout out of {', '.join(get_args(Layout))}, got {layout!r}")
    angles = positions.unsqueeze(-1) * inverse_frequencies(d_model, base).float().to(positions.device)
    if layout == "half":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def look_up(table: Float[Tensor, "max_len d"], positions: Int[Tensor, "*batch T"]) -> Tensor:
    """Take the rows of a learned table, or refuse a position beyond it.

    >>> print(look_up(torch.eye(3), torch.tensor([2])))
    tensor([[0., 0., 1.]])
    """
    if positions.numel() and can_look(positions):
        low, high = int(positions.min()), int(positions.max())
        if low < 0 or high >= table.shape[0]:
            raise ValueError(
                f"expected positions below {table.shape[0]}, the length of the learned table, and from 0 on, "
                f"got {low} to {high}; shorten the text, or use positions without a table (rope, alibi)"
            )
    return torch.nn.functional.embedding(positions, table)
