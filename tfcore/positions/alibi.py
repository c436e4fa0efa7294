"""ALiBi: a penalty on each score that grows with distance, at a slope of its own for each head."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcore.masks import default_positions


def alibi_slopes(num_heads: int) -> Float[Tensor, " num_heads"]:
    r"""List the slope of each head.

    $\beta_j = 2^{-8j/h}, \; j = 1 \dots h$, if the number of heads h is a power of two; otherwise the slopes
    of the next lower power, and then every second slope of the next higher power.

    Args:
        num_heads: number of heads.

    Returns:
        The slopes, (num_heads,), float32.

    Raises:
        ValueError: fewer than one head.

    From: Press, Smith and Lewis (2022), *Train Short, Test Long*, section 3, and its published code for head
    counts that are not a power of two.

    >>> print(alibi_slopes(3))
    tensor([0.0625, 0.0039, 0.2500])
    """
    if num_heads < 1:
        raise ValueError(f"expected at least one head, got {num_heads}")
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return torch.tensor(slopes + between[: num_heads - power], device="cpu")  # also in a model built on meta


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Float[Tensor, "num_heads q_len k_len"]:
    r"""Build the bias, the queries being the last of the keys.

    $B_{jmn} = -\beta_j \, |m - n|$ for a query at m and a key at n.

    Args:
        num_heads: number of heads.
        q_len: number of queries.
        k_len: number of keys.

    Returns:
        The bias, (num_heads, q_len, k_len), float32.

    From: Press, Smith and Lewis (2022), *Train Short, Test Long*.

    >>> print(alibi_bias(2, 1, 3)[0] * 16)
    tensor([[-2., -1., -0.]])
    """
    return distance_penalty(alibi_slopes(num_heads), *default_positions(q_len, k_len))


def distance_penalty(
    slopes: Float[Tensor, " H"], q_pos: Int[Tensor, " T_q"], k_pos: Int[Tensor, " T_k"]
) -> Float[Tensor, "H T_q T_k"]:
    """Multiply each head's slope with the distance of each query to each key, negated.

    >>> print(distance_penalty(torch.tensor([0.5]), torch.tensor([2]), torch.arange(3)))
    tensor([[[-1.0000, -0.5000, -0.0000]]])
    """
    distance = (q_pos.unsqueeze(-1) - k_pos).abs()  # (T_q, T_k)
    return -slopes.to(distance.device)[:, None, None] * distance  # (H, T_q, T_k)
