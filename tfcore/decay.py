"""What is left of a token after later ones: the decays in between, multiplied, for every pair at once."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def decay_mask(log_decay: Float[Tensor, "*batch T"]) -> Float[Tensor, "*batch T T"]:
    r"""Compute the share of token j that is left at token i, and 0 where token j is still to come.

    $L_{ij} = \prod_{l = j + 1}^{i} a_l$ for $j \le i$, where $\log a$ is ``log_decay``.

    A causal mask has 1 for every earlier token; this one has less and less. Its diagonal is 1: a token is
    written after the decay of its own step. Sums of logarithms are taken for each j on its own. Differences
    of one running sum would be rounded as coarsely as the sum, and be NaN after a decay of 0.

    Args:
        log_decay: logarithm of the decay at each token, 0 to keep everything, -inf to forget everything,
            (..., T).

    Returns:
        L, lower triangular, (..., T, T).

    From: Dao and Gu (2024), *Transformers are SSMs*, section 3.2.2, where L is called 1-semiseparable.

    >>> half = torch.full((3,), 0.5).log()
    >>> print(decay_mask(half))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 1.0000, 0.0000],
            [0.2500, 0.5000, 1.0000]])
    """
    T = log_decay.shape[-1]
    causal = torch.ones(T, T, dtype=torch.bool, device=log_decay.device).tril()
    later = log_decay.unsqueeze(-1).expand(*log_decay.shape, T)  # (..., T, T): row l has the decay of token l
    sums = later.masked_fill(~causal.tril(-1), 0.0).cumsum(dim=-2)  # row i: of the tokens after j, up to i
    return sums.masked_fill(~causal, -torch.inf).exp()
