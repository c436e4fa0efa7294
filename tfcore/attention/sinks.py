"""Sinks: a learned score for each head that takes part in the softmax and has no value."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def kept_share(lse: Float[Tensor, "*B H T_q"], sinks: Float[Tensor, " H"]) -> Float[Tensor, "*B H T_q"]:
    r"""Return the part of each query's weight that stays with the keys; the sink takes the rest.

    $\frac{e^{L}}{e^{L} + e^{z}} = \sigma(L - z)$, with $L = \ln \sum_j e^{s_j}$ over the keys.

    So any way to compute attention that also returns its lse can have sinks: its output is multiplied by
    this share.

    Args:
        lse: log-sum-exp of the scores of each query, (B, H, T_q).
        sinks: z, the score of each head's sink, (H,).

    Returns:
        Shares from 0 to 1, (B, H, T_q).

    From: Miller (2023), *Attention Is Off By One* (z = 0); OpenAI (2025), *gpt-oss-120b & gpt-oss-20b Model
    Card* (learned).

    >>> print(kept_share(torch.zeros(1, 2, 1), torch.tensor([0.0, -torch.inf])).flatten())
    tensor([0.5000, 1.0000])
    """
    z = sinks.to(lse.dtype).unsqueeze(-1)
    return torch.sigmoid(torch.where(lse == -torch.inf, lse, lse - z))


def with_sinks(
    output: Float[Tensor, "B H T_q d_v"],
    weights: Float[Tensor, "B H T_q T_k"] | None,
    lse: Float[Tensor, "B H T_q"] | None,
    sinks: Float[Tensor, " H"],
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Turn the results of attention without sinks into the results with them.

    >>> value, lse, sinks = torch.ones(1, 1, 1, 3), torch.zeros(1, 1, 1), torch.zeros(1)
    >>> output, _, lse = with_sinks(value, None, lse, sinks)
    >>> print(output.flatten(), lse.item())
    tensor([0.5000, 0.5000, 0.5000]) 0.69...
    """
    assert lse is not None  # only backends that return it are asked
    share = kept_share(lse, sinks).unsqueeze(-1)  # (B, H, T_q, 1)
    weights = None if weights is None else weights * share
    return (output * share).to(output.dtype), weights, torch.logaddexp(lse, sinks.to(lse.dtype).unsqueeze(-1))
