"""Put together attention that was computed over separate pieces of the keys."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor


def merge(
    out_a: Float[Tensor, "*rows d_v"],
    lse_a: Float[Tensor, "*rows"],
    out_b: Float[Tensor, "*rows d_v"],
    lse_b: Float[Tensor, "*rows"],
) -> tuple[Float[Tensor, "*rows d_v"], Float[Tensor, "*rows"]]:
    r"""Combine the attention of the same queries to two disjoint sets of keys.

    $L = \ln(e^{L_a} + e^{L_b}), \; o = e^{L_a - L} o_a + e^{L_b - L} o_b$.

    This is exact, associative and commutative; (0, -inf), attention to no key at all, is its neutral element.
    Tiles, the shards of a ring and the halves of a split cache are all merged by it. The shares are as
    precise as the lse: a float32 near 10,000 is known to 5e-4.

    Args:
        out_a: output over the first set of keys, (..., T_q, d_v).
        lse_a: its log-sum-exp of scores, (..., T_q), -inf where no key was seen.
        out_b: output over the second set.
        lse_b: its log-sum-exp.

    Returns:
        The output, in the type of ``out_a``, and the lse over both sets.

    From: Milakov and Gimelshein (2018), *Online Normalizer Calculation for Softmax*; Rabe and Staats (2021),
    *Self-attention Does Not Need O(n^2) Memory*.

    >>> one, three = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    >>> output, lse = merge(one, torch.tensor([0.0]), three, torch.tensor([0.0]))
    >>> print(output, lse.exp())
    tensor([[2.]]) tensor([2.])
    """
    peak = torch.maximum(lse_a, lse_b).detach()
    peak = peak.masked_fill(peak == -math.inf, 0.0)
    part_a, part_b = torch.exp(lse_a - peak), torch.exp(lse_b - peak)  # (..., T_q)
    total = part_a + part_b
    empty = total == 0
    total = total.masked_fill(empty, 1.0)
    output = (part_a / total).unsqueeze(-1) * out_a + (part_b / total).unsqueeze(-1) * out_b
    lse = (peak + torch.log(total)).masked_fill(empty, -math.inf)
    return output.to(out_a.dtype), lse
