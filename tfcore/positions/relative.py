"""Relative positions that are learned: T5's bias for a bucket of distances, Shaw's key for each distance."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor


def t5_relative_bucket(
    relative_position: Int[Tensor, "*shape"],
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Int[Tensor, "*shape"]:
    r"""Sort distances into buckets: one each while they are small, then wider and wider ones.

    With $n = |r|$, b buckets on a side, e of them exact: n if $n < e$, else
    $e + \lfloor \ln(n/e) / \ln(n_{max}/e) \, (b - e) \rfloor$, at most $b - 1$.

    Args:
        relative_position: key position minus query position.
        bidirectional: whether keys ahead have buckets too (the second half); else they share bucket 0.
        num_buckets: how many buckets there are.
        max_distance: where the scale ends; the last bucket, which holds all beyond, begins earlier.

    Returns:
        The bucket of each, in the shape that came, from 0.

    Raises:
        ValueError: too few buckets to tell distances apart, or a ``max_distance`` within the exact ones.

    From: Raffel et al. (2020), *Exploring the Limits of Transfer Learning*, section 2.1, and its code.

    >>> print(t5_relative_bucket(torch.tensor([-200, -3, 0, 3])))
    tensor([15,  3,  0, 19])
    """
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    if exact < 1 or max_distance <= exact:
        raise ValueError(
            f"expected more buckets and a larger distance, got num_buckets {num_buckets} and max_distance "
            f"{max_distance}; half of a side's {per_side} buckets are exact and must end before max_distance"
        )
    if bidirectional:
        side = (relative_position > 0) * per_side
        distance = relative_position.abs()
    else:
        side = torch.zeros_like(relative_position)
        distance = (-relative_position).clamp(min=0)
    ratio = torch.log(distance.clamp(min=1) / exact) / math.log(max_distance / exact)
    wide = (exact + (ratio * (per_side - exact)).long()).clamp(max=per_side - 1)
    return side + torch.where(distance < exact, distance, wide)


def shaw_bias(
    query: Float[Tensor, "B H T_q d_head"],
    relative_keys: Float[Tensor, "distances d_head"],
    row: Int[Tensor, "T_q T_k"],
    scale: float,
) -> Float[Tensor, "B H T_q T_k"]:
    r"""Score each query against the learned key of its distance to each token.

    $B_{ij} = s \, q_i \cdot r_{\text{clip}(j - i)}$, to be added to $s \, q_i \cdot k_j$.

    Args:
        query: queries, (B, H, T_q, d_head).
        relative_keys: one vector for each distance up to the limit.
        row: which of them each pair of query and key uses; see :func:`shaw_rows`.
        scale: multiplies the scores.

    Returns:
        The bias, (B, H, T_q, T_k).

    From: Shaw, Uszkoreit and Vaswani (2018), *Self-Attention with Relative Position Representations*,
    equation 4; the values' counterpart, which the paper found to add nothing, is left out.

    >>> row = shaw_rows(torch.arange(2), torch.arange(3), max_distance=1)
    >>> table = torch.tensor([[1.0], [2.0], [3.0]])
    >>> print(shaw_bias(torch.ones(1, 1, 2, 1), table, row, scale=1.0)[0, 0])
    tensor([[2., 3., 3.],
            [1., 2., 3.]])
    """
    by_distance = query @ relative_keys.mT * scale  # (B, H, T_q, distances)
    return by_distance.gather(-1, row.expand(*query.shape[:2], -1, -1))  # (B, H, T_q, T_k)


def shaw_rows(
    q_pos: Int[Tensor, " T_q"], k_pos: Int[Tensor, " T_k"], max_distance: int
) -> Int[Tensor, "T_q T_k"]:
    """Number the clipped distance from each query to each key: 0 is far behind, max_distance itself.

    >>> print(shaw_rows(torch.tensor([1]), torch.arange(4), max_distance=1))
    tensor([[0, 1, 2, 2]])
    """
    return (k_pos - q_pos.unsqueeze(-1)).clamp(-max_distance, max_distance) + max_distance
